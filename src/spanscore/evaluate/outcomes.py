"""How many evaluations came out how: by metric, and by the cause for which there is no score."""

from collections import Counter
from collections.abc import Iterable

from spanscore.errors import JudgeTimeoutError, JudgeUnavailableError
from spanscore.model.score import Evaluation, Failure, Score, Skip
from spanscore.telemetry import Meter, declared

_NO_ANSWER = frozenset({JudgeTimeoutError.__name__, JudgeUnavailableError.__name__})


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
                skipped[x.metric, skip.cause] += 1
            case Failure() as failure:
                failed[x.metric, failure.type] += 1
    for (metric, label), number in scored.items():
        meter.add(declared.EVALUATIONS_SCORED, number, metric=metric, label=label)
    for (metric, reason), number in skipped.items():
        meter.add(declared.EVALUATIONS_SKIPPED, number, metric=metric, reason=reason)
    for (metric, error_type), number in failed.items():
        meter.add(declared.EVALUATIONS_FAILED, number, metric=metric, error_type=error_type)


def lacks_answer(evaluation: Evaluation) -> bool:
    """Whether there is no score since no model could be reached or none was let in: another time may be better."""
    return isinstance(evaluation.outcome, Failure) and evaluation.outcome.type in _NO_ANSWER
