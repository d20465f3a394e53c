"""Metrics that a judge scores on a whole session."""

import asyncio

import pytest

from spanscore.errors import JudgeTimeoutError
from spanscore.evaluation import Overrides
from spanscore.model.score import Failure, JudgeUsage, Score
from spanscore.model.trace import Session

COMPLETION = {
    "task": "a room with a view",
    "outcome": "booked in turn 1",
    "reason": "It is booked.",
    "score": 0.9,
}
ONLY = {"metrics": {"conversation_completion": {}}}


@pytest.fixture
def session(make_trace):
    first = make_trace(
        1, session_id="s1", user_input="A room, please.", final_output="With a view?"
    )
    second = make_trace(2, session_id="s1", user_input="With a view.", final_output="It is booked.")
    return Session("s1", (first, second))


@pytest.fixture
def judge(scripted):
    return scripted(answers=COMPLETION)


def completion(engine, session, overrides=None, **options):
    [found] = asyncio.run(engine.evaluate_session(session, {}, overrides, **options))
    return found


def test_by_default_a_conversation_is_judged_as_a_whole(make_engine, judge, session):
    found = asyncio.run(make_engine(judge).evaluate_session(session, {}))
    assert next(x.metric for x in found if x.scope == "session") == "conversation_completion"


def test_the_judge_reads_all_turns(make_engine, judge, session):
    completion(make_engine(judge, **ONLY), session)
    [(prompt, _, _)] = judge.asked
    assert "A room, please." in prompt.transcript
    assert "It is booked." in prompt.transcript


@pytest.mark.parametrize("plan", ["staged", "fused"])
def test_the_score_says_what_was_wanted_and_what_came_of_it(make_engine, judge, session, plan):
    found = completion(make_engine(judge, plan, **ONLY), session)
    metadata = {"task": "a room with a view", "outcome": "booked in turn 1", "turns": 2}
    assert found.outcome == Score(0.9, "It is booked.", metadata)


def test_the_score_is_the_sessions_and_stands_on_its_last_turn(make_engine, judge, session):
    found = completion(make_engine(judge, **ONLY), session, revision=3)
    assert (found.scope, found.subject_id, found.session_id, found.revision) == (
        "session",
        "s1",
        "s1",
        3,
    )
    assert (found.target, found.first_trace_id) == (
        session.traces[-1].target,
        session.traces[0].target.trace_id,
    )


def test_the_score_says_who_judged_and_what_that_took(make_engine, judge, session):
    found = completion(make_engine(judge, **ONLY), session)
    assert (found.evaluator.kind, found.evaluator.model) == ("LLM", "scripted")
    assert found.usage == JudgeUsage(1, 1001, 11, 0.01)


def test_one_turn_is_no_conversation(make_engine, judge, session):
    found = completion(make_engine(judge, **ONLY), Session("s1", session.traces[:1]))
    assert (found.outcome.cause, judge.asked) == ("not_applicable", [])


@pytest.mark.parametrize("fact", ["user_input", "final_output"])
def test_what_no_turn_recorded_cannot_be_judged(make_engine, judge, make_trace, fact):
    turns = tuple(make_trace(x, session_id="s1", **{fact: None}) for x in (1, 2))
    found = completion(make_engine(judge, **ONLY), Session("s1", turns))
    assert (found.outcome.cause, fact in found.outcome.reason) == ("not_recorded", True)


def test_what_arrived_damaged_in_every_turn_cannot_be_judged(make_engine, judge, make_trace):
    turns = tuple(make_trace(x, session_id="s1", damaged=("final_output",)) for x in (1, 2))
    assert completion(make_engine(judge, **ONLY), Session("s1", turns)).outcome.cause == "damaged"


def test_a_turn_that_recorded_less_than_the_others_is_judged_with_them(
    make_engine, judge, session, make_trace
):
    mute = make_trace(3, session_id="s1", final_output=None)
    assert (
        completion(make_engine(judge, **ONLY), Session("s1", (*session.traces, mute))).status
        == "scored"
    )


def test_without_a_judge_it_is_skipped_and_says_how_to_get_one(make_engine, session):
    outcome = completion(make_engine(**ONLY), session).outcome
    assert (outcome.cause, "judge.model" in outcome.reason) == ("no_judge", True)


def test_a_judge_that_does_not_answer_is_a_failure(make_engine, scripted, session):
    engine = make_engine(scripted(errors=[JudgeTimeoutError("no answer")]), **ONLY)
    assert completion(engine, session).outcome == Failure("JudgeTimeoutError", "no answer")


def test_it_can_be_judged_by_a_model_of_its_own(make_engine, judge, session):
    completion(
        make_engine(judge, metrics={"conversation_completion": {"model": "better"}}), session
    )
    assert judge.asked[0][2] == ("better",)


def test_a_run_can_ask_for_it_alone(make_engine, judge, session):
    found = completion(
        make_engine(judge), session, Overrides(metrics=("conversation_completion",), threshold=0.95)
    )
    assert (found.metric, found.label) == ("conversation_completion", "fail")


def test_it_asks_for_no_signals(make_engine, judge, make_trace):
    assert asyncio.run(make_engine(judge, **ONLY).evaluate_trace(make_trace(session_id="s1"))) == []


def test_what_would_be_asked_can_be_planned(make_engine, judge, session):
    [call] = make_engine(judge, **ONLY).plan(session)
    assert call.metrics == ("conversation_completion",)
    assert "With a view." in call.prompt.transcript
    assert judge.asked == []
