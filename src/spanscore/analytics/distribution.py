"""Distributions of a metric's values and labels."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from sqlalchemy.engine import Connection

from spanscore.analytics.figures import (
    NO_VALUES,
    ONE_SESSION,
    Figure,
    moments,
    share_figures,
    without_interval,
)
from spanscore.analytics.selection import Part, Selected, Selection, select
from spanscore.analytics.summary import bounds_of
from spanscore.errors import FieldError
from spanscore.stats import Estimate
from spanscore.stats.distributions import beta_quantile
from spanscore.stats.estimate import Interval
from spanscore.stats.weighted import independent_verdicts
from spanscore.store import sums
from spanscore.store.sums import Scores, Sums

MAX_BINS = 100
MAX_QUANTILES = 20
MAX_LABELS = 100
MAX_DISTRIBUTIONS = 50
"""Metrics of one answer: each takes several passes over its scores."""


@dataclass(frozen=True, slots=True)
class Bin:
    """The values from `low` to before `high`, in the last bin to `high`; `share` is that of all
    that have a value.
    """

    low: float
    high: float
    scores: int
    share: Figure


@dataclass(frozen=True, slots=True)
class Label:
    """A label, None for scores without one; `share` is that of all scores."""

    label: str | None
    scores: int
    share: Figure


@dataclass(frozen=True, slots=True)
class Quantile:
    """The lowest value that `share` of the scores do not exceed."""

    share: float
    figure: Figure


@dataclass(frozen=True, slots=True)
class Distribution:
    """Of one metric from one source; a scale of None is not recorded, and bins then lie between
    lowest and highest.
    """

    metric: str
    scope: str
    source: str
    scale: tuple[float, float] | None
    bins: Sequence[Bin]
    labels: Sequence[Label]
    quantiles: Sequence[Quantile]


def distributions(
    connection: Connection, selection: Selection, count: int, shares: Sequence[float], level: float
) -> list[Distribution]:
    """The distribution of each metric, scope and source, in `count` bins and the quantiles at
    `shares`.

    Raises FieldError where the question cannot be right.
    """
    _check(count, shares)
    selected = select(connection, selection)
    parts = [x for x in selected.parts if x.scored]
    if len(parts) > MAX_DISTRIBUTIONS:
        raise FieldError(
            "selection.filter",
            f"is met by {len(parts)} metrics; at most {MAX_DISTRIBUTIONS} are taken: name some",
        )
    found = [_distribution(connection, selected, part, count, shares, level) for part in parts]
    return [x for x in found if x.labels]


def _check(count: int, shares: Sequence[float]) -> None:
    if not 1 <= count <= MAX_BINS:
        raise FieldError("bins", f"{count}: give a number from 1 to {MAX_BINS}")
    if len(shares) > MAX_QUANTILES:
        raise FieldError("quantiles", f"{len(shares)} of them; at most {MAX_QUANTILES} are taken")
    for share in shares:
        if not 0 < share < 1:
            raise FieldError("quantiles", f"{share:g}: give a share between 0 and 1, such as 0.9")


def _distribution(
    connection: Connection,
    selected: Selected,
    part: Part,
    count: int,
    shares: Sequence[float],
    level: float,
) -> Distribution:
    low, high = bounds_of(connection, selected, part)
    scores = selected.scores(part.scored)
    named = sums.labels(connection, scores, MAX_LABELS)
    of_labels = share_figures([x.sums for x in named], NO_VALUES, level=level)
    labels = [Label(x.category, x.scores, share) for x, share in zip(named, of_labels, strict=True)]
    if not labels or not math.isfinite(high - low):
        return Distribution(part.metric, part.scope, part.source, part.scale, (), labels, ())
    edges = [low + (high - low) * x / count for x in range(count)] + [high]
    found = {x.category: x for x in sums.bins(connection, scores, edges)}
    binned = [found.get(x) or _empty(found) for x in range(count)] if found else []
    of_bins = share_figures([x.sums for x in binned], NO_VALUES, level=level)
    bins = [Bin(edges[x], edges[x + 1], binned[x].scores, of_bins[x]) for x in range(len(binned))]
    quantiles = _quantiles(connection, scores, shares, level) if found else ()
    return Distribution(part.metric, part.scope, part.source, part.scale, bins, labels, quantiles)


def _empty(found: Mapping[int, sums.Share]) -> sums.Share:
    """The share of a bin without values."""
    others = next(iter(found.values())).sums
    powers = tuple(0.0 if i else x for x, (i, _) in zip(others.powers, sums.POWERS, strict=True))
    return sums.Share(None, 0, others._replace(squares=0.0, powers=powers))


def _quantiles(
    connection: Connection, scores: Scores, shares: Sequence[float], level: float
) -> list[Quantile]:
    """By Woodruff's method: the quantiles at the limits of the share that does not exceed the
    quantile.

    These limits are Korn and Graubard's, exact ones for as many independent scores as have the
    share's variance.
    """
    if not shares:
        return []
    values = sums.quantiles(connection, scores, shares)
    if None in values:
        return [Quantile(x, Figure(None, 0, 0, NO_VALUES)) for x in shares]
    below = sums.at_most(connection, scores, [x for x in values if x is not None])
    limits = [
        x for share, found in zip(shares, below, strict=True) for x in _limits(share, found, level)
    ]
    ends = sums.quantiles(connection, scores, limits)
    return [
        Quantile(share, _quantile(value, (ends[2 * n], ends[2 * n + 1]), below[n], level))
        for n, (share, value) in enumerate(zip(shares, values, strict=True))
    ]


def _limits(share: float, sums: Sums, level: float) -> tuple[float, float]:
    n = max(1.0, independent_verdicts(moments(sums)))
    low = float(beta_quantile((1 - level) / 2, share * n, (1 - share) * n + 1))
    high = float(beta_quantile((1 + level) / 2, share * n + 1, (1 - share) * n))
    return low, high


def _quantile(
    value: float | None, ends: tuple[float | None, float | None], sums: Sums, level: float
) -> Figure:
    n = independent_verdicts(moments(sums))
    estimate = Estimate(value or 0.0, sums.clusters, None, "Woodruff, Korn and Graubard", n)
    low, high = ends
    if sums.clusters < 2 or low is None or high is None:
        return Figure(without_interval(estimate, ONE_SESSION), sums.units, sums.clusters)
    interval = Interval(low, high, level)
    return Figure(
        Estimate(estimate.value, estimate.n, interval, estimate.method, n),
        sums.units,
        sums.clusters,
    )
