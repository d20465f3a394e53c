"""Read sessions of a store that another process writes."""

from collections.abc import Sequence
from typing import Final

from sqlalchemy import bindparam, func, select
from sqlalchemy.engine import Engine

from spanscore.errors import RetryableError
from spanscore.store import connecting, tenants
from spanscore.store.config import Config
from spanscore.store.reading import MAX_SESSION_BYTES, StoredSessions, read_sessions
from spanscore.store.schema import agent_traces
from spanscore.store.transactions import snapshot

_MOST_BYTES: Final = 8 * 2**20
"""Of the records of the traces that are read at once, but for a session that has more."""

_SIZES = (
    select(agent_traces.c.session_id, func.sum(agent_traces.c.size_bytes))
    .where(
        agent_traces.c.session_id.in_(bindparam("keys", expanding=True)),
        tenants.is_parameter(agent_traces.c.tenant),
    )
    .group_by(agent_traces.c.session_id)
)


class SessionReader:
    """Reads and never writes. Not thread-safe."""

    def __init__(self, config: Config, most_bytes: int = _MOST_BYTES) -> None:
        """Nothing is opened before the first sessions are read."""
        self._config = config
        self._most_bytes = most_bytes
        self._engine: Engine | None = None

    def read(
        self, keys: Sequence[str], tenant: str | None = None
    ) -> tuple[StoredSessions, tuple[str, ...]]:
        """What is stored of the first of these sessions, by their keys, and the keys of the rest,
        which are read another time: together they would take too much memory.

        Raises SpanscoreError where the store cannot be read, such as a PostgreSQL that hangs.
        """
        if self._engine is None:
            self._engine = connecting.connect_reading(self._config, is_limited=True)
        if self._engine is None:
            raise RetryableError("there is no store", why="store")
        with snapshot(self._engine) as connection:
            found = connection.execute(_SIZES, {"keys": keys, "tenant": tenant}).all()
            sizes = {key: int(size_bytes) for key, size_bytes in found}
            count = self._fitting([min(sizes.get(x, 0), MAX_SESSION_BYTES) for x in keys])
            return read_sessions(connection, keys[:count], tenant), tuple(keys[count:])

    def _fitting(self, sizes_bytes: Sequence[int]) -> int:
        """How many of the first sessions are read together, by the sizes of all; at least one."""
        total_bytes = 0
        for count, size_bytes in enumerate(sizes_bytes):
            total_bytes += size_bytes
            if count and total_bytes > self._most_bytes:
                return count
        return len(sizes_bytes)
