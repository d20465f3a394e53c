"""The rate of a yes among independent units, with Blaker's exact interval."""

from collections.abc import Callable
from functools import lru_cache
from typing import Any

from spanscore.stats.crossing import crossing
from spanscore.stats.distributions import beta_cdf, beta_quantile
from spanscore.stats.estimate import Estimate, Interval, NotEstimableError, require_level


def rate(c: int, n: int, *, level: float = 0.95) -> Estimate:
    """The share `c` / `n` of independent units, with an interval that covers at least `level` of
    the time, always.

    Blaker's interval (2000, "Confidence curves and improved exact confidence intervals for discrete
    distributions"): it lies within that of Clopper and Pearson, and comes nearer to `level`. Raises
    NotEstimableError where `n` is 0.

    >>> estimate = rate(7, 10)
    >>> round(estimate.interval.low, 3), round(estimate.interval.high, 3)
    (0.381, 0.913)
    >>> rate(0, 20).interval.low
    0.0
    """
    require_level(level)
    if n < 1:
        raise NotEstimableError("there is nothing to take a rate of")
    if not 0 <= c <= n:
        raise ValueError(f"{c} of {n}: the first is from 0 to the second")
    return Estimate(c / n, n, Interval(*rate_limits(c, n, level), level), "Blaker")


@lru_cache(maxsize=65536)  # the same few counts come again and again
def rate_limits(c: int, n: int, level: float) -> tuple[float, float]:
    """Blaker's limits for `c` of `n`."""
    return _lower(c, n, 1 - level), 1 - _lower(n - c, n, 1 - level)


def _lower(c: int, n: int, alpha: float) -> float:
    """The least rate p whose acceptability reaches `alpha`, where n units give `c` or more with
    chance `tail`(p).

    The acceptability is that chance plus the largest chance of `other` or fewer that does not
    exceed it. From where the tail alone is alpha/2, `other` stays the same up to p where both
    chances are equal; there the acceptability is at least alpha, and before it crosses alpha once
    at most (Klaschka 2010, "BlakerCI").
    """
    if c == 0:
        return 0.0

    def tail(p: Any) -> Any:
        return beta_cdf(p, c, n - c + 1)

    def at_most(count: int, p: Any) -> Any:
        return 1 - beta_cdf(p, count + 1, n - count) if count >= 0 else 0.0 * p

    start = float(beta_quantile(alpha / 2, c, n - c + 1))
    other = _largest(lambda count: bool(at_most(count, start) <= alpha / 2), -1, c - 1)
    end = crossing(lambda p: tail(p) >= at_most(other + 1, p), start, c / n)
    if tail(end) + at_most(other, end) < alpha:
        return end
    return crossing(lambda p: tail(p) + at_most(other, p) >= alpha, start, end)


def _largest(holds: Callable[[int], bool], low: int, high: int) -> int:
    """The largest count from `low`, where it holds, up to `high` for which `holds`, as it does up
    to some count.
    """
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if holds(middle) else (low, middle - 1)
    return low
