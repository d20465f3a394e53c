"""Selections of scores for analytics, and sums of two."""

from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

from sqlalchemy import (
    CTE,
    ColumnElement,
    Select,
    and_,
    false,
    func,
    literal,
    literal_column,
    not_,
    or_,
    select,
    true,
    union_all,
)
from sqlalchemy.engine import Connection

from spanscore.errors import InputError
from spanscore.filters import And, Comparison, Node, Not, Or
from spanscore.store.schema import (
    context_tools,
    score_contexts,
    score_procedures,
    score_tags,
)
from spanscore.store.schema import scores as scores_table
from spanscore.store.stored_rows import among, is_text
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

MAX_DIMENSIONS: Final = 20_000
"""Procedures, and contexts, that one question may be about."""


class Procedure(NamedTuple):
    """How scores were made: a row of `score_procedures`."""

    id: int
    tenant: str
    scope: str
    metric: str
    source: str | None
    run: str
    evaluator_kind: str | None
    evaluator: str
    evaluator_version: str
    judge_model: str | None
    prompt_hash: str | None
    embedding: str | None
    threshold: float | None
    rule: str | None
    low: float | None
    high: float | None
    sampling: float
    status: str
    cause: str | None


class Context(NamedTuple):
    """What was scored: a row of `score_contexts`, with the tools that were called."""

    id: int
    tenant: str
    service: str | None
    agent: str | None
    environment: str | None
    version: str | None
    model: str | None
    outcome: str | None
    tools: tuple[str, ...] = ()


def procedures(connection: Connection, tenant: str, run: str) -> list[Procedure]:
    """The procedures of an evaluation run; "": of what was scored as it came, or given by others.

    Raises InputError where they are too many.
    """
    table = score_procedures.c
    wanted = (
        select(score_procedures)
        .where(table.tenant == tenant, table.run == run)
        .order_by(table.metric, table.id)
    )
    return [
        Procedure(*row) for row in _bounded(connection, wanted, "metrics, evaluators and rules")
    ]


def with_scores(
    connection: Connection, known: Sequence[Procedure], limits: Sequence[ColumnElement[bool]]
) -> list[Procedure]:
    """The procedures by which a score was made that meets `limits`, conditions on `scores`."""
    if not known:
        return []
    own = score_procedures.c.id
    # With a limit the subquery looks for one score of each procedure, where `exists` may read all
    # scores.
    one = (
        select(literal(1))
        .where(scores_table.c.procedure == own, *limits)
        .limit(1)
        .scalar_subquery()
    )
    wanted = select(own).where(among(own, [x.id for x in known]), one.is_not(None))
    ids = set(connection.execute(wanted).scalars())
    return [x for x in known if x.id in ids]


def contexts(connection: Connection, tenant: str) -> list[Context]:
    """All contexts. Raises InputError where they are too many."""
    wanted = (
        select(score_contexts)
        .where(score_contexts.c.tenant == tenant)
        .order_by(score_contexts.c.id)
    )
    rows = _bounded(connection, wanted, "services, agents, versions, models and tools")
    tools: dict[int, list[str]] = {}
    used = select(context_tools).join(
        score_contexts, score_contexts.c.id == context_tools.c.context
    )
    for context, tool in connection.execute(
        used.where(score_contexts.c.tenant == tenant).order_by(context_tools.c.tool)
    ):
        tools.setdefault(context, []).append(tool)
    return [Context(*row)._replace(tools=tuple(tools.get(row.id, ()))) for row in rows]


def tagged(node: Node, tenant: str) -> ColumnElement[bool]:
    """What a row of `scores` must meet, by a checked filter of nothing but `tags`."""
    match node:
        case And(parts):
            return and_(*(tagged(x, tenant) for x in parts))
        case Or(parts):
            return or_(*(tagged(x, tenant) for x in parts))
        case Not(part):
            return not_(tagged(part, tenant))
        case Comparison():
            return and_(scores_table.c.tags.is_not(None), _has_tag(node, tenant))


def _has_tag(node: Comparison, tenant: str) -> ColumnElement[bool]:
    if node.value == "*" and not node.quoted:
        return true()
    if not is_text(node.value):  # no tag is kept that contains such a character
        return false()
    of_tenant = score_tags.c.tenant == tenant
    having = select(score_tags.c.tags).where(of_tenant, score_tags.c.tag == node.value)
    return scores_table.c.tags.in_(having)


def _bounded(connection: Connection, query: Any, what: str) -> Sequence[Any]:
    rows = connection.execute(query.limit(MAX_DIMENSIONS + 1)).all()
    if len(rows) > MAX_DIMENSIONS:
        raise InputError(
            f"the store has more than {MAX_DIMENSIONS} combinations of {what}, which is more than"
            " can be told apart: something sends values that are seldom twice the same, such as"
            " ids in a version or a tool's name"
        )
    return rows


class Extremes(NamedTuple):
    """The lowest and highest value of some scores; None where none has a value."""

    low: float | None
    high: float | None


def extremes(connection: Connection, conditions: Sequence[Any]) -> Extremes:
    """Those of the scores that meet conditions on `scores`."""
    query = select(func.min(scores_table.c.value), func.max(scores_table.c.value)).where(
        *conditions
    )
    return Extremes(*connection.execute(query).one())


class Times(NamedTuple):
    """When the first and the last turn that was scored began, Unix ns; None where there is none."""

    first: int | None
    last: int | None


def times(connection: Connection, conditions: Sequence[Any]) -> Times:
    """Those of the scores that meet conditions on `scores`."""
    query = select(
        func.min(scores_table.c.happened_ns), func.max(scores_table.c.happened_ns)
    ).where(*conditions)
    return Times(*connection.execute(query).one())


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
