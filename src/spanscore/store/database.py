"""The store's database while a server runs: whose it is, whether it works, and whether its file is
still the same.
"""

import logging
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Literal

from sqlalchemy.engine import Connection, Engine

from spanscore.errors import ConfigError, PermanentError, RetryableError
from spanscore.store import connecting, transactions
from spanscore.store.config import Config
from spanscore.store.locking import DatabaseLock, FileLock, Lock
from spanscore.store.log_file import LogFile

_log = logging.getLogger(__name__)


class Database:
    """Transactions that write, one at a time, and snapshots. Thread-safe."""

    def __init__(self, config: Config, *, alone: bool) -> None:
        """Open the database that `config` names, and create its tables where there are none.

        `alone`: keep other servers from it until `close`, as whoever gives out sequence numbers
        must. Raises ConfigError where it cannot be opened or is another server's.
        """
        self.one_at_a_time = threading.RLock()
        """Held while something is written, and by whoever keeps count of what is."""
        self.changed: Callable[[Connection], None] = lambda _connection: None
        """Called, before the next transaction, where others may have written, or the file is a new
        one.
        """
        self._config = config
        self._file = connecting.file_of(config)
        self._faults: dict[Literal["damage", "writes", "reads"], str] = {}
        self._lock: Lock | None = None
        self._is_closed = False
        if alone and config.url == connecting.MEMORY:
            raise ConfigError(
                "store.url: a server needs a store that outlives it: sqlite:///FILE, or a"
                " database's URL"
            )
        if alone and self._file is not None:
            self._lock = FileLock(self._file, "store", "store.url")
        try:
            self.engine = connecting.connect(config)
            if alone and self._file is None:
                self._lock = _database_lock(self.engine)
        except BaseException:
            self._release()
            raise
        self._identity = _identity(self._file)
        self._log = LogFile(self._file)

    @property
    def trouble(self) -> str | None:
        """Why the database could not be used when it last was tried; None where it could.

        Damage stays, though another part of the file may be read and written.
        """
        faults = self._faults.copy()
        return faults.get("damage") or faults.get("writes") or faults.get("reads")

    @contextmanager
    def writing(self) -> Iterator[Connection]:
        """A transaction that writes.

        Raises RetryableError where the fault may pass, else PermanentError.
        """
        with self.one_at_a_time, self._noting("writes"):
            if self._is_closed:
                raise RetryableError("the store is closed", retry_after_s=1.0, why="store")
            self._look()
            try:
                with transactions.transaction(self.engine) as connection:
                    yield connection
            except RetryableError as error:
                if transactions.is_full(error.__cause__):
                    self._log.empty(self.engine)  # the room that it takes may be all there is
                raise
            self._log.bound(self.engine)

    @contextmanager
    def reading(self) -> Iterator[Connection]:
        """A transaction that only reads; it waits for no writer. Raises as `writing` does."""
        with self._noting("reads"):
            if self._file is not None and _identity(self._file) != self._identity:
                with self.one_at_a_time:
                    self._look()
            with transactions.snapshot(self.engine) as connection:
                yield connection

    def close(self) -> None:
        """Close all connections and let go of the database, once the transaction under way has
        ended. Calling it again does nothing.

        Who still writes after that gets RetryableError: another server may own the database by
        then, and would not know of what is written.
        """
        with self.one_at_a_time:
            self._is_closed = True
            self.engine.dispose()
            self._release()

    @contextmanager
    def _noting(self, what: Literal["reads", "writes"]) -> Iterator[None]:
        try:
            yield
        except RetryableError as error:
            self._faults["damage" if error.why == transactions.DAMAGE else what] = str(error)
            raise
        else:
            self._faults.pop(what, None)

    def _look(self) -> None:
        """Find out whether the database is still ours, and the one that was opened."""
        is_ours = self._lock is None or self._lock.ensure()
        identity = _identity(self._file)
        if identity != self._identity:
            self._open_anew()
        elif not is_ours:
            with transactions.snapshot(self.engine) as connection:
                self.changed(connection)

    def _open_anew(self) -> None:
        """Go on with the file that is there now: what is written to one that was removed is lost
        with the process.
        """
        self.engine.dispose()
        try:
            self.engine = connecting.connect(self._config)
        except ConfigError as error:
            raise RetryableError(str(error), retry_after_s=5.0, why="store") from error
        with transactions.snapshot(self.engine) as connection:
            self.changed(connection)
        self._identity = _identity(self._file)
        self._faults.pop("damage", None)
        notice = (
            "%s was removed or replaced while it was in use: going on with what is there now,"
            " without what was in it"
        )
        _log.error(notice, self._file)

    def _release(self) -> None:
        if self._lock is not None:
            self._lock.close()


def _database_lock(engine: Engine) -> Lock:
    try:
        return DatabaseLock(engine, engine.url.render_as_string(hide_password=True))
    except (RetryableError, PermanentError) as error:
        raise ConfigError(f"store.url: {error}") from error


def _identity(file: Path | None) -> tuple[int, int] | None:
    """Device and inode of a file; None where it is gone."""
    if file is None:
        return None
    try:
        found = file.stat()
    except OSError:
        return None
    return found.st_dev, found.st_ino
