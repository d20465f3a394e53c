"""Differences of scores or rates, paired or not."""

import math
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from spanscore.lazy_imports import np
from spanscore.stats.distributions import beta_quantile, gamma_quantile, normal_quantile
from spanscore.stats.estimate import Estimate, Interval, NotEstimableError, require_level
from spanscore.stats.means import mean

_MANY = 30
"""From so many pairs on the approximations of `pairs` cover; with ten they do 92.4 % of the time at
worst.
"""


def paired_difference(
    a: Sequence[float],
    b: Sequence[float],
    *,
    level: float = 0.95,
    clusters: Sequence[Hashable] | None = None,
    bounds: tuple[float, float] = (0, 1),
) -> Estimate:
    """The mean of b - a over pairs, above 0 where `b` is higher; `a[i]` and `b[i]` are of the same
    unit.

    Thirty pairs or more of pass or fail have the limits of `paired_rate_limits`. Others have those
    of `mean` for their differences, which lie between minus and plus the width of `bounds`; neither
    is of no width where all pairs agree. Errors as `mean`.

    >>> estimate = paired_difference([1, 0, 0, 1, 0], [1, 1, 1, 1, 0])
    >>> estimate.value, round(estimate.interval.low, 2), round(estimate.interval.high, 2)
    (0.4, -0.36, 0.82)
    """
    if len(a) != len(b):
        raise ValueError(f"{len(a)} values beside {len(b)}: pairs need as many of each")
    if not len(a):
        raise NotEstimableError("there are no pairs")
    width = bounds[1] - bounds[0]
    changes = np.asarray(b, float) - np.asarray(a, float)
    if clusters is None and len(a) >= _MANY and np.isin([a, b], bounds).all():
        require_level(level)
        gained, lost, n = int((changes > 0).sum()), int((changes < 0).sum()), len(changes)
        low, high = paired_rate_limits(gained, lost, n, level)
        return Estimate(
            (gained - lost) / n * width,
            n,
            Interval(low * width, high * width, level),
            "Tango with Agresti and Min",
        )
    found = mean(list(changes), level=level, clusters=clusters, bounds=(-width, width))
    # scaled to 0..1 and back, 0.4 became 0.39999999999999991
    return replace(found, value=float(changes.mean()))


def unpaired_difference(
    a: Sequence[float],
    b: Sequence[float],
    *,
    level: float = 0.95,
    bounds: tuple[float, float] = (0, 1),
) -> Estimate:
    """The mean of `b` less the mean of `a`, of different units; n counts both. Errors as `mean`.

    Pass or fail has the limits of `unpaired_rate_limits`. Of other scores the interval joins those
    of the two means, square and add: Newcombe's method 10 (1998, "Interval estimation for the
    difference between independent proportions") with the intervals of `mean` in place of Wilson's,
    as Zou and Donner (2008) generalise it.

    >>> estimate = unpaired_difference([1] * 48 + [0] * 32, [1] * 56 + [0] * 14)
    >>> round(estimate.value, 3), round(estimate.interval.low, 2), round(estimate.interval.high, 2)
    (0.2, 0.04, 0.34)
    """
    before, after = (mean(x, level=level, bounds=bounds) for x in (a, b))
    value, n = after.value - before.value, before.n + after.n
    if np.isin([*a, *b], bounds).all():
        of_a, of_b = ((int((np.asarray(x) == bounds[1]).sum()), len(x)) for x in (a, b))
        low, high = (
            float(x) * (bounds[1] - bounds[0]) for x in unpaired_rate_limits(of_a, of_b, level)
        )
        return Estimate(
            value, n, Interval(low, high, level), "square and add with Agresti and Caffo"
        )
    low, high = added_limits(after, before)
    return Estimate(value, n, Interval(low, high, level), "square and add")


def added_limits(plus: Estimate, minus: Estimate) -> tuple[float, float]:
    """The limits of `plus` - `minus`, two independent estimates, from their own by square and
    add.
    """
    if plus.interval is None or minus.interval is None:
        raise NotEstimableError("an estimate without interval has no difference with one")
    value = plus.value - minus.value
    below = math.hypot(plus.value - plus.interval.low, minus.interval.high - minus.value)
    above = math.hypot(plus.interval.high - plus.value, minus.value - minus.interval.low)
    return value - below, value + above


_HALVINGS = 60


def paired_rate_limits(gained: int, lost: int, n: int, level: float) -> tuple[float, float]:
    """Limits for (gained - lost) / n, where `gained` of `n` pairs pass only after and `lost` only
    before.

    The outer ones of Tango's, which cover too seldom where nearly all change is one way, and of
    Agresti and Min (2005, "Simple improved confidence intervals for comparing matched
    proportions"): Wald's, with half a pair more in each of the four cells.

    >>> low, high = paired_rate_limits(0, 0, 50, 0.95)
    >>> round(low, 4), round(high, 4)
    (-0.0713, 0.0713)
    """
    z = normal_quantile((1 + level) / 2)
    low, high = tango_limits(gained, lost, n, level)
    center = (gained - lost) / (n + 2)
    half = z * math.sqrt(((gained + lost + 1) / (n + 2) - center * center) / (n + 2))
    return max(-1.0, min(low, center - half)), min(1.0, max(high, center + half))


def tango_limits(gained: int, lost: int, n: int, level: float) -> tuple[float, float]:
    """Tango's limits: the differences that a score test does not refuse.

    Tango (1998, "Equivalence test and confidence interval for the difference in proportions for the
    paired-sample design").
    """
    z = normal_quantile((1 + level) / 2)
    return -_upper(lost, gained, n, z), _upper(gained, lost, n, z)


def _upper(gained: int, lost: int, n: int, z: float) -> float:
    low, high = (gained - lost) / n, 1.0
    for _ in range(_HALVINGS):
        middle = 0.5 * (low + high)
        low, high = (low, middle) if _score(gained, lost, n, middle) < -z else (middle, high)
    return high


def _score(gained: int, lost: int, n: int, difference: float) -> float:
    """How many standard errors the data are from `difference`, at the likeliest share of lost pairs
    under it.
    """
    b = (2 * n - gained + lost) * difference - gained - lost
    c = -lost * difference * (1 - difference)
    share = (math.sqrt(max(b * b - 8 * n * c, 0.0)) - b) / (4 * n)
    variance = n * (2 * share + difference * (1 - difference))
    distance = gained - lost - n * difference
    return (
        distance / math.sqrt(variance)
        if variance > 0
        else math.copysign(math.inf, distance)
        if distance
        else 0.0
    )


_FEW = 4
"""Below so many units on a side neither approximation covers: 92 % of the time at worst."""


def unpaired_rate_limits(a: tuple[Any, int], b: tuple[Any, int], level: float) -> tuple[Any, Any]:
    """Limits for the rate of `b` less that of `a`, each (passed, of so many); what passed may be
    arrays.

    The outer ones of two: those of Clopper and Pearson, joined by square and add (Newcombe 1998,
    "Interval estimation for the difference between independent proportions", method 10, who takes
    Wilson's), and those of Agresti and Caffo (2000, "Simple and effective confidence intervals for
    proportions and differences of proportions"). Each alone covers too seldom somewhere near 0 and
    1. With fewer than four units on a side the ends of Clopper and Pearson's, each at half the
    error, are held against each other, which covers at least `level` of the time.

    >>> [round(float(x), 3) for x in unpaired_rate_limits((48, 80), (56, 70), 0.95)]
    [0.044, 0.344]
    """
    if min(a[1], b[1]) < _FEW:
        (a_low, a_high), (b_low, b_high) = (exact_limits(*x, (1 + level) / 2) for x in (a, b))
        return b_low - a_high, b_high - a_low
    added, shrunk = _square_and_add(a, b, level), agresti_caffo_limits(a, b, level)
    return np.maximum(np.minimum(added[0], shrunk[0]), -1), np.minimum(
        np.maximum(added[1], shrunk[1]), 1
    )


def exact_limits(c: Any, n: float, level: float) -> tuple[Any, Any]:
    """Clopper and Pearson's limits for a rate (1934, "The use of confidence or fiducial limits").

    >>> [round(float(x), 4) for x in exact_limits(81, 263, 0.95)]
    [0.2527, 0.3676]
    """
    c, tail = np.asarray(c), (1 - level) / 2
    low = np.where(c > 0, beta_quantile(tail, np.where(c > 0, c, 1), n - c + 1), 0.0)
    return low, np.where(c < n, beta_quantile(1 - tail, c + 1, np.where(c < n, n - c, 1)), 1.0)


def _square_and_add(a: tuple[Any, int], b: tuple[Any, int], level: float) -> tuple[Any, Any]:
    (a_low, a_high), (b_low, b_high) = (exact_limits(*x, level) for x in (a, b))
    before, after = (np.asarray(c) / n for c, n in (a, b))
    value = after - before
    return value - np.hypot(after - b_low, a_high - before), value + np.hypot(
        b_high - after, before - a_low
    )


def agresti_caffo_limits(a: tuple[Any, int], b: tuple[Any, int], level: float) -> tuple[Any, Any]:
    """Agresti and Caffo's limits (2000): Wald's, with a pass and a fail more on each side.

    >>> [round(float(x), 4) for x in agresti_caffo_limits((1, 34), (7, 34), 0.95)]
    [0.0116, 0.3217]
    """
    (before, a_variance), (after, b_variance) = (_with_one_of_each(*x) for x in (a, b))
    half = normal_quantile((1 + level) / 2) * np.sqrt(a_variance + b_variance)
    return after - before - half, after - before + half


def _with_one_of_each(c: Any, n: int) -> tuple[Any, Any]:
    """The share and its squared standard error, with one pass and one fail more."""
    share = (np.asarray(c) + 1) / (n + 2)
    return share, share * (1 - share) / (n + 2)


_LEAST_EXPECTED = 5
"""Of a value in the smaller sample, by Cochran's rule; rarer ones are counted together."""


def shares_differ(a: Mapping[str, int], b: Mapping[str, int], alpha: float) -> bool:
    """Whether two samples of independent units, counted by their values, are of different
    distributions: Pearson's chi-squared test of homogeneity.

    `alpha` is the chance that it says so of two of the same.

    >>> shares_differ({"a": 90, "b": 60}, {"a": 180, "b": 120}, 0.01)
    False
    >>> shares_differ({"a": 90, "b": 60}, {"a": 120, "b": 180}, 0.01)
    True
    """
    of_a, of_b = sum(a.values()), sum(b.values())
    if not of_a or not of_b:
        return False
    least = _LEAST_EXPECTED * (of_a + of_b) / min(of_a, of_b)
    table: dict[str | None, list[int]] = {}
    for value in sorted({*a, *b}):
        pair = a.get(value, 0), b.get(value, 0)
        cell = table.setdefault(value if sum(pair) >= least else None, [0, 0])
        cell[:] = cell[0] + pair[0], cell[1] + pair[1]
    counts = np.array([*table.values()], float)
    expected = counts.sum(1, keepdims=True) * np.array([[of_a, of_b]]) / (of_a + of_b)
    freedom = len(counts) - 1
    distance = float(((counts - expected) ** 2 / expected).sum())
    return freedom > 0 and distance > 2 * float(gamma_quantile(1 - alpha, freedom / 2))
