"""Distributions of a metric's values and labels."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from sqlalchemy import ColumnElement, case, desc, func, literal, select as query
from sqlalchemy.engine import Connection

from spanscore.analytics.figures import (
    NO_VALUES,
    ONE_SESSION,
    Figure,
    share_figures,
    without_interval,
)
from spanscore.analytics.selection import Part, Selected, Selection, select
from spanscore.errors import FieldError
from spanscore.lazy_imports import np
from spanscore.stats import Estimate, Moments
from spanscore.stats.distributions import beta_quantile
from spanscore.stats.estimate import Interval
from spanscore.stats.means import moments_by_group
from spanscore.stats.weighted import independent_verdicts
from spanscore.store.connections import in_threads
from spanscore.store.schema import scores as scores_table

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

    def work(part: Part) -> Callable[[Connection], Distribution]:
        return lambda own: _distribution(own, selected, part, count, shares, level)

    found = in_threads(connection, [work(part) for part in parts])
    return [x for x in found if x.labels]


def _check(count: int, shares: Sequence[float]) -> None:
    if not 1 <= count <= MAX_BINS:
        raise FieldError("bins", f"{count}: give a number from 1 to {MAX_BINS}")
    if len(shares) > MAX_QUANTILES:
        raise FieldError("quantiles", f"{len(shares)} of them; at most {MAX_QUANTILES} are taken")
    for share in shares:
        if not 0 < share < 1:
            raise FieldError("quantiles", f"{share:g}: give a share between 0 and 1, such as 0.9")


@dataclass(frozen=True, slots=True)
class _Scores:
    """Scores as arrays: the numbers of their labels, their values, their weights and the numbers of
    their clusters.
    """

    labels: Any
    values: Any
    weights: Any
    clusters: Any

    def having(self, is_had: Any) -> "_Scores":
        """Those for which it holds."""
        own = (self.labels, self.values, self.weights, self.clusters)
        return _Scores(*(x[is_had] for x in own))

    def share(self, holds: Any) -> Moments:
        """The moments of the indicator that it holds for a score."""
        groups = np.zeros(int(self.clusters.max(initial=-1)) + 1, int)
        indicator = np.asarray(holds, float)
        return moments_by_group(indicator, self.weights, self.clusters, groups, 1)[0]

    def quantiles(self, shares: Sequence[float]) -> list[float]:
        """For each of `shares` the lowest value that so much of the weight does not exceed."""
        order = np.argsort(self.values, kind="stable")
        reached = np.cumsum(self.weights[order])
        enough = np.array([reached[-1] * (x - _ROUNDING) for x in shares])
        return list(self.values[order][np.searchsorted(reached, enough)].tolist())


_ROUNDING = 1e-12


def _distribution(
    connection: Connection,
    selected: Selected,
    part: Part,
    count: int,
    shares: Sequence[float],
    level: float,
) -> Distribution:
    table, conditions = scores_table.c, selected.scores(part.scored).conditions()
    counted = query(table.label, func.count().label("n")).where(*conditions).group_by(table.label)
    most = counted.order_by(desc("n"), table.label.nulls_last()).limit(MAX_LABELS)
    counts = connection.execute(most).all()
    scores = _read(connection, part, conditions, [x.label for x in counts])
    of_labels = [scores.share(scores.labels == x) for x in range(len(counts))]
    figures = share_figures(of_labels, NO_VALUES, level=level)
    labels = [Label(x.label, x.n, share) for x, share in zip(counts, figures, strict=True)]
    known = scores.having(~np.isnan(scores.values))
    low, high = part.bounds(known.values)
    if not (len(known.values) and math.isfinite(high - low)):
        return Distribution(part.metric, part.scope, part.source, part.scale, (), labels, ())
    bins = _bins(known, [low + (high - low) * x / count for x in range(count)] + [high], level)
    found = zip(shares, known.quantiles(shares), strict=True)
    quantiles = [Quantile(share, _quantile(known, value, share, level)) for share, value in found]
    return Distribution(part.metric, part.scope, part.source, part.scale, bins, labels, quantiles)


def _read(
    connection: Connection,
    part: Part,
    conditions: Sequence[ColumnElement[bool]],
    labels: Sequence[str | None],
) -> _Scores:
    """Read the scores of a part row by row: each value as it is, a label as its place in
    `labels`.
    """
    table = scores_table.c
    numbers = [(table.label.is_not_distinct_from(x), n) for n, x in enumerate(labels)]
    label = case(*numbers, else_=-1) if numbers else literal(-1)
    wanted = query(table.procedure, table.cluster, label, table.value).where(*conditions)
    rows = connection.execute(wanted).all()
    procedures, clusters, places, values = zip(*rows, strict=True) if rows else [()] * 4
    weights = {x.id: 1 / x.sampling for x in part.scored}
    return _Scores(
        np.array(places, int),
        np.array(values, float),
        np.array([weights[x] for x in procedures], float),
        np.unique(np.array(clusters, np.int64), return_inverse=True)[1],
    )


def _bins(known: _Scores, edges: Sequence[float], level: float) -> list[Bin]:
    """The shares of the values between two `edges`; what lies beyond counts to the first or the
    last.
    """
    place = np.searchsorted(np.array(edges[1:-1]), known.values, "right")
    moments = [known.share(place == x) for x in range(len(edges) - 1)]
    figures = share_figures(moments, NO_VALUES, level=level)
    counts = np.bincount(place, None, len(edges) - 1).tolist()
    return [Bin(*x) for x in zip(edges, edges[1:], counts, figures, strict=False)]


def _quantile(known: _Scores, value: float, share: float, level: float) -> Figure:
    """By Woodruff's method: the quantiles at the limits of the share that does not exceed the
    quantile.

    These limits are Korn and Graubard's, exact ones for as many independent scores as have the
    share's variance.
    """
    below = known.share(known.values <= value)
    number = independent_verdicts(below)
    estimate = Estimate(value, below.clusters, None, "Woodruff, Korn and Graubard", number)
    if below.clusters < 2:
        return Figure(without_interval(estimate, ONE_SESSION), below.units, below.clusters)
    n = max(1.0, number)
    limits = (
        float(beta_quantile((1 - level) / 2, share * n, (1 - share) * n + 1)),
        float(beta_quantile((1 + level) / 2, share * n + 1, (1 - share) * n)),
    )
    low, high = known.quantiles(limits)
    interval = Interval(low, high, level)
    return Figure(replace(estimate, interval=interval), below.units, below.clusters)
