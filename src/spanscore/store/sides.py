"""The sums of two selections of scores, and of what they have in common: one statement reads each
side once.
"""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from sqlalchemy import CTE, ColumnElement, Select, and_, literal_column, select, union_all
from sqlalchemy.engine import Connection

from spanscore.store.sums import (
    KINDS,
    MAX_CELLS,
    Cell,
    CellColumns,
    Groups,
    Scores,
    cells,
    clustered,
    parts,
)

_BOTH, _PRODUCTS = 2, 5
"""The number of the rows of both sides, and how many columns of theirs a kind has."""


class Shared(NamedTuple):
    """Over the clusters that two selections share: how many, and sums of the products of their a
    and b.

    `a_b` is that of the first one's a and the second one's b.
    """

    clusters: int
    a_a: float
    a_b: float
    b_a: float
    b_b: float


class Compared(NamedTuple):
    """The cells of each side, and by kind of measure what the sides share, each by group."""

    before: Mapping[tuple[str | None, ...], Cell]
    after: Mapping[tuple[str | None, ...], Cell]
    shared: Mapping[str, Mapping[tuple[str | None, ...], Shared]]


def compared(
    connection: Connection, before: Scores, after: Scores, groups: tuple[Groups, Groups]
) -> Compared:
    """The sums of two selections, which are grouped by the same fields."""
    if not before.procedures or not after.procedures:
        alone = (_sums(connection, before, groups[0]), _sums(connection, after, groups[1]))
        return Compared(*alone, {kind: {} for kind in KINDS})
    fields = groups[0].fields
    sides = [
        select(clustered(scores, groups=of_groups)).cte(name)
        for scores, of_groups, name in zip((before, after), groups, ("one", "other"), strict=True)
    ]
    columns = CellColumns.of(before), CellColumns.of(after)
    width = max(len(x.texts) for x in columns)
    queries = [
        _padded(number, sides[number], fields, columns[number], width) for number in range(_BOTH)
    ]
    everything = union_all(*queries, _products(before, after, sides, fields, width)).limit(
        3 * MAX_CELLS
    )
    found: tuple[dict[Any, Cell], dict[Any, Cell]] = {}, {}
    shared: dict[str, dict[Any, Shared]] = {kind: {} for kind in KINDS}
    weight = (before.common_weight or 1.0) * (after.common_weight or 1.0)
    for side, *rest in connection.execute(everything):
        group, sums = tuple(rest[: len(fields)]), rest[len(fields) :]
        if side != _BOTH:
            cell = columns[side].cell(None, group, sums[: len(columns[side].texts)])
            found[side].update({group: cell} if cell.scores else {})
            continue
        for place, kind in enumerate(KINDS):
            clusters, *products = sums[place * _PRODUCTS : (place + 1) * _PRODUCTS]
            if clusters:
                shared[kind][group] = Shared(int(clusters), *(float(x) * weight for x in products))
    return Compared(*found, shared)


def _sums(connection: Connection, scores: Scores, groups: Groups) -> dict[Any, Cell]:
    return {x.group: x for x in cells(connection, scores, groups=groups)}


def _padded(
    number: int, side: CTE, fields: Sequence[str], columns: CellColumns, width: int
) -> Select[Any]:
    keys = [side.c[name] for name in fields]
    nothing: list[ColumnElement[Any]] = [literal_column("NULL")] * (width - len(columns.texts))
    query = select(
        literal_column(str(number)), *keys, *columns.expressions(), *nothing
    ).select_from(side)
    return query.group_by(*keys)


def _products(
    before: Scores, after: Scores, sides: Sequence[CTE], fields: Sequence[str], width: int
) -> Select[Any]:
    one, other = sides
    columns: list[str] = []
    for kind in KINDS:
        first, second = parts(before, one, kind), parts(after, other, kind)
        names = [
            (first[x].name, second[y].name)
            for x, y in (("a", "a"), ("a", "b"), ("b", "a"), ("b", "b"))
        ]
        has_both = f"one.{first['n'].name} > 0 AND other.{second['n'].name} > 0"
        columns.append(f"sum(CASE WHEN {has_both} THEN 1 ELSE 0 END)")
        columns += [f"sum(one.{x} * other.{y})" for x, y in names]
    columns += ["NULL"] * (width - len(columns))
    same = [one.c[name].is_not_distinct_from(other.c[name]) for name in fields]
    keys = [one.c[name] for name in fields]
    query = select(literal_column(str(_BOTH)), *keys, *map(literal_column, columns))
    return query.select_from(
        one.join(other, and_(one.c.cluster == other.c.cluster, *same))
    ).group_by(*keys)
