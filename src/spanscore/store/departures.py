"""The journal's record of what left inline."""

import sqlite3
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

CREATE: Final = """
CREATE TABLE held (row INTEGER NOT NULL, span BLOB NOT NULL, has_left INTEGER NOT NULL, PRIMARY \
KEY (row, span)) WITHOUT ROWID;
"""
_REST: Final = b""
"""Stands for all spans of a request but those that are named."""


@dataclass(frozen=True, slots=True)
class Leaving:
    """What has left of a request. Spans are named by trace id and span id, one behind the other.

    `rest_left`: all but the spans held back has. `held` are those that were held back then and have
    not left; `left` are those that have, or need not, whatever became of the rest.
    """

    rest_left: bool = False
    held: frozenset[bytes] = frozenset()
    left: frozenset[bytes] = frozenset()


def rest_left(db: sqlite3.Connection, row: int, held: Iterable[bytes]) -> None:
    """Remember that all of a request but these spans has left."""
    spans = [(row, _REST, 1), *((row, span, 0) for span in held)]
    db.executemany("INSERT OR IGNORE INTO held VALUES (?, ?, ?)", spans)


def span_left(db: sqlite3.Connection, row: int, span: bytes) -> None:
    """Remember that a span of a request has left by itself, or need not leave."""
    db.execute("INSERT OR REPLACE INTO held VALUES (?, ?, 1)", (row, span))


def forget(db: sqlite3.Connection, rows: Sequence[int]) -> None:
    """Forget requests, and what has left of them."""
    for table in ("requests", "held"):
        db.executemany(f"DELETE FROM {table} WHERE row = ?", [(row,) for row in rows])  # noqa: S608 - named above


def read(db: sqlite3.Connection, row: int) -> Leaving:
    """What has left of a request."""
    found = db.execute("SELECT span, has_left FROM held WHERE row = ?", (row,)).fetchall()
    held = frozenset(bytes(span) for span, has_left in found if not has_left)
    left = frozenset(bytes(span) for span, has_left in found if has_left)
    return Leaving(_REST in left, held, left - {_REST})
