"""The arithmetic that the session metrics share: which signals count, what each trace risks, what is missing."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from spanscore.metrics._base import SIGNAL_WEIGHTS, Signals
from spanscore.model.score import Outcome, Score, Skip
from spanscore.model.trace import Session

_RISK_KEYS = {
    "confidence": "confidence_risk",
    "loop_detection": "loop_risk",
    "tool_correctness": "tool_risk",
    "coherence": "coherence_risk",
}


@dataclass(frozen=True, slots=True)
class TraceRisks:
    """What one trace contributes: its signals' risks (1 - signal), and the highest weighted one.

    `trace_id` is the agent trace's id, `otel_trace_id` the one that tracing tools know it by.
    """

    trace_id: str
    otel_trace_id: str
    risks: Mapping[str, float]
    step_risk: float

    def shown(self) -> dict[str, float | None]:
        """As metadata: null for a signal that is missing."""
        by_key = {key: self.risks.get(signal) for signal, key in _RISK_KEYS.items()}
        return {**by_key, "step_risk": self.step_risk}


def trace_risks(session: Session, signals: Signals, weights: Mapping[str, float]) -> list[TraceRisks]:
    """The traces that have any signal, in the session's order."""
    found = []
    for trace in session.traces:
        values = signals.values.get(trace.id, {})
        risks = {signal: 1.0 - values[signal] for signal in SIGNAL_WEIGHTS if signal in values}
        if risks:
            step_risk = max(weights[signal] * risk for signal, risk in risks.items())
            found.append(TraceRisks(trace.id, trace.trace_ids[0], risks, step_risk))
    return found


def nothing_to_evaluate(
    session: Session,
    signals: Signals,
    weights: Mapping[str, float],
    needed: tuple[str, ...],
    neutral: Mapping[str, Any],
) -> Outcome:
    """The outcome where no trace counts. `needed` are the signals any of which would have made a trace count.

    A Skip where they are missing for a reason that `signals.absent` tells; else 1.0, with the metric's own metadata as
    in `neutral`: there was nothing to evaluate.
    """
    if missing := absences(session, signals, needed):
        return Skip(f"No trace has the signals to evaluate: {missing}.", "no_signals")
    metadata = {
        "total_traces_in_session": len(session.traces),
        "traces_evaluated": 0,
        "signal_weights": dict(weights),
        "per_trace_signals": {},
        **neutral,
    }
    reason = "No evaluable traces." if signals.values else "No traces or signals to evaluate."
    return Score(1.0, reason, metadata)


def absences(session: Session, signals: Signals, needed: tuple[str, ...] = tuple(SIGNAL_WEIGHTS)) -> str:
    """Which of the signals `needed` are missing, in how many traces and for which reason first; "" for none."""
    parts = []
    for signal in needed:
        reasons = [
            signals.absent[trace.id][signal] for trace in session.traces if signal in signals.absent.get(trace.id, ())
        ]
        if reasons:
            parts.append(f"{signal} is missing in {len(reasons)} of {len(session.traces)} traces ({reasons[0]})")
    return "; ".join(parts)
