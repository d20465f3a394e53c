"""What an evaluation run may name: traces and sessions, by their ids, their records, and when they
were stored.
"""

from collections.abc import Callable, Sequence

from sqlalchemy import ColumnElement, select
from sqlalchemy.engine import Connection

from spanscore.model.score import Evaluation
from spanscore.model.trace import AgentTrace
from spanscore.store import reading, records, tenants
from spanscore.store.schema import agent_traces, otel_traces, session_keys
from spanscore.store.writing import chunks, key

_ROWS_AT_ONCE = 20


class TargetReads:
    """Reads with the connection of a transaction."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def traces(
        self, tenant: str, after: str, limit: int, *, max_bytes: int, stored_by_ns: int
    ) -> list[tuple[str, AgentTrace | None]]:
        """At most `limit` of a tenant's agent traces by their ids, in the order of these.

        None for one whose record is damaged. Of large ones fewer: the last is the one with which
        the records reach `max_bytes`. It is empty only where none follows. Those that were first
        stored later than `stored_by_ns` are left out.
        """
        table = agent_traces.c
        known = (
            table.id > after,
            *tenants.is_of(agent_traces, tenant),
            _was_stored_by(stored_by_ns),
        )
        sizes = select(table.id, table.size_bytes).where(*known).order_by(table.id).limit(limit)
        last, total_bytes = "", 0
        for id_, size_bytes in self._connection.execute(sizes):
            if total_bytes >= max_bytes:
                break
            last, total_bytes = id_, total_bytes + size_bytes
        query = select(table.id, table.record).where(*known, table.id <= last).order_by(table.id)
        found = self._connection.execute(query)
        return [
            (row.id, next(iter(records.undamaged(records.decode_trace, row.record)), None))
            for row in found
        ]

    def trace_ids(self, tenant: str, after: str, limit: int, *, stored_by_ns: int) -> list[str]:
        """At most `limit` ids of the same agent traces, without a look at their records."""
        table = agent_traces.c
        known = (
            table.id > after,
            *tenants.is_of(agent_traces, tenant),
            _was_stored_by(stored_by_ns),
        )
        return list(
            self._connection.execute(
                select(table.id).where(*known).order_by(table.id).limit(limit)
            ).scalars()
        )

    def traces_in(
        self, tenant: str, after: int, limit: int, *, max_bytes: int, until: int
    ) -> list[tuple[int, str, AgentTrace | None]]:
        """At most `limit` agent traces with rows above `after` up to `until`: row, id and trace, in
        their order.

        Of large ones fewer, and None for one whose record is damaged, as of `traces`.
        """
        table = agent_traces.c
        within = (*tenants.is_of(agent_traces, tenant), table.row > after, table.row <= until)
        sizes = select(table.row, table.size_bytes).where(*within).order_by(table.row).limit(limit)
        last, total_bytes = after, 0
        for row, size_bytes in self._connection.execute(sizes):
            if total_bytes >= max_bytes:
                break
            last, total_bytes = row, total_bytes + size_bytes
        query = select(table.row, table.id, table.record).where(*within, table.row <= last)
        found = self._connection.execute(query.order_by(table.row))
        return [
            (x.row, x.id, next(iter(records.undamaged(records.decode_trace, x.record)), None))
            for x in found
        ]

    def scores(self, tenant: str, ids: Sequence[str]) -> dict[str, list[Evaluation]]:
        """The newest scores that these agent traces got as they came; damaged ones are left out."""
        found: dict[str, list[Evaluation]] = {id_: [] for id_ in ids}
        for row in reading.newest_scores(self._connection, ids, [], tenant):
            found[row.subject_id] += records.undamaged(records.decode_evaluation, row.record)
        return found

    def has_trace(
        self, tenant: str, session_key: str, is_wanted: Callable[[AgentTrace], bool]
    ) -> bool:
        """Whether `is_wanted` is true of one of a session's newest agent traces; damaged ones are
        left out.
        """
        ids = reading.session_trace_ids(self._connection, [session_key], tenant)
        for start in range(0, len(ids), _ROWS_AT_ONCE):
            some = agent_traces.c.id.in_(ids[start : start + _ROWS_AT_ONCE])
            for record in self._connection.execute(
                select(agent_traces.c.record).where(some)
            ).scalars():
                if any(map(is_wanted, records.undamaged(records.decode_trace, record))):
                    return True
        return False

    def unknown_traces(self, tenant: str, ids: Sequence[str]) -> list[str]:
        """Those of `ids` that are neither of an agent trace nor of an OTel trace that a tenant
        has.
        """
        found: set[str] = set()
        for some in chunks(ids):
            for table, column in (
                (agent_traces, agent_traces.c.id),
                (otel_traces, otel_traces.c.trace_id),
            ):
                known = select(column).where(column.in_(some), *tenants.is_of(table, tenant))
                found.update(self._connection.execute(known).scalars())
        return [x for x in ids if x not in found]

    def unknown_sessions(self, tenant: str, ids: Sequence[str]) -> list[str]:
        """Those of `ids` that are neither an id nor the key of a session that a tenant has."""
        keys = sorted({key(x) for x in ids})
        pairs = select(session_keys.c.session_id, session_keys.c.session_key)
        pairs = pairs.where(*tenants.is_of(session_keys, tenant))
        keys_of = {x: {x} for x in keys}
        for some in chunks(keys):
            for session_id, session_key in self._connection.execute(
                pairs.where(session_keys.c.session_id.in_(some))
            ):
                keys_of[session_id].add(session_key)
        stored = reading.stored_sessions(
            self._connection, sorted(set().union(*keys_of.values())), tenant
        )
        return [x for x in ids if keys_of[key(x)].isdisjoint(stored)]

    def sessions_of(self, tenant: str, session_id: str) -> list[str]:
        """The keys of a tenant's sessions with this id, one for each namespace; a key stands for
        its session.
        """
        return sorted(reading.sessions_of(self._connection, key(session_id), tenant))

    def turns(self, tenant: str, trace_id: str) -> list[str]:
        """The ids of a tenant's agent traces that an id of an agent trace or of an OTel trace
        stands for.
        """
        return reading.turns(self._connection, trace_id, tenant)

    def turns_of_session(self, tenant: str, session_id: str) -> list[str]:
        """The ids of the agent traces of a tenant's sessions with this id."""
        return sorted(
            reading.session_trace_ids(
                self._connection, self.sessions_of(tenant, session_id), tenant
            )
        )

    def session_keys(
        self,
        tenant: str,
        after: str,
        limit: int,
        *,
        stored_by_ns: int,
        rows: tuple[int, int] | None = None,
    ) -> list[str]:
        """At most `limit` keys of a tenant's sessions, in their order.

        Those of which all agent traces were first stored later than `stored_by_ns` are left out,
        and those without an agent trace in `rows`, where these are given.
        """
        column = agent_traces.c.session_id
        query = (
            select(column)
            .where(
                column > after, *tenants.is_of(agent_traces, tenant), _was_stored_by(stored_by_ns)
            )
            .group_by(column)
            .order_by(column)
            .limit(limit)
        )
        if rows is not None:
            query = query.where(agent_traces.c.row > rows[0], agent_traces.c.row <= rows[1])
        return list(self._connection.execute(query).scalars())


def _was_stored_by(time_ns: int) -> ColumnElement[bool]:
    """Whether an agent trace was first stored then or earlier; of one that has changed since, that
    is assumed.
    """
    return (agent_traces.c.stored_ns <= time_ns) | (agent_traces.c.revision > 1)
