"""SQLite's write-ahead log: it is emptied once it is long, which it is not by itself while somebody
always reads.
"""

import logging
from pathlib import Path
from typing import Any, Final

from sqlalchemy.engine import Engine

_log = logging.getLogger(__name__)

MAX_BYTES: Final = 64 * 2**20
"""From this size on it is emptied after a commit."""

_STEP_BYTES: Final = 16 * 2**20
"""By how much it grows until that is tried again, where somebody read for too long."""

_WAIT_MS: Final = 1000
"""How long the readers that still need it may take, while nobody writes."""


class LogFile:
    """The log of one database file. Belongs to whoever writes."""

    def __init__(self, database: Path | None) -> None:
        """`database` None: it is no file of SQLite, and has none."""
        self._file = None if database is None else database.with_name(f"{database.name}-wal")
        self._at_bytes = MAX_BYTES

    def bound(self, engine: Engine) -> None:
        """Empty the log where it is long.

        To be called when a transaction has ended; nothing is raised.
        """
        size_bytes = self._size_bytes()
        if size_bytes < self._at_bytes:
            return
        is_empty = self.empty(engine)
        self._at_bytes = MAX_BYTES if is_empty else size_bytes + _STEP_BYTES

    def empty(self, engine: Engine) -> bool:
        """Move what is in the log into the database, and empty it where nobody reads from it;
        whether that was done.
        """
        if not self._size_bytes():
            return True
        try:
            pooled = engine.raw_connection()
            try:
                return _emptied(pooled.driver_connection)
            finally:
                pooled.close()
        except Exception as error:  # noqa: BLE001 - the next commit finds out what is wrong
            _log.debug("the store's write-ahead log cannot be emptied: %s", error)
            return False

    def _size_bytes(self) -> int:
        if self._file is None:
            return 0
        try:
            return self._file.stat().st_size
        except OSError:
            return 0


def _emptied(connection: Any) -> bool:
    (timeout_ms,) = connection.execute("PRAGMA busy_timeout").fetchone()
    connection.execute(f"PRAGMA busy_timeout = {_WAIT_MS}")
    try:
        is_busy, _, _ = connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
    finally:
        connection.execute(f"PRAGMA busy_timeout = {timeout_ms}")
    return not is_busy
