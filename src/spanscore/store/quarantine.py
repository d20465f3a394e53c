"""Requests put aside because they cannot be read."""

import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from spanscore.errors import ConfigError

CREATE: Final = """
CREATE TABLE quarantine (id INTEGER PRIMARY KEY, received_ns INTEGER NOT NULL, signal TEXT NOT NULL,
                         reason TEXT NOT NULL, body BLOB NOT NULL);
"""
_MAX_BYTES: Final = 64 * 2**20
_MAX_REASON_CHARS: Final = 1000


@dataclass(frozen=True, slots=True)
class Quarantined:
    """A request that was put aside, without its body."""

    id: int
    received_ns: int
    signal: str
    reason: str
    size_bytes: int


def put(
    db: sqlite3.Connection, received_ns: int, signal: str, reason: str, body: bytes, max_number: int
) -> None:
    """Put a request aside; the oldest go where there are more than `max_number`, or more than 64
    MiB of them.
    """
    record = (received_ns, signal, reason[:_MAX_REASON_CHARS], body)
    db.execute(
        "INSERT INTO quarantine (received_ns, signal, reason, body) VALUES (?, ?, ?, ?)", record
    )
    _shorten(db, max_number)


def copy(
    db: sqlite3.Connection, rows: Sequence[int], reason: str, now_ns: int, max_number: int
) -> None:
    """Put copies of journalled requests aside, as `put` does."""
    for row in rows:
        db.execute(
            "INSERT INTO quarantine (received_ns, signal, reason, body) "
            "SELECT ?, signal, ?, body FROM requests WHERE row = ?",
            (now_ns, reason[:_MAX_REASON_CHARS], row),
        )
    _shorten(db, max_number)


def listed(path: Path) -> list[Quarantined]:
    """What the journal at `path` has put aside, oldest first.

    Raises ConfigError where there is no journal.
    """
    with _read_only(path) as db:
        found = db.execute(
            "SELECT id, received_ns, signal, reason, length(body) FROM quarantine ORDER BY id"
        )
        return [Quarantined(*record) for record in found]


def body(path: Path, number: int) -> bytes:
    """The body, as it came, of what was put aside under this id.

    Raises ConfigError where there is no journal, KeyError where it has no such id.
    """
    with _read_only(path) as db:
        found = db.execute("SELECT body FROM quarantine WHERE id = ?", (number,)).fetchone()
    if found is None:
        raise KeyError(number)
    return bytes(found[0])


def _shorten(db: sqlite3.Connection, max_number: int) -> None:
    db.execute(
        "DELETE FROM quarantine WHERE id IN (SELECT id FROM (SELECT id, row_number() OVER newest AS"
        " place, sum(length(body)) OVER newest AS total FROM quarantine WINDOW newest AS (ORDER BY"
        " id DESC)) WHERE place > ? OR total > ?)",
        (max_number, _MAX_BYTES),
    )


@contextmanager
def _read_only(path: Path) -> Iterator[sqlite3.Connection]:
    if not path.exists():
        raise ConfigError(f"{path}: no journal there; see journal.path")
    db = sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True)
    try:
        yield db
    except sqlite3.Error as error:
        raise ConfigError(
            f"{path}: cannot be read as a journal ({error}); see journal.path"
        ) from error
    finally:
        db.close()
