"""Estimates from units drawn with unequal chances.

A unit that was drawn with the chance p stands for 1/p units. Means and rates are Hajek's, sum(y /
p) / sum(1 / p); totals and means over a population of known size are Horvitz and Thompson's, sum(y
/ p) and sum(y / p) / N (1952, "A generalization of sampling without replacement from a finite
universe"; Särndal, Swensson and Wretman 1992, "Model assisted survey sampling", 5.7). What a mean
needs is a few sums over clusters, `Moments`, which a database can add up.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass

from spanscore.lazy_imports import np
from spanscore.stats.agreement import Confusion
from spanscore.stats.correction import corrected_rate
from spanscore.stats.distributions import gamma_quantile
from spanscore.stats.estimate import Estimate, Interval, require_level
from spanscore.stats.limits import Numbers
from spanscore.stats.means import Moments, grouped, weighted_mean, weighted_values


def weighted_total(
    values: Sequence[float],
    chances: Sequence[float],
    *,
    clusters: Sequence[Hashable] | None = None,
    level: float = 0.95,
    least_chance: float = 1.0,
) -> Estimate:
    """Horvitz and Thompson's total of `values`, each 0 to 1, over all from which the units were
    drawn; the interval.

    The total is that of a finite population: what was drawn for sure has no error. Units of one of
    `clusters` were drawn together, by one draw. The interval is Fay and Feuer's for weighted counts
    (1997, "Confidence intervals for directly standardized rates: a method based on the gamma
    distribution"), of the part of the total that was not drawn: gamma distributions with its mean
    and variance, the upper one with one heaviest unit more. `least_chance` as `weighted_mean` has
    it. Raises ValueError where the units of a cluster have several chances.

    >>> estimate = weighted_total([1, 0, 1, 1], [1, 1, 0.5, 0.5])
    >>> estimate.value, round(estimate.interval.low, 1), round(estimate.interval.high, 1)
    (5.0, 3.0, 12.3)
    """
    require_level(level)
    a, weights, _ = weighted_values(values, chances, (0, 1))
    y, sizes = a / weights, np.ones(len(a))
    if clusters is not None:
        y, sizes, weights = _drawn_clusters(clusters, y, weights)
    seen = float(y.sum())
    unseen = float((y * (weights - 1)).sum())
    variance = float((y**2 * weights * (weights - 1)).sum())
    size, weight = _heaviest(sizes, weights, least_chance)
    # The part that was not drawn may be nothing, and grows by whole units: the lower limit is of
    # one unit less.
    low = max(0.0, _gamma((1 - level) / 2, unseen, variance) - float(y.max(initial=0)))
    more = size * (weight - 1), size**2 * weight * (weight - 1)
    high = _gamma((1 + level) / 2, unseen + more[0], variance + more[1])
    return Estimate(
        seen + unseen, len(y), Interval(seen + low, seen + high, level), "Horvitz and Thompson"
    )


def population_mean(
    values: Sequence[float],
    chances: Sequence[float],
    population: int,
    *,
    clusters: Sequence[Hashable] | None = None,
    level: float = 0.95,
    least_chance: float = 1.0,
) -> Estimate:
    """Horvitz and Thompson's mean over a `population` of known size: the total by the size, cut to
    0..1.

    It is unbiased; Hajek's mean has a small bias, and mostly the narrower interval where values are
    far from 0.

    >>> population_mean([1, 0, 1, 1], [1, 1, 0.5, 0.5], 8).value
    0.625
    """
    if population < len(values):
        raise ValueError(f"{len(values)} values of a population of {population}")
    total = weighted_total(
        values, chances, clusters=clusters, level=level, least_chance=least_chance
    )
    value, low, high = (min(1.0, x / population) for x in (total.value, *_limits(total)))
    return Estimate(value, total.n, Interval(low, high, level), total.method)


@dataclass(frozen=True, slots=True)
class Crossed:
    """Sums over the clusters that two groups share: of the products of their a and b, as `Moments`
    has these.

    `a_b` is the sum of the first group's a times the second's b.
    """

    clusters: int
    a_a: float
    a_b: float
    b_a: float
    b_b: float


def crossed(
    before: Mapping[Hashable, tuple[float, float]], after: Mapping[Hashable, tuple[float, float]]
) -> Crossed:
    """What two groups share, each given as (a, b) by cluster."""
    pairs = np.array([(*before[x], *after[x]) for x in before if x in after], float).reshape(-1, 4)
    a, b, c, d = pairs.T
    return Crossed(len(pairs), float(a @ c), float(a @ d), float(b @ c), float(b @ d))


def weighted_difference(
    before: Moments,
    after: Moments,
    *,
    shared: Crossed | None = None,
    level: float = 0.95,
    least_chance: float | None = None,
    bounds: tuple[float, float] = (0, 1),
) -> Estimate:
    """The mean of `after` less that of `before`; `shared` are the clusters that both have scores
    of, if any.

    The two intervals are joined by square and add, less what the correlation of the means takes
    away: Zou (2007, "Toward using confidence intervals to compare correlations"). The correlation
    is that of the clusters' pulls on both means. A positive one is taken to be less, the fewer
    clusters it rests on.

    >>> from spanscore.stats import moments
    >>> before, after = (
    ...     moments([1] * 30 + [0] * 10, [1] * 40),
    ...     moments([1] * 20 + [0] * 20, [1] * 40),
    ... )
    >>> estimate = weighted_difference(before, after)
    >>> estimate.value, round(estimate.interval.low, 2), round(estimate.interval.high, 2)
    (-0.25, -0.45, -0.03)
    """
    old, new = (weighted_mean(x, level=level, least_chance=least_chance) for x in (before, after))
    (old_low, old_high), (new_low, new_high) = _limits(old), _limits(new)
    correlation = _correlation(before, after, shared)
    value, width = new.value - old.value, bounds[1] - bounds[0]
    low = value - _joined(new.value - new_low, old_high - old.value, correlation)
    high = value + _joined(new_high - new.value, old.value - old_low, correlation)
    n = old.n + new.n - (shared.clusters if shared else 0)
    return Estimate(
        value * width,
        n,
        Interval(max(-1.0, low) * width, min(1.0, high) * width, level),
        "square and add of Hajek",
    )


def corrected_mean(
    found: Moments,
    judge: Confusion,
    *,
    level: float = 0.95,
    design_effects: tuple[float, float] = (1, 1),
) -> Estimate:
    """The true pass rate behind a judge's weighted verdicts, each 0 or 1; `judge` are its errors on
    labelled units.

    `corrected_rate` for as many independent verdicts of equal weight as have the variance of these:
    so it counts both the sampling of the units, by weights and clusters, and that of the labels.
    Raises NotEstimableError as that does.

    >>> from spanscore.stats import moments
    >>> estimate = corrected_mean(
    ...     moments([1, 1, 0] * 30, [1, 0.5, 0.5] * 30), Confusion(45, 5, 10, 40)
    ... )
    >>> round(estimate.value, 3), estimate.n, round(estimate.effective_n)
    (0.571, 90, 79)
    """
    value, number = found.value, independent_verdicts(found)
    corrected = corrected_rate(
        value * number, number, judge, level=level, design_effects=design_effects
    )
    return Estimate(
        corrected.value,
        found.clusters,
        corrected.interval,
        corrected.method,
        number,
        corrected.note,
    )


def independent_verdicts(found: Moments) -> float:
    """How many independent verdicts of equal weight have the variance of these weighted and
    clustered ones.

    At most Kish's number of the units; where all pass or all fail, Kish's number of the clusters.
    """
    value, spread = found.value, found.pulls
    if spread <= 0 or found.clusters < 2:
        return found.effective_n
    spread *= found.clusters / (found.clusters - 1)
    return float(min(max(1.0, value * (1 - value) / spread), found.b**2 / found.squared_weights))


def _drawn_clusters(
    clusters: Sequence[Hashable], y: Numbers, weights: Numbers
) -> tuple[Numbers, Numbers, Numbers]:
    """The sums of values, the numbers of units and the weights of clusters that were drawn as
    wholes.
    """
    totals, sizes, sums, squares = grouped(clusters, y, np.ones(len(y)), weights, weights**2)
    if not np.allclose(squares * sizes, sums**2):
        raise ValueError("chances: the units of a cluster were drawn together, and have one chance")
    return totals, sizes, sums / sizes


def _heaviest(sizes: Numbers, weights: Numbers, least_chance: float) -> tuple[float, float]:
    """The number of units and the weight of the cluster that would stand for the most that was not
    drawn.
    """
    sizes = np.append(sizes, sizes.mean() if len(sizes) else 1.0)
    weights = np.append(weights, 1 / least_chance)
    place = int((sizes * (weights - 1)).argmax())
    return float(sizes[place]), float(weights[place])


def _gamma(share: float, mean: float, variance: float) -> float:
    if mean <= 0 or variance <= 0:
        return max(0.0, mean)
    return float(gamma_quantile(share, mean**2 / variance)) * variance / mean


def _correlation(before: Moments, after: Moments, shared: Crossed | None) -> float:
    spreads = before.pulls * after.pulls
    if shared is None or spreads <= 0:
        return 0.0
    old, new = before.value, after.value
    product = shared.a_a - new * shared.a_b - old * shared.b_a + old * new * shared.b_b
    found = product / (before.b * after.b * math.sqrt(spreads))
    trusted = max(0.0, 1 - _TRUST / shared.clusters) if found > 0 else 1.0
    return min(1.0, max(-1.0, found)) * trusted


_TRUST = 3.0
"""Of so many shared clusters a positive correlation is not believed at all; found by simulation."""


def _joined(a: float, b: float, correlation: float) -> float:
    return math.sqrt(max(0.0, a * a + b * b - 2 * correlation * a * b))


def _limits(estimate: Estimate) -> tuple[float, float]:
    interval = estimate.interval or Interval(-math.inf, math.inf)
    return interval.low, interval.high
