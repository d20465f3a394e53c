"""Up to which agent trace each session was read for its last evaluation, so that a restart finds
those that went on since.

It is a row of `agent_traces`, and no time: rows rise from commit to commit, and commits come one
after the other, so whatever a reading did not see has a higher row than all that it saw.
"""

from collections.abc import Mapping

from sqlalchemy import delete, func, select
from sqlalchemy.engine import Connection

from spanscore.store.schema import agent_traces, evaluated_sessions
from spanscore.store.writing import IMPORTED, chunks, put_rows

_LAST_ROW = select(func.coalesce(func.max(agent_traces.c.row), 0))


def last_row(connection: Connection) -> int:
    """The row up to which a session is known that is read in the same snapshot."""
    row: int = connection.execute(_LAST_ROW).scalar_one()
    return row


def note(connection: Connection, evaluated: Mapping[str, int]) -> None:
    """Note of sessions, by their keys, up to which row they were read for their evaluation."""
    table = evaluated_sessions
    for keys in chunks(list(evaluated)):
        connection.execute(delete(table).where(table.c.session_id.in_(keys)))
        put_rows(connection, table, [(key, evaluated[key]) for key in keys])


def still_open(connection: Connection) -> list[tuple[str, int]]:
    """As `Store.open_sessions`."""
    table, last_stored = agent_traces.c, func.max(agent_traces.c.stored_ns)
    until = func.coalesce(evaluated_sessions.c.until_row, 0)
    query = (
        select(table.session_id, last_stored)
        .join_from(
            agent_traces,
            evaluated_sessions,
            evaluated_sessions.c.session_id == table.session_id,
            isouter=True,
        )
        .where(table.session_id.is_not(None), table.revision != IMPORTED, table.row > until)
        .group_by(table.session_id)
        .order_by(last_stored)
    )
    return [(key, stored_ns) for key, stored_ns in connection.execute(query)]


def forget_deleted(connection: Connection) -> None:
    """Forget the sessions of which all that was read is deleted: the oldest rows go first."""
    oldest = connection.execute(select(func.min(agent_traces.c.row))).scalar_one()
    stale = delete(evaluated_sessions)
    if oldest is not None:
        stale = stale.where(evaluated_sessions.c.until_row < oldest)
    connection.execute(stale)
