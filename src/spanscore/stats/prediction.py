"""The mean that people would give to all units, from a judge's scores of all and people's labels of
some.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any

from spanscore.arrays import np
from spanscore.stats.estimate import Estimate, Interval, NotEstimableError, require_level
from spanscore.stats.means import Numbers, bounded_limits, grouped


def prediction_powered_mean(
    labels: Sequence[float],
    scores: Sequence[float],
    other_scores: Sequence[float],
    *,
    level: float = 0.95,
    clusters: tuple[Sequence[Hashable], Sequence[Hashable]] | None = None,
    bounds: tuple[float, float] = (0, 1),
) -> Estimate:
    """The mean label of all units: `labels` and `scores` of the labelled ones, `other_scores` of
    the rest.

    Angelopoulos, Duchi and Zrnic (2023, "PPI++"): mean(label - t score) + t mean(other score), with
    the t that makes its variance least, from 0, the labels alone, to 1. Labelled and other units
    must be drawn alike. The interval is that of `mean` with this variance. `clusters` are those of
    the labelled and of the other units: what has the same one (the traces of a session) is not
    independent. n counts the labels, or their clusters. Raises NotEstimableError with fewer than
    two.

    >>> estimate = prediction_powered_mean(
    ...     [1, 0, 1, 1, 0, 1], [1, 0, 1, 0, 0, 1], [1, 0, 0, 1, 1, 1, 1, 0, 1, 1]
    ... )
    >>> round(estimate.value, 3), estimate.n
    (0.767, 6)
    """
    require_level(level)
    low, width = bounds[0], bounds[1] - bounds[0]
    y, f, rest = ((np.asarray(x, float) - low) / width for x in (labels, scores, other_scores))
    if len(y) < 2 or len(f) != len(y):
        raise NotEstimableError(f"it takes two labelled units at least, and there are {len(y)}")
    center, pulls = _pulled(y, f, rest)
    shares = np.full(len(y), 1 / len(y))
    if clusters is not None:
        [shares] = grouped(clusters[0], shares)
        [pulls] = grouped([*clusters[0], *(clusters[1] if len(rest) else ())], pulls)
    if len(shares) < 2:
        raise NotEstimableError("it takes labels in two clusters at least")
    least, most = (low + width * float(x) for x in bounded_limits(center, shares, pulls, level))
    interval = Interval(least, most, level)
    method = f"PPI++ with power {float(_power(y, f, rest)):.2f}"
    return Estimate(low + width * float(center), len(shares), interval, method)


def powered_limits(
    labels: Numbers, scores: Numbers, others: Numbers, level: float
) -> tuple[Any, tuple[Any, Any]]:
    """The estimate and its limits on the scale 0..1; arrays may have further axes in front."""
    center, pulls = _pulled(labels, scores, others)
    return center, bounded_limits(
        center, np.full(labels.shape[-1], 1 / labels.shape[-1]), pulls, level
    )


def _pulled(labels: Numbers, scores: Numbers, others: Numbers) -> tuple[Any, Any]:
    """The estimate, and how far each unit pulls it: the labelled ones first."""
    n, more = labels.shape[-1], others.shape[-1]
    power = _power(labels, scores, others)[..., None]
    residuals, predicted = labels - power * scores, power * others
    center, pulls = (
        residuals.mean(-1, keepdims=True),
        (residuals - residuals.mean(-1, keepdims=True)) / n,
    )
    if more:
        far = predicted.mean(-1, keepdims=True)
        center, pulls = center + far, np.concatenate((pulls, (predicted - far) / more), -1)
    return np.clip(center[..., 0], 0, 1), pulls


def _power(y: Numbers, f: Numbers, others: Numbers) -> Any:
    """The t of least variance, within 0..1; the spread of the scores is that of all."""
    n, more = y.shape[-1], others.shape[-1]
    if not more:
        return np.zeros(y.shape[:-1])
    spread = np.concatenate((f, others), -1).var(-1, ddof=1) * (1 + n / more)
    products = (y - y.mean(-1, keepdims=True)) * (f - f.mean(-1, keepdims=True))
    covariance = products.sum(-1) / (n - 1)
    best = np.divide(covariance, spread, out=np.zeros_like(covariance), where=spread > 1e-12)
    return np.clip(best, 0, 1)
