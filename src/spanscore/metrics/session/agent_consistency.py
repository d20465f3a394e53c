"""Agent consistency: how stable is the agent over a session?"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from spanscore.metrics._base import SessionMetric, Signals
from spanscore.metrics._words import counted
from spanscore.metrics.session._risks import TraceRisks, absences, nothing_to_evaluate, trace_risks
from spanscore.model.score import Outcome, Score
from spanscore.model.trace import Session

_LEADING = "confidence"


@dataclass(frozen=True)
class AgentConsistency(SessionMetric):
    """The stability of the agent over a whole session, as the scores of its traces show it.

    Only traces with a confidence score count. A trace's penalty is the sum over loop_detection, tool_correctness and
    coherence, where present, of weight x (1 - score); its weighted uncertainty is (1 + penalty) x the weight of
    confidence x (1 - confidence). The score is 1 - the root mean square of those, clamped to 0..1. Metadata:
    `total_traces_in_session`, `traces_evaluated`, `raw_instability`, `signal_weights`, `per_trace_signals` by agent
    trace id, `aggregation`. Of a session of more than 1,000 traces in the store, the latest 1,000 are measured, and
    `total_traces_in_session` counts those.

    >>> AgentConsistency(threshold=0.8).threshold
    0.8
    """

    name: ClassVar[str] = "agent_consistency"
    summary: ClassVar[str] = "How stable is the agent over the session?"

    def measure(self, session: Session, signals: Signals, weights: Mapping[str, float]) -> Outcome:
        """See the class."""
        traces = [x for x in trace_risks(session, signals, weights) if _LEADING in x.risks]
        if not traces:
            neutral = {"raw_instability": 0.0, "aggregation": {"method": "weighted_rms", "rms_value": 0.0}}
            return nothing_to_evaluate(session, signals, weights, (_LEADING,), neutral)
        penalties = [_penalty(x, weights) for x in traces]
        uncertainties = [
            (1 + penalty) * weights[_LEADING] * x.risks[_LEADING] for x, penalty in zip(traces, penalties, strict=True)
        ]
        rms = math.sqrt(sum(x * x for x in uncertainties) / len(uncertainties))
        value = min(1.0, max(0.0, 1.0 - rms))
        metadata = {
            "total_traces_in_session": len(session.traces),
            "traces_evaluated": len(traces),
            "raw_instability": rms,
            "signal_weights": dict(weights),
            "per_trace_signals": {
                x.trace_id: {**x.shown(), "situational_penalty": penalty, "weighted_uncertainty": uncertainty}
                for x, penalty, uncertainty in zip(traces, penalties, uncertainties, strict=True)
            },
            "aggregation": {"method": "weighted_rms", "rms_value": rms},
        }
        worst = max(range(len(traces)), key=uncertainties.__getitem__)
        reason = (
            f"The weighted uncertainty of {counted(len(traces), 'trace')} is {rms:.2f} (root mean "
            f"square), the highest {uncertainties[worst]:.2f} in trace {traces[worst].otel_trace_id}."
        )
        missing = absences(session, signals)
        return Score(value, f"{reason} Left out: {missing}." if missing else reason, metadata)


def _penalty(trace: TraceRisks, weights: Mapping[str, float]) -> float:
    return sum(weights[signal] * risk for signal, risk in trace.risks.items() if signal != _LEADING)
