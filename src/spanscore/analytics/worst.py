"""The worst sessions."""

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from sqlalchemy.engine import Connection

from spanscore.analytics.selection import Part, Selection, select
from spanscore.lazy_imports import np
from spanscore.store import session_ranks
from spanscore.store.connections import in_threads
from spanscore.store.selections import NO_VERDICT, Columns, columns
from spanscore.store.session_ranks import Described


class Ranked(NamedTuple):
    """A session, or a trace that belongs to none.

    `judged` scores are known to pass or fail, of which `failing` fail. `fail_rate` and `mean`
    weight each by the inverse of its chance of being drawn; the mean is that of the values on the
    scale 0..1, where one is recorded.
    """

    stored: Described
    scores: int
    judged: int
    failing: int
    fail_rate: float | None
    mean: float | None


class Worst(NamedTuple):
    """Some of the ranked, and how many there are in all."""

    ranked: list[Ranked]
    total: int


def worst(connection: Connection, selection: Selection, limit: int, offset: int) -> Worst:
    """The sessions with the greatest share of failing scores first; of equal ones those with the
    lowest mean.

    Raises FieldError where the selection cannot be right.
    """
    selected = select(connection, selection)

    def work(part: Part) -> Callable[[Connection], Sequence[Any]]:
        names = ("number", "cluster", "passing", "value")
        scores = selected.scores(part.scored)
        return lambda own: _scaled(part, columns(own, scores, names, part.scale))

    found = in_threads(connection, [work(x) for x in selected.parts if x.scored])
    if not found:
        return Worst([], 0)
    number, cluster, passing, weights, values = map(np.concatenate, zip(*found, strict=True))
    clusters, place = np.unique(cluster, return_inverse=True)

    def summed(amounts: Any) -> Any:
        return np.bincount(place, amounts, len(clusters))

    is_judged, fails, is_known = passing != NO_VERDICT, passing == 0, ~np.isnan(values)
    with np.errstate(invalid="ignore"):  # of nothing there is no rate
        fail_rate = summed(fails * weights) / summed(is_judged * weights)
        mean = summed(np.where(is_known, values, 0) * weights) / summed(is_known * weights)
    order = np.lexsort(
        (clusters, np.nan_to_num(mean, nan=2.0), -np.nan_to_num(fail_rate, nan=-1.0))
    )
    last = np.full(len(clusters), np.iinfo(np.int64).min)
    np.maximum.at(last, place, number)
    counts = last, summed(None), summed(is_judged).astype(int), summed(fails).astype(int)
    wanted = order[offset : offset + limit]
    rows = list(zip(*(x[wanted].tolist() for x in (*counts, fail_rate, mean)), strict=True))
    described = session_ranks.described(connection, selection.tenant, [x[0] for x in rows])
    ranked = [
        Ranked(described.get(id_, Described()), count, judged, failing, _known(rate), _known(value))
        for id_, count, judged, failing, rate, value in rows
    ]
    return Worst(ranked, len(clusters))


def _known(rate: float) -> float | None:
    return None if math.isnan(rate) else rate


def _scaled(part: Part, found: Columns) -> Sequence[Any]:
    """The numbers, clusters, verdicts and weights of scores, and their values on the scale 0..1 of
    their own procedure; not a number where that has none.
    """
    ids, procedure = np.unique(found["procedure"], return_inverse=True)
    made = [part.by_id[x] for x in ids.tolist()]
    scales = [
        (x.low, x.high - x.low)
        if x.low is not None and x.high is not None and x.low < x.high
        else (math.nan, 1.0)
        for x in made
    ]
    low, width = np.array(scales, float).reshape(-1, 2)[procedure].T
    weights = np.array([1 / x.sampling for x in made], float)[procedure]
    values = (found["value"] - low) / width
    return found["number"], found["cluster"], found["passing"], weights, values
