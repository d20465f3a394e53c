"""Transactions, with their errors sorted."""

import os
import sqlite3
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Final, TypeVar

from sqlalchemy.engine import Connection, Engine
from sqlalchemy.exc import DBAPIError, InterfaceError, InternalError, OperationalError
from sqlalchemy.exc import TimeoutError as NoConnectionError

from spanscore.errors import PermanentError, RetryableError

DAMAGE: Final = "store_damaged"
"""Why a RetryableError is raised where the file is damaged: it passes only once somebody has
repaired it.
"""

WRITES: Final = "spanscore_writes"
"""The execution option of a connection that is going to write."""

_DAMAGED = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)
_REPAIR = "it is damaged: stop the server and run `spanscore repair` with its configuration"
_MAX_THREADS = 4

ItemT = TypeVar("ItemT")

_MAY_PASS = (OperationalError, InterfaceError, InternalError)


@contextmanager
def transaction(engine: Engine) -> Iterator[Connection]:
    """A transaction that writes.

    Raises RetryableError where the fault may pass, else PermanentError.
    """
    with _sorted_errors(), engine.execution_options(**{WRITES: True}).begin() as connection:
        yield connection


@contextmanager
def snapshot(engine: Engine) -> Iterator[Connection]:
    """A transaction that only reads; it waits for no writer. Raises as `transaction` does."""
    with _sorted_errors(), engine.begin() as connection:
        yield connection


def in_threads(
    connection: Connection, tasks: Sequence[Callable[[Connection], ItemT]]
) -> list[ItemT]:
    """What each of these reading tasks gives, worked on by as many threads as there are processors,
    up to four.

    The calling thread works with `connection`, and alone where the database has one connection;
    each other thread has a snapshot of its own. Raises as `transaction` does.
    """
    engine = connection.engine
    threads = min(_MAX_THREADS, os.cpu_count() or 1, len(tasks))
    if threads < 2 or engine.url.database in {None, "", ":memory:"}:
        return [task(connection) for task in tasks]

    waiting = deque(enumerate(tasks))
    found: dict[int, ItemT] = {}

    def work(own: Connection) -> None:
        while waiting:
            try:
                place, task = waiting.popleft()
            except IndexError:  # another thread took the last one
                return
            found[place] = task(own)

    def work_beside() -> None:
        with snapshot(engine) as own:
            work(own)

    with ThreadPoolExecutor(threads - 1) as workers:
        others = [workers.submit(work_beside) for _ in range(threads - 1)]
        work(connection)
        for other in others:
            other.result()
    return [found[place] for place in range(len(tasks))]


def is_damaged(error: BaseException | None) -> bool:
    """Whether SQLite reports that a file is damaged, or no database at all."""
    return (
        isinstance(error, sqlite3.DatabaseError)
        and getattr(error, "sqlite_errorcode", 0) & 0xFF in _DAMAGED
    )


def is_full(error: BaseException | None) -> bool:
    """Whether SQLite reports that there is no room on the disk."""
    found = error.orig if isinstance(error, DBAPIError) else None
    return (
        isinstance(found, sqlite3.Error)
        and getattr(found, "sqlite_errorcode", 0) & 0xFF == sqlite3.SQLITE_FULL
    )


@contextmanager
def _sorted_errors() -> Iterator[None]:
    try:
        yield
    except NoConnectionError as error:
        raise RetryableError(
            "the store cannot be used: all of its connections are in use"
        ) from error
    except DBAPIError as error:
        what = f"the store cannot be used: {error.orig}"
        if is_damaged(error.orig):
            raise RetryableError(f"{what}; {_REPAIR}", retry_after_s=30.0, why=DAMAGE) from error
        if "Could not decode to UTF-8" in str(error.orig):
            raise PermanentError(
                "a record in the store is damaged: its text is not UTF-8"
            ) from error
        # locked, disk full, server gone
        if error.connection_invalidated or isinstance(error, _MAY_PASS):
            raise RetryableError(what, retry_after_s=5.0) from error
        raise PermanentError(what) from error
