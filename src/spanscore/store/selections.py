"""Selections of scores for analytics, and their columns as arrays.

To hand over a row costs a database's driver more than all that is worked out of it. So each column
of a procedure's scores comes as one text (SQLite) or string of bytes (PostgreSQL).
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple, TypeAlias

from sqlalchemy import (
    BigInteger,
    ColumnElement,
    Double,
    and_,
    cast,
    false,
    func,
    literal,
    literal_column,
    not_,
    or_,
    select,
    true,
)
from sqlalchemy.engine import Connection

from spanscore.errors import InputError
from spanscore.filters import And, Comparison, Node, Not, Or
from spanscore.lazy_imports import np
from spanscore.model import json
from spanscore.store.schema import (
    COUNTED,
    score_contexts,
    score_procedures,
    score_tags,
    scores as scores_table,
)
from spanscore.store.stored_rows import among, is_text

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
    """What was scored: a row of `score_contexts`."""

    id: int
    tenant: str
    service: str | None
    agent: str | None
    environment: str | None
    version: str | None
    model: str | None
    outcome: str | None
    tools: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Scores:
    """Which scores: those of these procedures (by id) and `contexts` (None: of all) that meet
    `tagged`, of what happened from `start_ns` to before `end_ns`.
    """

    procedures: Sequence[int] = ()
    contexts: Sequence[int] | None = None
    tagged: ColumnElement[bool] | None = None
    start_ns: int | None = None
    end_ns: int | None = None

    def conditions(self) -> list[ColumnElement[bool]]:
        """What a row of `scores` must meet."""
        return [among(scores_table.c.procedure, self.procedures), *self.limits()]

    def limits(self) -> list[ColumnElement[bool]]:
        """What it must meet beside its procedure."""
        found: list[ColumnElement[bool]] = [COUNTED]
        if self.start_ns is not None:
            found.append(scores_table.c.happened_ns >= self.start_ns)
        if self.end_ns is not None:
            found.append(scores_table.c.happened_ns < self.end_ns)
        if self.contexts is not None:
            found.append(among(scores_table.c.context, self.contexts))
        if self.tagged is not None:
            found.append(self.tagged)
        return found


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
    connection: Connection, known: Sequence[Procedure], scores: Scores
) -> list[Procedure]:
    """The procedures by which one of `scores` was made, of whichever procedures these are."""
    wanted = select(_OWN).where(
        among(_OWN, [x.id for x in known]), _one(literal(1), scores).is_not(None)
    )
    ids = set(connection.execute(wanted).scalars()) if known else set()
    return [x for x in known if x.id in ids]


def times(connection: Connection, scores: Scores) -> tuple[int | None, int | None]:
    """When the first and the last turn that was scored began, Unix ns; None where there is none."""
    at = scores_table.c.happened_ns
    first, last = _one(at, scores, at), _one(at, scores, at.desc())
    query = select(func.min(first), func.max(last)).where(among(_OWN, scores.procedures))
    low, high = connection.execute(query).one()
    return low, high


_OWN: Final = score_procedures.c.id


def _one(
    what: ColumnElement[Any], scores: Scores, *order: ColumnElement[Any]
) -> ColumnElement[Any]:
    """What one score of a procedure has.

    With a limit one is looked for, where `exists`, and the least of all, may read all scores.
    """
    own = select(what).where(scores_table.c.procedure == _OWN, *scores.limits())
    return own.order_by(*order).limit(1).scalar_subquery()


def contexts(connection: Connection, tenant: str) -> list[Context]:
    """All contexts. Raises InputError where they are too many."""
    wanted = (
        select(score_contexts)
        .where(score_contexts.c.tenant == tenant)
        .order_by(score_contexts.c.id)
    )
    rows = _bounded(connection, wanted, "services, agents, versions, models and tools")
    return [Context(*row)._replace(tools=tuple(json.loads(row.tools))) for row in rows]


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


Columns: TypeAlias = Mapping[str, Any]
"""Arrays of one length by the name of their column."""

NO_VERDICT: Final = -1
"""What `passing` is where it is null."""

_table = scores_table.c
_FIXED_POINT: Final = 10**15
"""What the width of a scale is in SQLite's integers: these pass four times as fast as its floating
point numbers, and leave a value of fifteen decimals what it is.
"""
_NO_VALUE: Final = -(10**18)


def columns(
    connection: Connection,
    scores: Scores,
    names: Sequence[str],
    scale: tuple[float, float] | None = None,
) -> Columns:
    """The columns of `scores` with these names, and `procedure`; a value is not a number where it
    is null.

    `scale`: that of all values, where it is known.
    """
    is_sqlite = connection.dialect.name == "sqlite"
    if scale is not None and not (is_sqlite and math.isfinite(scale[1] - scale[0])):
        scale = None
    found = [_column(name, scale) for name in names]
    packed = [func.group_concat(x) if is_sqlite else _as_bytes(x) for x in found]
    query = select(_table.procedure, *packed).where(*scores.conditions())
    parts = [[np.zeros(0, np.int64)] * (len(names) + 1)]
    asked = set(scores.procedures)
    for procedure, *texts in connection.execute(query.group_by(_table.procedure)):
        if procedure not in asked:
            continue  # a damaged row may differ from the index by which it was found
        arrays = [_unpacked(x, column) for x, column in zip(texts, found, strict=True)]
        parts.append([np.full(len(arrays[0]), procedure), *arrays])
    joined = map(np.concatenate, zip(*parts, strict=True))
    result: dict[str, Any] = dict(zip(("procedure", *names), joined, strict=True))
    if scale is not None and "value" in result:
        fixed, (low, high) = result["value"], scale
        values = low + (high - low) * (fixed / _FIXED_POINT)
        result["value"] = np.where(fixed == _NO_VALUE, np.nan, values)
    return result


def _column(name: str, scale: tuple[float, float] | None) -> ColumnElement[Any]:
    if name == "passing":
        return func.coalesce(_table.passing, NO_VERDICT)
    if name != "value":
        return _table[name]
    if scale is None:
        return func.coalesce(_table.value, literal_column("'NaN'", Double))
    fixed = (_table.value - scale[0]) * (_FIXED_POINT / (scale[1] - scale[0]))
    return func.coalesce(cast(fixed + 0.5, BigInteger), literal_column(str(_NO_VALUE), BigInteger))


def _is_real(column: ColumnElement[Any]) -> bool:
    return isinstance(column.type, Double)


def _as_bytes(column: ColumnElement[Any]) -> ColumnElement[Any]:
    sent = func.float8send(column) if _is_real(column) else func.int8send(column)
    return func.string_agg(sent, literal_column("''::bytea"))


def _unpacked(found: Any, column: ColumnElement[Any]) -> Any:
    kind = "f8" if _is_real(column) else "i8"
    if isinstance(found, str):
        return np.fromstring(found, kind, sep=",")
    return np.frombuffer(found, f">{kind}").astype(kind)
