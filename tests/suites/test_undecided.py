"""What is known of a conversation without a judge of its answers, and what is left open."""

import pytest

from spanscore import config
from spanscore.model.trace import ToolCall

WRONG_TOOL = {
    "id": "a",
    "turns": [{"expected_answer": "sunny", "expected_tools": [{"tool_name": "get_weather"}]}],
}


@pytest.fixture
def unjudged(run_of):
    """A run of a suite without a model."""
    return lambda suite, traces: run_of(suite, traces, config.default(environ={}))


def used(name):
    return (ToolCall("c1", name, {}, "sunny"),)


def test_wrong_tools_make_a_trial_fail_though_no_model_judges_its_answer(suite, said, unjudged):
    run = unjudged(suite(WRONG_TOOL), [said(1, case="a", tool_calls=used("send_mail"))])
    [trial] = run.cases[0].trials
    assert (run.cases[0].status, trial.score) == ("fail", None)
    assert trial.reasons[0].startswith("interaction 0: tools ")


def test_right_tools_leave_open_what_only_a_judge_can_tell(suite, said, unjudged):
    run = unjudged(suite(WRONG_TOOL), [said(1, case="a", tool_calls=used("get_weather"))])
    assert (run.cases[0].status, run.evaluations[0].outcome.cause) == ("error", "no_judge")


def test_one_wrong_interaction_decides_a_conversation_of_which_another_cannot_be_told(
    suite, said, unjudged
):
    turns = [
        {"input": "one", "expected_answer": "sunny"},
        {"input": "two", "expected_tools": [{"tool_name": "x"}]},
    ]
    traces = [said(1, "one", session_id="s", case="a"), said(2, "two", session_id="s", case="a")]
    [case] = unjudged(suite({"id": "a", "turns": turns}, tools=["x"]), traces).cases
    outcome = case.trials[0].evaluations[0].outcome
    assert (case.status, outcome.value) == ("fail", 0.0)
    assert outcome.metadata["undecided_indices"] == [0]


def test_rates_leave_out_trials_of_which_only_a_failure_could_be_told(suite, said, unjudged):
    run = unjudged(suite(WRONG_TOOL), [said(1, case="a", tool_calls=used("send_mail"))])
    assert (run.cases[0].n, run.cases_that_pass, run.pass_rate) == (0, None, None)


def test_an_interaction_that_cannot_be_told_is_no_trial_of_the_unit_interaction(
    suite, said, unjudged
):
    turns = [
        {"input": "one", "expected_answer": "sunny"},
        {"input": "two", "expected_tools": [{"tool_name": "x"}]},
    ]
    traces = [said(1, "one", session_id="s", case="a"), said(2, "two", session_id="s", case="a")]
    [case] = unjudged(
        suite({"id": "a", "turns": turns}, tools=["x"], agentic={"unit": "interaction"}), traces
    ).cases
    assert (case.odds["n"], case.status) == (0, "fail")


def test_tools_that_are_only_reported_decide_nothing(suite, said, unjudged):
    run = unjudged(
        suite(WRONG_TOOL, agentic={"tools_decide": False}),
        [said(1, case="a", tool_calls=used("send_mail"))],
    )
    assert run.cases[0].status == "error"
