"""The opening of a journal, compared with its ledger.

Nothing is written before that: SQLite would write over what a damaged write-ahead log still has.
"""

import logging
import os
import shutil
import sqlite3
import struct
import tempfile
from collections.abc import Collection, Iterable, Mapping
from contextlib import closing, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Literal, NamedTuple

from spanscore import local_files
from spanscore.errors import ConfigError
from spanscore.store import departures, ledger, quarantine
from spanscore.store.ledger import Entry, Ledger

_log = logging.getLogger(__name__)

_SCHEMA_VERSION = 1
SCHEMA = f"""
CREATE TABLE requests (row INTEGER PRIMARY KEY, signal TEXT NOT NULL, received_ns INTEGER NOT \
NULL, body BLOB NOT NULL);
CREATE TABLE passed_on (row INTEGER PRIMARY KEY);
CREATE TABLE closed (trace_id BLOB PRIMARY KEY, last_row INTEGER NOT NULL, closed_ns INTEGER NOT \
NULL) WITHOUT ROWID;
{quarantine.CREATE}"""
# since schema 1, which had none
_PARTS = "CREATE TABLE IF NOT EXISTS parts (trace_id BLOB PRIMARY KEY) WITHOUT ROWID"
# likewise: requests that a broker has too
_DELIVERED = "CREATE TABLE IF NOT EXISTS delivered (row INTEGER PRIMARY KEY)"
_PAGE_BYTES = 16_384  # requests are large: fewer pages to write and to checksum
_LOG_HEADER_BYTES, _FRAME_HEADER_BYTES = 32, 24
_READ_BYTES = 2**20
_NS = 10**9
REPAIR = "run `spanscore repair` with this server's configuration, which saves what can be read"


@dataclass(frozen=True, slots=True)
class Lost:
    """Acknowledged requests that are gone: how many, of how many bytes, the first and last received
    (Unix ns).
    """

    count: int = 0
    size_bytes: int = 0
    first_ns: int = 0
    last_ns: int = 0

    @classmethod
    def of(cls, entries: Collection[Entry]) -> "Lost":
        """What is lost with these."""
        times = [x.received_ns for x in entries]
        return cls(
            len(times),
            sum(x.size_bytes for x in entries),
            min(times, default=0),
            max(times, default=0),
        )

    def __add__(self, other: "Lost") -> "Lost":
        if not self.count or not other.count:
            return self if self.count else other
        first_ns, last_ns = min(self.first_ns, other.first_ns), max(self.last_ns, other.last_ns)
        return Lost(self.count + other.count, self.size_bytes + other.size_bytes, first_ns, last_ns)

    def __str__(self) -> str:
        requests = (
            "1 acknowledged request is"
            if self.count == 1
            else f"{self.count} acknowledged requests are"
        )
        return (
            f"{requests} lost, {self.size_bytes} bytes received from {_time(self.first_ns)} to"
            f" {_time(self.last_ns)}"
        )


@dataclass(frozen=True, slots=True)
class Opened:
    """A journal's connections and ledger, what is in it by row, the highest row so far, and what is
    missing.
    """

    writer: sqlite3.Connection
    reader: sqlite3.Connection
    ledger: Ledger
    entries: dict[int, Entry]
    highest: int
    lost: Lost


def open_files(path: Path, synchronous: Literal["normal", "full"]) -> Opened:
    """Open the journal at `path`, or make one.

    Raises ConfigError where that cannot be done, with what to do where it is damaged.
    """
    try:
        expected = ledger.read(ledger.beside(path))
        local_files.make(path)
        reader = _connect(path, synchronous)
        there, is_older = _rows(reader)
        if is_older and not expected.is_there:
            _log.warning(
                "%s is not there: whether the journal lacks requests is not known",
                ledger.beside(path),
            )
        missing = ledger.without(expected.entries, there)
        saved = _saved(path, missing) if missing else {}
        writer = _connect(path, synchronous)
        prepare(writer)
        _put_right(writer, saved, expected.removed.intersection(there))
        entries = {
            row: expected.entries.get(row, entry)
            for row, entry in there.items()
            if row not in expected.removed
        }
        entries |= {row: missing[row] for row in saved}
        entries = dict(sorted(entries.items()))
        highest = max(expected.highest, *entries, 0)
        made = Ledger(ledger.beside(path), entries, highest, sync=synchronous == "full")
    except (sqlite3.Error, OSError) as error:
        failed = disk_error(path) if is_damaged(error) else None
        what = f"; it is damaged: {REPAIR}" if is_damaged(error) and failed is None else ""
        raise ConfigError(
            f"{path}: cannot be opened as the journal ({failed or error}){what}; see journal.path"
        ) from error
    return Opened(
        writer,
        reader,
        made,
        entries,
        highest,
        Lost.of(list(ledger.without(missing, saved).values())),
    )


def disk_error(file: Path) -> OSError | None:
    """Why the disk refuses to read a database's file or log, which SQLite reports as damage; None
    where it reads all of both.
    """
    for path in (file, file.with_name(f"{file.name}-wal")):
        place = 0
        try:
            descriptor = _kept_open(path, path.stat().st_ino)
            while part := os.pread(descriptor, _READ_BYTES, place):
                place += len(part)
        except FileNotFoundError:
            continue
        except OSError as error:
            return error
    return None


@cache
def _kept_open(path: Path, _inode: int) -> int:
    """A descriptor that is never closed: that would undo SQLite's locks on the file."""
    return os.open(path, os.O_RDONLY | os.O_CLOEXEC)


def is_damaged(error: Exception) -> bool:
    """Whether SQLite reports that a file is damaged, or no database at all."""
    code = getattr(error, "sqlite_errorcode", 0) or 0
    return isinstance(error, sqlite3.DatabaseError) and code & 0xFF in (
        sqlite3.SQLITE_CORRUPT,
        sqlite3.SQLITE_NOTADB,
    )


def _connect(path: Path, synchronous: str) -> sqlite3.Connection:
    db = sqlite3.connect(path, check_same_thread=False, timeout=10.0)
    db.execute(f"PRAGMA page_size = {_PAGE_BYTES}")
    db.execute("PRAGMA journal_mode = WAL")
    db.execute(f"PRAGMA synchronous = {synchronous}")
    version = db.execute("PRAGMA user_version").fetchone()[0]
    if version > _SCHEMA_VERSION:
        raise ConfigError(
            f"{path}: written by a newer spanscore (schema {version}); use that, or another path"
        )
    return db


def _rows(reader: sqlite3.Connection) -> tuple[dict[int, Entry], bool]:
    """The requests that are there, and whether the file had been used before."""
    if not reader.execute("SELECT 1 FROM sqlite_master WHERE name = 'requests'").fetchone():
        return {}, False
    found = reader.execute("SELECT row, length(body), received_ns FROM requests ORDER BY row")
    return {row: Entry(size, received_ns) for row, size, received_ns in found}, True


def prepare(writer: sqlite3.Connection) -> None:
    """Make the tables that are not there yet."""
    writer.execute(f"PRAGMA page_size = {_PAGE_BYTES}")
    if writer.execute("PRAGMA user_version").fetchone()[0] == 0:
        writer.executescript(f"BEGIN;{SCHEMA}PRAGMA user_version = {_SCHEMA_VERSION};COMMIT;")
    writer.execute(_PARTS)
    writer.execute(_DELIVERED)
    departures.create(writer)


def _saved(
    path: Path, missing: Mapping[int, Entry]
) -> dict[int, tuple[str, int, bytes, str | None]]:
    """Those of the missing requests that the damaged log still has; the log is put aside, whatever
    is in it.
    """
    log = path.with_name(f"{path.name}-wal")
    if not log.exists() or not log.stat().st_size:
        return {}
    aside = log.with_name(f"{log.name}.damaged-{datetime.now(UTC):%Y%m%dT%H%M%SZ}")
    with suppress(OSError):
        shutil.copyfile(log, aside)
        aside.chmod(local_files.MODE)
        _log.error("the journal lacks requests; what is left of its log is kept in %s", aside)
    frames = _frames(log.read_bytes(), path.stat().st_size // _PAGE_BYTES)
    found: dict[int, tuple[str, int, bytes, str | None]] = {}
    with tempfile.TemporaryDirectory(prefix=f".{path.name}-", dir=path.parent) as folder:
        copy = Path(folder) / path.name
        # Of a page that is damaged in the log, other requests may be whole; else it counts as of
        # the time before.
        for some in (frames, [x for x in frames if x.is_whole]):
            shutil.copyfile(path, copy)
            with copy.open("r+b") as pages:
                for frame in some:
                    pages.seek((frame.number - 1) * _PAGE_BYTES)
                    pages.write(frame.page)
            found |= _found_in(copy, ledger.without(missing, found))
    if found:
        _log.error("%d requests of the journal were saved from its damaged log", len(found))
    return found


def _found_in(
    copy: Path, missing: Mapping[int, Entry]
) -> dict[int, tuple[str, int, bytes, str | None]]:
    """Those of the missing requests that a database has as they were kept."""
    query = (
        "SELECT signal, received_ns, body, headers FROM requests LEFT JOIN headers USING (row)"
        " WHERE row = ?"
    )
    found = {}
    with closing(sqlite3.connect(copy)) as db:
        for row, entry in missing.items():
            with suppress(sqlite3.Error, TypeError):
                signal, received_ns, body, headers = db.execute(query, (row,)).fetchone()
                if ledger.checksum(body, headers or "") == entry.checksum:
                    found[row] = signal, received_ns, body, headers
    return found


class _Frame(NamedTuple):
    """A page in a write-ahead log. See https://www.sqlite.org/fileformat2.html#walformat."""

    number: int
    page: bytes
    is_whole: bool


def _frames(log: bytes, pages: int) -> list[_Frame]:
    """The pages of a log since it was begun anew, whether or not they are damaged.

    `pages`: how many the database has by itself.
    """
    size = _FRAME_HEADER_BYTES + _PAGE_BYTES
    frames = [log[x : x + size] for x in range(_LOG_HEADER_BYTES, len(log) - size + 1, size)]
    salts = [x[8:16] for x in frames]
    salt = log[16:24] if log[16:24] in salts else salts[0] if salts else b""
    order = ">" if log[3:4] == b"\x83" else "<"
    found = []
    before = log[24:32]
    for frame in frames:
        number = int.from_bytes(frame[:4], "big")
        if frame[8:16] == salt and 0 < number <= pages + len(frames):
            is_whole = _checksum(order, before, frame[:8] + frame[24:]) == frame[16:24]
            found.append(_Frame(number, frame[24:], is_whole))
        before = frame[16:24]
    return found


def _checksum(order: str, before: bytes, content: bytes) -> bytes:
    """SQLite's checksum of a frame, which goes on from that of the frame before it."""
    first, second = struct.unpack(">2I", before)
    words = iter(struct.unpack(f"{order}{len(content) // 4}I", content))
    for one, other in zip(words, words, strict=True):
        first = (first + one + second) & 0xFFFFFFFF
        second = (second + other + first) & 0xFFFFFFFF
    return struct.pack(">2I", first, second)


def _put_right(
    writer: sqlite3.Connection,
    saved: Mapping[int, tuple[str, int, bytes, str | None]],
    removed: Iterable[int],
) -> None:
    """Write what was saved, remove what had been removed, and have it all in the database
    itself.
    """
    with writer:
        for row, (signal, received_ns, body, headers) in saved.items():
            writer.execute(
                "INSERT INTO requests VALUES (?, ?, ?, ?)", (row, signal, received_ns, body)
            )
            if headers is not None:
                writer.execute("INSERT OR REPLACE INTO headers VALUES (?, ?)", (row, headers))
        rows = list(removed)
        writer.executemany("DELETE FROM requests WHERE row = ?", [(row,) for row in rows])
        departures.forget(writer, rows)
    writer.execute("PRAGMA wal_checkpoint(TRUNCATE)")


def _time(unix_ns: int) -> str:
    return f"{datetime.fromtimestamp(unix_ns // _NS, UTC):%Y-%m-%d %H:%M:%S} UTC"
