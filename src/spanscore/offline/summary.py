"""What the scores of a run add up to, metric by metric."""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from spanscore.calibration import Verdict, estimated, pass_rates
from spanscore.model.score import Evaluation
from spanscore.stats import Estimate


@dataclass(frozen=True, slots=True)
class MetricSummary:
    """One metric's scores: their mean and pass rate with intervals, and what became of the others.

    Traces of one session are not independent, so the estimates count sessions, and traces that
    belong to none. `mean` is None without a score, `pass_rate` without a label, or where several
    judges scored.
    """

    metric: str
    mean: Estimate | None
    pass_rate: Estimate | None
    scored: int
    passed: int
    failing: int
    skipped: int
    failed: int


def summaries(evaluations: Iterable[Evaluation]) -> list[MetricSummary]:
    """A summary for each metric, in the order in which they first occur."""
    by_metric: dict[str, list[Evaluation]] = {}
    for evaluation in evaluations:
        by_metric.setdefault(evaluation.metric, []).append(evaluation)
    return [_summary(name, own) for name, own in by_metric.items()]


def mean(evaluations: Sequence[Evaluation]) -> Estimate | None:
    """The mean of the values there are, its units the sessions and the traces of none; None where
    there is none.
    """
    verdicts = _verdicts(evaluations)
    if not verdicts:
        return None
    low = min(min(x.scale[0], x.value) for x in verdicts)
    high = max(max(x.scale[1], x.value) for x in verdicts)
    return estimated([x.value for x in verdicts], verdicts, 0.95, (low, high))


def pass_rate(evaluations: Sequence[Evaluation]) -> Estimate | None:
    """The share that passes; None where nothing has a label, or several judges scored."""
    rates = pass_rates(_verdicts(evaluations), ())
    return rates[0].judged if len(rates) == 1 else None


def _verdicts(evaluations: Iterable[Evaluation]) -> list[Verdict]:
    return [verdict for x in evaluations if (verdict := Verdict.of(x)) is not None]


def _summary(name: str, own: Sequence[Evaluation]) -> MetricSummary:
    states, passed = Counter(x.status for x in own), Counter(x.passed for x in own)
    counts = (states["scored"], passed[True], passed[False], states["skipped"], states["failed"])
    return MetricSummary(name, mean(own), pass_rate(own), *counts)
