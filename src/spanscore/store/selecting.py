"""Which scores analytics is about: the procedures and contexts that a filter accepts, and what is
missing of them.
"""

from collections.abc import Sequence
from typing import Any, Final, NamedTuple

from sqlalchemy import ColumnElement, and_, false, func, literal, not_, or_, select, true
from sqlalchemy.engine import Connection

from spanscore.errors import InputError
from spanscore.filters import And, Comparison, Node, Not, Or
from spanscore.store.schema import (
    context_tools,
    score_contexts,
    score_facts,
    score_procedures,
    score_tags,
)
from spanscore.store.sums import among
from spanscore.store.writing import is_text

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
    """The procedures by which a score was made that meets `limits`, conditions on `score_facts`."""
    if not known:
        return []
    own = score_procedures.c.id
    # With a limit the subquery looks for one score of each procedure, where `exists` may read all
    # scores.
    one = (
        select(literal(1)).where(score_facts.c.procedure == own, *limits).limit(1).scalar_subquery()
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
    """What a row of `score_facts` must meet, by a checked filter of nothing but `tags`."""
    match node:
        case And(parts):
            return and_(*(tagged(x, tenant) for x in parts))
        case Or(parts):
            return or_(*(tagged(x, tenant) for x in parts))
        case Not(part):
            return not_(tagged(part, tenant))
        case Comparison():
            return and_(score_facts.c.tags.is_not(None), _has_tag(node, tenant))


def _has_tag(node: Comparison, tenant: str) -> ColumnElement[bool]:
    if node.value == "*" and not node.quoted:
        return true()
    if not is_text(node.value):  # no tag is kept that contains such a character
        return false()
    of_tenant = score_tags.c.tenant == tenant
    having = select(score_tags.c.tags).where(of_tenant, score_tags.c.tag == node.value)
    return score_facts.c.tags.in_(having)


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
    """Those of the scores that meet conditions on `score_facts`."""
    query = select(func.min(score_facts.c.value), func.max(score_facts.c.value)).where(*conditions)
    return Extremes(*connection.execute(query).one())


class Times(NamedTuple):
    """When the first and the last of some scores were measured, Unix ns; None where there are
    none.
    """

    first: int | None
    last: int | None


def times(connection: Connection, conditions: Sequence[Any]) -> Times:
    """Those of the scores that meet conditions on `score_facts`."""
    query = select(
        func.min(score_facts.c.evaluated_ns), func.max(score_facts.c.evaluated_ns)
    ).where(*conditions)
    return Times(*connection.execute(query).one())
