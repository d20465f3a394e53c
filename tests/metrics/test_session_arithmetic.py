"""The session metrics against the worked example, and against independent arithmetic in numpy."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import assume, given, strategies as st

from spanscore.metrics import SIGNAL_WEIGHTS, Signals
from spanscore.metrics.session.agent_consistency import AgentConsistency
from spanscore.metrics.session.agent_reliability import AgentReliability
from spanscore.model.score import Score, Skip
from spanscore.model.trace import AgentTrace, Session, Target

NAMES = ("confidence", "loop_detection", "tool_correctness", "coherence")
unit = st.floats(0, 1)
rows = st.lists(st.tuples(*[st.none() | unit] * 4), max_size=40)
weights = st.fixed_dictionaries(dict.fromkeys(NAMES, st.floats(0.001, 3)))


def session_of(count: int) -> Session:
    return Session(
        "s",
        tuple(
            AgentTrace(
                trace_ids=(f"{i:032x}",),
                root_span_id=None,
                target=Target(f"{i:032x}", "a" * 16, 0, 1),
                opening_span_id="a" * 16,
                started_ns=i,
                ended_ns=i,
            )
            for i in range(count)
        ),
    )


def signals_of(session: Session, table) -> Signals:
    return Signals(
        {
            trace.id: {
                name: value for name, value in zip(NAMES, row, strict=True) if value is not None
            }
            for trace, row in zip(session.traces, table, strict=True)
        }
    )


EXAMPLE = ((0.88, 0.95, 0.90, 0.97), (0.35, 0.28, 0.90, 0.85), (0.90, None, None, None))


@pytest.fixture
def example():
    session = session_of(3)
    return session, signals_of(session, EXAMPLE)


def test_the_worked_example_gives_its_reliability(example):
    score = AgentReliability().measure(*example, SIGNAL_WEIGHTS)
    assert score.value == pytest.approx(0.28, abs=5e-7)
    assert score.metadata["raw_risk"] == pytest.approx(0.72, abs=5e-7)


def test_the_worked_example_gives_its_consistency(example):
    score = AgentConsistency().measure(*example, SIGNAL_WEIGHTS)
    assert score.value == pytest.approx(0.261548, abs=5e-7)
    rms = np.sqrt((0.01937664 + 1.60655625 + 0.01) / 3)
    assert score.metadata["aggregation"] == {
        "method": "weighted_rms",
        "rms_value": pytest.approx(rms, abs=1e-9),
    }


def test_the_worked_example_flags_only_its_second_trace(example):
    session, signals = example
    metadata = AgentReliability().measure(session, signals, SIGNAL_WEIGHTS).metadata
    assert metadata["flagged_traces"] == [session.traces[1].trace_ids[0]]


def test_each_trace_shows_its_risks_and_null_for_what_is_missing(example):
    session, signals = example
    shown = (
        AgentReliability().measure(session, signals, SIGNAL_WEIGHTS).metadata["per_trace_signals"]
    )
    assert shown[session.traces[2].trace_ids[0]] == {
        "confidence_risk": pytest.approx(0.1),
        "loop_risk": None,
        "tool_risk": None,
        "coherence_risk": None,
        "step_risk": pytest.approx(0.1),
    }


def test_each_trace_shows_its_penalty_and_uncertainty(example):
    session, signals = example
    shown = (
        AgentConsistency().measure(session, signals, SIGNAL_WEIGHTS).metadata["per_trace_signals"]
    )
    second = shown[session.traces[1].trace_ids[0]]
    assert (second["situational_penalty"], second["weighted_uncertainty"]) == pytest.approx(
        (0.95, 1.2675)
    )


@pytest.mark.slow
@given(rows, weights)
def test_reliability_is_what_numpy_makes_of_it(table, chosen):
    session = session_of(len(table))
    score = AgentReliability().measure(session, signals_of(session, table), chosen)
    risk = (1 - np.array(table, dtype=float).reshape(-1, 4)) * np.array([chosen[x] for x in NAMES])
    risk = risk[~np.isnan(risk).all(axis=1)]
    assume(len(risk))
    assert isinstance(score, Score)
    worst = np.sort(np.nanmax(risk, axis=1))[::-1]
    k = max(1, int(np.ceil(len(worst) * 0.15)))
    expected = np.clip(1 - (0.9 * worst[:k].mean() + 0.1 * worst.max()), 0, 1)
    assert score.value == pytest.approx(expected, abs=1e-9)


@pytest.mark.slow
@given(rows, weights)
def test_consistency_is_what_numpy_makes_of_it(table, chosen):
    session = session_of(len(table))
    score = AgentConsistency().measure(session, signals_of(session, table), chosen)
    values = np.array(table, dtype=float).reshape(-1, 4)
    values = values[~np.isnan(values[:, 0])]
    assume(len(values))
    penalty = np.nansum((1 - values[:, 1:]) * np.array([chosen[x] for x in NAMES[1:]]), axis=1)
    uncertainty = (1 + penalty) * chosen["confidence"] * (1 - values[:, 0])
    expected = np.clip(1 - np.sqrt(np.mean(uncertainty**2)), 0, 1)
    assert score.value == pytest.approx(expected, abs=1e-9)


BOTH = pytest.mark.parametrize("metric", [AgentReliability(), AgentConsistency()])


@BOTH
@pytest.mark.parametrize("count", [0, 2])
def test_a_session_that_rests_on_no_signal_is_a_skip(metric, count):
    assert metric.measure(session_of(count), Signals(), SIGNAL_WEIGHTS).cause == "no_signals"


def test_consistency_needs_a_confidence():
    session = session_of(1)
    outcome = AgentConsistency().measure(
        session, signals_of(session, [(None, 0.2, None, None)]), SIGNAL_WEIGHTS
    )
    assert outcome == Skip(
        "No trace of the session has the signals to evaluate: confidence was not measured.",
        "no_signals",
    )


@BOTH
def test_signals_of_weight_nothing_are_none_to_rest_on(metric, example):
    session, signals = example
    outcome = metric.measure(session, signals, dict.fromkeys(NAMES, 0.0))
    assert outcome.cause == "no_signals"
    assert "confidence has weight 0" in outcome.reason


def test_a_trace_whose_only_signal_has_no_weight_does_not_dilute_the_worst(example):
    session, signals = example
    score = AgentReliability().measure(session, signals, {**SIGNAL_WEIGHTS, "confidence": 0.0})
    assert score.metadata["traces_evaluated"] == 2


@BOTH
def test_a_score_says_on_how_many_signals_it_rests(metric):
    session = session_of(1)
    score = metric.measure(session, signals_of(session, [(0.9, None, None, None)]), SIGNAL_WEIGHTS)
    assert "It rests on 1 of 4 signals (confidence)" in score.reason
    assert score.metadata["rests_on"] == ["confidence"]
    assert set(score.metadata["missing_signals"]) == {
        "loop_detection",
        "tool_correctness",
        "coherence",
    }


@BOTH
def test_a_score_that_rests_on_all_signals_of_all_traces_says_nothing_of_them(metric):
    session = session_of(2)
    score = metric.measure(session, signals_of(session, [(0.9, 0.9, 0.9, 0.9)] * 2), SIGNAL_WEIGHTS)
    assert "rests on" not in score.reason
    assert score.metadata["missing_signals"] == {}


@BOTH
def test_a_signal_that_does_not_apply_to_some_traces_is_not_missing(metric):
    session = session_of(2)
    signals = signals_of(session, [(0.9, None, 0.9, 0.9), (0.9, 0.9, 0.9, 0.9)])
    inapplicable = {session.traces[0].id: {"loop_detection": "The session has no earlier output."}}
    score = metric.measure(session, Signals(signals.values, {}, inapplicable), SIGNAL_WEIGHTS)
    assert score.metadata["missing_signals"] == {}


@BOTH
def test_a_signal_that_applies_to_no_trace_is_said_to_be(metric):
    session = session_of(1)
    signals = signals_of(session, [(0.9, None, 0.9, 0.9)])
    inapplicable = {session.traces[0].id: {"loop_detection": "The session has no earlier output."}}
    score = metric.measure(session, Signals(signals.values, {}, inapplicable), SIGNAL_WEIGHTS)
    assert score.metadata["missing_signals"] == {
        "loop_detection": "does not apply (The session has no earlier output)"
    }


@BOTH
def test_turns_of_one_trace_are_told_apart(metric):
    turns = session_of(2).traces
    shared = replace(turns[1], target=turns[0].target, opening_span_id="b" * 16)
    session = Session("s", (turns[0], shared))
    shown = metric.measure(session, signals_of(session, [(0.9,) * 4] * 2), SIGNAL_WEIGHTS).metadata[
        "per_trace_signals"
    ]
    assert set(shown) == {f"{0:032x}/{'a' * 16}", f"{0:032x}/{'b' * 16}"}


@pytest.mark.parametrize(
    ("confidence", "reading"),
    [
        (0.9, "Stable throughout"),
        (0.7, "Minor fluctuations"),
        (0.5, "Moderate instability"),
        (0.3, "Significant instability"),
        (0.29, "Unstable throughout"),
    ],
)
def test_consistency_reads_its_score_in_words(confidence, reading):
    session = session_of(1)
    score = AgentConsistency().measure(
        session, signals_of(session, [(confidence, None, None, None)]), SIGNAL_WEIGHTS
    )
    assert f"{reading}: the weighted uncertainty" in score.reason


def test_where_an_agent_is_unstable_the_reason_begins_with_the_worst_trace(example):
    session, signals = example
    reason = AgentConsistency().measure(session, signals, SIGNAL_WEIGHTS).reason
    assert reason.startswith(
        f"Least certain is trace {session.traces[1].trace_ids[0]}: confidence "
    )


def test_where_a_trace_is_flagged_the_reason_begins_with_the_riskiest_and_its_signal():
    session = session_of(2)
    signals = signals_of(session, [(0.9, 0.9, 0.9, 0.9), (0.9, 0.1, 0.9, 0.9)])
    reason = AgentReliability().measure(session, signals, SIGNAL_WEIGHTS).reason
    name = session.traces[1].trace_ids[0]
    assert reason.startswith(f"Riskiest is trace {name}: loop_detection 0.10. ")


def test_where_no_trace_is_flagged_the_reason_begins_with_how_it_reads():
    session = session_of(1)
    reason = (
        AgentReliability()
        .measure(session, signals_of(session, [(0.95,) * 4]), SIGNAL_WEIGHTS)
        .reason
    )
    assert reason.startswith("No elevated risk anywhere: ")


def test_a_reason_names_the_trace_as_tracing_tools_know_it(example):
    session, signals = example
    reason = AgentConsistency().measure(session, signals, SIGNAL_WEIGHTS).reason
    assert f"trace {session.traces[1].trace_ids[0]}" in reason


@pytest.mark.parametrize("metric", [AgentReliability(), AgentConsistency()])
def test_signals_that_failed_give_a_skip_that_names_them(metric):
    session = session_of(1)
    absent = {session.traces[0].id: {"confidence": "failed: the judge could not be reached"}}
    outcome = metric.measure(session, Signals({}, absent), SIGNAL_WEIGHTS)
    assert isinstance(outcome, Skip)
    assert (
        "confidence is missing in 1 of 1 trace (failed: the judge could not be reached)"
        in outcome.reason
    )


def test_a_signal_missing_beside_others_is_left_out_and_said():
    session = session_of(1)
    trace_id = session.traces[0].id
    signals = Signals(
        {trace_id: {"coherence": 0.9}}, {trace_id: {"confidence": "failed: time-out"}}
    )
    score = AgentReliability().measure(session, signals, SIGNAL_WEIGHTS)
    assert score.value == pytest.approx(0.9)
    assert "(coherence); confidence is missing in 1 of 1 trace (failed: time-out)" in score.reason


def test_one_trace_is_evaluated_like_any_other():
    session = session_of(1)
    score = AgentReliability().measure(
        session, signals_of(session, [(0.4, None, None, None)]), SIGNAL_WEIGHTS
    )
    assert score.value == pytest.approx(0.4)
