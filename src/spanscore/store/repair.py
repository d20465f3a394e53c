"""Copies of damaged stores, as SQL reads them."""

import heapq
import re
import sqlite3
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final, TypeAlias

from sqlalchemy import select

from spanscore import local_files
from spanscore.errors import InputError, PermanentError, RetryableError
from spanscore.store import connections, ledger, records, recovery, schema
from spanscore.store.config import Config

_LOGS: Final = ("-wal", "-shm")
_CHUNK_ROWS: Final = 500
_MAX_PROBES: Final = 20_000
_LEAST_ROW_BYTES: Final = 16
_MAX_DECODED: Final = 100_000
_OF_READING: Final = (
    sqlite3.SQLITE_CORRUPT,
    sqlite3.SQLITE_NOTADB,
    sqlite3.SQLITE_TOOBIG,
    sqlite3.SQLITE_ERROR,  # a table that is not there
)

_DECODED: Final = (
    (schema.agent_traces.c.row.desc(), schema.agent_traces.c.record, records.decode_trace),
    (schema.scores.c.number.desc(), schema.scores.c.record, records.decode_evaluation),
    (schema.scores.c.number, schema.scores.c.record, records.decode_evaluation),
)

_Key: TypeAlias = tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class Copied:
    """A table: how many rows the new file has, and how many were lost.

    `is_exact`: no others were lost; else `lost` is what is known of.
    """

    table: str
    saved: int
    lost: int
    is_exact: bool


@dataclass(frozen=True, slots=True)
class _Table:
    name: str
    key: tuple[str, ...]
    columns: tuple[str, ...]
    indexes: tuple[str, ...]
    """Those that contain every row."""


def fault_of(file: Path) -> str | None:
    """What SQLite's integrity check finds in a file; None where it is sound, empty, or not there.

    Raises InputError where it cannot be read for another reason.
    """
    if not file.exists():
        return None
    log = file.with_name(f"{file.name}-wal")
    if (failed := recovery.disk_error(file)) is not None:
        raise InputError(f"{file}: cannot be read ({failed}): see to the disk")
    # Closed again, SQLite would remove a log of which it read only a part; where there is none,
    # what it makes stays.
    mode = "ro" if log.exists() and log.stat().st_size else "rw"
    try:
        with closing(sqlite3.connect(f"{file.absolute().as_uri()}?mode={mode}", uri=True)) as db:
            found = db.execute("PRAGMA integrity_check(1)").fetchone()
    except sqlite3.DatabaseError as error:
        if recovery.is_damaged(error):
            return str(error)
        raise InputError(f"{file}: cannot be read ({error})") from error
    return None if found is None or found[0] == "ok" else str(found[0]).splitlines()[-1]


def damaged_records(config: Config) -> list[str]:
    """What the newest 100,000 agent traces, and scores, in an SQLite store have of damaged records,
    by `records.name_of`.

    Raises ConfigError, RetryableError or PermanentError where the store cannot be read.
    """
    found: list[str] = []
    engine = connections.connect_reading(config) if connections.file_of(config) else None
    if engine is None:
        return found
    with connections.snapshot(engine) as connection:
        for newest_first, record, decode in _DECODED:
            query = select(record).order_by(newest_first).limit(_MAX_DECODED)
            rows = connection.execute(query)
            for text in rows.yield_per(_CHUNK_ROWS).scalars():
                try:
                    decode(text)
                except records.DAMAGED:
                    found.append(records.name_of(text))
    return list(dict.fromkeys(found))  # of few scores both ends are all of them


def journal(file: Path) -> tuple[list[Copied], Path]:
    """Repair a journal. Its ledger, which stays, has the requests that it must contain."""
    expected = ledger.read(ledger.beside(file))
    is_known = expected.is_there and not expected.damaged

    def create(made: Path) -> None:
        with closing(sqlite3.connect(made)) as db:
            recovery.prepare(db)

    return _repair(file, create, {"requests": expected.entries} if is_known else {})


def store(config: Config) -> tuple[list[Copied], Path]:
    """Repair an SQLite store. Raises ConfigError where its tables are of another version."""
    with suppress(RetryableError, PermanentError):
        connections.version(config)

    def create(made: Path) -> None:
        connections.connect(config.model_copy(update={"url": f"sqlite:///{made}"})).dispose()

    return _repair(connections.file_of(config) or Path(), create, {})


def _repair(
    file: Path, create: Callable[[Path], None], known: Mapping[str, Collection[int]]
) -> tuple[list[Copied], Path]:
    """Write a damaged file anew; returns what became of each table, and where the damaged file is.

    `create` makes the tables in a new file. `known` has the rows that tables must contain, where
    that is recorded elsewhere. Raises InputError where the new file cannot be written; then the
    damaged one has stayed in its place.
    """
    aside = file.with_name(f"{file.name}.damaged-{datetime.now(UTC):%Y%m%dT%H%M%SZ}")
    made = file.with_name(f"{file.name}.repaired")
    _remove(made)
    try:
        local_files.make(made)
        create(made)
        with closing(sqlite3.connect(made, isolation_level=None, uri=True)) as db:
            copied = _copy_all(db, file, known)
    except (OSError, sqlite3.Error) as error:
        _remove(made)
        raise InputError(f"{file}: cannot be written anew ({error}); make room") from error
    # The damaged files first: the new one is never read with the old one's log.
    for suffix in (*_LOGS, ""):
        with suppress(FileNotFoundError):
            file.with_name(f"{file.name}{suffix}").replace(aside.with_name(f"{aside.name}{suffix}"))
    made.replace(file)
    return copied, aside


def _remove(file: Path) -> None:
    for suffix in (*_LOGS, ""):
        file.with_name(f"{file.name}{suffix}").unlink(missing_ok=True)


def _copy_all(
    db: sqlite3.Connection, damaged: Path, known: Mapping[str, Collection[int]]
) -> list[Copied]:
    try:
        db.execute("ATTACH ? AS damaged", (f"{damaged.absolute().as_uri()}?mode=ro",))
    except sqlite3.Error as error:  # its header or its schema cannot be read, so nothing can
        _raise_if_of_writing(error)
    db.execute("PRAGMA main.synchronous = OFF")  # until all is there
    max_row = damaged.stat().st_size // _LEAST_ROW_BYTES
    copied = [_Copy(db, x, max_row).made(known.get(x.name)) for x in _tables(db)]
    db.execute("PRAGMA main.synchronous = FULL")
    db.execute("PRAGMA main.wal_checkpoint(TRUNCATE)")
    return copied


def _tables(db: sqlite3.Connection) -> list[_Table]:
    """The tables of the new file."""
    query = "SELECT name, sql FROM main.sqlite_master WHERE type = 'table' AND name != ?"
    found = []
    for name, sql in db.execute(query, (schema.versions.name,)).fetchall():
        columns = db.execute("SELECT name, pk FROM pragma_table_info(?)", (name,)).fetchall()
        has_rowid = "WITHOUT ROWID" not in sql
        primary = tuple(x for x, _ in sorted(columns, key=lambda x: x[1]) if dict(columns)[x])
        indexes = db.execute(
            "SELECT name FROM pragma_index_list(?, 'main')"
            " WHERE NOT partial AND (? OR origin != 'pk')",
            (name, has_rowid),
        )
        found.append(
            _Table(
                name,
                ("rowid",) if has_rowid else primary,
                tuple(x for x, _ in columns),
                tuple(x for (x,) in indexes),
            )
        )
    return found


class _Copy:
    """The copy of one table."""

    def __init__(self, db: sqlite3.Connection, table: _Table, max_row: int) -> None:
        self._db = db
        self._table = table
        self._max_row = max_row
        self._key = ", ".join(table.key)
        self._marks = ", ".join("?" * len(table.key))

    def made(self, known: Collection[int] | None) -> Copied:
        """Copy what can be read, and count what cannot."""
        faults = self._faults()
        is_whole = self._insert("", ())
        if is_whole and not faults and known is None:
            query = f"SELECT count(*) FROM main.{self._table.name}"  # noqa: S608 - names of the schema
            return Copied(self._table.name, self._db.execute(query).fetchone()[0], 0, is_exact=True)
        indexed = [self._scan(f"INDEXED BY {x}") for x in self._table.indexes]
        seen: set[_Key] = set()
        if not is_whole:
            from_indexes = set[_Key]().union(*(keys for keys, _ in indexed))
            seen = self._seen(from_indexes)
            seen |= self._insert_keys(sorted(seen | from_indexes, key=_in_order))
        saved = set(self._db.execute(f"SELECT {self._key} FROM main.{self._table.name}"))  # noqa: S608 - as above
        if known is not None:
            lost, is_exact = len({(x,) for x in known} - saved), True
        # An index that was read to its end and has all that was saved knows all rows.
        elif losses := {len(x - saved) for x, is_all in indexed if is_all and x >= saved}:
            lost, is_exact = min(losses), len(losses) == 1
        else:
            lost, is_exact = len(seen - saved), is_whole and self._is_sound_itself(faults)
        return Copied(self._table.name, len(saved), lost, is_exact)

    def _faults(self) -> list[str]:
        """What SQLite's check finds in the table and its indexes."""
        try:
            found = self._db.execute(f"PRAGMA damaged.integrity_check({self._table.name})")
            lines = [x for (text,) in found for x in text.splitlines()]
            return [x for x in lines if x != "ok" and not x.startswith("***")]
        except sqlite3.Error as error:
            _raise_if_of_writing(error)
            return [str(error)]

    def _is_sound_itself(self, faults: Sequence[str]) -> bool:
        """Whether these are faults of indexes: of entries, or of pages that are not the table's."""
        try:
            query = "SELECT pageno FROM dbstat('damaged') WHERE name = ?"
            own = {str(x) for (x,) in self._db.execute(query, (self._table.name,))}
        except sqlite3.Error as error:  # SQLite may be built without dbstat
            _raise_if_of_writing(error)
            return False
        named = [set(re.findall(r"page (\d+)", x, re.IGNORECASE)) for x in faults]
        return all(
            " index " in fault or (pages and not pages & own)
            for fault, pages in zip(faults, named, strict=True)
        )

    def _seen(self, from_indexes: set[_Key]) -> set[_Key]:
        """The keys that can be read, from both ends of the table and, by row ids, between."""
        order = ", ".join(f"{x} DESC" for x in self._table.key)
        first, _ = self._scan("NOT INDEXED", f"ORDER BY {self._key}")
        last, _ = self._scan("NOT INDEXED", f"ORDER BY {order}")
        if self._table.key != ("rowid",):
            return first | last
        (low,) = max(first, default=(0,))
        (high,) = max(from_indexes | last, default=(low + self._max_row,))
        (high,) = min(last, default=(high + 1,))
        return first | last | self._between(low, high)

    def _between(self, low: int, high: int) -> set[_Key]:
        """The row ids between two that cannot be read; the widest part is bisected first."""
        seen: set[_Key] = set()
        parts = [(low - high, low, high)]
        for _ in range(_MAX_PROBES):
            width, low, high = heapq.heappop(parts) if parts else (0, 0, 0)
            if width >= -1:
                break
            middle = (low + high) // 2
            lower = "WHERE rowid > ? AND rowid <= ? ORDER BY rowid DESC"
            found, is_all = self._scan("NOT INDEXED", lower, (low, middle))
            seen |= found
            if not is_all:
                (end,) = min(found, default=(middle,))
                heapq.heappush(parts, (low - end, low, end))
            upper = "WHERE rowid > ? AND rowid < ? ORDER BY rowid"
            found, is_all = self._scan("NOT INDEXED", upper, (middle, high))
            seen |= found
            if not is_all:
                (start,) = max(found, default=(middle,))
                heapq.heappush(parts, (start - high, start, high))
        return seen

    def _scan(self, by: str, rest: str = "", values: Sequence[int] = ()) -> tuple[set[_Key], bool]:
        """Keys, and whether the last one was reached."""
        seen: set[_Key] = set()
        query = f"SELECT {self._key} FROM damaged.{self._table.name} {by} {rest}"  # noqa: S608 - as above
        try:
            for key in self._db.execute(query, values):
                if None not in key:  # no table's key is; a damaged index has some
                    seen.add(key)
        except sqlite3.Error as error:
            _raise_if_of_writing(error)
            return seen, False
        return seen, True

    def _insert_keys(self, keys: Sequence[_Key]) -> set[_Key]:
        """Copy these rows: many at once, and where that fails each half by itself.

        Returns those that cannot be read.
        """
        where = f"WHERE ({self._key}) >= ({self._marks}) AND ({self._key}) <= ({self._marks})"
        todo = [keys[start : start + _CHUNK_ROWS] for start in range(0, len(keys), _CHUNK_ROWS)]
        unread: set[_Key] = set()
        while todo:
            some = todo.pop()
            if self._insert(where, (*some[0], *some[-1])):
                continue
            if len(some) == 1:
                unread.update(some)
            else:
                todo += [some[: len(some) // 2], some[len(some) // 2 :]]
        return unread

    def _insert(self, where: str, values: Sequence[Any]) -> bool:
        columns = ", ".join(dict.fromkeys((*self._table.key, *self._table.columns)))
        name = self._table.name
        try:
            self._db.execute(
                f"INSERT OR IGNORE INTO main.{name} ({columns})"  # noqa: S608 - as above
                f" SELECT {columns} FROM damaged.{name} NOT INDEXED {where}",
                values,
            )
        except sqlite3.Error as error:
            _raise_if_of_writing(error)
            return False
        return True


def _in_order(key: _Key) -> list[tuple[int, Any]]:
    """Sort keys as SQLite does: numbers, texts, bytes. A damaged key may be any of them."""
    return [(isinstance(x, str) + 2 * isinstance(x, bytes), x) for x in key]


def _raise_if_of_writing(error: sqlite3.Error) -> None:
    """Raise what says nothing about the damaged file, such as that the disk is full."""
    code = getattr(error, "sqlite_errorcode", None)  # None: text that is not UTF-8
    is_of_reading = code in (None, sqlite3.SQLITE_IOERR_READ) or code & 0xFF in _OF_READING
    if not is_of_reading:
        raise error
