"""The signals that session metrics combine."""

import math
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from types import MappingProxyType
from typing import Annotated

from pydantic import Field, model_validator

from spanscore import metrics
from spanscore.errors import nearest
from spanscore.metrics import SIGNAL_WEIGHTS, Judged, Metric, SessionMetric, Signals
from spanscore.model.external import HUMAN
from spanscore.model.options import Options
from spanscore.model.score import Evaluation, Skip, SkipCause
from spanscore.model.trace import Session

ANYBODY = "any"


class ExternalSignal(Options):
    """How a score that others gave is a signal of the session metrics."""

    counts_as: str | None = None
    """The signal in whose place it counts, in the traces that have it: `confidence`,
    `loop_detection`, `tool_correctness` or `coherence`. Without it, it is a signal of its own.
    """

    weight: Annotated[float, Field(ge=0, le=1)] = 1.0
    """How much it counts, as a signal of its own."""

    scale: tuple[float, float] | None = None
    """The worst and the best value, such as `[1, 5]`. Without it, and where the score does not say,
    a number does not count; a yes or no, and a label such as `pass`, counts as 1 or 0.
    """

    source: str = HUMAN
    """Who gives it: `human`, `programmatic`, an evaluator's name, or `any`."""

    @model_validator(mode="after")
    def _usable(self) -> "ExternalSignal":
        if self.counts_as is not None and self.counts_as not in SIGNAL_WEIGHTS:
            raise ValueError(
                f"{self.counts_as!r} is no signal of the session metrics;"
                f" {nearest(self.counts_as, SIGNAL_WEIGHTS)}"
            )
        if self.scale is not None and self.scale[0] == self.scale[1]:
            raise ValueError("scale: give two different values, the worst and the best")
        return self

    def value_of(self, score: Evaluation) -> float | None:
        """The score as a signal, 0 to 1; None where it is none."""
        if self.source not in {ANYBODY, score.evaluator.source}:
            return None
        bounds = self.scale or score.scale
        if bounds is None or score.value is None:
            return None if score.passed is None else float(score.passed)
        worst, best = bounds
        if worst == best:
            return None
        return min(1.0, max(0.0, (score.value - worst) / (best - worst)))


def external_names(configured: Mapping[str, ExternalSignal]) -> list[str]:
    """The external scores that are signals of their own."""
    return [name for name, signal in configured.items() if signal.counts_as is None]


_IN_SHORT: Mapping[SkipCause, str] = {
    "no_judge": "no judge is configured",
    "no_embedding": "no embedding is configured",
}
"""What the traces' own skips say at length."""

TraceSignals = Mapping[str, Evaluation]
"""Evaluations of one trace by metric name."""


def usual_weights(embedding: str | None) -> dict[str, float]:
    """The weights of the signals where nobody gives others: 0 for what `embedding` measures on an
    unknown scale.

    >>> usual_weights("ngrams-1")["coherence"], usual_weights(None)["coherence"]
    (0.0, 1.0)
    """
    known = metrics.available()
    return {
        name: weight if embedding is None or known[name].signal(1.0, embedding) is not None else 0.0
        for name, weight in SIGNAL_WEIGHTS.items()
    }


def check_signals(weights: Mapping[str, float], external: Collection[str] = ()) -> None:
    """Refuse weights of what can be no signal; `external` are scores of others that are.

    Raises ValueError.
    """
    known = metrics.available()
    for name in weights:
        if name in known:
            _check_signal(known[name])
        elif name not in external:
            possible = [*(x for x, metric in known.items() if metric.scope == "trace"), *external]
            raise ValueError(
                f"{name!r} is no metric of traces and no external signal; {nearest(name, possible)}"
            )


def _check_signal(metric: type[Metric]) -> None:
    if metric.scope != "trace":
        raise ValueError(
            f"{metric.name} is measured of a session; give weights to metrics of its traces"
        )
    low, high = metric.scale
    if not (math.isfinite(low) and math.isfinite(high) and low < high):
        raise ValueError(
            f"{metric.name} has no scale with two ends, so its risk is not known; declare one to"
            " weigh it"
        )


def needed(
    run: Iterable[Metric], weights: Mapping[str, float], *, external: Collection[str] = ()
) -> tuple[str, ...]:
    """The signals with a weight that the session metrics of a run rest on, but for those that are
    `external`.
    """
    usual = {name for metric in run if isinstance(metric, SessionMetric) for name in metric.signals}
    if not usual:
        return ()
    found = [
        name for name in SIGNAL_WEIGHTS if name in usual and weights.get(name, SIGNAL_WEIGHTS[name])
    ]
    return (*found, *(name for name in _others(weights, external) if weights[name]))


def _others(weights: Collection[str], external: Collection[str]) -> list[str]:
    """The metrics that `weights` make signals beside the usual ones."""
    return [name for name in weights if name not in SIGNAL_WEIGHTS and name not in external]


def is_lacking(metric: Metric, found: Evaluation | None) -> bool:
    """Whether a run has to measure a signal itself: it was not measured, or another model than the
    run's judged it.

    What needed no model is the same under all.
    """
    if found is None:
        return True
    named = metric.model if isinstance(metric, Judged) else None
    return named is not None and found.evaluator.model not in {None, named}


def read_signals(
    session: Session,
    evaluations: Mapping[str, TraceSignals],
    weighted: Collection[str] = (),
    *,
    external: Collection[str] = (),
    given: Mapping[tuple[str, str], float] = MappingProxyType({}),
) -> Signals:
    """The signals of a session's traces, from their evaluations by agent trace id and name; and why
    some have none.

    Signals are the usual metrics, and those that are `weighted`: the configuration or the run gives
    them a weight; but not what is `external`. What others have `given`, by agent trace id and name,
    counts in place of what was measured. A score whose scale is not known, since its embedding was
    not measured, counts only where its metric is one of these.
    """
    values: dict[str, dict[str, float]] = defaultdict(dict)
    absent: dict[str, dict[str, str]] = defaultdict(dict)
    inapplicable: dict[str, dict[str, str]] = defaultdict(dict)
    names = (*SIGNAL_WEIGHTS, *_others(weighted, external))
    for trace in session.traces:
        by_metric = evaluations.get(trace.id, {})
        for name in names:
            found = by_metric.get(name)
            value = _value(found, is_weighted=name in weighted) if found else None
            if (trace.id, name) in given:
                continue
            if found is None:
                absent[trace.id][name] = "not measured"
            elif value is not None:
                values[trace.id][name] = value
            elif isinstance(found.outcome, Skip) and found.outcome.cause == "not_applicable":
                inapplicable[trace.id][name] = found.reason
            else:
                absent[trace.id][name] = _why(found)
    for (trace_id, name), value in given.items():
        values[trace_id][name] = value
    return Signals(values, absent, inapplicable)


def given_signals(
    session: Session, scores: Iterable[Evaluation], configured: Mapping[str, ExternalSignal]
) -> dict[tuple[str, str], float]:
    """The signals that others' scores of the session's traces are configured to be, by agent trace
    id and name.

    Where several people gave one of the same trace, their mean counts. What is of none of these
    agent traces, as of a whole OTel trace with several turns, counts for none of them.
    """
    ids = {trace.id for trace in session.traces}
    given: dict[tuple[str, str], list[float]] = defaultdict(list)
    for score in scores:
        signal = configured.get(score.metric)
        if signal is None or score.scope != "trace" or score.subject_id not in ids:
            continue
        value = signal.value_of(score)
        if value is not None:
            given[score.subject_id, signal.counts_as or score.metric].append(value)
    return {key: sum(found) / len(found) for key, found in given.items()}


def _value(found: Evaluation, *, is_weighted: bool) -> float | None:
    if found.value is None:
        return None
    metric = metrics.named(found.metric)
    value = None if metric is None else metric.signal(found.value, found.evaluator.embedding)
    return found.value if value is None and is_weighted else value


def _why(found: Evaluation) -> str:
    if isinstance(found.outcome, Skip) and found.outcome.cause in _IN_SHORT:
        return _IN_SHORT[found.outcome.cause]
    if found.value is None:
        return f"{found.status}: {found.reason}"
    embedding = found.evaluator.embedding
    return (
        f"the scale of {embedding} is not known: evaluation.signal_weights may give {found.metric}"
        " a weight"
    )
