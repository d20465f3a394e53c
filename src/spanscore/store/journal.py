"""The journal of acknowledged requests.

An SQLite file of its own through sqlite3, since it is on the path of every request. One thread
writes; what waits while it commits goes into the next commit together. In WAL mode with
`synchronous: normal` a commit survives the death of the process (kill -9) but, on a power loss, the
last commits before it may be missing; `full` survives both and costs an fsync a commit.
"""

import logging
import queue
import sqlite3
import threading
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Literal, TypeAlias
from urllib.parse import quote

from spanscore.errors import RetryableError
from spanscore.model.json import dumps, loads
from spanscore.model.span import Headers
from spanscore.store import departures, ledger, pages, quarantine, recovery
from spanscore.store.config import JournalConfig
from spanscore.store.departures import Leaving
from spanscore.store.ledger import Entry, Ledger
from spanscore.store.locks import FileLock
from spanscore.store.recovery import Lost
from spanscore.telemetry import Complaints

_log = logging.getLogger(__name__)

_REQUEST: Final = "SELECT signal, received_ns, body, headers FROM requests WHERE row = ?"
_CLOSE: Final = (
    "INSERT INTO closed VALUES (?, ?, ?, ?) ON CONFLICT DO UPDATE SET last_row = excluded.last_row,"
    " closed_ns = excluded.closed_ns, is_part = max(is_part, excluded.is_part)"
)
_FORGET: Final = (
    "DELETE FROM closed WHERE closed_ns < (SELECT closed_ns FROM closed ORDER BY closed_ns DESC"
    " LIMIT 1 OFFSET ?)"
)
Loss: TypeAlias = Literal["missing", "damaged"]
"""How a request was lost: the journal lacks it, or what it has of it is not what was kept."""


@dataclass(frozen=True, slots=True)
class Request:
    """A journalled request: `body` is the protobuf as it was received."""

    row: int
    signal: str
    received_ns: int
    body: bytes
    headers: Headers = ()


class Journal:
    """Append, read and delete requests.

    Every method may be called from any thread; those that write return futures.
    """

    def __init__(self, config: JournalConfig) -> None:
        """Open or create the file. Raises ConfigError where that cannot be done."""
        self._config = config
        self._lock = FileLock(config.path, "journal", "journal.path")
        opened = recovery.open_files(config.path, config.synchronous)
        self._commits = Commits(opened.writer, opened.ledger, config.path)
        self._reader = opened.reader
        self._reading = threading.Lock()
        self._entries = opened.entries
        self._lost: dict[Loss, Lost] = {"missing": opened.lost} if opened.lost.count else {}
        self._refused_bytes = 0
        self._next_row = opened.highest + 1
        self._size_bytes = sum(x.size_bytes for x in self._entries.values())
        self._counting = threading.Lock()

    @property
    def size_bytes(self) -> int:
        """Bytes of the requests held now."""
        return self._size_bytes

    @property
    def fill(self) -> float:
        """Share of `max_bytes` in use, 0 to 1."""
        return self._size_bytes / self._config.max_bytes

    @property
    def max_bytes(self) -> int:
        """Bytes of requests that may be held."""
        return self._config.max_bytes

    @property
    def requests(self) -> int:
        """How many requests are held now."""
        return len(self._entries)

    @property
    def oldest_ns(self) -> int | None:
        """When the oldest request held now was received, in Unix ns; None where there is none."""
        with self._counting:
            return next((x.received_ns for x in self._entries.values()), None)

    @property
    def lost(self) -> Mapping[Loss, Lost]:
        """Acknowledged requests that the journal should have and has not: `missing` at its start,
        or `damaged`.
        """
        return self._lost.copy()

    def size_of(self, rows: Iterable[int]) -> int:
        """How many bytes these requests hold; 0 for one that is unknown."""
        with self._counting:
            return sum(self._entries[row].size_bytes for row in rows if row in self._entries)

    def checksums(self, rows: Iterable[int]) -> dict[int, int | None]:
        """The checksum of each request, by its row, for a `JournalReader`; None where it is not
        known.
        """
        with self._counting:
            return {row: self._entries[row].checksum for row in rows if row in self._entries}

    @property
    def trouble(self) -> str | None:
        """Why a request would not be kept now; None where it would."""
        return (
            "the journal is full"
            if self._refused_bytes and self._is_full_for(self._refused_bytes)
            else self._commits.fault
        )

    def append(
        self,
        signal: str,
        body: bytes,
        received_ns: int,
        headers: Headers = (),
        *,
        delivered: bool = False,
    ) -> "Future[int]":
        """Keep a request and its headers; the future gives its row once it is committed.

        `delivered`: a broker has it too, and delivers it again after a restart.

        Raises RetryableError, here or from the future, when the journal is full or the disk
        refuses.
        """
        text = dumps([list(x) for x in headers]) if headers else ""
        with self._counting:
            if self._is_full_for(len(body)):
                self._refused_bytes = len(body)
                complaint = (
                    f"the journal is full ({self._config.max_bytes} bytes, see journal.max_bytes)"
                )
                raise RetryableError(complaint, retry_after_s=5.0, why="journal_full")
            row, self._next_row = self._next_row, self._next_row + 1
            entry = self._entries[row] = Entry(len(body), received_ns, ledger.checksum(body, text))
            self._size_bytes += len(body)

        def insert(db: sqlite3.Connection) -> int:
            values = (row, signal, received_ns, text, delivered, body)
            db.execute("INSERT INTO requests VALUES (?, ?, ?, ?, ?, ?)", values)
            return row

        future = self._commits.submit(insert, len(body), keeps={row: entry})
        future.add_done_callback(lambda done: self._uncount((row,)) if done.exception() else None)
        return future

    def delete(self, rows: Sequence[int]) -> "Future[None]":
        """Forget requests that nothing needs any more; unknown rows are ignored.

        While the disk refuses, they wait to be forgotten and take up their room.
        """
        future = self._commits.submit(
            lambda db: departures.forget(db, rows), owed=True, removes=rows
        )
        future.add_done_callback(lambda done: None if done.exception() else self._uncount(rows))
        return future

    def delivered(self) -> list[int]:
        """The requests that a broker delivers again."""
        return [row for (row,) in self._asked("SELECT row FROM requests WHERE delivered")]

    def mark_rest_left(self, row: int, held: Iterable[bytes] = ()) -> "Future[None]":
        """Remember that all of a request but the spans `held` back has left again, in inline
        mode.
        """
        return self._commits.submit(lambda db: departures.rest_left(db, row, held), owed=True)

    def mark_span_left(self, row: int, span: bytes) -> "Future[None]":
        """Remember that a span held back has left, or need not: after a restart it is not sent a
        second time.
        """
        return self._commits.submit(lambda db: departures.span_left(db, row, span), owed=True)

    def leaving(self, row: int) -> Leaving:
        """What has left of a request."""
        with self._reading, self._explained_errors():
            return departures.read(self._reader, row)

    def close_traces(
        self, closed: Sequence[tuple[bytes, int, int]], parts: Sequence[bytes] = ()
    ) -> "Future[None]":
        """Remember traces as dealt with: (key, last row read, Unix ns).

        `parts` are those of turns with others.

        A key is whatever the caller knows a trace by.
        """
        rows = [(*x, x[0] in parts) for x in closed]
        return self._commits.submit(lambda db: db.executemany(_CLOSE, rows), owed=True)

    def forget_closed(self, keep: int) -> "Future[None]":
        """Forget all but the `keep` latest of what `close_traces` remembered."""
        return self._commits.submit(lambda db: db.execute(_FORGET, (keep - 1,)))

    def closed_traces(self) -> dict[bytes, tuple[int, int]]:
        """Key to (last row read, Unix ns) of every trace remembered as dealt with."""
        found = self._asked("SELECT trace_id, last_row, closed_ns FROM closed ORDER BY closed_ns")
        return {key: (row, closed_ns) for key, row, closed_ns in found}

    def parts(self) -> set[bytes]:
        """The keys of traces remembered as dealt with that are parts of turns with others."""
        return {key for (key,) in self._asked("SELECT trace_id FROM closed WHERE is_part")}

    def read(self, rows: Iterable[int]) -> list[Request]:
        """The requests at `rows`, in their order; those that are gone are left out.

        So are those that are damaged: they are counted as lost, and put aside. Raises
        RetryableError where the disk refuses to read.
        """
        return [request for row in rows if (request := self._read(row)) is not None]

    def _read(self, row: int) -> Request | None:
        try:
            found = self._row(row)
        except sqlite3.DatabaseError as error:
            self._give_up(row, f"{error}")
            return None
        if found is None:
            return None
        entry = self._entries.get(row)
        if (request := _request(row, found, entry.checksum if entry else None)) is None:
            self._give_up(row, "its checksum differs")
        return request

    def _row(self, row: int) -> Any:
        """Raises sqlite3.DatabaseError where it is damaged, RetryableError where the disk refuses.

        The disk may read again by the time that it is looked at.
        """
        for is_last in (False, True):
            try:
                with self._reading:
                    return self._reader.execute(_REQUEST, (row,)).fetchone()
            except sqlite3.DatabaseError as error:
                is_damaged = pages.is_damaged(error)
                failed = pages.disk_error(self._config.path) if is_damaged else error
                if failed is not None:
                    raise RetryableError(
                        f"the journal cannot be read: {failed}", why="journal_fault"
                    ) from error
                if is_last:
                    raise
        return None

    def _give_up(self, row: int, why: str) -> None:
        """A request is damaged: nothing can be made of it."""
        with self._counting:
            entry = self._entries.get(row)
        if entry is None:
            return
        _log.error("a request in the journal is damaged and lost (%s): row %d, put aside", why, row)
        self._lost["damaged"] = self._lost.get("damaged", Lost()) + Lost.of([entry])
        self.put_aside([row], f"damaged on disk: {why}", entry.received_ns)
        self.delete([row])

    def replay(self, *, without: Collection[int] = ()) -> Iterator[Request]:
        """Every request but some, oldest first, one at a time."""
        for row in sorted(self._entries.keys() - set(without)):
            yield from self.read((row,))

    def quarantine(self, signal: str, body: bytes, reason: str, received_ns: int) -> "Future[None]":
        """Put a request aside that could not be read, within the bounds on their number and
        bytes.
        """
        return self._commits.submit(
            lambda db: quarantine.put(
                db, received_ns, signal, reason, body, self._config.max_quarantined
            ),
            len(body),
        )

    def put_aside(self, rows: Sequence[int], reason: str, now_ns: int) -> "Future[None]":
        """Copy requests into quarantine, to be done before anything that is asked for later."""
        return self._commits.submit(
            lambda db: quarantine.copy(db, rows, reason, now_ns, self._config.max_quarantined),
            owed=True,
        )

    def close(self) -> None:
        """Commit what was handed in, then close the file. Calling it again does nothing."""
        self._commits.close()
        with self._reading:
            self._reader.close()
        self._lock.close()

    def _asked(self, query: str) -> list[Any]:
        with self._reading, self._explained_errors():
            return self._reader.execute(query).fetchall()

    @contextmanager
    def _explained_errors(self) -> Iterator[None]:
        """Say what to do where what the journal notes beside the requests cannot be read."""
        try:
            yield
        except sqlite3.DatabaseError as error:
            failed = pages.disk_error(self._config.path) if pages.is_damaged(error) else error
            what = f"{error}; it is damaged: {recovery.REPAIR}" if failed is None else f"{failed}"
            raise RetryableError(
                f"the journal cannot be read: {what}", why="journal_fault"
            ) from error

    def _is_full_for(self, size_bytes: int) -> bool:
        """An empty journal takes a request of any size: one that it never took would be sent again
        for ever.
        """
        return bool(self._size_bytes) and self._size_bytes + size_bytes > self._config.max_bytes

    def _uncount(self, rows: Iterable[int]) -> None:
        with self._counting:
            for row in rows:
                if (entry := self._entries.pop(row, None)) is not None:
                    self._size_bytes -= entry.size_bytes


class JournalReader:
    """Reads and never writes, not even when it is the last to close the file. Not thread-safe."""

    def __init__(self, path: Path) -> None:
        """Raises sqlite3.Error where the file cannot be opened."""
        self._db = sqlite3.connect(
            f"file:{quote(str(path.resolve()))}?mode=ro", uri=True, timeout=10.0
        )
        self.checksums: Mapping[int, int | None] = {}
        """What the requests that are read next have to be: the checksum of each by its row, None
        where not known.
        """

    def read(self, rows: Iterable[int]) -> list[Request]:
        """The requests at `rows`, in their order.

        Raises RetryableError where one is not there as it was kept.
        """
        return [self._read(row) for row in rows]

    def _read(self, row: int) -> Request:
        try:
            found = self._db.execute(_REQUEST, (row,)).fetchall()
        except sqlite3.Error as error:
            raise RetryableError(
                f"the journal cannot be read: {error}", why="journal_fault"
            ) from error
        if not found:
            raise RetryableError(f"the journal lacks row {row}", why="journal_fault")
        if (request := _request(row, found[0], self.checksums.get(row))) is None:
            raise RetryableError(
                f"row {row} of the journal is damaged: its checksum differs", why="journal_fault"
            )
        return request


def _request(row: int, found: Any, checksum: int | None) -> Request | None:
    """A request as it was read; None where it has another checksum."""
    signal, received_ns, body, headers = found
    if checksum not in (None, ledger.checksum(body, headers)):
        return None
    pairs = ((name, value) for name, value in loads(headers or "[]"))
    return Request(row, signal, received_ns, body, tuple(pairs))


Work: TypeAlias = Callable[[sqlite3.Connection], Any]

_COMMIT_BYTES = 32 * 2**20
_FIRST_WAIT_S, _LONGEST_WAIT_S = 0.5, 15.0
_FAULT = "the journal cannot be written"
_PASSING = (sqlite3.OperationalError, OSError)
"""Full, locked, I/O error, of the database or of the ledger: the same work may succeed later."""


@dataclass(slots=True)
class _Task:
    work: Work
    size_bytes: int = 0
    is_owed: bool = False
    keeps: Mapping[int, Entry] = field(default_factory=dict)
    removes: Collection[int] = ()
    future: "Future[Any]" = field(default_factory=Future)


class Commits:
    """Commits work to one SQLite connection, in the order in which it is given. Thread-safe.

    Work that fails is refused, so that whoever waits for it can try again. Work that is *owed*
    waits instead, in its order, and is tried again until it succeeds: nobody else would. While the
    disk refuses, the thread tries by itself, at growing intervals: that it works again is found out
    without a request.
    """

    def __init__(
        self,
        db: sqlite3.Connection,
        ledger: Ledger,
        path: Path,
        *,
        clock_ns: Callable[[], int] = time.time_ns,
    ) -> None:
        """Start the thread; `db`, of the file at `path`, and `ledger` are used by it alone from
        here on, and closed by `close`.
        """
        self._db = db
        self._path = path
        self._ledger = ledger
        self._complaints = Complaints(clock_ns)
        self._todo: queue.SimpleQueue[_Task | None] = queue.SimpleQueue()
        self._owed: list[_Task] = []
        # until what failed is tried again, and when (monotonic)
        self._wait_s, self._due_s = _FIRST_WAIT_S, 0.0
        self._closed = False
        self.fault: str | None = None
        """Why nothing can be written now; None where it can."""
        self._thread = threading.Thread(target=self._run, name="journal", daemon=True)
        self._thread.start()

    def submit(
        self,
        work: Work,
        size_bytes: int = 0,
        *,
        owed: bool = False,
        keeps: Mapping[int, Entry] | None = None,
        removes: Collection[int] = (),
    ) -> "Future[Any]":
        """Have `work` done in a commit; the future gives its result once that is on disk, or
        RetryableError.

        That of owed work is open for as long as the disk refuses. `keeps` and `removes` are the
        requests that the ledger is to have from then on, or no more.
        """
        task = _Task(work, size_bytes, owed, keeps or {}, removes)
        # it happens now: a caller that goes away cannot cancel it
        task.future.set_running_or_notify_cancel()
        if self._closed:
            task.future.set_exception(RetryableError("spanscore is shutting down"))
        else:
            self._todo.put(task)
        return task.future

    def close(self) -> None:
        """Commit what was given so far, then close the connection.

        Calling it again does nothing.
        """
        if self._closed:
            return
        self._closed = True
        self._todo.put(None)
        self._thread.join()
        self._db.close()
        self._ledger.close()

    def _run(self) -> None:
        is_open = True
        while is_open:
            batch, is_open = self._gather()
            if batch:
                self._commit(batch)
            if self._is_due():
                self._try_again()
        if self._owed:
            self._try_again()
        for task in self._owed:
            task.future.set_exception(RetryableError("spanscore is shutting down"))
        if self._owed:
            complaint = (
                "journal: %d changes could not be written (%s); the next start takes up what they"
                " are about"
            )
            _log.error(complaint, len(self._owed), self.fault)

    def _gather(self) -> tuple[list[_Task], bool]:
        """What is waiting, as one commit; False: the journal is being closed.

        Empty where it is time to try again.
        """
        try:
            first = self._todo.get(
                timeout=max(0.0, self._due_s - time.monotonic()) if self._is_troubled else None
            )
        except queue.Empty:
            return [], True
        if first is None:
            return [], False
        batch, size_bytes = [first], first.size_bytes
        while size_bytes < _COMMIT_BYTES:
            try:
                task = self._todo.get_nowait()
            except queue.Empty:
                break
            if task is None:
                return batch, False
            batch.append(task)
            size_bytes += task.size_bytes
        return batch, True

    def _commit(self, batch: list[_Task]) -> None:
        if self._owed:  # it keeps its order
            self._owed += [x for x in batch if x.is_owed]
            batch = [x for x in batch if not x.is_owed]
        try:
            self._do(batch)
        except Exception as error:  # noqa: BLE001 - whatever it is may pass, and a dead writer would stop everything
            self._failed(error)
            for task in batch:
                if task.is_owed:
                    self._owed.append(task)
                else:
                    task.future.set_exception(
                        RetryableError(str(self.fault), retry_after_s=5.0, why="journal_fault")
                    )
        else:
            self._succeeded()

    @property
    def _is_troubled(self) -> bool:
        return self.fault is not None or bool(self._owed)

    def _is_due(self) -> bool:
        return self._is_troubled and time.monotonic() >= self._due_s

    def _try_again(self) -> None:
        """Do what is owed; where nothing is, write something all the same, to know whether that is
        possible.
        """
        # a log that could be emptied needs no more room on a full disk
        with suppress(sqlite3.Error):
            self._db.execute("PRAGMA wal_checkpoint(RESTART)")
        owed, self._owed = self._owed, []
        try:
            self._do([*owed, _Task(_rewrite_version)])
        except _PASSING as error:
            self._owed = owed
            self._failed(error)
        except Exception as error:  # noqa: BLE001 - as above
            self._failed(error)
            self._owed = self._one_by_one(owed)
        else:
            self._succeeded()

    def _one_by_one(self, owed: list[_Task]) -> list[_Task]:
        """Do each by itself, since one of them fails whatever the disk does; returns those to be
        tried again.
        """
        left = []
        for task in owed:
            try:
                self._do([task])
            except Exception as error:  # noqa: BLE001 - it would hold up all others for ever
                if isinstance(error, _PASSING) or self._is_unread(error):
                    left.append(task)
                    continue
                _log.error("journal: a change is given up: %s", error)
                task.future.set_exception(RetryableError(f"{_FAULT}: {error}", why="journal_fault"))
        return left

    def _is_unread(self, error: Exception) -> bool:
        """Whether what SQLite reports as damage is a disk that fails at reading."""
        return pages.is_damaged(error) and pages.disk_error(self._path) is not None

    def _do(self, batch: list[_Task]) -> None:
        self._ledger.remove([row for task in batch for row in task.removes])
        with self._db:
            results = [task.work(self._db) for task in batch]
        self._ledger.keep({row: entry for task in batch for row, entry in task.keeps.items()})
        for task, result in zip(batch, results, strict=True):
            task.future.set_result(result)

    def _failed(self, error: Exception) -> None:
        self.fault = f"{_FAULT}: {error}"
        complaint = f"{error}; senders are told to come back, and it is tried again"
        self._complaints.complain(_FAULT, complaint, level=logging.ERROR)
        self._wait_s = min(self._wait_s * 2, _LONGEST_WAIT_S)
        self._due_s = time.monotonic() + self._wait_s

    def _succeeded(self) -> None:
        """What is owed may be done now: it is tried at once."""
        if self._ledger.is_long:
            with suppress(sqlite3.Error):  # it is done after a later commit
                self._db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
                self._ledger.shorten()
        self.fault = None
        self._wait_s, self._due_s = _FIRST_WAIT_S, 0.0
        if self._complaints.is_over(_FAULT):
            _log.info("the journal can be written again")


def _rewrite_version(db: sqlite3.Connection) -> None:
    """The least that SQLite writes: the number that stands there already."""
    db.execute(f"PRAGMA user_version = {db.execute('PRAGMA user_version').fetchone()[0]}")
