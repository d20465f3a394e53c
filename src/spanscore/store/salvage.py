"""Rows of a damaged SQLite file, in a new one."""

import logging
import os
import sqlite3
import tempfile
import threading
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, NamedTuple

from spanscore import local_files
from spanscore.errors import InputError
from spanscore.store import pages
from spanscore.store.pages import Pages, Row

_log = logging.getLogger(__name__)

_SHOWN: Final = 5
_TYPES: Final = {"INTEGER": int, "BIGINT": int, "DOUBLE": (float, int), "BLOB": bytes}
_SCHEMA: Final = "SELECT name, rootpage, sql FROM sqlite_master"
_TABLES: Final = "SELECT name FROM sqlite_master WHERE type = 'table'"
_COLUMNS: Final = 'SELECT name, type, "notnull", pk FROM pragma_table_info(?)'
_INDEXES: Final = "SELECT name, origin, partial FROM pragma_index_list(?)"
_OF_INDEX: Final = "SELECT name FROM pragma_index_xinfo(?)"


@dataclass(frozen=True, slots=True)
class Copied:
    """A table: how many rows the new file has, and how many were lost.

    `is_exact`: no others were lost; else `lost` is what is known of. `names`: what an index has of
    the first that were lost.
    """

    table: str
    saved: int
    lost: int
    is_exact: bool
    names: tuple[str, ...] = ()

    def __str__(self) -> str:
        lost = f"{self.lost:,} lost" if self.is_exact else f"at least {self.lost:,} lost"
        if not self.lost and not self.is_exact:
            lost = "how many are lost is not known"
        more = ", …" if self.lost > len(self.names) else ""
        shown = f" ({', '.join(self.names)}{more})" if self.names else ""
        return f"{self.table}: {self.saved:,} rows saved, {lost}{shown}"


def loss_of(copied: Iterable[Copied]) -> str:
    """Say what was lost."""
    lost = [str(x) for x in copied if x.lost]
    unknown = [x.table for x in copied if not x.lost and not x.is_exact]
    lost += [f"of {', '.join(unknown)} it is not known how many rows are lost"] if unknown else []
    return "; ".join(lost) or "no row is lost"


def save(
    file: Path,
    made: Path,
    create: Callable[[sqlite3.Connection], object],
    known: Mapping[str, Collection[int]] | None = None,
) -> list[Copied]:
    """Write the rows of a damaged file into a new one; returns what became of each table.

    `create` makes the tables in the new file. `known` has the rows that tables must contain, where
    that is recorded elsewhere. Raises InputError where that fails; then there is no new file.
    """
    made.unlink(missing_ok=True)
    try:
        local_files.make(made)
        with closing(sqlite3.connect(made, isolation_level=None)) as db, _unchanged(file):
            for setting in ("journal_mode = OFF", "synchronous = OFF", "cache_size = -100000"):
                db.execute(f"PRAGMA {setting}")
            db.execute(f"PRAGMA page_size = {pages.PAGE_BYTES}")
            create(db)
            copied = _Copy(db, file).made(known or {})
        with made.open("rb") as written:
            os.fsync(written.fileno())
    except (OSError, sqlite3.Error) as error:
        made.unlink(missing_ok=True)
        raise InputError(f"{file}: cannot be written anew ({error}); make room") from error
    return copied


@contextmanager
def _unchanged(file: Path) -> Iterator[None]:
    """Keep a server from moving its log into the file meanwhile, where SQLite can read that."""
    with closing(sqlite3.connect(f"{file.absolute().as_uri()}?mode=ro", uri=True)) as db:
        with suppress(sqlite3.Error):
            db.execute("BEGIN")
            db.execute("SELECT 1 FROM sqlite_master").fetchone()
        yield


_copying: Final = threading.Lock()
copies: dict[Path, tuple[Any, "tempfile.TemporaryDirectory[str]"]] = {}
"""The copies that this process reads from, by the damaged file."""


def copy_of(file: Path, create: Callable[[sqlite3.Connection], object]) -> Path:
    """A file with the rows of a damaged one, as it is now, for this process. Raises as `save`."""
    with _copying:
        log = file.with_name(f"{file.name}-wal")
        now = [(x.st_ino, x.st_size, x.st_mtime_ns) for x in map(_stat, (file, log)) if x]
        if file not in copies or copies[file][0] != now:
            folder = tempfile.TemporaryDirectory(prefix="spanscore-")
            copied = save(file, Path(folder.name) / file.name, create)
            if not any(x.saved or x.is_exact for x in copied):
                raise InputError(f"{file}: nothing of it can be read")
            _log.error("%s is damaged: %s", file, loss_of(copied))
            copies[file] = now, folder
        return Path(copies[file][1].name) / file.name


def forget(file: Path) -> None:
    """Read from a file itself again."""
    with _copying:
        copies.pop(file, None)


def _stat(file: Path) -> os.stat_result | None:
    return file.stat() if file.exists() else None


class _Tree(NamedTuple):
    """A table or an index: its columns, their types, and in which places its key stands."""

    name: str
    root: int
    columns: list[str]
    types: list[tuple[Any, bool]]
    """And whether it may be null."""
    key: list[int]

    def fits(self, row: Row) -> bool:
        """Whether this is a row of it."""
        return len(row) == len(self.types) and all(
            isinstance(value, of_type) or (value is None and may_be_null)
            for value, (of_type, may_be_null) in zip(row, self.types, strict=True)
        )

    def key_of(self, row: Row) -> Row:
        """That by which a row is known."""
        return tuple(row[x] for x in self.key)


class _Copy:
    """The copy of a file into a database that has the same tables, and no rows."""

    def __init__(self, db: sqlite3.Connection, file: Path) -> None:
        self._db = db
        self._pages = Pages(file, pages.committed(file))
        self._roots = self._found_roots()

    def made(self, known: Mapping[str, Collection[int]]) -> list[Copied]:
        """Copy the rows to which roots lead, then those of broken tables on other pages."""
        names = [x for (x,) in self._db.execute(_TABLES) if not self._count(x)]
        tables = [self._trees(x) for x in names]
        roots = {table.root for table, _ in tables}
        self._db.execute("BEGIN")
        for table, _ in tables:
            self._insert(table, self._pages.rows(table.root, table.fits))
        entries = {x: self._pages.entries(x) for x in self._roots.values() if x not in roots}
        for table, _ in tables:
            if table.root in self._pages.broken:
                self._insert(table, self._pages.lost_rows(table.fits))
        self._db.execute("COMMIT")
        return [
            self._copied(table, indexes, {entries[x.root] for x in indexes}, known.get(table.name))
            for table, indexes in tables
        ]

    def _copied(
        self,
        table: _Tree,
        indexes: Sequence[_Tree],
        entries: set[int],
        known: Collection[int] | None,
    ) -> Copied:
        saved, broken = self._count(table.name), self._pages.broken
        if known is None and table.root not in broken and entries <= {saved}:
            return Copied(table.name, saved, 0, is_exact=True)
        key = ", ".join(table.columns[x] for x in table.key)
        there = set(self._db.execute(f"SELECT {key} FROM {table.name}"))  # noqa: S608 - of the schema
        if known is not None:
            return Copied(table.name, saved, len({(x,) for x in known} - there), is_exact=True)
        lost: list[dict[Row, Row]] = []
        for index in indexes:
            found = {index.key_of(x): x for x in self._pages.rows(index.root, index.fits)}
            # An index that is whole and has all that was saved knows all rows.
            if index.root not in broken and found.keys() >= there:
                lost.append({x: found[x] for x in found.keys() - there})
        if not lost:
            is_exact = table.root not in broken
            return Copied(table.name, saved, broken[table.root], is_exact)
        least = min(lost, key=len)
        shown = tuple(" ".join(map(str, least[x])) for x in sorted(least)[:_SHOWN])
        return Copied(table.name, saved, len(least), len({*map(len, lost)}) == 1, shown)

    def _count(self, table: str) -> int:
        query = f"SELECT count(*) FROM {table}"  # noqa: S608 - of the schema
        found: int = self._db.execute(query).fetchone()[0]
        return found

    def _insert(self, table: _Tree, rows: Iterable[Row]) -> None:
        places = [place for place, name in enumerate(table.columns) if name]
        columns, marks = ", ".join(filter(None, table.columns)), ", ".join("?" * len(places))
        statement = f"INSERT OR IGNORE INTO {table.name} ({columns}) VALUES ({marks})"  # noqa: S608 - of the schema
        self._db.executemany(statement, (tuple(row[x] for x in places) for row in rows))

    def _trees(self, table: str) -> tuple[_Tree, list[_Tree]]:
        """A table, and its indexes that contain every row."""
        described = self._db.execute(_COLUMNS, (table,)).fetchall()
        types = {name: (_TYPES.get(of_type, str), not full) for name, of_type, full, _ in described}
        types |= {"rowid": (int, False), "": (object, True)}
        primary = [x[0] for x in sorted(described, key=lambda x: x[3]) if x[3]]
        trees: dict[str, list[str]] = {}
        own, key, row_id = table, ["rowid"], primary
        for name, origin, partial in self._db.execute(_INDEXES, (table,)).fetchall():
            columns = [x or "rowid" for (x,) in self._db.execute(_OF_INDEX, (name,))]
            if origin == "pk":
                row_id = []  # a column that is the row's id has no index
            if origin == "pk" and "rowid" not in columns:
                own, key = name, primary  # such an index is the table
            if not partial:
                trees[name] = columns
        if own == table:
            trees[table] = ["rowid", *("" if x[0] in row_id else x[0] for x in described)]

        def tree(name: str) -> _Tree:
            columns, root = trees[name], self._roots[table if name == own else name]
            places = [columns.index(x) for x in key]
            return _Tree(table, root, columns, [types[x] for x in columns], places)

        return tree(own), [tree(x) for x in trees if x != own]

    def _found_roots(self) -> dict[str, int]:
        """The first page of each table and index.

        It is the same in all files that were made by the same statements, unless one was vacuumed.
        """
        made = {name: (root, sql) for name, root, sql in self._db.execute(_SCHEMA)}
        found = {
            name: root
            for _, _, name, _, root, sql in self._pages.rows(1, _is_of_schema)
            if name in made and made[name][1] == sql
        }
        own = {name: root for name, (root, _) in made.items()}
        is_as_made = sum(own[x] == found[x] for x in found) * 2 >= len(found)
        return own if is_as_made else own | found


def _is_of_schema(row: Row) -> bool:
    return len(row) == 6 and isinstance(row[2], str) and isinstance(row[4], int)
