"""The difference of two rates of the same units: the outer limits of two approximations."""

import math

from spanscore.stats.distributions import normal_quantile

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
