"""How many evaluations came out how: by metric, and by one of few words for why there is no score."""

from collections import Counter
from collections.abc import Iterable

from spanscore.model.score import Evaluation, Failure, Score, Skip
from spanscore.telemetry import Meter, declared

_WHY_SKIPPED = (
    ("did not record", "not_recorded"),
    ("arrived cut or redacted", "damaged"),
    ("judge.budget", "budget"),
    ("No trace has the signals", "no_signals"),
    ("knows no word", "no_words"),
)
"""What a Skip's reason says, and the word for it; what else there may be, in metrics of others, is `other`."""


def count(evaluations: Iterable[Evaluation], meter: Meter) -> None:
    """Count what was committed."""
    scored: Counter[tuple[str, str]] = Counter()
    skipped: Counter[tuple[str, str]] = Counter()
    failed: Counter[tuple[str, str]] = Counter()
    for x in evaluations:
        match x.outcome:
            case Score():
                scored[x.metric, x.label or "none"] += 1
            case Skip() as skip:
                skipped[x.metric, why_skipped(skip)] += 1
            case Failure() as failure:
                failed[x.metric, failure.type] += 1
    for (metric, label), number in scored.items():
        meter.add(declared.EVALUATIONS_SCORED, number, metric=metric, label=label)
    for (metric, reason), number in skipped.items():
        meter.add(declared.EVALUATIONS_SKIPPED, number, metric=metric, reason=reason)
    for (metric, error_type), number in failed.items():
        meter.add(declared.EVALUATIONS_FAILED, number, metric=metric, error_type=error_type)


def why_skipped(skip: Skip) -> str:
    """One of few words.

    >>> why_skipped(Skip("The trace did not record user_input."))
    'not_recorded'
    """
    return next((word for said, word in _WHY_SKIPPED if said in skip.reason), "other")
