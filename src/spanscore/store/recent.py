"""What was stored before some time and what since, found by the numbers of the rows, which rise
with it.
"""

from collections.abc import Iterator

from sqlalchemy import Column, Table, select
from sqlalchemy.engine import Connection

from spanscore.store import tenants
from spanscore.store.schema import agent_traces, evaluations
from spanscore.store.writing import IMPORTED

_ROWS_AT_ONCE = 100
_MAX_BYTES = 64 * 2**20


def stored_before(connection: Connection, tenant: str, before_ns: int, limit: int) -> Iterator[str]:
    """The records of a tenant's last `limit` traces that came and were stored before a time (Unix
    ns), newest first.

    Of large ones fewer: 64 MiB of records.
    """
    rows = select(agent_traces.c.row, agent_traces.c.size_bytes, agent_traces.c.record)
    rows = rows.where(agent_traces.c.revision != IMPORTED, *tenants.is_of(agent_traces, tenant))
    row, left, size_bytes = first_stored_at(connection, before_ns), limit, 0
    while left > 0 and size_bytes < _MAX_BYTES:
        found = connection.execute(
            rows.where(agent_traces.c.row < row)
            .order_by(agent_traces.c.row.desc())
            .limit(min(left, _ROWS_AT_ONCE))
        ).all()
        if not found:
            return
        yield from (x.record for x in found)
        row, left, size_bytes = (
            found[-1].row,
            left - len(found),
            size_bytes + sum(x.size_bytes for x in found),
        )


def first_stored_at(connection: Connection, time_ns: int, table: Table = agent_traces) -> int:
    """The number of the first row of a table that was stored at that time or later, one past the
    last where there is none: by halving.
    """
    number: Column[int] = table.c.seq if table is evaluations else table.c.row
    places = select(number.label("number"), table.c.stored_ns)
    last = connection.execute(places.order_by(number.desc()).limit(1)).first()
    if last is None or last.stored_ns < time_ns:
        return 0 if last is None else int(last.number) + 1
    low, high = 0, int(last.number)
    while low < high:
        middle = (low + high) // 2
        found = connection.execute(places.where(number >= middle).order_by(number).limit(1)).one()
        if found.stored_ns < time_ns:
            low = int(found.number) + 1
        else:
            high = middle
    return low
