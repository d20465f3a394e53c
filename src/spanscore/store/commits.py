"""The thread that commits the journal."""

import logging
import queue
import sqlite3
import threading
import time
from collections.abc import Callable, Collection, Mapping
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from spanscore.errors import RetryableError
from spanscore.store.ledger import Entry, Ledger
from spanscore.telemetry import Complaints

_log = logging.getLogger(__name__)

Work: TypeAlias = Callable[[sqlite3.Connection], Any]

_COMMIT_BYTES = 32 * 2**20
_FIRST_WAIT_S, _LONGEST_WAIT_S = 0.5, 15.0
_FAULT = "the journal cannot be written"


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
        self, db: sqlite3.Connection, ledger: Ledger, *, clock_ns: Callable[[], int] = time.time_ns
    ) -> None:
        """Start the thread; `db` and `ledger` are used by it alone from here on, and closed by
        `close`.
        """
        self._db = db
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
        # full, locked, I/O error: the same some time later
        except sqlite3.OperationalError as error:
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
            except sqlite3.OperationalError:
                left.append(task)
            except Exception as error:  # noqa: BLE001 - it would hold up all others for ever
                _log.error("journal: a change is given up: %s", error)
                task.future.set_exception(RetryableError(f"{_FAULT}: {error}", why="journal_fault"))
        return left

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
            self._db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
            self._ledger.shorten()
        self.fault = None
        self._wait_s, self._due_s = _FIRST_WAIT_S, 0.0
        if self._complaints.is_over(_FAULT):
            _log.info("the journal can be written again")


def _rewrite_version(db: sqlite3.Connection) -> None:
    """The least that SQLite writes: the number that stands there already."""
    db.execute(f"PRAGMA user_version = {db.execute('PRAGMA user_version').fetchone()[0]}")
