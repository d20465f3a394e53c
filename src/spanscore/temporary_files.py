"""Temporary tables and folders of one run."""

import os
import sqlite3
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from errno import ENOSPC
from pathlib import Path
from typing import Any

from spanscore.errors import InputError, OutputError
from spanscore.local_files import NO_ROOM

_NO_ROOM_FOR_TABLES = {sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR, sqlite3.SQLITE_CANTOPEN}


class TemporaryTables:
    """A database of one run; may be used in any thread, by one at a time.

    SQLite holds some 2 MiB of it in memory, and has the rest in a file in the folder for temporary
    files. Every method raises OutputError where that has no room.
    """

    def __init__(self, statements: str) -> None:
        """An empty one with the tables that `statements` create."""
        self._connection = sqlite3.connect("", isolation_level=None, check_same_thread=False)
        self._connection.executescript(
            f"PRAGMA journal_mode = OFF; PRAGMA synchronous = OFF; {statements}"
        )

    def insert(self, statement: str, rows: Iterable[Sequence[object]]) -> None:
        """Execute a statement once for each of `rows`, its parameters."""
        with temporary_space():
            self._connection.executemany(statement, rows)

    def rows(self, query: str, parameters: Sequence[object] = ()) -> Iterator[tuple[Any, ...]]:
        """What a query finds."""
        with temporary_space():
            yield from self._connection.execute(query, parameters)

    def row(self, query: str, parameters: Sequence[object] = ()) -> tuple[Any, ...]:
        """The one row that a query finds, such as sums."""
        [found] = self.rows(query, parameters)
        return found

    def close(self) -> None:
        """Let go of the file."""
        self._connection.close()


def temporary_folder(prefix: str) -> Path:
    """A new folder that only its owner may enter, and that the caller removes.

    Raises OutputError where none can be made.
    """
    try:
        return Path(tempfile.mkdtemp(prefix=prefix))
    except OSError as error:
        raise no_temporary_space(error.strerror or str(error)) from error


def kept_folder(keep: Path | None, prefix: str) -> Path:
    """Make the new folder `keep`, or a temporary one where that is None.

    Raises InputError where `keep` holds anything or cannot be made, OutputError where no temporary
    one can be.
    """
    if keep is None:
        return temporary_folder(prefix)
    if keep.exists() and (not keep.is_dir() or any(keep.iterdir())):
        raise InputError(f"--keep {keep}: is there already; name a new folder")
    try:
        keep.mkdir(parents=True, mode=0o700, exist_ok=True)
    except OSError as error:
        if error.errno in NO_ROOM:
            raise
        raise InputError(
            f"--keep {keep}: cannot be made ({error.strerror}); name another folder"
        ) from None
    return keep.absolute()


@contextmanager
def temporary_space() -> Iterator[None]:
    """Raises OutputError where what is done within fails since temporary files have no room, or no
    folder can be written to.
    """
    try:
        yield
    except OSError as error:
        # `tempfile` names no file where it finds no folder that takes one
        has_no_folder = isinstance(error, FileNotFoundError) and error.filename is None
        if error.errno not in NO_ROOM and not has_no_folder:
            raise
        raise no_temporary_space(error.strerror or str(error)) from error
    except sqlite3.Error as error:
        code = getattr(error, "sqlite_errorcode", 0) & 0xFF
        if code not in _NO_ROOM_FOR_TABLES:
            raise
        is_full = code == sqlite3.SQLITE_FULL
        raise no_temporary_space(os.strerror(ENOSPC) if is_full else str(error)) from error


def no_temporary_space(reason: str) -> OutputError:
    """The error to raise where temporary files cannot be written for want of room."""
    return OutputError(
        f"the folder for temporary files (TMPDIR): cannot be written ({reason}); make room, or set"
        " TMPDIR to another folder"
    )
