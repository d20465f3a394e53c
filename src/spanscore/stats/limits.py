"""Limits of means of bounded scores."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeAlias

from spanscore.lazy_imports import NDArray, np
from spanscore.stats.distributions import beta_quantile, normal_quantile, student_quantile

Numbers: TypeAlias = "NDArray[np.float64]"

_FEW, _ENOUGH = 15.0, 30.0
"""On fewer observations a variance says too little of how far the mean may be off; on more it says
enough alone.

Found by simulation: higher ones cover close scores too often at n = 100, lower ones leave skewed
scores less room.
"""

_HEAVY = 8.0
"""By how much heavy units that were seen count less at most; found by simulation, see
docs/statistics.md.
"""

_ERRORS = 1.2
"""How many standard errors the likeness of a cluster's units is taken to be below its estimate."""


@dataclass(frozen=True, slots=True)
class Spread:
    """What a mean's limits rest on; the numbers may be arrays, one of each mean.

    Weights are shares of their sum: `square` is the sum of the clusters' squared shares,
    `unit_square` that of the units', `typical` the sum of the clusters' mean unit shares. `within`
    is the variance of the units' values. A cluster's pull is its share times its distance from the
    mean: `pulls` is the sum of their squares, `heavy` of these times the squared shares, `between`
    of these by the shares, `fourth` that of the squares of the latter.
    """

    center: Any
    clusters: Any
    square: Any
    unit_square: Any
    typical: Any
    within: Any
    pulls: Any
    heavy: Any
    between: Any
    fourth: Any

    @property
    def likeness(self) -> Any:
        """How alike the units of a cluster are, from 0 to 1, as far as it is beyond doubt: the
        intraclass correlation, less some standard errors.
        """
        apart = self.typical - self.unit_square
        most = 1 - self.square - apart
        is_known = (most > 1e-9) & (self.within > 0)
        scale = np.where(is_known, most * self.within, 1.0)
        found = (self.between - apart * self.within) / scale
        doubt = np.sqrt(np.maximum(self.fourth - self.between**2 / self.clusters, 0)) / scale
        return np.where(is_known, np.clip(found - _ERRORS * doubt, 0, 1), 1.0)


def bounded_limits(
    center: Any, shares: Numbers, pulls: Numbers, level: float, *, variance: Any = 0.0
) -> tuple[Any, Any]:
    """Limits for a mean `center` on the scale 0..1, of units that have `shares` of the weight and
    are each a cluster by itself.

    `pulls` are the units' shares times their distances from the mean, or more, where other units
    have a part in the mean; `variance` is a further one of the mean, known well. Arrays may have
    further axes in front.
    """
    square, spread = (shares**2).sum(-1), (pulls**2).sum(-1)
    between, fourth = spread / square, (pulls**4).sum(-1) / square**2
    of_all = (square, square, 1.0, between, spread, spread * square**2, between, fourth)
    return limits_of(Spread(center, shares.shape[-1], *of_all), level, variance=variance)


def limits_of(
    found: Spread, level: float, *, heaviest: Any = 0.0, efficiency: Any = 1.0, variance: Any = 0.0
) -> tuple[Any, Any]:
    """Limits for a mean on the scale 0..1.

    Learned-Miller and Thomas (2019, "A new confidence interval for the mean of a bounded random
    variable") add one unit at the bound to the sample and take a quantile of its mean under
    uniformly random weights; for a rate that is Clopper and Pearson's limit. Here the random mean
    has the beta distribution of the same mean and variance, and the added unit counts less the more
    observations the variance rests on, down to the limits of Student's t with one degree of freedom
    less than there are clusters.

    The variance is the greater of two: that of the clusters' pulls, each divided by about 1 less
    its share (Bell and McCaffrey 2002), and that of units which are alike within clusters as far as
    is beyond doubt (Korn and Graubard 1998 count effective units so). `heaviest` is the share of
    the weight that one unit more may have, where weights are the inverse of inclusion
    probabilities, and `efficiency` Kish's number of the units by their number: the added unit then
    has this share, and fades out only as far as such heavy units were seen.
    """
    n = 1 / found.square
    likeness = found.likeness
    own = found.square * likeness + found.unit_square * (1 - likeness)
    spread = np.maximum(_robust(found), found.within * own)
    typical = np.sqrt(n * found.clusters)
    count = found.clusters * efficiency
    units = np.maximum(1.0, heaviest * count)
    rests_on = _ratio(found.between**2, found.fourth)
    seen = np.minimum(rests_on, count / units**2 / np.minimum(units, _HEAVY))
    added = np.clip((_ENOUGH - seen) / (_ENOUGH - _FEW), 0, 1)
    unit = np.maximum(1 / typical, heaviest)
    degrees = np.maximum(found.clusters - 1.0, 1)
    ratio = student_quantile((1 + level) / 2, degrees) / normal_quantile((1 + level) / 2)
    widened = 1 + (1 - added) * (ratio**2 * (n + 1) / np.maximum(n - 1, 1e-9) - 1)
    more = added * unit
    limits = []
    for bound, share in ((0.0, (1 - level) / 2), (1.0, (1 + level) / 2)):
        away = bound - found.center
        shifted = found.center + more / (1 + more) * away
        around = spread + more * unit / (1 + more) * away**2
        of_all = around / (1 + more) / (1 + more + unit) * widened
        limits.append(_matched(shifted, of_all + variance, share))
    return (
        np.where(found.center <= 0, 0.0, limits[0]),
        np.where(found.center >= 1, 1.0, limits[1]),
    )


def _robust(found: Spread) -> Any:
    """The variance by the clusters' pulls, nearly the jackknife's; of equal ones the sum of their
    squares.
    """
    share = np.sqrt(_ratio(found.heavy, found.pulls))
    return found.pulls * _ratio(1 - found.square, 1 - share, 1.0) ** 2


def _ratio(a: Any, b: Any, otherwise: Any = 0.0) -> Any:
    a, b, otherwise = np.broadcast_arrays(*(np.asarray(x, float) for x in (a, b, otherwise)))
    return np.divide(a, b, out=otherwise.copy(), where=b > 1e-60)


def _matched(center: Any, variance: Any, share: float) -> Any:
    """The quantile of the beta distribution with this mean and variance."""
    center = np.clip(center, 1e-9, 1 - 1e-9)
    most = center * (1 - center)
    units = most / np.clip(variance, 1e-12 * most, 0.999999 * most) - 1
    return beta_quantile(share, center * units, (1 - center) * units)
