"""Sessions: loop detection over their traces, then the metrics that rest on the traces' scores."""

import asyncio
from dataclasses import replace

import numpy as np
import pytest

from spanscore.errors import InputError, JudgeTimeoutError
from spanscore.evaluation import Overrides
from spanscore.metrics import SIGNAL_WEIGHTS
from spanscore.metrics.trace import coherence
from spanscore.metrics.trace.coherence import Scale
from spanscore.model.score import Skip
from spanscore.model.trace import Session


@pytest.fixture
def session(make_trace):
    return Session(
        "s1",
        tuple(make_trace(x, session_id="s1", final_output=f"Answer {x} it is.") for x in range(3)),
    )


async def of_each_trace(engine, session, overrides=None):
    return {
        x.id: {e.metric: e for e in await engine.evaluate_trace(x, overrides)}
        for x in session.traces
    }


async def again(engine, session, overrides=None, signals=None, *, of_traces=None, **options):
    """The scores of the session on top of `signals`, or of what its traces give."""
    if signals is None:
        signals = await of_each_trace(engine, session, of_traces)
    return await engine.evaluate_session(session, signals, overrides, **options)


def evaluate(engine, session, overrides=None, **options):
    return asyncio.run(again(engine, session, overrides, **options))


def test_loops_are_sought_in_every_trace_and_then_the_session_is_scored(make_engine, session):
    found = evaluate(make_engine(), session)
    assert [(x.scope, x.metric) for x in found] == [
        *[("trace", "loop_detection")] * 3,
        ("session", "conversation_completion"),
        ("session", "agent_reliability"),
        ("session", "agent_consistency"),
    ]


def test_each_trace_is_held_against_those_before_it(make_engine, session):
    loops = [x.outcome.metadata["comparisons"] for x in evaluate(make_engine(), session)[1:3]]
    assert [[c["trace_index"] for c in comparisons] for comparisons in loops] == [[0], [0, 1]]


def test_a_first_turn_has_no_loop_signal(make_engine, session, scripted):
    found = evaluate(make_engine(scripted()), session)
    shown = found[-1].outcome.metadata["per_trace_signals"]
    assert (found[0].outcome.cause, shown[session.traces[0].target.trace_id]["loop_risk"]) == (
        "not_applicable",
        None,
    )


def test_without_an_embedding_loops_are_sought_by_n_grams(make_unembedded, session):
    found = evaluate(make_unembedded(), session)[1]
    assert (found.metric, found.status, found.evaluator.embedding) == (
        "loop_detection",
        "scored",
        "ngrams-1",
    )


def test_a_session_score_is_put_on_the_last_trace(make_engine, session):
    last = evaluate(make_engine(), session, revision=2)[-1]
    assert (last.target, last.subject_id, last.session_id) == (
        session.traces[-1].target,
        "s1",
        "s1",
    )
    assert last.revision == 2


def test_a_session_score_names_the_trace_that_the_session_began_with(make_engine, session):
    assert evaluate(make_engine(), session)[-1].first_trace_id == session.traces[0].target.trace_id


def test_all_four_signals_reach_the_session_metrics(make_engine, session, scripted):
    engine = make_engine(scripted(), signal_weights={"coherence": 1.0})
    shown = evaluate(engine, session)[-1].outcome.metadata["per_trace_signals"]
    assert set(shown) == {x.target.trace_id for x in session.traces}
    assert None not in shown[session.traces[1].target.trace_id].values()


MEASURED = Scale(threshold=0.2)


@pytest.fixture
def measured_embedding(monkeypatch):
    """The flat embedding, under which all texts are alike, as one whose scale is known."""
    monkeypatch.setattr(coherence, "MEASURED", {"flat-1": MEASURED})


def coherence_risk(engine, session):
    found = evaluate(engine, session)[-1].outcome.metadata["per_trace_signals"]
    return found[session.traces[1].target.trace_id]["coherence_risk"]


@pytest.mark.usefixtures("measured_embedding")
def test_coherence_under_a_measured_embedding_counts(make_engine, session, scripted):
    assert coherence_risk(make_engine(scripted()), session) == 0.0


@pytest.mark.parametrize(("similarity", "risk"), [(0.0, 0.5), (0.1, 0.25), (0.2, 0.0), (0.5, 0.0)])
@pytest.mark.usefixtures("measured_embedding")
def test_coherence_is_a_risk_below_the_threshold_that_was_measured(
    make_engine, session, scripted, similarity, risk
):
    class Slanted:
        name = "flat-1"

        async def embed(self, texts):
            other = [similarity, (1 - similarity**2) ** 0.5]
            return np.array(
                [[1, 0] if "Rome?" in text else other for text in texts], dtype=np.float32
            )

    assert coherence_risk(make_engine(scripted(), embedder=Slanted()), session) == pytest.approx(
        risk, abs=1e-3
    )


def test_coherence_on_an_unknown_scale_does_not_count(make_engine, session, scripted):
    metadata = evaluate(make_engine(scripted()), session)[-1].outcome.metadata
    assert metadata["signal_weights"]["coherence"] == 0.0
    assert "the scale of flat-1 is not known" in metadata["missing_signals"]["coherence"]


def test_coherence_on_an_unknown_scale_counts_where_it_is_given_a_weight(
    make_engine, session, scripted
):
    assert (
        coherence_risk(make_engine(scripted(), signal_weights={"coherence": 0.5}), session) == 0.0
    )


def test_signals_are_measured_where_only_a_session_metric_is_configured(
    make_engine, session, scripted
):
    found = evaluate(make_engine(scripted(), metrics={"agent_reliability": {}}), session)
    assert found[-1].outcome.metadata["rests_on"] == [
        "confidence",
        "loop_detection",
        "tool_correctness",
    ]


def test_signals_of_weight_nothing_are_not_measured_unasked(make_engine, make_trace):
    weights = {"confidence": 0, "coherence": 0}
    engine = make_engine(metrics={"agent_reliability": {}}, signal_weights=weights)
    assert [x.metric for x in asyncio.run(engine.evaluate_trace(make_trace()))] == [
        "tool_correctness"
    ]


def test_where_no_session_metric_runs_no_signal_is_measured_unasked(make_engine, make_trace):
    engine = make_engine(metrics={"coherence": {}})
    assert [x.metric for x in asyncio.run(engine.evaluate_trace(make_trace()))] == ["coherence"]


def test_the_model_of_a_run_judges_the_signals_of_its_session_metrics(
    make_engine, session, scripted
):
    judge = scripted()
    engine = make_engine(judge)
    signals = asyncio.run(of_each_trace(engine, session))
    judge.asked.clear()
    asyncio.run(
        again(engine, session, Overrides(metrics=("agent_reliability",), model="better"), signals)
    )
    assert {models for _, _, models in judge.asked} == {("better",)}
    assert len(judge.asked) == 2 * len(session.traces)  # confidence and tool_correctness


def test_signals_that_the_model_of_a_run_has_judged_are_not_judged_again(
    make_engine, session, scripted
):
    judge = scripted()
    run = Overrides(metrics=("agent_reliability", "confidence", "tool_correctness"), model="better")
    evaluate(make_engine(judge), session, run, of_traces=run)
    assert len(judge.asked) == 2 * len(session.traces)


def test_a_run_measures_signals_that_are_missing(make_engine, session, scripted):
    engine = make_engine(scripted(), metrics={"coherence": {}})
    [found] = asyncio.run(again(engine, session, Overrides(metrics=("agent_consistency",)), {}))
    assert "confidence" in found.outcome.metadata["rests_on"]


def test_a_model_for_the_signals_of_a_session_needs_a_judge(make_engine, session):
    with pytest.raises(InputError, match="no judge to ask"):
        asyncio.run(
            again(
                make_engine(),
                session,
                Overrides(metrics=("agent_reliability",), model="better"),
                {},
            )
        )


def test_a_run_can_have_signal_weights_of_its_own(make_engine, session, scripted):
    engine = make_engine(scripted(), signal_weights={"coherence": 0.5})
    found = evaluate(engine, session, Overrides(signal_weights={"confidence": 0.1}))[-1]
    assert found.outcome.metadata["signal_weights"] == {
        "confidence": 0.1,
        "loop_detection": 1.0,
        "tool_correctness": 0.8,
        "coherence": 0.5,
    }


def test_weights_of_what_is_no_signal_are_refused(make_engine, session):
    with pytest.raises(InputError, match="signal_weights: 'politeness' is no metric of traces"):
        evaluate(make_engine(), session, Overrides(signal_weights={"politeness": 1}))


def test_a_run_of_one_session_metric_still_looks_for_loops(make_engine, session):
    found = evaluate(make_engine(), session, Overrides(metrics=("agent_reliability",)))
    assert [x.metric for x in found] == ["agent_reliability"]
    shown = found[0].outcome.metadata["per_trace_signals"]
    assert shown[session.traces[2].target.trace_id]["loop_risk"] is not None


def test_signals_that_failed_make_a_skip_that_says_which(make_engine, session, scripted):
    metrics = dict.fromkeys(("confidence", "agent_consistency"))
    engine = make_engine(scripted(errors=[JudgeTimeoutError("no answer")] * 6), metrics=metrics)
    outcome = evaluate(engine, session)[-1].outcome
    assert isinstance(outcome, Skip)
    assert "confidence is missing in 3 of 3 traces (failed: no answer)" in outcome.reason


def test_a_signal_that_no_trace_has_is_said_to_be_not_measured(make_engine, session):
    outcome = asyncio.run(again(make_engine(), session, signals={}))[-1].outcome
    assert isinstance(outcome, Skip)
    assert "confidence is missing in 3 of 3 traces (not measured)" in outcome.reason


def test_a_session_without_traces_has_nothing_to_put_scores_on(make_engine):
    assert evaluate(make_engine(), Session("s", ())) == []


def test_a_session_outside_the_sample_is_left_out(make_engine, session):
    assert evaluate(make_engine(sampling=0), session) == []


def test_without_a_judge_a_session_metric_that_needs_one_is_skipped_and_not_shown(
    make_unembedded, session
):
    alone = replace(session, traces=session.traces[:1])  # so that there is no loop either
    found = [x for x in evaluate(make_unembedded(), alone) if x.scope == "session"]
    by_signals = [x for x in found if x.metric.startswith("agent_")]
    assert [x.outcome.cause for x in by_signals] == ["no_judge", "no_judge"]
    assert [x.metric for x in found if x.is_shown or x.tally] == []
    assert "confidence is missing in 1 of 1 trace (no judge is configured)" in found[-1].reason


def test_a_session_metric_that_rests_on_no_judged_signal_is_shown(make_unembedded, session):
    off = dict.fromkeys(("confidence", "tool_correctness", "coherence"), False)
    alone = replace(session, traces=session.traces[:1])
    metrics = {**off, "agent_reliability": None}
    [found] = [x for x in evaluate(make_unembedded(metrics=metrics), alone) if x.scope == "session"]
    assert (found.outcome.cause, found.is_shown) == ("no_signals", True)


def test_what_no_judge_and_no_embedding_leave_out_is_said_in_few_words(make_unembedded, session):
    reliability = next(
        x for x in evaluate(make_unembedded(), session) if x.metric == "agent_reliability"
    )
    assert reliability.reason.endswith(
        "It rests on 1 of 4 signals (loop_detection); "
        "confidence is missing in 3 of 3 traces (no judge is configured); "
        "tool_correctness is missing in 3 of 3 traces (no judge is configured); "
        "coherence is missing in 3 of 3 traces (no embedding is configured)."
    )


def test_the_signals_that_a_run_measures_for_itself_are_returned_where_they_are_wanted(
    make_engine, session, scripted
):
    overrides = Overrides(("agent_reliability",), model="other")
    found = evaluate(make_engine(scripted()), session, overrides, signals={}, with_signals=True)

    of_traces = {x.metric for x in found if x.scope == "trace"}
    assert {"confidence", "tool_correctness", "loop_detection"} <= of_traces
    assert [x.metric for x in found if x.scope == "session"] == ["agent_reliability"]


RELIABILITY = Overrides(("agent_reliability",))


def signals_of(engine, session, overrides, trace):
    """The signals that a session's run measures of a trace."""
    run = evaluate(engine, session, overrides, signals={}, with_signals=True)
    return {x.metric for x in run if x.subject_id == trace.id} & set(SIGNAL_WEIGHTS)


@pytest.fixture
def mixed(session):
    """The session, in which a rule for the user x takes the first trace alone."""
    first, *others = session.traces
    return replace(session, traces=(replace(first, user_id="x"), *others))


@pytest.mark.parametrize("overrides", [Overrides(), RELIABILITY])
def test_a_run_measures_no_signal_that_a_rule_turns_off_for_a_trace(
    make_engine, mixed, scripted, overrides
):
    off = {"when": {"user": "x"}, "metrics": {"confidence": False}, "sampling": 0.5}
    engine = make_engine(scripted(), rules=[{"name": "a", **off}])
    first, second, _ = mixed.traces
    assert "confidence" not in signals_of(engine, mixed, overrides, first)
    assert "confidence" in signals_of(engine, mixed, overrides, second)


def test_a_run_measures_no_signal_of_a_trace_of_which_a_rule_has_nothing_measured(
    make_engine, mixed, scripted
):
    rule = {"name": "a", "when": {"user": "x"}, "metrics": "none"}
    engine = make_engine(scripted(), rules=[rule])
    assert signals_of(engine, mixed, Overrides(), mixed.traces[0]) == set()


def test_they_are_planned_as_they_are_measured(make_engine, session, scripted):
    judge = scripted()
    overrides = Overrides(("agent_reliability",))
    planned = make_engine(judge).plan(session, overrides, with_signals=True)
    evaluate(make_engine(judge), session, overrides, signals={})

    assert len(planned) == len(judge.asked) > 0
