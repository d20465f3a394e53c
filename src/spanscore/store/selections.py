"""Selections of scores for analytics."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from sqlalchemy import (
    ColumnElement,
    and_,
    false,
    func,
    literal,
    not_,
    or_,
    select,
    true,
)
from sqlalchemy.engine import Connection

from spanscore.errors import InputError
from spanscore.filters import And, Comparison, Node, Not, Or
from spanscore.model import json
from spanscore.store.schema import (
    COUNTED,
    score_contexts,
    score_procedures,
    score_tags,
)
from spanscore.store.schema import scores as scores_table
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
