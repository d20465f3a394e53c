"""How scores are spread, as the database adds it up: shares of categories, and quantiles."""

from collections.abc import Sequence
from typing import Any, NamedTuple

from sqlalchemy import ColumnElement, Double, case, cast, func, literal_column, select
from sqlalchemy.engine import Connection

from spanscore.store.schema import score_facts
from spanscore.store.sums import POWERS, Scores, Sums, halved, looked_up, product, sums_of

_facts = score_facts.c
_ROUNDING = 1e-12


class Share(NamedTuple):
    """The scores of one category, and the sums of the indicator that a score is of it, over all
    clusters.
    """

    category: Any
    scores: int
    sums: Sums


def bins(connection: Connection, scores: Scores, edges: Sequence[float]) -> list[Share]:
    """The shares of the values between two `edges`, which rise; what lies beyond counts to the
    first or the last.
    """
    category = halved(_facts.value, edges[:-1], list(range(len(edges) - 1)))
    return _shares(connection, scores, category, [_facts.value.is_not(None)])


def labels(connection: Connection, scores: Scores, limit: int) -> list[Share]:
    """The shares of the labels, the most frequent first; None is that of scores without one."""
    return sorted(_shares(connection, scores, _facts.label, [], limit), key=lambda x: -x.scores)


def quantiles(
    connection: Connection, scores: Scores, shares: Sequence[float]
) -> list[float | None]:
    """For each of `shares` the lowest value that so much of the weight does not exceed; None
    without any value.
    """
    conditions = [*scores.conditions(), _facts.value.is_not(None)]
    by_value = (
        select(_facts.value, func.sum(_weight(scores)).label("w"))
        .where(*conditions)
        .group_by(_facts.value)
    )
    rising = by_value.subquery("by_value")
    reached = select(
        rising.c.value,
        func.sum(rising.c.w).over(order_by=rising.c.value).label("so_far"),
        func.sum(rising.c.w).over().label("total"),
    ).subquery("reached")
    enough = [reached.c.so_far >= reached.c.total * (share - _ROUNDING) for share in shares]
    row = connection.execute(select(*(func.min(case((x, reached.c.value))) for x in enough))).one()
    return [None if x is None else float(x) for x in row]


def at_most(connection: Connection, scores: Scores, values: Sequence[float]) -> list[Sums]:
    """For each of `values` the sums of the indicator that a score's value does not exceed it."""
    weight = _weight(scores)
    conditions = [*scores.conditions(), _facts.value.is_not(None)]
    columns = [
        func.sum(case((_facts.value <= x, weight), else_=0.0)).label(f"a{n}")
        for n, x in enumerate(values)
    ]
    totals = [
        func.count().label("n"),
        func.sum(weight).label("b"),
        func.sum(weight * weight).label("w"),
    ]
    found = (
        select(*totals, *columns).where(*conditions).group_by(_facts.cluster).subquery("by_cluster")
    )
    b = found.c.b
    of_all = [func.sum(found.c.n), func.count(), func.max(b), func.sum(found.c.w)]
    powers = [
        func.sum(product([*[found.c[f"a{n}"]] * i, *[b] * j]))
        for n in range(len(values))
        for i, j in POWERS
    ]
    row = connection.execute(select(*of_all, *powers)).one()
    width = len(POWERS)
    starts = range(len(of_all), len(row), width)
    return [sums_of([*row[: len(of_all)], *row[start : start + width]], 1.0) for start in starts]


def _shares(
    connection: Connection,
    scores: Scores,
    category: ColumnElement[Any],
    more: Sequence[ColumnElement[bool]],
    limit: int | None = None,
) -> list[Share]:
    weight = _weight(scores)
    measured = [
        func.count().label("n"),
        func.sum(weight).label("a"),
        func.sum(weight * weight).label("w"),
    ]
    conditions = [*scores.conditions(), *more]
    rows = select(category.label("category"), _facts.cluster, *measured).where(*conditions)
    by_cell = rows.group_by(category, _facts.cluster).subquery("by_cell")
    b = func.sum(by_cell.c.a).over(partition_by=by_cell.c.cluster).label("b")
    cells = select(by_cell.c.category, by_cell.c.n, by_cell.c.a, b).subquery("cells")
    mixed = [(i, j) for i, j in POWERS if i]
    sums = [func.sum(product([*[cells.c.a] * i, *[cells.c.b] * j])) for i, j in mixed]
    query = select(cells.c.category, func.sum(cells.c.n), *sums).group_by(cells.c.category)
    of_cluster = select(measured[0], measured[1].label("b"), measured[2]).where(*conditions)
    totals = of_cluster.group_by(_facts.cluster).subquery("totals")
    alone = [(i, j) for i, j in POWERS if not i]
    whole = [func.sum(product([totals.c.b] * j)) for _, j in alone]
    all_of = [func.sum(totals.c.n), func.count(), func.max(totals.c.b), func.sum(totals.c.w)]
    total = connection.execute(select(*all_of, *whole)).one()
    found = connection.execute(query.order_by(func.sum(cells.c.n).desc()).limit(limit)).all()
    return [_share(row, total, mixed, alone) for row in found]


def _share(
    row: Any, total: Any, mixed: Sequence[tuple[int, int]], alone: Sequence[tuple[int, int]]
) -> Share:
    powers = dict(zip(mixed, row[2:], strict=True)) | dict(zip(alone, total[4:], strict=True))
    return Share(row[0], int(row[1]), sums_of([*total[:4], *(powers[x] for x in POWERS)], 1.0))


def _weight(scores: Scores) -> ColumnElement[Any]:
    common = scores.common_weight
    if common is not None:
        return cast(literal_column(repr(common)), Double)
    return looked_up(_facts.procedure, scores.procedures)
