"""The opening of a journal, compared with its ledger.

Nothing is written before that: SQLite would write over what a damaged write-ahead log still has.
"""

import logging
import shutil
import sqlite3
from collections.abc import Collection, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal

from spanscore import local_files
from spanscore.errors import ConfigError
from spanscore.store import departures, ledger, pages, quarantine
from spanscore.store.ledger import Entry, Ledger
from spanscore.store.pages import Pages, Row

_log = logging.getLogger(__name__)

_SCHEMA_VERSION = 2
_SCHEMA = f"""
CREATE TABLE requests (row INTEGER PRIMARY KEY, signal TEXT NOT NULL, received_ns INTEGER NOT \
NULL, headers TEXT NOT NULL, delivered INTEGER NOT NULL, body BLOB NOT NULL);
CREATE TABLE closed (trace_id BLOB PRIMARY KEY, last_row INTEGER NOT NULL, closed_ns INTEGER NOT \
NULL, is_part INTEGER NOT NULL) WITHOUT ROWID;
{departures.CREATE}{quarantine.CREATE}"""
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
        _put_right(writer, saved.values(), expected.removed.intersection(there))
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
        failed = pages.disk_error(path) if pages.is_damaged(error) else None
        what = f"; it is damaged: {REPAIR}" if pages.is_damaged(error) and failed is None else ""
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


def _connect(path: Path, synchronous: str) -> sqlite3.Connection:
    db = sqlite3.connect(path, check_same_thread=False, timeout=10.0)
    db.execute(f"PRAGMA page_size = {pages.PAGE_BYTES}")
    db.execute("PRAGMA journal_mode = WAL")
    db.execute(f"PRAGMA synchronous = {synchronous}")
    version = db.execute("PRAGMA user_version").fetchone()[0]
    if version not in (0, _SCHEMA_VERSION):
        raise ConfigError(
            f"{path}: written by another spanscore (schema {version}); use that, or another path"
        )
    return db


def _rows(reader: sqlite3.Connection) -> tuple[dict[int, Entry], bool]:
    """The requests that are there, and whether the file had been used before."""
    if not reader.execute("SELECT 1 FROM sqlite_master WHERE name = 'requests'").fetchone():
        return {}, False
    found = reader.execute("SELECT row, length(body), received_ns FROM requests ORDER BY row")
    return {row: Entry(size, received_ns) for row, size, received_ns in found}, True


def prepare(writer: sqlite3.Connection) -> None:
    """Make the tables where there are none yet."""
    if writer.execute("PRAGMA user_version").fetchone()[0] == 0:
        writer.executescript(f"BEGIN;{_SCHEMA}PRAGMA user_version = {_SCHEMA_VERSION};COMMIT;")


def _saved(path: Path, missing: Mapping[int, Entry]) -> dict[int, Row]:
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
    frames = pages.frames(path)
    found: dict[int, Row] = {}
    # Of a page that is damaged in the log, other requests may be whole; else it counts as of the
    # time before.
    for some in (frames, [x for x in frames if x.is_whole]):
        copy = Pages(path, {x.number: x.page for x in some})
        roots = {x[2]: x[4] for x in copy.rows(1, lambda row: len(row) == 6)}
        for row in copy.rows(roots.get("requests", 0), lambda row: len(row) == 7):
            entry = missing.get(row[0])
            with suppress(TypeError, AttributeError):
                if entry is not None and ledger.checksum(row[6], row[4]) == entry.checksum:
                    found[row[0]] = (row[0], *row[2:])
    if found:
        _log.error("%d requests of the journal were saved from its damaged log", len(found))
    return found


def _put_right(writer: sqlite3.Connection, saved: Iterable[Row], removed: Iterable[int]) -> None:
    """Write what was saved, remove what had been removed, and have it all in the database
    itself.
    """
    with writer:
        writer.executemany("INSERT OR REPLACE INTO requests VALUES (?, ?, ?, ?, ?, ?)", saved)
        departures.forget(writer, list(removed))
    writer.execute("PRAGMA wal_checkpoint(TRUNCATE)")


def _time(unix_ns: int) -> str:
    return f"{datetime.fromtimestamp(unix_ns // _NS, UTC):%Y-%m-%d %H:%M:%S} UTC"
