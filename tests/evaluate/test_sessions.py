"""Sessions: loop detection over their traces, then the metrics that rest on the traces' scores."""

import asyncio

import pytest

from spanscore.errors import InputError, JudgeTimeoutError
from spanscore.evaluate import Overrides
from spanscore.model.score import Skip
from spanscore.model.trace import Session


@pytest.fixture
def session(make_trace):
    return Session("s1", tuple(make_trace(x, session_id="s1", final_output=f"Answer {x} it is.") for x in range(3)))


async def _evaluate(engine, session, overrides=None, **options):
    signals = {x.id: {e.metric: e for e in await engine.evaluate_trace(x)} for x in session.traces}
    return await engine.evaluate_session(session, signals, overrides, **options)


def evaluate(engine, session, overrides=None, **options):
    return asyncio.run(_evaluate(engine, session, overrides, **options))


def test_loops_are_sought_in_every_trace_and_then_the_session_is_scored(make_engine, session):
    found = evaluate(make_engine(), session)
    assert [(x.scope, x.metric) for x in found] == [
        *[("trace", "loop_detection")] * 3,
        ("session", "agent_reliability"),
        ("session", "agent_consistency"),
    ]


def test_each_trace_is_held_against_those_before_it(make_engine, session):
    loops = [x.outcome.metadata["comparisons"] for x in evaluate(make_engine(), session)[1:3]]
    assert [[c["trace_index"] for c in comparisons] for comparisons in loops] == [[0], [0, 1]]


def test_a_first_turn_has_no_loop_signal(make_engine, session):
    found = evaluate(make_engine(), session)
    shown = found[-1].outcome.metadata["per_trace_signals"]
    assert (found[0].outcome.cause, shown[session.traces[0].id]["loop_risk"]) == ("not_applicable", None)


def test_without_an_embedding_loops_are_sought_by_n_grams(make_unembedded, session):
    found = evaluate(make_unembedded(), session)[1]
    assert (found.metric, found.status, found.evaluator.embedding) == ("loop_detection", "scored", "ngrams-1")


def test_a_session_score_is_put_on_the_last_trace(make_engine, session):
    last = evaluate(make_engine(), session, revision=2)[-1]
    assert (last.target, last.subject_id, last.session_id) == (session.traces[-1].target, "s1", "s1")
    assert last.revision == 2


def test_a_session_score_names_the_trace_that_the_session_began_with(make_engine, session):
    assert evaluate(make_engine(), session)[-1].first_trace_id == session.traces[0].target.trace_id


def test_all_four_signals_reach_the_session_metrics(make_engine, session):
    shown = evaluate(make_engine(), session)[-1].outcome.metadata["per_trace_signals"]
    assert set(shown) == {x.id for x in session.traces}
    assert None not in shown[session.traces[1].id].values()


def test_a_run_can_have_signal_weights_of_its_own(make_engine, session):
    engine = make_engine(signal_weights={"coherence": 0.5})
    found = evaluate(engine, session, Overrides(signal_weights={"confidence": 0.1}))[-1]
    assert found.outcome.metadata["signal_weights"] == {
        "confidence": 0.1,
        "loop_detection": 1.0,
        "tool_correctness": 0.8,
        "coherence": 0.5,
    }


def test_weights_of_what_is_no_signal_are_refused(make_engine, session):
    with pytest.raises(InputError, match="no signal"):
        evaluate(make_engine(), session, Overrides(signal_weights={"task_completion": 1}))


def test_a_run_of_one_session_metric_still_looks_for_loops(make_engine, session):
    found = evaluate(make_engine(), session, Overrides(metrics=("agent_reliability",)))
    assert [x.metric for x in found] == ["agent_reliability"]
    assert found[0].outcome.metadata["per_trace_signals"][session.traces[2].id]["loop_risk"] is not None


def test_signals_that_failed_make_a_skip_that_says_which(make_engine, session, scripted):
    metrics = dict.fromkeys(("confidence", "agent_consistency"))
    engine = make_engine(scripted(errors=[JudgeTimeoutError("no answer")] * 3), metrics=metrics)
    outcome = evaluate(engine, session)[-1].outcome
    assert isinstance(outcome, Skip)
    assert "confidence is missing in 3 of 3 traces (failed: no answer)" in outcome.reason


def test_a_signal_that_is_not_configured_is_said_to_be_not_measured(make_engine, session):
    outcome = evaluate(make_engine(metrics=dict.fromkeys(("coherence", "agent_consistency"))), session)[-1].outcome
    assert isinstance(outcome, Skip)
    assert "confidence is missing in 3 of 3 traces (not measured)" in outcome.reason


def test_a_session_without_traces_has_nothing_to_put_scores_on(make_engine):
    assert evaluate(make_engine(), Session("s", ())) == []


def test_a_session_outside_the_sample_is_left_out(make_engine, session):
    assert evaluate(make_engine(sampling=0), session) == []
