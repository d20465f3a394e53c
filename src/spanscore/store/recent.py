"""Find the first row that was stored since some time."""

from sqlalchemy import Column, Table, select
from sqlalchemy.engine import Connection

from spanscore.store.schema import agent_traces, evaluations


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
