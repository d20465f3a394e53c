"""Agent reliability: how bad are a session's worst moments?"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from spanscore.metrics._base import SIGNAL_WEIGHTS, SessionMetric, Signals
from spanscore.metrics._words import counted
from spanscore.metrics.session._risks import absences, nothing_to_evaluate, trace_risks
from spanscore.model.score import Outcome, Score, reaches
from spanscore.model.trace import Session

_TOP_PERCENT = 15
_MAX_SHARE = 0.1
_FLAGGED_ABOVE = 0.5
_READINGS = (
    (0.9, "no elevated risk anywhere"),
    (0.7, "minor risk in a few traces"),
    (0.5, "moderate risk"),
    (0.3, "several traces with significant issues"),
)


@dataclass(frozen=True)
class AgentReliability(SessionMetric):
    """The worst moments of a session, as the scores of its traces show them.

    The risk of a signal is 1 - its score; a trace's risk is the maximum, over its signals, of weight x risk. The raw
    risk of the session is 0.9 x the mean of the highest 15 % of the traces' risks (at least one) + 0.1 x the highest;
    the score is 1 - that, clamped to 0..1. Missing signals are left out. Metadata: `total_traces_in_session`,
    `traces_evaluated`, `raw_risk`, `signal_weights`, `per_trace_signals` by agent trace id, `flagged_traces` (ids of
    those with a risk above 0.5), `aggregation`. Of a session of more than 1,000 traces in the store, the latest 1,000
    are measured, and `total_traces_in_session` counts those.

    >>> AgentReliability().measure(Session("s", ()), Signals(), SIGNAL_WEIGHTS).reason
    'No traces or signals to evaluate.'
    """

    name: ClassVar[str] = "agent_reliability"
    summary: ClassVar[str] = "How bad are the worst moments of the session?"

    def measure(self, session: Session, signals: Signals, weights: Mapping[str, float]) -> Outcome:
        """See the class."""
        traces = trace_risks(session, signals, weights)
        if not traces:
            neutral = {"raw_risk": 0.0, "flagged_traces": [], "aggregation": _aggregation(0.0, 0.0)}
            return nothing_to_evaluate(session, signals, weights, tuple(SIGNAL_WEIGHTS), neutral)
        risks = sorted((x.step_risk for x in traces), reverse=True)
        top = risks[: -(-len(risks) * _TOP_PERCENT // 100)]  # rounded up, so at least one
        mean_top = sum(top) / len(top)
        raw_risk = (1 - _MAX_SHARE) * mean_top + _MAX_SHARE * risks[0]
        value = min(1.0, max(0.0, 1.0 - raw_risk))
        flagged = [x.trace_id for x in traces if x.step_risk > _FLAGGED_ABOVE]
        metadata = {
            "total_traces_in_session": len(session.traces),
            "traces_evaluated": len(traces),
            "raw_risk": raw_risk,
            "signal_weights": dict(weights),
            "per_trace_signals": {x.trace_id: x.shown() for x in traces},
            "flagged_traces": flagged,
            "aggregation": _aggregation(mean_top, risks[0]),
        }
        reading = next((text for least, text in _READINGS if reaches(value, least)), "catastrophic failures")
        reason = f"{reading[:1].upper()}{reading[1:]}: {len(flagged)} of {counted(len(traces), 'trace')} flagged."
        missing = absences(session, signals)
        return Score(value, f"{reason} Left out: {missing}." if missing else reason, metadata)


def _aggregation(mean_top: float, highest: float) -> dict[str, str | float]:
    return {
        "method": "max_compose_top_k",
        "top_k_percentile": _TOP_PERCENT / 100,
        "ensemble_weight": _MAX_SHARE,
        "mean_top_k_risk": mean_top,
        "max_risk": highest,
    }
