"""Retention: the oldest records of all tables go first, in steps short enough to let commits in
between.
"""

from dataclasses import dataclass

from sqlalchemy import Column, Table, delete, exists, func, select
from sqlalchemy.engine import Connection

from spanscore.store import facts
from spanscore.store.schema import (
    agent_traces,
    evaluations,
    external_scores,
    judge_answers,
    model_responses,
    otel_traces,
    response_scores,
    scored_turns,
    session_keys,
    trace_measures,
    undelivered,
)

_STEP_ROWS = 500  # of each table; also the bind parameters of one statement
_TABLES = (agent_traces, evaluations, judge_answers, external_scores)


@dataclass(frozen=True, slots=True)
class Pruned:
    """What one step deleted; nothing at all means that there was nothing left to delete."""

    traces: int
    records: int
    size_bytes: int


def size_bytes(connection: Connection) -> int:
    """Bytes of all records that retention bounds."""
    return sum(
        connection.execute(select(func.coalesce(func.sum(x.c.size_bytes), 0))).scalar_one()
        for x in _TABLES
    )


def step(connection: Connection, before_ns: int | None) -> Pruned:
    """Delete some of the oldest records; with `before_ns` (Unix ns) only such as were stored before
    it.

    Of each table the first rows are looked at, and what goes is what is older than the newest of a
    table that has more: so the tables are worked off together, as if they were one list by age.
    """
    oldest = {
        table: connection.execute(
            select(_row(table), table.c.stored_ns, table.c.size_bytes)
            .order_by(_row(table))
            .limit(_STEP_ROWS)
        ).all()
        for table in _TABLES
    }
    ends = [rows[-1].stored_ns + 1 for rows in oldest.values() if len(rows) == _STEP_ROWS]
    ends += [] if before_ns is None else [before_ns]
    end_ns = min(ends, default=None)
    counts, freed_bytes = {}, 0
    for table, rows in oldest.items():
        doomed = [row for row in rows if end_ns is None or row.stored_ns < end_ns]
        freed_bytes += sum(row.size_bytes for row in doomed)
        counts[table] = len(doomed)
        _delete(connection, table, [row[0] for row in doomed])
    return Pruned(counts[agent_traces], sum(counts.values()), freed_bytes)


def _row(table: Table) -> Column[int]:
    return table.c.seq if table is evaluations else table.c.row


def _delete(connection: Connection, table: Table, rows: list[int]) -> None:
    if not rows:
        return
    if table is agent_traces:
        removed = select(agent_traces.c.id).where(agent_traces.c.row.in_(rows))
        connection.execute(delete(otel_traces).where(otel_traces.c.agent_trace_id.in_(removed)))
        connection.execute(
            delete(model_responses).where(model_responses.c.agent_trace_id.in_(removed))
        )
        connection.execute(delete(scored_turns).where(scored_turns.c.agent_trace_id.in_(removed)))
        connection.execute(delete(trace_measures).where(trace_measures.c.row.in_(rows)))
        keys = connection.execute(
            select(agent_traces.c.session_id).where(agent_traces.c.row.in_(rows))
        ).scalars()
        doomed = set(keys) - {None}
    if table is evaluations:
        connection.execute(delete(undelivered).where(undelivered.c.seq.in_(rows)))
    if table is external_scores:
        connection.execute(delete(response_scores).where(response_scores.c.row.in_(rows)))
    connection.execute(delete(table).where(_row(table).in_(rows)))
    if table in (evaluations, external_scores):
        facts.forget(connection, rows if table is evaluations else [-x for x in rows])
    if table is agent_traces:
        still_there = exists().where(agent_traces.c.session_id == session_keys.c.session_key)
        connection.execute(
            delete(session_keys).where(session_keys.c.session_key.in_(doomed), ~still_there)
        )
