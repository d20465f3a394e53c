"""Means of bounded scores, and rates."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import astuple, dataclass, fields, replace
from functools import lru_cache
from math import exp, lgamma
from operator import attrgetter
from typing import Any

from spanscore.lazy_imports import np
from spanscore.stats.distributions import beta_cdf, beta_quantile
from spanscore.stats.estimate import Estimate, Interval, NotEstimableError, crossing, require_level
from spanscore.stats.limits import Numbers, Spread, limits_of

_METHOD = "Learned-Miller and Thomas to Student"


def mean(
    values: Sequence[float],
    *,
    level: float = 0.95,
    weights: Sequence[float] | None = None,
    clusters: Sequence[Hashable] | None = None,
    bounds: tuple[float, float] = (0, 1),
) -> Estimate:
    """The mean of `values`, all within `bounds`, and its interval.

    `weights`: of units drawn with unequal chances the inverse of each one's chance; the mean is
    Hajek's, sum(w x) / sum(w). `clusters`: units with the same one (the traces of a session) are
    not independent; n counts the clusters. Pass or fail, unweighted, has the interval of `rate`.
    Others: see docs/statistics.md. Raises NotEstimableError where there is no value, ValueError
    where one is out of bounds or a weight is not above 0.

    >>> estimate = mean([0.7, 0.9, 1.0, 1.0, 0.8])
    >>> round(estimate.value, 2), round(estimate.interval.low, 2), round(estimate.interval.high, 2)
    (0.88, 0.44, 0.97)
    >>> mean([1, 1, 0], clusters=["a", "a", "b"]).n
    2
    """
    if not len(values):
        raise NotEstimableError(_NO_VALUES)
    shares = shares_of(len(values), weights)
    found = moments(values, shares.min() / shares, clusters=clusters, bounds=bounds)
    estimate = weighted_mean(found, level=level, bounds=bounds)
    return named(estimate, weights is not None, clusters is not None)


_NO_VALUES = "there are no values"
_GREATER = 1.25
_DIGITS = 1e-13
"""Of a sum of powers, what is left by rounding when nearly all of it is taken away."""


@dataclass(frozen=True, slots=True)
class Moments:
    """Sums over clusters of powers of b, the weight of a cluster (sum 1/p), and a, its weighted
    values (sum y/p).

    Values lie on the scale 0..1. `a2b2` is the sum of a * a * b * b, `a3_b` that of a * a * a / b,
    and so on. Of the units `greatest` is the greatest 1/p, `squared_weights` the sum of 1/p
    squared, `squares` that of y * y / p; `typical` is the sum over clusters of their units' mean
    weight; `heaviest` the greatest b. Moments of groups that share no cluster add up.
    """

    units: int
    clusters: int
    heaviest: float
    greatest: float
    squared_weights: float
    typical: float
    squares: float
    a: float
    b: float
    a2: float
    ab: float
    b2: float
    a2b2: float
    ab3: float
    b4: float
    a2_b: float
    a3_b: float
    a4_b2: float

    def __add__(self, other: Moments) -> Moments:
        """Those of both groups together."""
        sums = [x + y for x, y in zip(astuple(self), astuple(other), strict=True)]
        sums[2] = max(self.heaviest, other.heaviest)
        sums[3] = max(self.greatest, other.greatest)
        return Moments(*sums)

    @property
    def value(self) -> float:
        """Hajek's mean on the scale 0..1. Raises NotEstimableError where there are no units."""
        if not self.units:
            raise NotEstimableError(_NO_VALUES)
        return min(1.0, max(0.0, self.a / self.b))

    @property
    def effective_n(self) -> float:
        """How many independent clusters of equal weight would tell as much: Kish's number."""
        return self.b**2 / self.b2

    @property
    def outweighing(self) -> float:
        """The heaviest cluster's share of the weight, where `effective_n` would be a quarter
        greater without it; else 0.
        """
        rest, square = self.b - self.heaviest, self.b2 - self.heaviest**2
        return self.heaviest / self.b if rest**2 > _GREATER * self.effective_n * square else 0.0

    @property
    def pulls(self) -> float:
        """The sum of squares of how far each cluster pulls the mean, (a - mean * b) / sum b."""
        center = self.value
        square = self.a2 - 2 * center * self.ab + center**2 * self.b2
        return _beyond_rounding(square, self.a2) / self.b**2

    def spread(self) -> Spread:
        """What the limits of the mean rest on."""
        center, total = self.value, self.b
        heavy = self.a2b2 - 2 * center * self.ab3 + center**2 * self.b4
        between = _beyond_rounding(self.a2_b - 2 * center * self.a + center**2 * self.b, self.a2_b)
        fourth = (
            self.a4_b2
            - 4 * center * self.a3_b
            + 6 * center**2 * self.a2
            - 4 * center**3 * self.ab
            + center**4 * self.b2
        )
        # What rounding has eaten says nothing about how many units the variance rests on: then it
        # rests on few.
        fourth = fourth if fourth > _DIGITS * self.a4_b2 else between**2
        return Spread(
            center,
            self.clusters,
            self.b2 / total**2,
            self.squared_weights / total**2,
            self.typical / total,
            _beyond_rounding(self.squares - center**2 * total, self.squares) / total,
            self.pulls,
            _beyond_rounding(heavy, self.a2b2) / total**4,
            between / total,
            fourth / total**2,
        )


def _beyond_rounding(rest: float, total: float) -> float:
    return rest if rest > _DIGITS * total else 0.0


def moments(
    values: Sequence[float] | Numbers,
    chances: Sequence[float] | Numbers,
    *,
    clusters: Sequence[Hashable] | None = None,
    bounds: tuple[float, float] = (0, 1),
) -> Moments:
    """The moments of `values` within `bounds`, each drawn with its one of `chances`, above 0 up to
    1.

    Units with the same one of `clusters` (the turns of a session) are not independent. Raises
    ValueError where a value is out of bounds or a chance is none.
    """
    _, weights, y = weighted_values(values, chances, bounds)
    numbers: Any = np.arange(len(y)) if clusters is None else numbered(clusters)
    if len(numbers) != len(y):
        raise ValueError(_NOT_EACH)
    groups: Any = np.zeros(int(numbers.max(initial=-1)) + 1, int)
    return moments_by_group(y, weights, numbers, groups, 1)[0]


def moments_by_group(
    values: Numbers, weights: Numbers, clusters: Any, groups: Any, count: int
) -> list[Moments]:
    """The moments of each of `count` groups, of values on the scale 0..1.

    `clusters` has the number of each unit's cluster, `groups` that of each cluster's group, both
    from 0. A cluster without units counts nowhere.
    """
    n, a, b, squares = (
        np.bincount(clusters, x, len(groups)).astype(float)
        for x in (None, weights * values, weights, weights**2)
    )
    greatest, heaviest = np.zeros(count), np.zeros(count)
    np.maximum.at(greatest, groups[clusters], weights)
    np.maximum.at(heaviest, groups, b)
    of_units = np.bincount(groups[clusters], weights * values**2, count)
    used = n > 0
    n, a, b, squares, groups = n[used], a[used], b[used], squares[used], groups[used]
    of_clusters = (n, np.ones(len(n)), squares, squares / b, *(a**i * b**j for i, j in POWERS))
    units, seen, *sums = (np.bincount(groups, x, count) for x in of_clusters)
    columns = (heaviest, greatest, *sums[:2], of_units, *sums[2:])
    return [
        Moments(int(of), int(number), *row)
        for of, number, *row in zip(*(x.tolist() for x in (units, seen, *columns)), strict=True)
    ]


POWERS = (
    *((1, 0), (0, 1), (2, 0), (1, 1), (0, 2), (2, 2), (1, 3), (0, 4)),
    *((2, -1), (3, -1), (4, -2)),
)
"""Of a and b, in the order in which `Moments` has their sums."""


def weighted_mean(
    found: Moments,
    *,
    level: float = 0.95,
    least_chance: float | None = None,
    bounds: tuple[float, float] = (0, 1),
) -> Estimate:
    """Hajek's mean of what `found` sums up, and its interval; `n` counts the clusters.

    A unit at the bound is added to the sample, as in `mean`, that weighs as much as one unit more
    may: as one that was drawn with `least_chance`, the least chance with which anything in question
    was drawn, whether or not it was; not given, the least that was seen. So the interval also holds
    the mean where a stratum of which little is drawn has given nothing, and where all pass.
    Independent units of equal weight that pass or fail have the interval of `rate`. Raises
    NotEstimableError where there are no units.

    >>> estimate = weighted_mean(moments([1, 1, 0, 1], [1, 1, 1, 0.1]))
    >>> round(estimate.value, 3), round(estimate.effective_n, 2)
    (0.923, 1.64)
    """
    return weighted_means([found], level=level, least_chance=least_chance, bounds=bounds)[0]


def weighted_means(
    found: Sequence[Moments],
    *,
    level: float = 0.95,
    least_chance: float | None = None,
    bounds: tuple[float, float] = (0, 1),
) -> list[Estimate]:
    """`weighted_mean` of each, in one go: a hundred take little longer than one.

    Raises as that does.
    """
    require_level(level)
    if least_chance is not None and not 0 < least_chance <= 1:
        raise ValueError(f"least_chance {least_chance:g}: give a chance above 0, up to 1")
    if not all(x.units for x in found):
        raise NotEstimableError(_NO_VALUES)
    least = least_chance or 1.0
    counts = [least == 1 and _is_count(x) for x in found]
    weighed = [x for x, is_count in zip(found, counts, strict=True) if not is_count]
    estimates = iter(_weighed(weighed, level, least) if weighed else ())
    return [
        rescaled(rate(round(x.a), x.units, level=level) if is_count else next(estimates), bounds)
        for x, is_count in zip(found, counts, strict=True)
    ]


_OF_SPREAD = attrgetter(*(x.name for x in fields(Spread)))


def _weighed(found: Sequence[Moments], level: float, least_chance: float) -> list[Estimate]:
    """Hajek's means with intervals from the moments."""
    spreads = np.array([_OF_SPREAD(x.spread()) for x in found]).T
    heaviest = [x.units / x.clusters * max(x.greatest, 1 / least_chance) / x.b for x in found]
    efficiency = [x.b**2 / x.squared_weights / x.units for x in found]
    lows, highs = limits_of(
        Spread(*spreads), level, heaviest=np.array(heaviest), efficiency=np.array(efficiency)
    )
    return [
        Estimate(
            x.value, x.clusters, Interval(float(low), float(high), level), "Hajek", x.effective_n
        )
        for x, low, high in zip(found, lows, highs, strict=True)
    ]


def weighted_values(
    values: Sequence[float] | Numbers,
    chances: Sequence[float] | Numbers,
    bounds: tuple[float, float],
) -> tuple[Numbers, Numbers, Numbers]:
    """The weighted values on the scale 0..1, the weights, and the values on that scale."""
    low, high = bounds
    y, p = (np.asarray(values, float) - low) / (high - low), np.asarray(chances, float)
    if y.shape != p.shape:
        raise ValueError(f"{len(y)} values beside {len(p)} chances: give a chance for each value")
    if not ((y >= -1e-9) & (y <= 1 + 1e-9)).all():
        raise ValueError(f"values: each must lie from {low:g} to {high:g}")
    if not ((p > 0) & (p <= 1)).all():
        raise ValueError("chances: each must lie above 0, up to 1")
    y = np.clip(y, 0, 1)
    weights: Numbers = 1 / p
    return y * weights, weights, y


def _is_count(found: Moments) -> bool:
    """Whether the units are independent, of weight 1, and pass or fail."""
    return found.b == found.b2 == found.units == found.clusters and found.a == found.squares


def shares_of(n: int, weights: Sequence[float] | None) -> Numbers:
    """The weights as shares of their sum. Raises ValueError where one is not above 0."""
    if weights is None:
        return np.full(n, 1 / n)
    w = np.asarray(weights, float)
    if w.shape != (n,) or not (np.isfinite(w) & (w > 0)).all():
        raise ValueError("weights: give one finite number above 0 for each value")
    shares: Numbers = w / w.sum()
    return shares


def grouped(clusters: Sequence[Hashable], *parts: Numbers) -> list[Numbers]:
    """The sums of each of `parts` over the units of each cluster."""
    places = numbered(clusters)
    if len(places) != len(parts[0]):
        raise ValueError(_NOT_EACH)
    return [np.bincount(places, part).astype(float) for part in parts]


_NOT_EACH = "clusters: name one for each value"


def numbered(clusters: Sequence[Hashable]) -> Any:
    """The numbers of these clusters, from 0, in the order in which they first occur."""
    numbers: dict[Hashable, int] = {}
    return np.array([numbers.setdefault(x, len(numbers)) for x in clusters], int)


def rescaled(estimate: Estimate, bounds: tuple[float, float]) -> Estimate:
    """An estimate on the scale 0..1, on that of `bounds`."""
    low, width = bounds[0], bounds[1] - bounds[0]
    interval = estimate.interval
    if interval is not None:
        interval = Interval(low + width * interval.low, low + width * interval.high, interval.level)
    return replace(estimate, value=low + width * estimate.value, interval=interval)


def named(estimate: Estimate, is_weighted: bool, is_clustered: bool) -> Estimate:
    """The estimate of a mean with the name of its method."""
    if estimate.method == "Blaker":
        return replace(estimate, effective_n=None)
    kinds = [
        name for name, holds in (("weighted", is_weighted), ("clustered", is_clustered)) if holds
    ]
    number = estimate.effective_n if kinds else None
    return replace(estimate, effective_n=number, method=" ".join([_METHOD, *kinds]))


def outweighed(estimate: Estimate, found: Moments, heaviest: str) -> Estimate:
    """The estimate with a note that names its heaviest cluster."""
    return replace(estimate, note=f"{heaviest} has {100 * found.outweighing:.3g} % of the scores")


def connected(groups: Iterable[Iterable[Hashable]]) -> list[int]:
    """For each unit the number of its cluster, from 0; `groups` has the groups that each unit
    belongs to.

    Units that share a group are in one cluster, also by way of others. A unit of no group is a
    cluster by itself.

    >>> connected([{"a"}, {"b"}, {"a", "c"}, {"c"}, ()])
    [0, 1, 0, 0, 2]
    """
    above: list[int] = []
    first: dict[Hashable, int] = {}
    for unit, own in enumerate(groups):
        above.append(unit)
        for group in own:
            above[_top(above, first.setdefault(group, unit))] = _top(above, unit)
    numbers: dict[int, int] = {}
    return [numbers.setdefault(_top(above, unit), len(numbers)) for unit in range(len(above))]


def design_effect(pulls: Numbers, clusters: Sequence[Hashable]) -> float:
    """By how much `clusters` multiply the variance of an estimate, at least 1; `pulls` are the
    units' parts of it.

    The ratio of the variance between clusters to that of independent units (Kish 1965, "Survey
    sampling"), both with one degree of freedom less than there are. A count of units divided by it
    tells as much as that many independent ones: Rao and Scott (1992, "A simple method for the
    analysis of clustered binary data"). Where there is one cluster, or no spread, the mean size of
    a cluster.

    >>> round(
    ...     design_effect(
    ...         np.array([0.5, 0.5, -0.5, -0.5, 0.5, -0.5]), ["a", "a", "b", "b", "c", "d"]
    ...     ),
    ...     2,
    ... )
    1.85
    """
    [cluster_pulls] = grouped(clusters, pulls)
    return float(effect_between(pulls, cluster_pulls))


def effect_between(pulls: Numbers, cluster_pulls: Numbers) -> Any:
    """The design effect, of pulls by unit and added up by cluster; arrays may have further axes in
    front.
    """
    n, count = pulls.shape[-1], cluster_pulls.shape[-1]
    spread, between = (pulls**2).sum(-1), (cluster_pulls**2).sum(-1)
    size = np.full(spread.shape, n / count)
    if count < 2:
        return size
    scale = count / n * (n - 1) / (count - 1)
    return np.maximum(1.0, np.divide(between * scale, spread, out=size, where=spread > 0))


def effective_number(
    passed: Sequence[float],
    *,
    weights: Sequence[float] | None = None,
    clusters: Sequence[Hashable] | None = None,
) -> float:
    """How many independent units of equal weight tell a rate as well as these, of which each
    `passed` (1) or not (0).

    Kish's number of the weights, divided by the design effect of the clusters.

    >>> effective_number([1, 0, 1, 1], weights=[1, 1, 1, 3])
    3.0
    """
    shares = shares_of(len(passed), weights)
    number = float(1 / (shares @ shares))
    if clusters is None:
        return number
    x = np.asarray(passed, float)
    return number / design_effect(shares * (x - shares @ x), clusters)


def _top(above: list[int], unit: int) -> int:
    """The unit that stands for the cluster of `unit`; what is passed on the way then points nearer
    to it.
    """
    while above[unit] != unit:
        above[unit] = above[above[unit]]
        unit = above[unit]
    return unit


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
