"""What one server alone uses, or one of several does: files, sessions and the lead."""

import asyncio
import fcntl
import logging
import os
import socket
import threading
from collections.abc import Callable, Coroutine, Iterator, Sequence
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import IO, Any, Final

from sqlalchemy import text
from sqlalchemy.engine import Connection, Engine
from sqlalchemy.exc import SQLAlchemyError

from spanscore import local_files
from spanscore.errors import ConfigError, PermanentError, RetryableError

_SHOWN_BYTES: Final = 300
# Of the table, so that stores in several schemas of one database do not stop each other. The first
# halves of the keys are of who leads, and of who evaluates a session.
_TAKE_LEAD: Final = text(
    "SELECT pg_try_advisory_lock(1936748899, 'scores'::regclass::oid::integer)"
)
_TAKE: Final = text(
    "SELECT key FROM unnest(CAST(:keys AS text[])) AS key WHERE"
    " pg_try_advisory_lock(1936748900, hashtext(key) # 'scores'::regclass::oid::integer)"
)
_LET_GO: Final = text(
    "SELECT pg_advisory_unlock(1936748900, hashtext(key) # 'scores'::regclass::oid::integer)"
    " FROM unnest(CAST(:keys AS text[])) AS key"
)
_LET_GO_OF_ALL: Final = text("SELECT pg_advisory_unlock_all()")
_NAME: Final = text("SELECT set_config('application_name', :name, false)")
_KEEPALIVES: Final = text(
    "SELECT set_config('tcp_keepalives_idle', '10', false), set_config('tcp_keepalives_interval',"
    " '5', false), set_config('tcp_keepalives_count', '3', false),"
    " set_config('idle_session_timeout', '0', false)"
)


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

    def close(self) -> None:
        """Let go. Calling it again does nothing."""
        with suppress(OSError):  # what could not be written on a full disk is flushed once more
            self._open.close()


class SharedLocks:
    """What one of the servers on a PostgreSQL does: advisory locks on a connection of its own.

    They end with the process. A host that dies without closing the connection is found out by
    PostgreSQL's keepalives, within half a minute. A pooler in front of the database must not share
    connections between transactions, which such locks do not survive. Thread-safe.
    """

    def __init__(self, engine: Engine) -> None:
        """Of the store that `engine` reaches, once its tables are there; nothing is taken yet."""
        self._engine = engine
        self._one_at_a_time = threading.Lock()
        self._connection: Connection | None = None
        self._leads = False

    def lead(self) -> bool:
        """Take the lead where nobody has it; returns whether this server leads now.

        Raises RetryableError where the database does not answer: whoever led leads no more.
        """
        with self._asking() as connection:
            if self._leads:
                connection.execute(text("SELECT 1"))
            else:
                self._leads = connection.execute(_TAKE_LEAD).scalar_one()
            return self._leads

    def take(self, keys: Sequence[str]) -> list[str]:
        """Those of these sessions that no server evaluates: this one does, until `let_go`.

        Raises as `lead`.
        """
        with self._asking() as connection:
            return list(connection.execute(_TAKE, {"keys": list(keys)}).scalars())

    def let_go(self, keys: Sequence[str]) -> None:
        """Let others evaluate sessions; where the database does not answer they may already."""
        with suppress(RetryableError), self._asking() as connection:
            connection.execute(_LET_GO, {"keys": list(keys)})

    def close(self) -> None:
        """Let go of all. Calling it again does nothing."""
        with self._one_at_a_time:
            self._lose()

    @contextmanager
    def _asking(self) -> Iterator[Connection]:
        with self._one_at_a_time:
            try:
                if self._connection is None:
                    self._connection = self._connect()
                yield self._connection
            except SQLAlchemyError as error:
                self._lose()
                raise RetryableError(
                    f"the store cannot be used: {error}", retry_after_s=5.0
                ) from error

    def _connect(self) -> Connection:
        connection = self._engine.connect().execution_options(isolation_level="AUTOCOMMIT")
        connection.execute(_NAME, {"name": f"spanscore: {_who().strip()}"[:63]})
        with suppress(SQLAlchemyError):  # an old PostgreSQL knows less of them
            connection.execute(_KEEPALIVES)
        return connection

    def _lose(self) -> None:
        connection, self._connection, self._leads = self._connection, None, False
        if connection is not None:
            # else they are free only once the database has seen that the connection ended
            with suppress(SQLAlchemyError):
                connection.execute(_LET_GO_OF_ALL)
            with suppress(SQLAlchemyError):
                connection.invalidate()  # locks go with it, never back into the pool
            connection.close()


def _beside(file: Path) -> Path:
    """The lock file of `file`, which is the same by whatever links it is reached."""
    resolved = file.resolve()
    return resolved.with_name(f"{resolved.name}.lock")


def _locked(path: Path) -> IO[bytes]:
    # not emptied: until the lock is had, the text is of another
    opened = os.fdopen(local_files.open_to_append(path), "ab")
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


_log = logging.getLogger(__name__)

_LOOK_EVERY_S = 1.0


class Leadership:
    """Has one of the servers on a store do what must be done once. Belongs to one event loop.

    The only server on a store always leads.
    """

    def __init__(
        self, lead: Callable[[], bool], try_again: Callable[[], None], *, is_shared: bool
    ) -> None:
        """`lead` and `try_again` are those of a `Store`, which others share or not."""
        self._lead, self._try_again, self._is_shared = lead, try_again, is_shared
        self._begun, self._ended = asyncio.Event(), asyncio.Event()
        self._note(is_leader=not is_shared)

    async def run(self) -> None:
        """Look who leads until cancelled; where nobody does, this server does."""
        while self._is_shared:
            try:
                is_leader = await asyncio.to_thread(self._lead)
            except (RetryableError, PermanentError) as error:
                _log.debug("nobody can tell who leads: %s", error)
                is_leader = False
            else:  # a server that does not lead may have nothing else to ask
                with suppress(RetryableError, PermanentError):
                    await asyncio.to_thread(self._try_again)
            if is_leader != self.is_leader:
                _log.info("this server %s", "leads" if is_leader else "leads no more")
                self._note(is_leader=is_leader)
            await asyncio.sleep(_LOOK_EVERY_S)

    async def only(self, work: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Do `work` while this server leads, from its beginning each time that it begins to.

        Returns, or raises, as `work` does.
        """
        while True:
            await self._begun.wait()
            doing = asyncio.create_task(work())
            ended = asyncio.create_task(self._ended.wait())
            try:
                await asyncio.wait({doing, ended}, return_when=asyncio.FIRST_COMPLETED)
                if doing.done():
                    return doing.result()
            finally:
                ended.cancel()
                doing.cancel()
                await asyncio.wait({doing})

    def _note(self, *, is_leader: bool) -> None:
        self.is_leader = is_leader
        """Whether this server leads, as of the last look."""
        now, other = (self._begun, self._ended) if is_leader else (self._ended, self._begun)
        now.set()
        other.clear()
