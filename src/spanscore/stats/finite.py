"""The rate of a yes in a population of which a sample was looked at, with an exact interval for its
finite size.
"""

from math import exp, lgamma

from spanscore.stats.estimate import Estimate, Interval, NotEstimableError, require_level


def finite_rate(c: int, n: int, total: int, *, level: float = 0.95) -> Estimate:
    """The share of a yes among `total` units, of which `n` were drawn at random without return and
    `c` are a yes.

    The limits are the least and the largest number of a yes in the whole that a test of size (1 -
    level) / 2 to either side does not refuse, by the hypergeometric distribution (Buonaccorsi 1987,
    "A note on confidence intervals for proportions in finite populations"); they cover at least
    `level` of the time, and where all were looked at they are the share itself. Raises
    NotEstimableError where `n` is 0.

    >>> estimate = finite_rate(270, 300, 5000)
    >>> round(estimate.interval.low, 3), round(estimate.interval.high, 3)
    (0.862, 0.931)
    >>> finite_rate(3, 4, 4).interval.low
    0.75
    """
    require_level(level)
    if n < 1:
        raise NotEstimableError("there is nothing to take a rate of")
    if not (0 <= c <= n <= total):
        raise ValueError(f"{c} of {n} of {total}: each is from 0 to the next")
    alpha = (1 - level) / 2
    low = _least(c, n, total, alpha)
    high = total - _least(n - c, n, total, alpha)
    return Estimate(
        c / n, n, Interval(low / total, high / total, level), "exact, of a finite population"
    )


def _least(c: int, n: int, total: int, alpha: float) -> int:
    """The least number of a yes in the whole with which `c` or more in the sample have a chance
    above `alpha`.
    """
    low, high = c, total - (n - c)
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if _at_least(c, n, total, middle) > alpha else (middle + 1, high)
    return low


def _at_least(c: int, n: int, total: int, yes: int) -> float:
    """The chance of `c` or more of `yes` in a sample of `n` of `total`."""
    return sum(_chance(k, n, total, yes) for k in range(max(c, n - (total - yes)), min(n, yes) + 1))


def _chance(k: int, n: int, total: int, yes: int) -> float:
    return exp(_ways(yes, k) + _ways(total - yes, n - k) - _ways(total, n))


def _ways(n: int, k: int) -> float:
    """The logarithm of the number of ways to choose `k` of `n`."""
    return lgamma(n + 1) - lgamma(k + 1) - lgamma(n - k + 1)
