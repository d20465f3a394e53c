"""The server's database: ownership, secrets, retention."""

import logging
import secrets
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal, NamedTuple

from sqlalchemy import ColumnElement, Table, delete, exists, func, select, true
from sqlalchemy.engine import Connection, Engine

from spanscore.errors import ConfigError, InputError, PermanentError, RetryableError
from spanscore.store import connections, kept_scores, repair, salvage, schema
from spanscore.store.config import Config
from spanscore.store.locks import FileLock, SharedLocks
from spanscore.store.schema import agent_traces, judge_answers, marks, names, scores
from spanscore.store.stored_rows import forget_names, put_rows

_log = logging.getLogger(__name__)


_EXAMINE_EVERY_S: Final = 15.0
_READERS_S: Final = 5.0
NO_GUARD: Final = nullcontext()

_ONE_WRITER: Final = (
    "SET TRANSACTION ISOLATION LEVEL READ COMMITTED;"
    " SET LOCAL idle_in_transaction_session_timeout = 15000; SET LOCAL tcp_user_timeout = 15000;"
    " SELECT pg_advisory_xact_lock('scores'::regclass::oid::bigint)"
)
"""Have one of all servers write at a time.

What follows sees all that was committed before, and nothing is written beside it. A server that
hangs, or that the network cuts off, keeps the others waiting for 15 s at most.
"""


class Database:
    """Transactions that write, one at a time, and snapshots. Thread-safe."""

    def __init__(
        self, config: Config, *, alone: bool, guard: AbstractContextManager[object] = NO_GUARD
    ) -> None:
        """Open the database that `config` names, and create its tables where there are none.

        `alone`: keep other servers from a file until `close`; those on PostgreSQL share it.
        `guard` is held while SQLite works; a thread may hold it several times over. Raises
        ConfigError where it cannot be opened or is another server's.
        """
        self.one_at_a_time = threading.RLock()
        """Held while something is written, and by whoever keeps count of what is."""
        self.changed: Callable[[Connection], None] = lambda _connection: None
        """Called, before the next transaction, where others may have written, or the file is a new
        one.
        """
        self._config = config
        self._file = connections.file_of(config)
        self._faults: dict[Literal["damage", "writes", "reads"], str] = {}
        self._lock: FileLock | None = None
        self.locks: SharedLocks | None = None
        """What one of the servers on this database does; None where there is only one."""
        self._is_closed = False
        self._guard = guard
        self._examining: threading.Thread | None = None
        self._readers = _Readers()
        if alone and config.url == connections.MEMORY:
            raise ConfigError(
                "store.url: a server needs a store that outlives it: sqlite:///FILE, or a"
                " database's URL"
            )
        if alone and self._file is not None:
            self._lock = FileLock(self._file, "store", "store.url")
        try:
            with guard:
                self.engine = self._connected()
            if config.url != connections.MEMORY and self._file is None:
                self.locks = SharedLocks(self.engine)
        except BaseException:
            self._release()
            raise
        self._identity = _identity(self._file)
        self._log = LogFile(self._file)

    @property
    def trouble(self) -> str | None:
        """Why the database could not be used when it last was tried; None where it could.

        Damage stays, though another part of the file may be read and written, unless the file is
        found to be sound.
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
            with self._guard:
                try:
                    with connections.transaction(self.engine) as connection:
                        if self.locks is not None:
                            connection.exec_driver_sql(_ONE_WRITER)
                            self.changed(connection)
                        yield connection
                except RetryableError as error:
                    if connections.is_full(error.__cause__):
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
            with self._readers, self._guard, connections.snapshot(self.engine) as connection:
                yield connection
            if self._file in salvage.copies:
                self._suspect(f"{self._file} is damaged: what can be read of it is")

    def try_again(self) -> None:
        """Find out whether it can be used again, where nothing else asks. Raises as `writing`."""
        for use in (self.writing, self.reading):
            with use() as connection:
                connection.execute(select(1))

    def close(self) -> None:
        """Close all connections and let go of the database, once the transaction under way has
        ended. Calling it again does nothing.

        Who still writes after that gets RetryableError: another server may own the database by
        then, and would not know of what is written.
        """
        with self.one_at_a_time:
            self._is_closed = True
            self._release()
            with self._guard:
                self.engine.dispose()

    @contextmanager
    def _noting(self, what: Literal["reads", "writes"]) -> Iterator[None]:
        try:
            yield
        except RetryableError as error:
            if error.why == connections.DAMAGE:
                self._suspect(str(error))
            else:
                self._faults[what] = str(error)
            raise
        else:
            self._faults.pop(what, None)

    def _suspect(self, fault: str) -> None:
        """Note damage that SQLite reports, and have it looked into."""
        if self._examining is None:
            self._faults["damage"] = fault
            self._examining = threading.Thread(target=self._examine, name="damage", daemon=True)
            self._examining.start()

    def _examine(self) -> None:
        """Find out whether the file is damaged, once the disk reads it, and repair it."""
        while self._file is not None and not self._is_closed:
            try:
                with self._guard:
                    fault = repair.fault_of(self._file)
                if fault is not None and self._lock is None:
                    self._faults["damage"] = f"{self._file}: {fault}; {connections.REPAIR}"
                    _log.error("%s", self._faults["damage"])
                    return
                if fault is None:
                    _log.warning("%s is sound: the disk had failed at reading it", self._file)
                else:
                    with self.one_at_a_time, self._readers.none(), self._guard:
                        self._repair(fault)
                        self._open_anew()
            except (InputError, RetryableError) as error:
                self._faults["damage"] = f"the store cannot be used: {error}"
                time.sleep(_EXAMINE_EVERY_S)
            else:
                salvage.forget(self._file)
                self._faults.pop("damage", None)
                self._examining = None
                return

    def _connected(self) -> Engine:
        """An engine; what its owner finds damaged is repaired first."""
        try:
            engine = connections.connect(self._config)
        except ConfigError as error:
            found = error.__cause__
            is_damaged = isinstance(found, RetryableError) and found.why == connections.DAMAGE
            if self._lock is None or not is_damaged:
                raise
            self._repair(str(found))
            return connections.connect(self._config)
        if self._lock is not None:
            with connections.snapshot(engine) as connection:
                is_whole = schema.is_whole(connection.exec_driver_sql)
            if is_whole is False:
                engine.dispose()
                self._repair(schema.BROKEN)
        return engine

    def _repair(self, fault: str) -> None:
        """Write a damaged file anew, while nobody uses it. Raises InputError."""
        if hasattr(self, "engine"):
            self.engine.dispose()
        copied, aside = repair.store(self._config)
        lost = salvage.loss_of(copied)
        _log.error("%s was damaged (%s) and is repaired: %s", self._file, fault, lost)
        _log.error("the damaged file is kept: %s", aside)

    def _look(self) -> None:
        """Find out whether the file is the one that was opened."""
        if _identity(self._file) != self._identity:
            with self._guard:
                self._open_anew()
            self._faults.pop("damage", None)
            self._examining = None
            notice = (
                "%s was removed or replaced while it was in use: going on with what is there now,"
                " without what was in it"
            )
            _log.error(notice, self._file)

    def _open_anew(self) -> None:
        """Go on with the file that is there now: what is written to one that was removed is lost
        with the process.
        """
        self.engine.dispose()
        try:
            self.engine = connections.connect(self._config)
        except ConfigError as error:
            raise RetryableError(str(error), retry_after_s=5.0, why="store") from error
        with connections.snapshot(self.engine) as connection:
            self.changed(connection)
        self._identity = _identity(self._file)

    def _release(self) -> None:
        if self._lock is not None:
            self._lock.close()
        if self.locks is not None:
            self.locks.close()


class _Readers:
    """Those who read now, and who keeps them out."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._count = 0

    def __enter__(self) -> None:
        with self._changed:
            self._count += 1

    def __exit__(self, *raised: object) -> None:
        with self._changed:
            self._count -= 1
            self._changed.notify_all()

    @contextmanager
    def none(self) -> Iterator[None]:
        """Keep all out, once those who read have ended.

        Raises RetryableError after five seconds.
        """
        with self._changed:
            if not self._changed.wait_for(lambda: not self._count, _READERS_S):
                raise RetryableError("somebody reads from the damaged store")
            yield


def _identity(file: Path | None) -> tuple[int, int] | None:
    """Device and inode of a file; None where it is gone."""
    if file is None:
        return None
    try:
        found = file.stat()
    except OSError:
        return None
    return found.st_dev, found.st_ino


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


_BYTES: Final = 32


def secret(database: Database, name: str) -> bytes:
    """The key of this name, 32 bytes; drawn now where there is none.

    While the database cannot be used it is one that holds for this process alone.
    """
    try:
        return _kept(database, name)
    except (RetryableError, PermanentError) as error:
        _log.warning(
            "%s: no key can be kept, so a new one is used until the next start: %s", name, error
        )
        return secrets.token_bytes(_BYTES)


def _kept(database: Database, name: str) -> bytes:
    is_it = (marks.c.kind == "secret", marks.c.name == name)
    stored = select(marks.c.text).where(*is_it)
    with database.reading() as connection:
        found = connection.execute(stored).scalar_one_or_none()
    if found is None:
        with database.writing() as connection:
            drawn = ("secret", name, "", 0, secrets.token_hex(_BYTES))
            put_rows(connection, marks, [drawn], unless_there=True)
            found = connection.execute(stored).scalar_one()
    return bytes.fromhex(found)


_STEP_ROWS = 500  # of each kind; also the bind parameters of one statement


class _Kind(NamedTuple):
    """Records of one kind in the order of their age: `order` is a column, rising or falling."""

    table: Table
    order: Any
    is_of_kind: ColumnElement[bool] = true()


_KINDS: Final = {
    "traces": _Kind(agent_traces, agent_traces.c.row),
    "measured": _Kind(scores, scores.c.number, schema.MEASURED),
    "given": _Kind(scores, scores.c.number.desc(), schema.GIVEN),
    "answers": _Kind(judge_answers, judge_answers.c.row),
}


@dataclass(frozen=True, slots=True)
class Pruned:
    """What one step deleted; nothing at all means that there was nothing left to delete."""

    traces: int
    records: int
    size_bytes: int


def stored_bytes(connection: Connection) -> int:
    """Bytes of all records that retention bounds."""
    return sum(
        connection.execute(select(func.coalesce(func.sum(x.c.size_bytes), 0))).scalar_one()
        for x in (agent_traces, scores, judge_answers)
    )


def prune_step(connection: Connection, before_ns: int | None) -> Pruned:
    """Delete some of the oldest records; with `before_ns` (Unix ns) only such as were stored before
    it.

    Of each kind the first rows are looked at, and what goes is what is older than the newest of a
    kind that has more: so they are worked off together, as if they were one list by age.
    """
    oldest = {name: _oldest(connection, kind) for name, kind in _KINDS.items()}
    ends = [rows[-1].stored_ns + 1 for rows in oldest.values() if len(rows) == _STEP_ROWS]
    ends += [] if before_ns is None else [before_ns]
    end_ns = min(ends, default=None)
    doomed: dict[str, list[int]] = {}
    freed_bytes = 0
    for name, rows in oldest.items():
        of_kind = [row for row in rows if end_ns is None or row.stored_ns < end_ns]
        freed_bytes += sum(row.size_bytes for row in of_kind)
        doomed[name] = [row[0] for row in of_kind]
    _delete_traces(connection, doomed["traces"])
    kept_scores.remove(connection, doomed["measured"] + doomed["given"])
    if doomed["answers"]:
        connection.execute(delete(judge_answers).where(judge_answers.c.row.in_(doomed["answers"])))
    return Pruned(len(doomed["traces"]), sum(map(len, doomed.values())), freed_bytes)


def _oldest(connection: Connection, kind: _Kind) -> Sequence[Any]:
    table = kind.table.c
    number = table.number if kind.table is scores else table.row
    query = select(number, table.stored_ns, table.size_bytes).where(kind.is_of_kind)
    return connection.execute(query.order_by(kind.order).limit(_STEP_ROWS)).all()


def _delete_traces(connection: Connection, rows: list[int]) -> None:
    if not rows:
        return
    doomed = agent_traces.c.row.in_(rows)
    gone = connection.execute(select(agent_traces.c.id, agent_traces.c.session_id).where(doomed))
    ids, sessions = zip(*gone, strict=True)
    forget_names(connection, ids)
    connection.execute(delete(agent_traces).where(doomed))
    still_there = exists().where(agent_traces.c.session_id == names.c.id)
    of_sessions = names.c.kind == "session", names.c.id.in_(set(sessions) - {None})
    connection.execute(delete(names).where(*of_sessions, ~still_there))
