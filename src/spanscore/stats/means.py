"""Means of bounded scores, and rates."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence
from functools import lru_cache
from math import exp, lgamma
from typing import Any, TypeAlias

from spanscore.lazy_imports import NDArray, np
from spanscore.stats.distributions import beta_cdf, beta_quantile, normal_quantile, student_quantile
from spanscore.stats.estimate import Estimate, Interval, NotEstimableError, crossing, require_level

Numbers: TypeAlias = "NDArray[np.float64]"

_FEW, _ENOUGH = 15.0, 30.0
"""On fewer observations a variance says too little of how far the mean may be off; on more it says
enough alone.

Found by simulation: higher ones cover close scores too often at n = 100, lower ones leave skewed
scores less room.
"""

_METHOD = "Learned-Miller and Thomas to Student"

_HEAVY = 8.0
"""By how much heavy units that were seen count less at most; found by simulation, see
docs/statistics.md.
"""


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
    require_level(level)
    x = _scaled(values, bounds)
    if weights is None and clusters is None and np.isin(x, (0, 1)).all():
        counted = rate(int(x.sum()), len(x), level=level)
        return counted if bounds == (0, 1) else rescaled(counted, bounds)
    shares = shares_of(len(x), weights)
    center = float(shares @ x)
    pulls = shares * (x - center)
    if clusters is not None:
        shares, pulls = grouped(clusters, shares, pulls)
    low, high = bounded_limits(center, shares, pulls, level)
    effective = None if weights is None and clusters is None else float(1 / (shares @ shares))
    interval = Interval(float(low), float(high), level)
    return rescaled(
        Estimate(center, len(shares), interval, _method(weights, clusters), effective), bounds
    )


def mean_from_sums(
    center: float,
    clusters: int,
    of_shares: tuple[float, float],
    of_pulls: tuple[float, float],
    *,
    level: float = 0.95,
    kinds: Sequence[str] = (),
    bounds: tuple[float, float] = (0, 1),
) -> Estimate:
    """As `mean`, where something else has added up: `center` is the mean on the scale 0..1, of so
    many clusters.

    The sums are those of `limits_from_sums`; `kinds` says whether units are "weighted" or
    "clustered".
    """
    require_level(level)
    shares, pulls = np.asarray(of_shares, float), np.asarray(of_pulls, float)
    low, high = limits_from_sums(center, (shares[0], shares[1]), (pulls[0], pulls[1]), level)
    interval = Interval(float(low), float(high), level)
    effective = 1 / of_shares[0] if kinds else None
    return rescaled(
        Estimate(center, clusters, interval, " ".join((_METHOD, *kinds)), effective), bounds
    )


def bounded_limits(
    center: Any, shares: Numbers, pulls: Numbers, level: float, *, variance: Any = 0.0
) -> tuple[Any, Any]:
    """Limits for a mean `center` on the scale 0..1, whose units have `shares` of the weight.

    `pulls` are the units' shares times their distances from the mean; arrays may have further axes
    in front. Learned- Miller and Thomas (2019, "A new confidence interval for the mean of a bounded
    random variable") add one unit at the bound to the sample and take a quantile of its mean under
    uniformly random weights; for a rate that is Clopper and Pearson's limit. Here the random mean
    has the beta distribution of the same mean and variance, and the added unit counts less the more
    observations the variance rests on, down to the limits of Student's t. Of uneven weights the
    variance rests on the few large ones, and has as many degrees of freedom as the squared sum of
    their squares by the sum of their fourth powers, less one. `variance` is a further one of the
    mean, known well.
    """
    sums = ((shares**2).sum(-1), (shares**4).sum(-1)), ((pulls**2).sum(-1), (pulls**4).sum(-1))
    return limits_from_sums(center, *sums, level, variance=variance)


def limits_from_sums(
    center: Any,
    of_shares: tuple[Any, Any],
    of_pulls: tuple[Any, Any],
    level: float,
    *,
    variance: Any = 0.0,
    heaviest: Any = None,
) -> tuple[Any, Any]:
    """As `bounded_limits`, from the sums of squares and of fourth powers of the shares and of the
    pulls.

    `heaviest` is the share of the weight that one unit more may have, where weights are the inverse
    of inclusion probabilities: the added unit then has this share, and it fades out only as far as
    such heavy units were seen. A stratum of which few units are drawn may have given none of the
    kind that would move the mean.
    """
    (square, quartic), (spread, fourth) = of_shares, of_pulls
    n, carriers = 1 / square, square**2 / quartic
    rests_on = np.divide(spread**2, fourth, out=np.zeros_like(spread), where=fourth > 1e-60)
    if heaviest is None:
        # Uneven weights are reckoned with below too; half of what they do to the count is enough
        # here.
        units, seen = 1.0, rests_on * np.sqrt(n / carriers)
    else:
        units = np.maximum(heaviest * n, 1.0)
        seen = np.minimum(rests_on, n / units**2 / np.minimum(units, _HEAVY))
    added = np.clip((_ENOUGH - seen) / (_ENOUGH - _FEW), 0, 1)
    even, uneven = (student_quantile((1 + level) / 2, np.maximum(x - 1, 1)) for x in (n, carriers))
    ratio = even / normal_quantile((1 + level) / 2)
    widened = (uneven / even) ** 2 * (
        1 + (1 - added) * (ratio**2 * (n + 1) / np.maximum(n - 1, 1) - 1)
    )
    within = spread * n * n  # equal shares: the sum of squared distances
    limits = []
    for bound, share in ((0.0, (1 - level) / 2), (1.0, (1 + level) / 2)):
        more = added * units
        total = n + more
        shifted = center + more / total * (bound - center)
        own = (
            (within + n * more * units / total * (bound - center) ** 2)
            / (total * (total + 1))
            * widened
        )
        limits.append(_matched(shifted, own + variance, share))
    return np.where(center <= 0, 0.0, limits[0]), np.where(center >= 1, 1.0, limits[1])


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
    numbers: dict[Hashable, int] = {}
    places = [numbers.setdefault(x, len(numbers)) for x in clusters]
    if len(places) != len(parts[0]):
        raise ValueError("clusters: name one for each value")
    return [np.bincount(places, part).astype(float) for part in parts]


def _matched(center: Any, variance: Any, share: float) -> Any:
    """The quantile of the beta distribution with this mean and variance."""
    center = np.clip(center, 1e-9, 1 - 1e-9)
    most = center * (1 - center)
    units = most / np.clip(variance, 1e-12 * most, 0.999999 * most) - 1
    return beta_quantile(share, center * units, (1 - center) * units)


def _scaled(values: Sequence[float], bounds: tuple[float, float]) -> Numbers:
    low, high = bounds
    if not len(values):
        raise NotEstimableError("there are no values")
    x = (np.asarray(values, float) - low) / (high - low)
    if not ((x >= -1e-9) & (x <= 1 + 1e-9)).all():
        raise ValueError(f"values: each must lie from {low:g} to {high:g}")
    return np.clip(x, 0, 1)


def rescaled(estimate: Estimate, bounds: tuple[float, float]) -> Estimate:
    """An estimate on the scale 0..1, on that of `bounds`."""
    low, width = bounds[0], bounds[1] - bounds[0]
    interval = estimate.interval
    if interval is not None:
        interval = Interval(low + width * interval.low, low + width * interval.high, interval.level)
    value = low + width * estimate.value
    return Estimate(
        value, estimate.n, interval, estimate.method, estimate.effective_n, estimate.note
    )


def _method(weights: object, clusters: object) -> str:
    how = [
        name
        for name, given in (("weighted", weights), ("clustered", clusters))
        if given is not None
    ]
    return " ".join([_METHOD, *how])


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
