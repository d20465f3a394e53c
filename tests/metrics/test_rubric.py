"""The criteria of the rubric: what each is, what the rules say of it, and how the whole adds up."""

from dataclasses import replace

import pytest

from spanscore.metrics import Criterial, available, criteria
from spanscore.metrics.rubric._criteria import LABELS, weighed
from spanscore.model.score import Skip
from spanscore.model.trace import ModelCall, RequestedCall, Session, ToolCall

CRITERIA = {name: metric.criterion for name, metric in criteria().items()}
WEIGHTS = {
    "tool_routing": 0.15,
    "parameter_extraction": 0.15,
    "result_interpretation": 0.15,
    "grounding_fidelity": 0.125,
    "instruction_compliance": 0.125,
    "information_gathering": 0.10,
    "conversation_management": 0.10,
    "response_delivery": 0.10,
    "task_completion": 0.0,
}
TIERS = {
    "execution": {
        "tool_routing",
        "parameter_extraction",
        "result_interpretation",
        "task_completion",
    },
    "knowledge": {"grounding_fidelity", "instruction_compliance"},
    "process": {"information_gathering", "conversation_management"},
    "delivery": {"response_delivery"},
}
every = pytest.mark.parametrize("criterion", CRITERIA.values(), ids=CRITERIA)
NEED_A_MODEL = {
    "instruction_compliance",
    "conversation_management",
    "response_delivery",
    "task_completion",
}
DECIDED = sorted(CRITERIA.keys() - NEED_A_MODEL)


def test_the_nine_criteria_have_their_weights():
    assert {name: x.weight for name, x in CRITERIA.items()} == WEIGHTS


def test_the_weights_of_the_defaults_sum_to_one():
    assert sum(x.weight for x in CRITERIA.values() if x.in_defaults) == pytest.approx(1.0)


def test_the_criteria_stand_in_their_tiers():
    found = {tier: {name for name, x in CRITERIA.items() if x.tier == tier} for tier in TIERS}
    assert found == TIERS


def test_only_task_completion_is_binary_and_no_default():
    assert [name for name, x in CRITERIA.items() if x.kind == "binary"] == ["task_completion"]
    assert [name for name, x in CRITERIA.items() if not x.in_defaults] == ["task_completion"]


@every
def test_a_criterion_has_six_levels(criterion):
    assert len({text for text in criterion.levels if text}) == 6


@every
def test_a_criterion_is_registered_under_its_id(criterion):
    assert available()[f"rubric.{criterion.id}"].criterion is criterion


def test_the_labels_run_from_critical_fail_to_excellent():
    assert [CRITERIA["tool_routing"].label(x) for x in range(6)] == list(LABELS)


def test_a_binary_criterion_passes_or_fails():
    assert [CRITERIA["task_completion"].label(x) for x in (0, 5)] == ["fail", "pass"]


@every
def test_a_fact_that_one_turn_lacks_is_a_skip_that_names_the_turn(criterion, make_trace):
    whole = make_trace(system_instructions="Be brief.")
    for fact in criterion.needs:
        skip = criterion.unmeasurable(Session("s", (whole, replace(whole, **{fact: None}))))
        assert skip == Skip(f"Turn 1 did not record {fact}.", "not_recorded")


def ended_by_transfer(make_trace, number, **fields):
    """A turn whose last step is a call that hands the user to a human, without a word."""
    name = "transfer_to_human_agents"
    given = {
        "final_output": None,
        "tool_calls": (ToolCall("c1", name, {"summary": "a refund"}, "Transferred."),),
        "model_calls": (ModelCall("b" * 16, tool_calls=(RequestedCall("c1", name),)),),
        "system_instructions": "Be brief.",
    }
    return make_trace(number, **{**given, **fields})


@every
def test_a_conversation_that_ends_with_a_transfer_to_a_human_can_be_scored(criterion, make_trace):
    traces = (make_trace(1), ended_by_transfer(make_trace, 2))
    assert criterion.unmeasurable(Session("s", traces)) is None


@pytest.mark.parametrize(
    "fields",
    [
        {"tool_calls": (ToolCall("c1", "transfer_to_human_agents"),)},
        {"model_calls": ()},
        {"model_calls": (ModelCall("b" * 16),)},
    ],
    ids=["not returned", "no model call", "model called no tool"],
)
def test_a_turn_that_may_have_had_an_answer_is_a_skip(fields, make_trace):
    traces = (make_trace(1), ended_by_transfer(make_trace, 2, **fields))
    skip = CRITERIA["response_delivery"].unmeasurable(Session("s", traces))
    assert skip == Skip("Turn 1 did not record final_output.", "not_recorded")


def test_a_lone_turn_without_an_answer_is_a_skip(make_trace):
    skip = CRITERIA["response_delivery"].unmeasurable(
        Session("", (ended_by_transfer(make_trace, 1),))
    )
    assert skip == Skip("The trace did not record final_output.", "not_recorded")


@every
def test_a_damaged_fact_is_a_skip(criterion, make_trace):
    for fact in criterion.needs + criterion.needs_once:
        trace = make_trace(system_instructions="Be brief.", damaged=(fact,))
        assert fact in criterion.unmeasurable(Session("", (trace,))).reason


def test_instructions_that_no_turn_recorded_are_a_skip(make_trace):
    skip = CRITERIA["instruction_compliance"].unmeasurable(
        Session("s", (make_trace(1), make_trace(2)))
    )
    assert skip == Skip("The session did not record system_instructions.", "not_recorded")


def test_instructions_of_one_turn_are_enough(make_trace):
    traces = (make_trace(1, system_instructions="Be brief."), make_trace(2))
    assert CRITERIA["instruction_compliance"].unmeasurable(Session("s", traces)) is None


@every
def test_every_criterion_of_the_project_is_a_metric(criterion):
    assert issubclass(available()[criterion.metric], Criterial)


def test_the_overall_score_weighs_the_levels():
    assert weighed([(0.15, 5), (0.15, 4), (0.15, 3)]) == pytest.approx(80.0)


def test_all_excellent_is_one_hundred():
    assert weighed((x.weight, 5) for x in CRITERIA.values() if x.in_defaults) == pytest.approx(
        100.0
    )
