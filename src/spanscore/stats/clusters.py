"""Units that come in clusters, such as the turns of one session: which those are, and how much less
they tell.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from typing import Any

from spanscore.arrays import np
from spanscore.stats.means import Numbers, grouped, shares_of


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
