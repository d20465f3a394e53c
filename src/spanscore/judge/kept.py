"""A file in which commands keep a judge's answers, so that no run pays for what an earlier one was
told.
"""

import logging
import os
import sqlite3
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TypeVar

from spanscore import private_files

T = TypeVar("T")

_LOGGER = logging.getLogger(__name__)
_DAY_NS = 86400 * 10**9
_BUSY_TIMEOUT_S = 10.0
_KEPT_SHARE = 0.9
"""What remains of the bound when it was reached: making room is not done anew for each answer."""
_SCHEMA = """
CREATE TABLE IF NOT EXISTS answers (key TEXT PRIMARY KEY, value TEXT NOT NULL, used_ns INTEGER NOT \
NULL) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS answers_by_use ON answers (used_ns);
"""


def default_path(
    environ: Mapping[str, str] = os.environ, platform: str = sys.platform
) -> Path | None:
    """The file in the user's cache folder: XDG_CACHE_HOME, else where the platform has it; None
    where there is none.
    """
    named = environ.get("XDG_CACHE_HOME", "")
    if Path(named).is_absolute():
        return Path(named) / "spanscore" / "answers.db"
    local = environ.get("LOCALAPPDATA")
    if platform == "win32" and local:
        return Path(local) / "spanscore" / "Cache" / "answers.db"
    try:
        home = Path.home()
    except RuntimeError:
        return None
    folder = home / "Library" / "Caches" if platform == "darwin" else home / ".cache"
    return folder / "spanscore" / "answers.db"


class FileCache:
    """Answers in an SQLite file that only its owner can read; past `max_bytes` of them the least
    used go.

    Several processes may use it at once. Nothing is raised: a file that cannot be used is named
    once in the log, and answers are then not kept. It is opened, and made, when the first answer is
    looked for.
    """

    def __init__(
        self, path: Path, max_bytes: int, clock_ns: Callable[[], int] = time.time_ns
    ) -> None:
        self._path = path
        self._max_bytes = max_bytes
        self._clock_ns = clock_ns
        self._lock = threading.Lock()
        self._connection: sqlite3.Connection | None = None
        self._size_bytes = 0
        self._is_usable = True

    def get(self, key: str) -> str | None:
        """The text kept under `key`, or None."""
        return self.get_all([key]).get(key)

    def put(self, key: str, value: str) -> None:
        """Keep `value` under `key`."""
        self.put_all({key: value})

    def get_all(self, keys: Sequence[str]) -> dict[str, str]:
        """The texts that are kept under any of `keys`, by key."""
        return self._tried(lambda connection: self._read(connection, keys)) or {}

    def put_all(self, answers: Mapping[str, str]) -> None:
        """Keep each text under its key, all of them or, where the file cannot be used, none."""
        self._tried(lambda connection: self._write(connection, answers))

    def close(self) -> None:
        """Let go of the file; the next use opens it again."""
        with self._lock:
            if self._connection is not None:
                self._connection.close()
            self._connection = None

    def _tried(self, work: Callable[[sqlite3.Connection], T]) -> T | None:
        """What `work` gives; None where the file cannot be used."""
        with self._lock:
            if not self._is_usable:
                return None
            try:
                self._connection = self._connection or self._opened()
                with self._connection:
                    return work(self._connection)
            except sqlite3.OperationalError as error:
                if "locked" in str(error) or "busy" in str(error):
                    # another process writes for longer than we wait: this one answer is not kept
                    return None
                self._give_up(error)
            except (OSError, sqlite3.Error) as error:
                self._give_up(error)
        return None

    def _give_up(self, error: Exception) -> None:
        self._is_usable = False
        _LOGGER.warning(
            "judge's answers are not kept between runs: %s cannot be used (%s); delete it, name"
            " another by --cache or judge.cache.path, or set judge.cache.between_runs to false",
            self._path,
            error,
        )

    def _opened(self) -> sqlite3.Connection:
        self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        private_files.make(self._path)
        connection = sqlite3.connect(self._path, timeout=_BUSY_TIMEOUT_S, check_same_thread=False)
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA synchronous = NORMAL")
        connection.executescript(_SCHEMA)
        self._size_bytes = _size_of(connection)
        return connection

    def _read(self, connection: sqlite3.Connection, keys: Sequence[str]) -> dict[str, str]:
        now_ns = self._clock_ns()
        found: dict[str, str] = {}
        for key in keys:
            row = connection.execute(
                "SELECT value, used_ns FROM answers WHERE key = ?", (key,)
            ).fetchone()
            if row is None:
                continue
            found[key] = str(row[0])
            if now_ns - row[1] > _DAY_NS:  # once a day is enough to know what is in use
                connection.execute("UPDATE answers SET used_ns = ? WHERE key = ?", (now_ns, key))
        return found

    def _write(self, connection: sqlite3.Connection, answers: Mapping[str, str]) -> None:
        now_ns = self._clock_ns()
        rows = [(key, value, now_ns) for key, value in answers.items()]
        connection.executemany(
            "INSERT OR REPLACE INTO answers (key, value, used_ns) VALUES (?, ?, ?)", rows
        )
        self._size_bytes += sum(_bytes(key) + _bytes(value) for key, value in answers.items())
        if self._size_bytes > self._max_bytes:
            self._make_room(connection)

    def _make_room(self, connection: sqlite3.Connection) -> None:
        """Delete the answers that were not used for longest."""
        over = _size_of(connection) - int(_KEPT_SHARE * self._max_bytes)
        oldest = connection.execute("SELECT key, value FROM answers ORDER BY used_ns")
        unused = []
        for key, value in oldest:
            if over <= 0:
                break
            unused.append((key,))
            over -= _bytes(key) + _bytes(value)
        connection.executemany("DELETE FROM answers WHERE key = ?", unused)
        self._size_bytes = _size_of(connection)


def _size_of(connection: sqlite3.Connection) -> int:
    counted = (
        "SELECT coalesce(sum(length(CAST(key AS BLOB)) + length(CAST(value AS BLOB))), 0) FROM"
        " answers"
    )
    return int(connection.execute(counted).fetchone()[0])


def _bytes(text: str) -> int:
    return len(text.encode())
