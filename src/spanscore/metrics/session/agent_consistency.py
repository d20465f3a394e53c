"""Agent consistency: how stable is the agent?"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from spanscore.metrics._base import SessionMetric, Signals
from spanscore.metrics.check._check import counted
from spanscore.metrics.session._risks import TraceRisks, basis, no_signals, read, trace_risks
from spanscore.model.score import Outcome, Score
from spanscore.model.trace import Session

_LEADING = "confidence"
_READINGS = (
    (0.9, "stable throughout"),
    (0.7, "minor fluctuations"),
    (0.5, "moderate instability"),
    (0.3, "significant instability"),
)
_UNSTEADY_BELOW = 0.7
"""The reading from which on the reason begins with the worst trace."""


@dataclass(frozen=True)
class AgentConsistency(SessionMetric):
    """The stability of the agent over a whole session, as the scores of its traces show it.

    Only traces with a confidence score count. A trace's penalty is the sum over loop_detection,
    tool_correctness, coherence and what else has a weight, where present, of weight x (1 - score);
    its weighted uncertainty is (1 + penalty) x the weight of confidence x (1 - confidence). The
    score is 1 - the root mean square of those, clamped to 0..1. Metadata:
    `total_traces_in_session`, `traces_evaluated`, `raw_instability`, `signal_weights`, `rests_on`,
    `missing_signals` and `per_trace_signals` as agent_reliability has them, `aggregation`. Of a
    session of more than 1,000 traces in the store, the latest 1,000 are measured, and
    `total_traces_in_session` counts those. A session in which no trace has a confidence score is
    skipped. Reading: from 0.9 on stable throughout, from 0.7 on minor fluctuations, from 0.5 on
    moderate instability, from 0.3 on significant instability, below that unstable throughout.

    >>> AgentConsistency(threshold=0.8).threshold
    0.8
    """

    name: ClassVar[str] = "agent_consistency"
    summary: ClassVar[str] = "How stable is the agent over the session?"

    def measure(self, session: Session, signals: Signals, weights: Mapping[str, float]) -> Outcome:
        """See the class."""
        traces = [x for x in trace_risks(session, signals, weights) if _LEADING in x.risks]
        if not traces:
            return no_signals(session, signals, weights, (_LEADING,))
        penalties = [_penalty(x, weights) for x in traces]
        uncertainties = [
            (1 + penalty) * weights[_LEADING] * x.risks[_LEADING]
            for x, penalty in zip(traces, penalties, strict=True)
        ]
        rms = math.sqrt(sum(x * x for x in uncertainties) / len(uncertainties))
        value = min(1.0, max(0.0, 1.0 - rms))
        rests_on = basis(session, signals, weights)
        metadata = {
            "total_traces_in_session": len(session.traces),
            "traces_evaluated": len(traces),
            "raw_instability": rms,
            "signal_weights": dict(weights),
            **rests_on.metadata(),
            "per_trace_signals": {
                x.name: {
                    **x.shown(),
                    "situational_penalty": penalty,
                    "weighted_uncertainty": uncertainty,
                }
                for x, penalty, uncertainty in zip(traces, penalties, uncertainties, strict=True)
            },
            "aggregation": {"method": "weighted_rms", "rms_value": rms},
        }
        worst = max(range(len(traces)), key=uncertainties.__getitem__)
        reading = read(value, _READINGS, "unstable throughout")
        cause = (
            f"Least certain is trace {traces[worst].name}: {traces[worst].in_words(_LEADING)}. "
            if value < _UNSTEADY_BELOW
            else ""
        )
        uncertain = (
            f"the weighted uncertainty of {counted(len(traces), 'trace')} is {rms:.2f} (root mean"
            " square)"
        )
        reason = f"{cause}{reading}: {uncertain}."
        return Score(value, f"{reason}{rests_on.in_words()}", metadata)


def _penalty(trace: TraceRisks, weights: Mapping[str, float]) -> float:
    return sum(weights[signal] * risk for signal, risk in trace.risks.items() if signal != _LEADING)
