"""The difference of two rates of the same units: Tango's score interval."""

import math

from spanscore.stats.distributions import normal_quantile

_HALVINGS = 60


def paired_rate_limits(gained: int, lost: int, n: int, level: float) -> tuple[float, float]:
    """Limits for (gained - lost) / n, where `gained` of `n` pairs pass only after and `lost` only before.

    Tango (1998, "Equivalence test and confidence interval for the difference in proportions for the paired-sample
    design"): the differences that a score test does not refuse.

    >>> low, high = paired_rate_limits(0, 0, 50, 0.95)
    >>> round(low, 4), round(high, 4)
    (-0.0713, 0.0713)
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
    """How many standard errors the data are from `difference`, at the likeliest share of lost pairs under it."""
    b = (2 * n - gained + lost) * difference - gained - lost
    c = -lost * difference * (1 - difference)
    share = (math.sqrt(max(b * b - 8 * n * c, 0.0)) - b) / (4 * n)
    variance = n * (2 * share + difference * (1 - difference))
    apart = gained - lost - n * difference
    return apart / math.sqrt(variance) if variance > 0 else math.copysign(math.inf, apart) if apart else 0.0
