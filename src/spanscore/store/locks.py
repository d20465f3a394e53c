"""One server to a journal and to a store."""

import fcntl
import os
import socket
import time
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import IO, Final, Protocol

from sqlalchemy import text
from sqlalchemy.engine import Connection, Engine
from sqlalchemy.exc import SQLAlchemyError

from spanscore.errors import ConfigError, RetryableError

_SHOWN_BYTES: Final = 300
_LOOK_EVERY_S: Final = 5.0

# Of the table, so that stores in several schemas of one database do not stop each other.
_LET_GO: Final = text("SELECT pg_advisory_unlock_all()")
_TAKE: Final = text(
    "SELECT pg_try_advisory_lock(1936748899, 'evaluations'::regclass::oid::integer)"
)
_NAME: Final = text("SELECT set_config('application_name', :name, false)")
_KEEPALIVES: Final = text(
    "SELECT set_config('tcp_keepalives_idle', '30', false), set_config('tcp_keepalives_interval',"
    " '10', false), set_config('tcp_keepalives_count', '3', false),"
    " set_config('idle_session_timeout', '0', false)"
)
_HOLDER: Final = text(
    "SELECT application_name, client_addr FROM pg_stat_activity JOIN pg_locks USING (pid) WHERE"
    " locktype = 'advisory' AND classid = 1936748899 AND objid = 'evaluations'::regclass::oid AND"
    " granted"
)


class Lock(Protocol):
    """Keeps other servers from a store."""

    def ensure(self) -> bool:
        """Check that it still holds; False: it had to be taken anew, and others may have written
        meanwhile.

        Raises RetryableError where another server has taken it, or that cannot be found out now.
        """
        ...

    def close(self) -> None:
        """Let go. Calling it again does nothing."""
        ...


class FileLock:
    """Holds `FILE.lock` beside a file, until `close` or the death of the process.

    The kernel's lock counts (flock), not the lock file: one that a dead process left, in this or
    another container, stops nobody, whatever process has its id now. The text in the lock file is
    shown in an error, to find the holder.
    """

    def __init__(self, file: Path, what: str, key: str) -> None:
        """Lock `file`, which need not be there: the `what` (journal, store) that the setting `key`
        names.

        Raises ConfigError where another process holds it, or the lock file cannot be written.
        """
        try:
            self._open = _locked(_beside(file))
        except BlockingIOError as error:
            problem = f"{file}: in use by another spanscore ({_holder(_beside(file))})"
            raise ConfigError(f"{problem}; stop that one, or set another {key}") from error
        except OSError as error:
            raise ConfigError(
                f"{file}: cannot be opened as the {what} ({error}); see {key}"
            ) from error
        with suppress(OSError):  # a full disk: the lock holds without the text
            self._open.truncate(0)
            self._open.write(_who().encode())
            self._open.flush()

    def ensure(self) -> bool:
        """Check nothing: the kernel takes it from no living process."""
        return True

    def close(self) -> None:
        """Let go. Calling it again does nothing."""
        with suppress(OSError):  # what could not be written on a full disk is flushed once more
            self._open.close()


class DatabaseLock:
    """Holds a PostgreSQL advisory lock on a connection of its own, which ends with the process.

    A host that dies without closing it is found out by PostgreSQL's keepalives, within about a
    minute. A pooler in front of the database must not share connections between transactions, which
    advisory locks do not survive.
    """

    def __init__(self, engine: Engine, shown: str) -> None:
        """Take the lock of the store that `engine` reaches, once its tables are there.

        `shown` is its URL.

        Raises ConfigError where another server holds it, RetryableError where the database does not
        answer.
        """
        self._engine = engine
        self._looked_s = time.monotonic()
        self._connection: Connection | None = None
        if (holder := self._take()) is not None:
            raise ConfigError(
                f"store.url: {shown} is in use by another spanscore ({holder}); stop that one, or"
                " set another store.url"
            )

    def ensure(self) -> bool:
        """See `Lock.ensure`; the database is asked every five seconds at most."""
        now_s = time.monotonic()
        if self._connection is not None and now_s - self._looked_s < _LOOK_EVERY_S:
            return True
        if self._connection is not None and self._answers(self._connection):
            self._looked_s = now_s
            return True
        self.close()
        if (holder := self._take()) is not None:
            raise RetryableError(
                f"another spanscore has taken the store over ({holder}); stop one of them",
                why="store",
            )
        self._looked_s = now_s
        return False

    def close(self) -> None:
        """Let go. Calling it again does nothing."""
        connection, self._connection = self._connection, None
        if connection is not None:
            # else it is free only once the database has seen that the connection ended
            with suppress(SQLAlchemyError):
                connection.execute(_LET_GO)
            connection.invalidate()  # a lock goes with its connection, never back into the pool
            connection.close()

    def _take(self) -> str | None:
        """Who holds the lock; None: we do now."""
        try:
            connection = self._engine.connect().execution_options(isolation_level="AUTOCOMMIT")
            try:
                connection.execute(_NAME, {"name": f"spanscore: {_who().strip()}"[:63]})
                with suppress(SQLAlchemyError):  # an old PostgreSQL knows less of them
                    connection.execute(_KEEPALIVES)
                if connection.execute(_TAKE).scalar_one():
                    self._connection = connection
                    return None
                found = connection.execute(_HOLDER).first()
            finally:
                if self._connection is None:
                    connection.invalidate()
                    connection.close()
        except SQLAlchemyError as error:
            raise RetryableError(f"the store cannot be used: {error}", retry_after_s=5.0) from error
        return (
            "it has gone meanwhile"
            if found is None
            else f"{found[0]}, from {found[1] or 'this machine'}"
        )

    @staticmethod
    def _answers(connection: Connection) -> bool:
        try:
            connection.execute(text("SELECT 1"))
        except SQLAlchemyError:
            return False
        return True


def _beside(file: Path) -> Path:
    """The lock file of `file`, which is the same by whatever links it is reached."""
    resolved = file.resolve()
    return resolved.with_name(f"{resolved.name}.lock")


def _locked(path: Path) -> IO[bytes]:
    path.parent.mkdir(parents=True, exist_ok=True)
    opened = path.open("ab")  # not emptied: until the lock is had, the text is of another
    try:
        fcntl.flock(opened, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        opened.close()
        raise
    return opened


def _who() -> str:
    return (
        f"process {os.getpid()} on {socket.gethostname()}, since"
        f" {datetime.now(UTC):%Y-%m-%d %H:%M:%S} UTC\n"
    )


def _holder(path: Path) -> str:
    try:
        with path.open("rb") as lock:
            text = lock.read(_SHOWN_BYTES).decode(errors="replace").strip()
    except OSError:
        text = ""
    return text or "it has not written its process id"
