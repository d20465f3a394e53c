"""The difference of two rates of different units: the outer limits of two approximations, and exact
ones for few.
"""

from typing import Any

from spanscore.arrays import np
from spanscore.stats.distributions import beta_quantile, normal_quantile

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
