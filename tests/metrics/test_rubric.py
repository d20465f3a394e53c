"""The criteria of the rubric: what each is, what the rules say of it, and how the whole adds up."""

from dataclasses import replace

import pytest

from spanscore.metrics import Criterial, available, criteria
from spanscore.metrics.rubric._criterion import LABELS, weighed
from spanscore.metrics.rubric._turns import evidence_of
from spanscore.model.score import Score, Skip
from spanscore.model.trace import Session, ToolCall

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
    "execution": {"tool_routing", "parameter_extraction", "result_interpretation", "task_completion"},
    "knowledge": {"grounding_fidelity", "instruction_compliance"},
    "process": {"information_gathering", "conversation_management"},
    "delivery": {"response_delivery"},
}
every = pytest.mark.parametrize("criterion", CRITERIA.values(), ids=CRITERIA)
NEED_A_MODEL = {"instruction_compliance", "conversation_management", "response_delivery", "task_completion"}
DECIDED = sorted(CRITERIA.keys() - NEED_A_MODEL)


def ruled(name, *traces):
    return criteria()[name]().measure_by_rules(evidence_of(Session("s", traces)))


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


@pytest.mark.parametrize("name", DECIDED)
def test_the_rules_score_what_structure_decides(make_trace, name):
    outcome = ruled(name, make_trace(final_output="The weather in Rome is sunny, 31 degrees."))
    assert isinstance(outcome, Score)
    assert outcome.label in LABELS


@pytest.mark.parametrize("name", sorted(NEED_A_MODEL))
def test_the_rules_say_what_needs_a_model(make_trace, name):
    assert "needs a model" in ruled(name, make_trace()).reason


def test_a_repeated_call_is_a_fault_of_routing(make_trace):
    trace = make_trace()
    worse = replace(trace, tool_calls=trace.tool_calls * 3)
    assert ruled("tool_routing", worse).value < ruled("tool_routing", trace).value


def test_the_rules_name_the_turns_in_which_the_fault_shows(make_trace):
    trace = make_trace()
    worse = replace(trace, tool_calls=trace.tool_calls * 3)
    assert ruled("tool_routing", trace, worse, trace).metadata["turns"] == [1]


def test_a_value_from_nowhere_is_a_fault_of_extraction(make_trace):
    trace = make_trace(tool_calls=(ToolCall("c1", "get_weather", {"city": "Oslo"}, "rain"),))
    outcome = ruled("parameter_extraction", trace)
    assert (outcome.value, outcome.label, outcome.metadata["failure_code"]) == (0.0, "critical_fail", "wrong_arguments")


def test_a_call_whose_arguments_were_not_recorded_is_a_skip(make_trace):
    call = ToolCall("c1", "get_weather", None, "rain")
    assert isinstance(ruled("parameter_extraction", make_trace(tool_calls=(call,))), Skip)


def test_a_result_of_which_nothing_is_said_is_a_fault_of_interpretation(make_trace):
    outcome = ruled("result_interpretation", make_trace(final_output="Anything else?"))
    assert (outcome.value, outcome.metadata["failure_code"]) == (0.0, "result_ignored")


def test_the_rules_find_no_interpretation_excellent(make_trace):
    assert ruled("result_interpretation", make_trace()).value == 4


def test_a_number_that_nothing_holds_is_not_grounded(make_trace):
    outcome = ruled("grounding_fidelity", make_trace(final_output="It is 47 degrees."))
    assert (outcome.value, outcome.metadata["failure_code"]) == (0.0, "ungrounded_claim")


def test_a_number_that_an_earlier_turn_found_is_grounded(make_trace):
    later = make_trace(2, user_input="And again?", final_output="As I said, 31 degrees.", tool_calls=())
    assert ruled("grounding_fidelity", make_trace(1), later).metadata["turns"] == []


def test_words_alone_cannot_be_traced_by_rules(make_trace):
    assert isinstance(ruled("grounding_fidelity", make_trace(final_output="It is sunny.")), Skip)


def test_a_question_asked_again_is_a_fault_of_gathering(make_trace):
    asks = make_trace(final_output="What is your booking number?")
    outcome = ruled("information_gathering", asks, make_trace(2), asks)
    assert (outcome.value, outcome.metadata["turns"]) == (3.0, [2])


def test_other_questions_are_no_fault(make_trace):
    questions = [make_trace(final_output=x) for x in ("Which city do you mean?", "What is your booking number?")]
    assert ruled("information_gathering", *questions).value == 4


@every
def test_a_fact_that_one_turn_lacks_is_a_skip_that_names_the_turn(criterion, make_trace):
    whole = make_trace(system_instructions="Be brief.")
    for fact in criterion.needs:
        skip = criterion.unmeasurable(Session("s", (whole, replace(whole, **{fact: None}))))
        assert skip == Skip(f"Turn 1 did not record {fact}.", "not_recorded")


@every
def test_a_damaged_fact_is_a_skip(criterion, make_trace):
    for fact in criterion.needs + criterion.needs_once:
        trace = make_trace(system_instructions="Be brief.", damaged=(fact,))
        assert fact in criterion.unmeasurable(Session("", (trace,))).reason


def test_instructions_that_no_turn_recorded_are_a_skip(make_trace):
    skip = CRITERIA["instruction_compliance"].unmeasurable(Session("s", (make_trace(1), make_trace(2))))
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
    assert weighed((x.weight, 5) for x in CRITERIA.values() if x.in_defaults) == pytest.approx(100.0)
