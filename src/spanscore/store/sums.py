"""Sums and spreads of scores, by the database.

One query reads the scores of some procedures once, in the order of their key, and gives a row for
each figure; so memory does not grow with the number of scores.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from sqlalchemy import (
    BigInteger,
    Column,
    ColumnElement,
    Double,
    FromClause,
    Subquery,
    Table,
    case,
    cast,
    distinct,
    func,
    literal_column,
    select,
)
from sqlalchemy.engine import Connection

from spanscore.store.schema import COUNTED, context_tools, score_contexts
from spanscore.store.schema import scores as scores_table
from spanscore.store.stored_rows import among

CONTEXT_FIELDS: Final = ("service", "agent", "environment", "version", "model", "outcome", "tool")
"""By what of a context scores can be grouped."""

MAX_CELLS: Final = 20_000
"""Figures that one query gives at most."""

POWERS: Final = (
    *((1, 0), (0, 1), (2, 0), (1, 1), (0, 2), (2, 2), (1, 3), (0, 4)),
    *((2, -1), (3, -1), (4, -2)),
)
"""Of a, a cluster's weighted values, and b, its weight: in the order in which `Sums.powers` has
their sums.
"""

_scores = scores_table.c
KINDS: Final = ("value", "verdict")
"""What a score may have that figures are of."""

_SCORES, _SUBJECTS, _CLUSTERS = "sum(n)", "sum(subjects)", "count(*)"


@dataclass(frozen=True, slots=True, kw_only=True)
class Scores:
    """Which scores: those of `procedures` and `contexts` (None: of all) that meet `tagged` (see
    `selecting.tagged`), of what happened from `start_ns` to before `end_ns`.

    `procedures` has the weight of each one's scores, the inverse of the chance with which they were
    drawn. `bounds` are the values that become 0 and 1. `is_external`: others gave some, so that a
    value may be missing and a subject may have several scores; else each subject has one.
    `has_verdicts`: each is known to pass or to fail.
    """

    procedures: Mapping[int, float]
    contexts: Sequence[int] | None = None
    tagged: ColumnElement[bool] | None = None
    start_ns: int | None = None
    end_ns: int | None = None
    bounds: tuple[float, float] = (0.0, 1.0)
    is_external: bool = False
    has_verdicts: bool = False

    def conditions(self) -> list[ColumnElement[bool]]:
        """What a row of `scores` must meet."""
        return [among(_scores.procedure, list(self.procedures)), *self.limits()]

    def limits(self) -> list[ColumnElement[bool]]:
        """What it must meet beside its procedure."""
        found: list[ColumnElement[bool]] = [COUNTED]
        if self.start_ns is not None:
            found.append(_scores.happened_ns >= self.start_ns)
        if self.end_ns is not None:
            found.append(_scores.happened_ns < self.end_ns)
        if self.contexts is not None:
            found.append(among(_scores.context, self.contexts))
        if self.tagged is not None:
            found.append(self.tagged)
        return found

    def measures(self) -> dict[str, ColumnElement[Any]]:
        """The value on the scale 0..1 and the verdict, 1 for a pass, of a row."""
        low, high = self.bounds
        value: ColumnElement[Any] = _scores.value
        if self.bounds != (0.0, 1.0):
            value = (_scores.value - low) / (high - low)
        return {"value": value, "verdict": _scores.passing}

    @property
    def common_weight(self) -> float | None:
        """The weight of every score; None where they have several."""
        weights = set(self.procedures.values())
        return weights.pop() if len(weights) == 1 else None

    def is_complete(self, kind: str) -> bool:
        """Whether every row has a value, or a verdict."""
        return not self.is_external and (kind == "value" or self.has_verdicts)


class Sums(NamedTuple):
    """Of the scores that have a value, or a verdict: how many, of how many clusters, and sums over
    these clusters, as `stats.Moments` has them.
    """

    units: int
    clusters: int
    heaviest: float
    greatest: float
    squared_weights: float
    typical: float
    squares: float
    powers: tuple[float, ...]


class Cell(NamedTuple):
    """What one figure rests on.

    `bucket` counts from 0; `group` has a value for each field grouped by.
    """

    bucket: int | None
    group: tuple[str | None, ...]
    scores: int
    subjects: int
    clusters: int
    values: Sums
    verdicts: Sums


@dataclass(frozen=True, slots=True)
class Groups:
    """What scores are grouped by: some of `CONTEXT_FIELDS`.

    By tool a score counts for each tool that its trace called. `alike` has for each context one
    that has the same values in these fields, where contexts are few enough to name them all.
    """

    fields: tuple[str, ...] = ()
    alike: Mapping[int, int] | None = None


_NO_GROUPS = Groups()


def cells(
    connection: Connection,
    scores: Scores,
    *,
    edges: Sequence[int] = (),
    groups: Groups = _NO_GROUPS,
) -> list[Cell]:
    """The sums of scores, of each bucket of time between two `edges` (Unix ns, rising) and of each
    group.
    """
    if not scores.procedures:
        return []
    by_cluster = clustered(scores, edges=edges, groups=groups)
    keys = [by_cluster.c[name] for name in _names(edges, groups.fields)]
    columns = CellColumns.of(scores)
    query = (
        select(*keys, *columns.expressions())
        .select_from(by_cluster)
        .group_by(*keys)
        .limit(MAX_CELLS)
    )
    found = []
    for row in connection.execute(query):
        bucket, group = (int(row[0]), row[1 : len(keys)]) if edges else (None, row[: len(keys)])
        found.append(columns.cell(bucket, tuple(group), row[len(keys) :]))
    return [x for x in found if x.scores]


@dataclass(frozen=True, slots=True)
class CellColumns:
    """What is added up over `clustered` for a cell: `texts`, each once, and of these what each kind
    has.
    """

    texts: Sequence[str]
    of_kinds: Sequence[Sequence[str]]
    weight: float

    @classmethod
    def of(cls, scores: Scores) -> "CellColumns":
        """Those of some scores."""
        of_kinds = [_power_sums(scores, kind) for kind in KINDS]
        texts = dict.fromkeys(
            [_SCORES, _SUBJECTS, _CLUSTERS, *(x for names in of_kinds for x in names)]
        )
        return cls(list(texts), of_kinds, scores.common_weight or 1.0)

    def expressions(self) -> list[ColumnElement[Any]]:
        """The columns of a query."""
        return [literal_column(x) for x in self.texts]

    def cell(self, bucket: int | None, group: tuple[str | None, ...], row: Sequence[Any]) -> Cell:
        """The cell with what these columns came to."""
        totals = dict(zip(self.texts, row, strict=True))
        values, verdicts = (
            sums_of([totals[x] for x in names], self.weight) for names in self.of_kinds
        )
        scores, subjects, clusters = (int(totals[x] or 0) for x in (_SCORES, _SUBJECTS, _CLUSTERS))
        return Cell(bucket, group, scores, subjects, clusters, values, verdicts)


def heaviest(
    connection: Connection,
    scores: Scores,
    kind: str,
    *,
    edges: Sequence[int] = (),
    groups: Groups = _NO_GROUPS,
) -> dict[tuple[int | None, tuple[str | None, ...]], int]:
    """For each bucket and group the number of a score of the cluster that weighs most in it."""
    measure, (weight, _) = scores.measures()[kind], weights(scores)
    each = literal_column("1.0") if weight is None else weight
    sums = {
        "b": func.sum(each if scores.is_complete(kind) else case((measure.is_not(None), each))),
        "member": func.max(_scores.number),
    }
    by_cluster = clustered(scores, edges=edges, groups=groups, sums=sums)
    keys = [by_cluster.c[name] for name in _names(edges, groups.fields)]
    heavier = func.coalesce(by_cluster.c.b, 0.0).desc()
    place = func.row_number().over(partition_by=keys, order_by=[heavier, by_cluster.c.cluster])
    ranked = select(*keys, by_cluster.c.member, place.label("place")).subquery("ranked")
    found: dict[tuple[int | None, tuple[str | None, ...]], int] = {}
    for *key, number, _ in connection.execute(select(ranked).where(ranked.c.place == 1)):
        bucket = int(key.pop(0)) if edges else None
        found[bucket, tuple(key)] = number
    return found


class Count(NamedTuple):
    """How many rows of a procedure lie in a bucket; `context` where they are counted by context."""

    bucket: int | None
    procedure: int
    context: int | None
    number: int


def counts(
    connection: Connection, scores: Scores, edges: Sequence[int] = (), *, by_context: bool
) -> list[Count]:
    """How many scores each procedure made, by bucket."""
    nothing: ColumnElement[Any] = cast(literal_column("NULL"), BigInteger)
    keys = [
        _bucket(edges) if edges else nothing,
        _scores.procedure,
        _scores.context if by_context else nothing,
    ]
    found = select(*keys, func.count()).where(*scores.conditions()).group_by(*keys)
    if edges:
        found = found.where(_scores.happened_ns >= edges[0], _scores.happened_ns < edges[-1])
    return [Count(row[0], row[1], row[2], row[3]) for row in connection.execute(found)]


def clustered(
    scores: Scores,
    *,
    edges: Sequence[int] = (),
    groups: Groups = _NO_GROUPS,
    sums: Mapping[str, ColumnElement[Any]] | None = None,
) -> Subquery:
    """For each bucket, group and cluster the number of its scores, and a, b and the squared weights
    of each kind; or other `sums`, of which those that begin with m are the greatest.

    Where all scores have one weight it is left out of these.
    """
    keys: list[ColumnElement[Any]] = [_bucket(edges).label("bucket")] if edges else []
    source: Any = scores_table
    if groups.fields and groups.alike is not None:
        keys.append(looked_up(_scores.context, groups.alike).label("context"))
    elif groups.fields:
        source = _with_contexts(source, _scores.context, groups.fields)
        keys += _group_columns(groups.fields)
    keys.append(_scores.cluster)
    sums = sums or _first_sums(scores)
    found = (
        select(*keys, *(x.label(name) for name, x in sums.items()))
        .select_from(source)
        .where(*scores.conditions())
    )
    if edges:
        found = found.where(_scores.happened_ns >= edges[0], _scores.happened_ns < edges[-1])
    by_cluster = found.group_by(*keys).subquery("by_cluster")
    if not groups.fields or groups.alike is None:
        return by_cluster
    named: list[ColumnElement[Any]] = [by_cluster.c.bucket] if edges else []
    named += [*_group_columns(groups.fields), by_cluster.c.cluster]
    of_groups = _with_contexts(by_cluster, by_cluster.c.context, groups.fields)
    columns = [by_cluster.c[name] for name in sums]
    if "tool" not in groups.fields:  # then each group is one context
        return select(*named, *columns).select_from(of_groups).subquery("by_group")
    totals = ((func.max if x.name.startswith("m") else func.sum)(x).label(x.name) for x in columns)
    return select(*named, *totals).select_from(of_groups).group_by(*named).subquery("by_group")


def _with_contexts(table: Any, context: ColumnElement[Any], fields: Sequence[str]) -> Any:
    joined = table.join(score_contexts, score_contexts.c.id == context)
    if "tool" in fields:
        joined = joined.outerjoin(context_tools, context_tools.c.context == context)
    return joined


def _bucket(edges: Sequence[int]) -> ColumnElement[Any]:
    """The number of the bucket that a row's time lies in."""
    return halved(_scores.happened_ns, edges[:-1], list(range(len(edges) - 1)))


def looked_up(column: Column[Any], numbers: Mapping[int, float]) -> ColumnElement[Any]:
    """What `numbers` has for a column, which is one of its keys."""
    keys = sorted(numbers)
    return halved(column, keys, [numbers[x] for x in keys])


def halved(
    column: Column[Any], starts: Sequence[float], values: Sequence[float]
) -> ColumnElement[Any]:
    """The value of the last of `starts`, which rise, that is not above a column; as many
    comparisons as halvings.

    It is written as text, since SQLAlchemy takes as long to compile thousands of cases as a
    database to read the rows.
    """
    name = f"{column.table.name}.{column.name}"

    def of(low: int, high: int) -> str:
        if all(x == values[low] for x in values[low:high]):
            return repr(values[low])
        middle = (low + high) // 2
        return (
            f"CASE WHEN {name} < {starts[middle]} THEN {of(low, middle)} ELSE"
            f" {of(middle, high)} END"
        )

    # A bare number would be a place in GROUP BY, and is no floating point number in PostgreSQL.
    return cast(
        literal_column(of(0, len(starts))), Double if isinstance(values[0], float) else BigInteger
    )


def _first_sums(scores: Scores) -> dict[str, ColumnElement[Any]]:
    every = func.count()
    weight, square = weights(scores)
    sums: dict[str, ColumnElement[Any]] = {
        "n": every,
        "subjects": func.count(distinct(_scores.subject)) if scores.is_external else every,
        "b": _number(every if weight is None else func.sum(weight)),
        "w": _number(every if square is None else func.sum(square)),
        "m": _number(func.max(literal_column("1.0") if weight is None else weight)),
    }
    for kind, measure in scores.measures().items():
        sums[f"a_{kind}"] = _number(func.sum(measure if weight is None else measure * weight))
        if kind == "value":
            sums["y"] = _number(func.sum(product([measure, measure, *_given(weight)])))
        if scores.is_complete(kind):
            continue
        sums[f"n_{kind}"] = func.count(measure)
        each = literal_column("1.0") if weight is None else weight
        sums[f"m_{kind}"] = _number(func.max(case((measure.is_not(None), each))))
        for name, factor in (("b", weight), ("w", square)):
            of_each = None if factor is None else case((measure.is_not(None), factor))
            sums[f"{name}_{kind}"] = _number(
                func.count(measure) if of_each is None else func.sum(of_each)
            )
    return sums


def weights(scores: Scores) -> tuple[ColumnElement[Any] | None, ColumnElement[Any] | None]:
    """The weight of a row of `scores`, and its square; None where all have the same."""
    if scores.common_weight is not None:
        return None, None
    squares = {id_: weight * weight for id_, weight in scores.procedures.items()}
    return looked_up(_scores.procedure, scores.procedures), looked_up(_scores.procedure, squares)


def _given(weight: ColumnElement[Any] | None) -> list[ColumnElement[Any]]:
    return [] if weight is None else [weight]


def _number(total: ColumnElement[Any]) -> ColumnElement[Any]:
    """A sum as a floating point number, whose powers are too; that of nothing is 0."""
    return func.coalesce(cast(total, Double), literal_column("0.0"))


def parts(scores: Scores, by_cluster: FromClause, kind: str) -> Mapping[str, ColumnElement[Any]]:
    """The columns of `clustered` that a kind has: `n`, `a`, `b` and `w`; the last three are
    floating point numbers.
    """
    end = "" if scores.is_complete(kind) else f"_{kind}"
    column = by_cluster.c
    return {
        "n": column[f"n{end}"],
        "a": column[f"a_{kind}"],
        "b": column[f"b{end}"],
        "w": column[f"w{end}"],
    }


def _power_sums(scores: Scores, kind: str) -> list[str]:
    """The columns of `Sums`, as texts that name columns of `clustered`."""
    end = "" if scores.is_complete(kind) else f"_{kind}"
    a, b, n, w = f"a_{kind}", f"b{end}", f"n{end}", f"w{end}"
    clusters = (
        _CLUSTERS if scores.is_complete(kind) else f"sum(CASE WHEN {n} > 0 THEN 1 ELSE 0 END)"
    )
    heads = (f"max({b})", f"max(m{end})", f"sum({w})", f"sum({w}/nullif({b},0))")
    squares = "sum(y)" if kind == "value" else f"sum({a})"
    powers = (f"sum({_power_text(a, b, i, j)})" for i, j in POWERS)
    return [f"sum({n})", clusters, *heads, squares, *powers]


def _power_text(a: str, b: str, i: int, j: int) -> str:
    return "*".join([*[a] * i, *[b] * j]) + f"/nullif({b},0)" * -j


def power(a: ColumnElement[Any], b: ColumnElement[Any], i: int, j: int) -> ColumnElement[Any]:
    """One of `POWERS`; nothing where b is 0 and stands below."""
    found = product([*[a] * i, *[b] * j])
    for _ in range(-j):
        found = found / func.nullif(b, literal_column("0.0"))
    return found


def product(factors: Sequence[ColumnElement[Any]]) -> ColumnElement[Any]:
    """All factors, multiplied."""
    first, *rest = factors
    for factor in rest:
        first = first * factor
    return first


def _names(edges: Sequence[int], fields: Sequence[str]) -> list[str]:
    return [*(["bucket"] if edges else []), *fields]


def _group_columns(fields: Sequence[str]) -> list[ColumnElement[Any]]:
    tables: dict[str, Table] = {"tool": context_tools}
    return [tables.get(name, score_contexts).c[name].label(name) for name in fields]


def sums_of(found: Sequence[Any], weight: float) -> Sums:
    """The sums of scores that each have this weight beside the one that was summed up."""
    units, clusters, *heads = found[:7]
    heaviest, greatest, squared, typical, squares = (float(x or 0) for x in heads)
    scaled = tuple(
        float(x or 0) * weight ** (i + j) for x, (i, j) in zip(found[7:], POWERS, strict=True)
    )
    return Sums(
        int(units or 0),
        int(clusters or 0),
        heaviest * weight,
        greatest * weight,
        squared * weight**2,
        typical * weight,
        squares * weight,
        scaled,
    )


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
    category = halved(_scores.value, edges[:-1], list(range(len(edges) - 1)))
    return _shares(connection, scores, category, [_scores.value.is_not(None)])


def labels(connection: Connection, scores: Scores, limit: int) -> list[Share]:
    """The shares of the labels, the most frequent first; None is that of scores without one."""
    return sorted(_shares(connection, scores, _scores.label, [], limit), key=lambda x: -x.scores)


def quantiles(
    connection: Connection, scores: Scores, shares: Sequence[float]
) -> list[float | None]:
    """For each of `shares` the lowest value that so much of the weight does not exceed; None
    without any value.
    """
    conditions = [*scores.conditions(), _scores.value.is_not(None)]
    by_value = (
        select(_scores.value, func.sum(_weight(scores)).label("w"))
        .where(*conditions)
        .group_by(_scores.value)
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
    conditions = [*scores.conditions(), _scores.value.is_not(None)]
    columns = [
        func.sum(case((_scores.value <= x, weight), else_=0.0)).label(f"a{n}")
        for n, x in enumerate(values)
    ]
    totals = [
        func.count().label("n"),
        func.sum(weight).label("b"),
        func.sum(weight * weight).label("w"),
        func.max(weight).label("m"),
    ]
    found = (
        select(*totals, *columns)
        .where(*conditions)
        .group_by(_scores.cluster)
        .subquery("by_cluster")
    )
    b = found.c.b
    of_all = _of_all(found)
    powers = [
        func.sum(power(found.c[f"a{n}"], b, i, j)) for n in range(len(values)) for i, j in POWERS
    ]
    row = connection.execute(select(*of_all, *powers)).one()
    start, width = len(of_all), len(POWERS)
    return [
        _indicated(row[:start], row[place : place + width])
        for place in range(start, len(row), width)
    ]


def _of_all(by_cluster: Any) -> list[ColumnElement[Any]]:
    """What of `Sums` does not depend on the values."""
    column = by_cluster.c
    return [
        func.sum(column.n),
        func.count(),
        func.max(column.b),
        func.max(column.m),
        func.sum(column.w),
        func.sum(column.w / column.b),
    ]


def _indicated(of_all: Sequence[Any], powers: Sequence[Any]) -> Sums:
    """The sums of an indicator, which is its own square."""
    return sums_of([*of_all, powers[0], *powers], 1.0)


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
    rows = select(category.label("category"), _scores.cluster, *measured).where(*conditions)
    by_cell = rows.group_by(category, _scores.cluster).subquery("by_cell")
    b = func.sum(by_cell.c.a).over(partition_by=by_cell.c.cluster).label("b")
    cells = select(by_cell.c.category, by_cell.c.n, by_cell.c.a, b).subquery("cells")
    mixed = [(i, j) for i, j in POWERS if i]
    sums = [func.sum(power(cells.c.a, cells.c.b, i, j)) for i, j in mixed]
    query = select(cells.c.category, func.sum(cells.c.n), *sums).group_by(cells.c.category)
    greatest = func.max(weight).label("m")
    of_cluster = select(measured[0], measured[1].label("b"), measured[2], greatest)
    of_cluster = of_cluster.where(*conditions)
    totals = of_cluster.group_by(_scores.cluster).subquery("totals")
    alone = [(i, j) for i, j in POWERS if not i]
    whole = [func.sum(product([totals.c.b] * j)) for _, j in alone]
    all_of = _of_all(totals)
    total = connection.execute(select(*all_of, *whole)).one()
    found = connection.execute(query.order_by(func.sum(cells.c.n).desc()).limit(limit)).all()
    return [_share(row, total, mixed, alone) for row in found]


def _share(
    row: Any, total: Any, mixed: Sequence[tuple[int, int]], alone: Sequence[tuple[int, int]]
) -> Share:
    heads = len(total) - len(alone)
    powers = dict(zip(mixed, row[2:], strict=True)) | dict(zip(alone, total[heads:], strict=True))
    return Share(row[0], int(row[1]), _indicated(total[:heads], [powers[x] for x in POWERS]))


def _weight(scores: Scores) -> ColumnElement[Any]:
    common = scores.common_weight
    if common is not None:
        return cast(literal_column(repr(common)), Double)
    return looked_up(_scores.procedure, scores.procedures)
