"""The mean of bounded scores, of units that may have weights or come in clusters, with an interval
also for few.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any, TypeAlias

from spanscore.arrays import NDArray, np
from spanscore.stats.distributions import beta_quantile, normal_quantile, student_quantile
from spanscore.stats.estimate import Estimate, Interval, NotEstimableError, require_level
from spanscore.stats.rates import rate

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
