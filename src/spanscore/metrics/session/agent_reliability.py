"""Agent reliability: how bad are a session's worst moments?"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from spanscore.metrics._base import SessionMetric, Signals
from spanscore.metrics.check._check import counted
from spanscore.metrics.session._risks import basis, no_signals, read, trace_risks
from spanscore.model.score import Outcome, Score
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

    The risk of a signal is 1 - its score, of a metric on another scale 1 - the score's place
    between its worst and its best value; a trace's risk is the maximum, over its signals, of weight
    x risk. The raw risk of the session is 0.9 x the mean of the highest 15 % of the traces' risks
    (at least one) + 0.1 x the highest; the score is 1 - that, clamped to 0..1. Missing signals are
    left out, and so are those of weight 0; a session that has no other is skipped. Metadata:
    `total_traces_in_session`, `traces_evaluated`, `raw_risk`, `signal_weights`, `rests_on` (the
    signals that there are), `missing_signals` (of the others, and of those that some traces lack,
    why), `per_trace_signals` by OTel trace id (with `/` and the opening span's id where several
    turns share a trace), `flagged_traces` (of those, the ones with a risk above 0.5),
    `aggregation`. Of a session of more than 1,000 traces in the store, the latest 1,000 are
    measured, and `total_traces_in_session` counts those. Reading: from 0.9 on no elevated risk
    anywhere, from 0.7 on minor risk in a few traces, from 0.5 on moderate risk, from 0.3 on several
    traces with significant issues, below that catastrophic failures.

    >>> from spanscore.metrics import SIGNAL_WEIGHTS
    >>> AgentReliability().measure(Session("s", ()), Signals(), SIGNAL_WEIGHTS).cause
    'no_signals'
    """

    name: ClassVar[str] = "agent_reliability"
    summary: ClassVar[str] = "How bad are the worst moments of the session?"

    def measure(self, session: Session, signals: Signals, weights: Mapping[str, float]) -> Outcome:
        """See the class."""
        traces = trace_risks(session, signals, weights)
        if not traces:
            return no_signals(session, signals, weights)
        risks = sorted((x.step_risk for x in traces), reverse=True)
        top = risks[: -(-len(risks) * _TOP_PERCENT // 100)]  # rounded up, so at least one
        mean_top = sum(top) / len(top)
        raw_risk = (1 - _MAX_SHARE) * mean_top + _MAX_SHARE * risks[0]
        value = min(1.0, max(0.0, 1.0 - raw_risk))
        flagged = [x.name for x in traces if x.step_risk > _FLAGGED_ABOVE]
        rests_on = basis(session, signals, weights)
        metadata = {
            "total_traces_in_session": len(session.traces),
            "traces_evaluated": len(traces),
            "raw_risk": raw_risk,
            "signal_weights": dict(weights),
            **rests_on.metadata(),
            "per_trace_signals": {x.name: x.shown() for x in traces},
            "flagged_traces": flagged,
            "aggregation": _aggregation(mean_top, risks[0]),
        }
        reading = read(value, _READINGS, "catastrophic failures")
        worst = max(traces, key=lambda x: x.step_risk)
        cause = (
            f"Riskiest is trace {worst.name}: {worst.in_words(worst.riskiest)}. " if flagged else ""
        )
        reason = f"{cause}{reading}: {len(flagged)} of {counted(len(traces), 'trace')} flagged."
        return Score(value, f"{reason}{rests_on.in_words()}", metadata)


def _aggregation(mean_top: float, highest: float) -> dict[str, str | float]:
    return {
        "method": "max_compose_top_k",
        "top_k_percentile": _TOP_PERCENT / 100,
        "ensemble_weight": _MAX_SHARE,
        "mean_top_k_risk": mean_top,
        "max_risk": highest,
    }
