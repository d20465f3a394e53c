"""Measuring one metric with a judge that says what the test wants."""

import asyncio

import pytest

import spanscore
from spanscore import testing
from spanscore.errors import BudgetExhaustedError, InputError, JudgeUnavailableError
from spanscore.metrics import Judged, built_in

JUDGED = [x for x in built_in().values() if issubclass(x, Judged) and x.scope == "trace"]


@pytest.mark.parametrize("metric", JUDGED, ids=lambda x: x.name)
def test_every_judged_metric_gets_an_answer_in_its_form(metric, order):
    trace = testing.agent_trace(**{**vars_of(order), "plan": "1. look\n2. answer"})
    assert testing.measure(metric, trace, judge=1.0).status == "scored"


def vars_of(trace):
    names = ("user_input", "final_output", "tool_calls", "available_tools")
    return {x: getattr(trace, x) for x in names}


def test_the_rubric_gets_an_answer_too(order):
    report = spanscore.evaluate([order], metrics=["rubric"], judge=testing.ScriptedJudge(default=5))
    assert {x.status for x in report.evaluations} <= {"scored", "skipped"}


def test_what_a_judge_says_may_have_a_reason(order):
    found = testing.measure("task_completion", order, judge=(0.25, "nothing was booked"))
    assert (found.value, found.reason, found.label) == (0.25, "nothing was booked", "fail")


def test_options_are_those_of_the_configuration(order):
    assert testing.measure("task_completion", order, judge=0.25, threshold=0.2).label == "pass"


def test_an_option_that_there_is_not_is_refused(order):
    with pytest.raises(InputError, match="task_completion: treshold"):
        testing.measure("task_completion", order, treshold=0.2)


def test_a_metric_that_there_is_not_is_refused(order):
    with pytest.raises(InputError, match="there is no metric 'polite'"):
        testing.measure("polite", order)


def test_a_trace_metric_measures_no_session(order):
    with pytest.raises(InputError, match="measures a trace, not a session"):
        testing.measure("task_completion", testing.session(order))


def test_it_works_inside_a_running_loop(order):
    async def notebook():
        return testing.measure("task_completion", order, judge=0.5)

    assert asyncio.run(notebook()).value == 0.5


def test_answers_go_to_the_metrics_that_they_are_for(order):
    spanscore.criterion("kind", "Is it kind?")
    spanscore.criterion("brief", "Is it brief?")
    judge = testing.ScriptedJudge({"kind": 0.25, "brief": (0.75, "three words")}, default=0.5)
    found = spanscore.evaluate([order], metrics=["kind", "brief", "confidence"], judge=judge)
    assert {x.metric: x.value for x in found.evaluations} == {
        "kind": 0.25,
        "brief": 0.75,
        "confidence": 0.5,
    }


def test_answers_may_come_in_turn(order):
    spanscore.criterion("kind", "Is it kind?")
    judge = testing.ScriptedJudge({"kind": [0.25, 0.75]})
    assert [testing.measure("kind", order, judge=judge).value for _ in range(3)] == [
        0.25,
        0.75,
        0.75,
    ]


def test_a_judge_keeps_what_it_was_asked(order):
    judge = testing.ScriptedJudge()
    testing.measure(spanscore.criterion("kind", "Is it kind to strangers?"), order, judge=judge)
    [prompt] = judge.prompts
    assert "Is it kind to strangers?" in prompt.question
    assert "It was sent." in prompt.transcript


def test_fields_of_an_answer_may_be_given_by_name(order):
    judge = {"score": 0.5, "reason": "half"}
    assert testing.measure("confidence", order, judge=judge).reason == "half"


def test_what_does_not_fit_the_question_fails_and_says_so(order):
    found = testing.measure("confidence", order, judge=7)
    assert "the scripted judge was to say 7, which is no answer" in found.reason


@pytest.mark.parametrize(
    ("judge", "outcome"),
    [
        (testing.FailingJudge(), ("failed", "the provider cannot be reached")),
        (testing.FailingJudge(JudgeUnavailableError("429")), ("failed", "429")),
        (testing.FailingJudge(BudgetExhaustedError("spent")), ("skipped", "spent")),
        (testing.ScriptedJudge(default=JudgeUnavailableError("503")), ("failed", "503")),
    ],
)
def test_a_judge_may_fail(judge, outcome, order):
    found = testing.measure("confidence", order, judge=judge)
    assert (found.status, found.reason) == outcome


def test_a_judge_may_hang(order):
    judge = testing.HangingJudge()

    async def waited():
        asking = asyncio.create_task(
            spanscore.evaluate_async([order], metrics=["confidence"], judge=judge)
        )
        await asyncio.wait([asking], timeout=0.2)
        assert not asking.done()
        asking.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asking

    asyncio.run(waited())


def test_traces_have_ids_of_their_own():
    assert testing.agent_trace().id != testing.agent_trace().id


def test_a_scripted_judge_says_how_one_answer_to_everything_is_given():
    with pytest.raises(InputError, match=r"default=0\.8 is said to all"):
        testing.ScriptedJudge(0.8)
