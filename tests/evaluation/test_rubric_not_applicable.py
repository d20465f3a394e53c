"""A criterion for which a session gives no occasion: it is skipped, and its weight goes to the
others.
"""

import asyncio

import pytest
from rubric_judge import RubricJudge

from spanscore.model.score import Failure, Skip
from spanscore.model.trace import Session

IDLE = "not_applicable"
OF_CALLS = {"parameter_extraction", "result_interpretation"}
TONE = {
    "id": "tone",
    "display_name": "Tone",
    "description": "Is it kind?",
    "tier": "delivery",
    "weight": 1,
    "type": "scored",
    "rubric": {level: f"kind to the degree {level}" for level in range(6)},
}


@pytest.fixture
def graded(make_engine, make_trace):
    """The evaluations of the rubric by criterion; `fields` are those of the one turn."""

    def run(judge, *, rubric=None, **fields):
        engine = make_engine(judge, rubric=rubric or {}, metrics={})
        session = Session(
            "s", (make_trace(session_id="s", system_instructions="Be brief.", **fields),)
        )
        found = asyncio.run(engine.evaluate_rubric(session))
        return {x.metric.removeprefix("rubric."): x for x in found}

    return run


def selection(*names):
    return {"metrics": [{"metric": name, "weight": 1} for name in names]}


def test_a_criterion_that_does_not_apply_is_a_skip_that_says_why(graded):
    outcome = graded(RubricJudge(tool_routing=IDLE))["tool_routing"].outcome
    assert outcome == Skip("Not applicable: tool_routing had no occasion", cause="not_applicable")


def test_its_weight_goes_to_the_others(graded):
    judge = RubricJudge(tool_routing=IDLE, grounding_fidelity=5, response_delivery=3)
    whole = graded(
        judge, rubric=selection("tool_routing", "grounding_fidelity", "response_delivery")
    )["overall"]
    assert whole.value == pytest.approx(80.0)


def test_it_takes_nothing_from_the_coverage(graded):
    whole = graded(RubricJudge(tool_routing=IDLE))["overall"].outcome
    assert whole.metadata["coverage"] == pytest.approx(1.0)


def test_the_whole_names_it(graded):
    whole = graded(RubricJudge(tool_routing=IDLE))["overall"].outcome
    assert (list(whole.metadata["not_applicable"]), whole.metadata["skipped"]) == (
        ["tool_routing"],
        {},
    )
    assert "Not applicable: tool_routing." in whole.reason


def test_more_than_half_of_the_weight_may_not_apply(graded):
    judge = RubricJudge(tool_routing=IDLE, grounding_fidelity=IDLE, response_delivery=4)
    whole = graded(
        judge, rubric=selection("tool_routing", "grounding_fidelity", "response_delivery")
    )["overall"]
    assert whole.value == pytest.approx(80.0)


def test_where_no_criterion_applies_the_whole_does_not(graded):
    whole = graded(RubricJudge(tool_routing=IDLE), rubric=selection("tool_routing"))[
        "overall"
    ].outcome
    assert (type(whole), whole.cause) == (Skip, "not_applicable")


def test_a_session_without_calls_is_not_asked_about_their_values_and_results(graded):
    judge = RubricJudge()
    found = graded(judge, tool_calls=())
    assert {found[name].outcome.cause for name in OF_CALLS} == {"not_applicable"}
    assert not any(f"## {name}" in judge.asked[0][0].question for name in OF_CALLS)


def test_the_form_of_the_answer_states_the_scale_and_the_word(graded):
    judge = RubricJudge()
    graded(judge, rubric=selection("tool_routing"))
    score = judge.asked[0][1].model_json_schema()["$defs"]["ScoredIfApplicable"]["properties"][
        "score"
    ]
    assert score["anyOf"] == [
        {"type": "integer", "minimum": 0, "maximum": 5},
        {"type": "string", "enum": [IDLE]},
    ]


def test_a_criterion_that_always_applies_cannot_be_answered_so(graded):
    assert isinstance(
        graded(RubricJudge(response_delivery=IDLE))["response_delivery"].outcome, Failure
    )


def test_a_criterion_of_the_users_own_says_when_it_does_not_apply(graded):
    judge = RubricJudge(tone=IDLE)
    own = {**TONE, "not_applicable": "the agent said nothing"}
    found = graded(judge, rubric={"metrics": ["tone"], "criteria": [own]})
    assert found["tone"].outcome.cause == "not_applicable"
    assert "not_applicable: the agent said nothing" in judge.asked[0][0].question


def test_a_criterion_of_the_users_own_that_does_not_say_so_always_applies(graded):
    found = graded(RubricJudge(tone=IDLE), rubric={"metrics": ["tone"], "criteria": [TONE]})
    assert isinstance(found["tone"].outcome, Failure)


@pytest.mark.parametrize("score", [True, "4", 4.0, None])
def test_what_is_no_whole_number_is_no_score(graded, score):
    said = {"justification": "x", "turns": [], "score": score, "failure_code": None}
    assert isinstance(graded(RubricJudge(tool_routing=said))["tool_routing"].outcome, Failure)


@pytest.mark.parametrize("passed", ["true", 1, 5, None])
def test_what_is_neither_true_nor_false_is_no_pass(graded, passed):
    said = {"justification": "x", "turns": [], "passed": passed, "failure_code": None}
    found = graded(RubricJudge(task_completion=said), rubric=selection("task_completion"))
    assert isinstance(found["task_completion"].outcome, Failure)
