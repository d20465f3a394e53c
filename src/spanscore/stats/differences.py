"""The difference between two sets of scores, paired by what was scored or of different things."""

import math
from collections.abc import Hashable, Sequence
from dataclasses import replace

from spanscore.arrays import np
from spanscore.stats.estimate import Estimate, Interval, NotEstimableError, require_level
from spanscore.stats.means import mean
from spanscore.stats.pairs import paired_rate_limits
from spanscore.stats.unpaired import unpaired_rate_limits

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
