"""External scores in the store."""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace
from typing import Any

from sqlalchemy import Row, select
from sqlalchemy.engine import Connection

from spanscore.model import external
from spanscore.model.score import Evaluation
from spanscore.model.trace import scope_of_tenant, session_key
from spanscore.store import connections, lookup, placement, stored_rows
from spanscore.store.config import Config
from spanscore.store.schema import (
    GIVEN,
    model_responses,
    otel_traces,
    scores as table,
    session_keys,
)
from spanscore.store.stored_rows import key, matching

MAX_NAMED = 100_000
"""External scores of one name that are read at most, those that came last."""


def of_traces(
    connection: Connection,
    trace_ids: Collection[str],
    agent_trace_ids: Collection[str],
    tenant: str | None,
    *,
    metric: str | None = None,
) -> external.Joined:
    """What was given to OTel traces, their spans and the model responses in agent traces, of each
    source the last.

    Each is joined to its agent trace. Only what was given under the name `metric`, where that is
    not None.
    """
    is_named = () if metric is None else (table.c.metric == metric,)
    own = (table.c.scope == "trace", *stored_rows.is_of(table, tenant), *is_named)
    of_ids = matching(connection, _LATEST.where(*own), table.c.trace_id, trace_ids)
    answers = _OF_RESPONSES.where(*is_named)
    of_answers = matching(connection, answers, _ANSWER.agent_trace_id, agent_trace_ids)
    scores = _decoded([*of_ids, *of_answers])
    return placement.turns(connection, scores, tenant).join(scores)


def of_sessions(
    connection: Connection, keys: Sequence[str], tenant: str | None
) -> list[Evaluation]:
    """What was given to the sessions with these keys, in the order received.

    A score from outside of every namespace is of the session that has its id in one, where only one
    session has.
    """
    outside = _outside(connection, keys, tenant)
    of_tenant = (table.c.scope == "session", *stored_rows.is_of(table, tenant))
    rows = matching(connection, _LATEST.where(*of_tenant), table.c.session_key, [*keys, *outside])
    found = []
    for score in _decoded(rows):
        own = key(score.subject_id)
        if own in keys:
            found.append(score)
        else:
            found.append(replace(score, subject_id=outside[own], session_key=outside[own]))
    return found


def _outside(connection: Connection, keys: Sequence[str], tenant: str | None) -> dict[str, str]:
    """By the key that each of these sessions would have outside of every namespace the one that it
    has.

    Not of those that share their id with another session.
    """
    found = {}
    for id_ in _ids_of(connection, keys, tenant):
        plain, named = (
            key(session_key(id_, scope_of_tenant(tenant or ""))),
            lookup.session_keys(connection, id_, tenant),
        )
        there = lookup.stored_sessions(connection, [plain], tenant)
        if len(named) == 2 and plain not in named[1:] and not there:
            found[plain] = named[1]
    return found


def _ids_of(connection: Connection, keys: Sequence[str], tenant: str | None) -> list[str]:
    """The ids that sessions with these keys have in their namespaces, but for those that are keys
    themselves.
    """
    query = select(session_keys.c.session_id).where(*stored_rows.is_of(session_keys, tenant))
    found = {x for (x,) in matching(connection, query, session_keys.c.session_key, keys)}
    return sorted(found.difference(keys))


def named(config: Config, name: str, tenant: str = "") -> external.Joined:
    """All that a tenant was given under a name, each joined to its agent trace, and only each
    source's last.

    A server may use the store meanwhile. Raises ConfigError where there is no store, RetryableError
    or PermanentError where it cannot be read.
    """
    wanted = (GIVEN, table.c.metric == name, *stored_rows.is_of(table, tenant))
    query = select(table.c.number, table.c.record).where(*wanted)
    newest_first = query.order_by(table.c.number).limit(MAX_NAMED)
    with (
        connections.used(connections.reader(config)) as engine,
        connections.snapshot(engine) as connection,
    ):
        scores = _decoded(connection.execute(newest_first))
        return placement.turns(connection, scores, tenant).join(scores)


def otel_ids(connection: Connection, agent_trace_ids: Sequence[str]) -> set[str]:
    """The OTel traces of these agent traces."""
    query = select(otel_traces.c.trace_id)
    return {
        x for (x,) in matching(connection, query, otel_traces.c.agent_trace_id, agent_trace_ids)
    }


def _decoded(rows: Iterable[Row[Any]]) -> list[Evaluation]:
    """The scores in the order received; those whose records are damaged are left out."""
    ordered = sorted({x.number: x for x in rows}.values(), key=lambda x: -x.number)
    return [x for _, x in stored_rows.read_scores(ordered)]


_LATEST = (
    select(table.c.number, table.c.record)
    .where(GIVEN)
    .order_by(table.c.number)
    .limit(placement.MAX_SCORES)
)
_ANSWER = model_responses.c
_OF_RESPONSES = _LATEST.join(model_responses, _ANSWER.response_id == table.c.response_id).where(
    _ANSWER.tenant == table.c.tenant
)
