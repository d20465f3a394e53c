"""The arithmetic that session metrics share."""

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from spanscore.errors import shortened
from spanscore.metrics._base import SIGNAL_WEIGHTS, Signals
from spanscore.metrics.check._check import counted, listed
from spanscore.model.score import Skip, reaches
from spanscore.model.trace import AgentTrace, Session

_RISK_KEYS = {
    "confidence": "confidence_risk",
    "loop_detection": "loop_risk",
    "tool_correctness": "tool_risk",
    "coherence": "coherence_risk",
}
_MAX_WHY_CHARS = 160


@dataclass(frozen=True, slots=True)
class TraceRisks:
    """What one trace contributes: the risks (1 - signal) of its signals that count, and the highest
    weighted one.

    `riskiest` is the signal of that one.

    `name` is the trace's OTel trace id; where several turns of the session are in one OTel trace,
    `/` and the id of the span that opens the turn follow.
    """

    name: str
    risks: Mapping[str, float]
    step_risk: float
    riskiest: str

    def in_words(self, signal: str) -> str:
        """A signal with its score, as a part of a sentence."""
        return f"{signal} {1 - self.risks[signal]:.2f}"

    def shown(self) -> dict[str, float | None]:
        """As metadata: null for a signal that is missing."""
        by_key = {key: self.risks.get(signal) for signal, key in _RISK_KEYS.items()}
        others = {
            f"{signal}_risk": risk
            for signal, risk in self.risks.items()
            if signal not in _RISK_KEYS
        }
        return {**by_key, **others, "step_risk": self.step_risk}


@dataclass(frozen=True, slots=True)
class Basis:
    """Which signals a session's score rests on, and of which others, or in how many traces, there
    is none and why.
    """

    present: tuple[str, ...]
    missing: Mapping[str, str]
    known: int = len(SIGNAL_WEIGHTS)

    def in_words(self) -> str:
        """A sentence for the reason; "" where no signal is missing anywhere."""
        if len(self.present) == self.known and not self.missing:
            return ""
        rests = (
            f" It rests on {len(self.present)} of {self.known} signals ({', '.join(self.present)})"
        )
        if not self.missing:
            return f"{rests}."
        return f"{rests}; {listed([f'{signal} {why}' for signal, why in self.missing.items()])}."

    def metadata(self) -> dict[str, Any]:
        """The same for programs."""
        return {"rests_on": list(self.present), "missing_signals": dict(self.missing)}


def trace_risks(
    session: Session, signals: Signals, weights: Mapping[str, float]
) -> list[TraceRisks]:
    """The traces that have any signal with a weight, in the session's order."""
    found = []
    for trace, name in zip(session.traces, _names(session.traces), strict=True):
        values = signals.values.get(trace.id, {})
        risks = {
            signal: 1.0 - values[signal]
            for signal in weights
            if signal in values and weights[signal]
        }
        if risks:
            weighted = {signal: weights[signal] * risk for signal, risk in risks.items()}
            riskiest = max(weighted, key=weighted.__getitem__)
            found.append(TraceRisks(name, risks, weighted[riskiest], riskiest))
    return found


def basis(session: Session, signals: Signals, weights: Mapping[str, float]) -> Basis:
    """What the score of a session rests on."""
    values = [signals.values.get(trace.id, {}) for trace in session.traces]
    present = tuple(x for x in weights if weights[x] and any(x in found for found in values))
    missing = {}
    measured = _measured(signals)
    for signal in measured:
        why = _absence(session, signals, weights, signal, is_present=signal in present)
        if why:
            missing[signal] = why
    # by others: nobody misses it where nobody gave any
    given = [x for x in present if x not in measured]
    return Basis(present, missing, len(measured) + len(given))


def _measured(signals: Signals) -> list[str]:
    """The usual signals, and what else was to be measured of any trace."""
    lacking = [
        name
        for whys in (signals.absent, signals.inapplicable)
        for found in whys.values()
        for name in found
    ]
    return list(dict.fromkeys((*SIGNAL_WEIGHTS, *lacking)))


def no_signals(
    session: Session,
    signals: Signals,
    weights: Mapping[str, float],
    needed: Collection[str] | None = None,
) -> Skip:
    """The outcome where no trace counts.

    `needed`: the only signals that would have made a trace count; None: any.
    """
    missing = basis(session, signals, weights).missing
    whys = [
        f"{signal} {why}" for signal, why in missing.items() if needed is None or signal in needed
    ]
    because = f": {listed(whys)}" if whys else ""
    return Skip(f"No trace of the session has the signals to evaluate{because}.", "no_signals")


def read(value: float, readings: Sequence[tuple[float, str]], below: str) -> str:
    """What a score means in words: of `readings`, least value first stated, the first that it
    reaches.
    """
    text = next((text for least, text in readings if reaches(value, least)), below)
    return f"{text[:1].upper()}{text[1:]}"


def _absence(
    session: Session,
    signals: Signals,
    weights: Mapping[str, float],
    signal: str,
    *,
    is_present: bool,
) -> str:
    """Why traces have no such signal; "" where none is missing."""
    absent = [signals.absent.get(trace.id, {}).get(signal) for trace in session.traces]
    reasons = [why for why in absent if why]
    if reasons:
        traces = f"{len(reasons)} of {counted(len(session.traces), 'trace')}"
        return f"is missing in {traces} ({_short(reasons[0])})"
    if is_present:
        return ""
    if not weights[signal]:
        return "has weight 0"
    inapplicable = [signals.inapplicable.get(trace.id, {}).get(signal) for trace in session.traces]
    return next(
        (f"does not apply ({_short(why)})" for why in inapplicable if why), "was not measured"
    )


def _short(why: str) -> str:
    return shortened(why.rstrip("."), _MAX_WHY_CHARS)


def _names(traces: Sequence[AgentTrace]) -> list[str]:
    turns = Counter(trace.target.trace_id for trace in traces)
    return [
        x.target.trace_id
        if turns[x.target.trace_id] == 1
        else f"{x.target.trace_id}/{x.opening_span_id}"
        for x in traces
    ]
