"""How many evaluations came out how: by metric, and by the cause for which there is no score."""

from collections import Counter
from collections.abc import Iterable

from spanscore.model.score import Evaluation, Failure, Score, Skip
from spanscore.telemetry import Meter, declared


def count(evaluations: Iterable[Evaluation], meter: Meter) -> None:
    """Count what was committed."""
    scored: Counter[tuple[str, str]] = Counter()
    skipped: Counter[tuple[str, str]] = Counter()
    failed: Counter[tuple[str, str]] = Counter()
    for evaluation in evaluations:
        match evaluation.outcome:
            case Score():
                scored[evaluation.metric, evaluation.label or "none"] += 1
            case Skip() as skip:
                skipped[evaluation.metric, skip.cause] += 1
            case Failure() as failure:
                failed[evaluation.metric, failure.type] += 1
    for (metric, label), number in scored.items():
        meter.add(declared.EVALUATIONS_SCORED, number, metric=metric, label=label)
    for (metric, reason), number in skipped.items():
        meter.add(declared.EVALUATIONS_SKIPPED, number, metric=metric, reason=reason)
    for (metric, error_type), number in failed.items():
        meter.add(declared.EVALUATIONS_FAILED, number, metric=metric, error_type=error_type)
