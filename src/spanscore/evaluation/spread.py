"""Several answers to the same question: their mean is the score, and their spread is on it."""

import statistics
from collections.abc import Sequence
from typing import Any

from spanscore.model.score import Failure, Outcome, Score
from spanscore.stats import mean


def combined(outcomes: Sequence[Outcome | None], scale: tuple[float, float]) -> Outcome:
    """One outcome of several samples: the mean of the scores, where at least half of the samples
    gave one.

    The reason and the other metadata are those of the score that is nearest to the mean. `samples`
    in the metadata has `values`, `standard_deviation` (of the samples, with n - 1; null of one),
    `interval`, the limits of the mean at the level 95 %, and `without_score`, how many samples gave
    none. Where more than half gave no score, the first of these is the outcome.

    >>> score = combined([Score(0.4, "a"), Score(0.6, "b"), Score(0.8, "c")], (0, 1))
    >>> score.value, score.metadata["samples"]["values"], score.reason
    (0.6, [0.4, 0.6, 0.8], 'b')
    """
    scores = [x for x in outcomes if isinstance(x, Score)]
    if 2 * len(scores) < len(outcomes) or not scores:
        return next((x for x in outcomes if x is not None and not isinstance(x, Score)), _nothing())
    values = [x.value for x in scores]
    center = statistics.fmean(values)
    typical = min(scores, key=lambda x: abs(x.value - center))
    limits = mean(values, bounds=scale).interval
    spread: dict[str, Any] = {
        "values": values,
        "standard_deviation": round(statistics.stdev(values), 4) if len(values) > 1 else None,
        "interval": [round(limits.low, 4), round(limits.high, 4)] if limits else None,
        "without_score": len(outcomes) - len(scores),
    }
    return Score(
        round(center, 4), typical.reason, {**typical.metadata, "samples": spread}, typical.label
    )


def _nothing() -> Failure:
    return Failure("NoOutcomeError", "no sample gave an outcome")
