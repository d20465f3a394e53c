"""The journal's record of what left inline."""

import sqlite3
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from spanscore.model.headers import Headers
from spanscore.model.json import dumps, loads

_CREATE: Final = """
BEGIN;
CREATE TABLE held (row INTEGER NOT NULL, span BLOB NOT NULL, has_left INTEGER NOT NULL, PRIMARY \
KEY (row, span))
WITHOUT ROWID;
CREATE TABLE headers (row INTEGER PRIMARY KEY, headers TEXT NOT NULL);
DELETE FROM passed_on;
COMMIT;
"""


@dataclass(frozen=True, slots=True)
class Leaving:
    """What has left of a request. Spans are named by trace id and span id, one behind the other.

    `rest_left`: all but the spans held back has. `held` are those that were held back then and have
    not left; `left` are those that have, or need not, whatever became of the rest.
    """

    rest_left: bool = False
    held: frozenset[bytes] = frozenset()
    left: frozenset[bytes] = frozenset()


def create(db: sqlite3.Connection) -> None:
    """Make the tables where there are none yet.

    A journal without them does not record which spans of the requests that it passed on were held
    back, so these requests leave again.
    """
    if db.execute("SELECT 1 FROM sqlite_master WHERE name = 'held'").fetchone() is None:
        db.executescript(_CREATE)


def keep_headers(db: sqlite3.Connection, row: int, headers: str) -> None:
    """Remember the headers of a request, as `text_of` gives them."""
    if headers:
        db.execute("INSERT INTO headers VALUES (?, ?)", (row, headers))


def text_of(headers: Headers) -> str:
    """The text that headers are kept as; "" where there are none."""
    return dumps([list(x) for x in headers]) if headers else ""


def headers_from(text: str | None) -> Headers:
    """The headers of which `text_of` gave this text; none where that is None."""
    return () if text is None else tuple((name, value) for name, value in loads(text))


def rest_left(db: sqlite3.Connection, row: int, held: Iterable[bytes]) -> None:
    """Remember that all of a request but these spans has left."""
    db.execute("INSERT OR IGNORE INTO passed_on VALUES (?)", (row,))
    db.executemany("INSERT OR IGNORE INTO held VALUES (?, ?, 0)", [(row, span) for span in held])


def span_left(db: sqlite3.Connection, row: int, span: bytes) -> None:
    """Remember that a span of a request has left by itself, or need not leave."""
    db.execute("INSERT OR REPLACE INTO held VALUES (?, ?, 1)", (row, span))


def forget(db: sqlite3.Connection, rows: Sequence[int]) -> None:
    """Forget what has left of these requests, and where they came from."""
    for table in ("passed_on", "held", "headers", "delivered"):
        db.executemany(f"DELETE FROM {table} WHERE row = ?", [(row,) for row in rows])  # noqa: S608 - named above


def read(db: sqlite3.Connection, row: int) -> Leaving:
    """What has left of a request."""
    found = db.execute("SELECT span, has_left FROM held WHERE row = ?", (row,)).fetchall()
    return Leaving(
        db.execute("SELECT 1 FROM passed_on WHERE row = ?", (row,)).fetchone() is not None,
        frozenset(bytes(span) for span, has_left in found if not has_left),
        frozenset(bytes(span) for span, has_left in found if has_left),
    )
