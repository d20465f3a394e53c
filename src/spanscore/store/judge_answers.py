"""Judges' answers, by question, also shared by several servers."""

import math
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress

from sqlalchemy import (
    BigInteger,
    Column,
    Index,
    MetaData,
    String,
    Table,
    Text,
    delete,
    func,
    insert,
    select,
    update,
)
from sqlalchemy.engine import Connection

from spanscore.errors import PermanentError, RetryableError
from spanscore.store import connections, records, stored_rows
from spanscore.store.connections import transaction
from spanscore.store.schema import judge_answers
from spanscore.telemetry import Complaints

_MAX_KEYS = 500
"""Keys in one statement: SQLite takes 32,766 values, PostgreSQL's driver 65,535."""


def find(connection: Connection, keys: Sequence[str]) -> dict[str, str]:
    """The answers that are kept under any of `keys`, by key."""
    found: dict[str, str] = {}
    for start in range(0, len(keys), _MAX_KEYS):
        among = judge_answers.c.key.in_(keys[start : start + _MAX_KEYS])
        rows = connection.execute(select(judge_answers.c.key, judge_answers.c.value).where(among))
        found |= {row.key: row.value for row in rows}
    return found


def keep(connection: Connection, answers: Mapping[str, str], last_row: int, now_ns: int) -> int:
    """Keep each answer under its key, in rows after `last_row`.

    Returns by how many bytes the table grew.
    """
    rows = [
        {
            "row": row,
            "key": key,
            "value": value,
            "size_bytes": records.size_bytes(value),
            "stored_ns": now_ns,
        }
        for row, (key, value) in enumerate(answers.items(), last_row + 1)
    ]
    replaced = 0
    keys = list(answers)
    for start in range(0, len(keys), _MAX_KEYS):
        among = judge_answers.c.key.in_(keys[start : start + _MAX_KEYS])
        size = select(func.coalesce(func.sum(judge_answers.c.size_bytes), 0)).where(among)
        replaced += connection.execute(size).scalar_one()
        connection.execute(delete(judge_answers).where(among))
    connection.execute(insert(judge_answers), rows)
    return sum(records.size_bytes(value) for value in answers.values()) - replaced


_PAUSE_S = 30.0
"""How long the database is not used after it could not be reached."""
_MAKING_ROOM_MS = 60_000
"""How long a statement may take that measures or deletes what all servers keep: it reads the whole
table.
"""
_DAY_NS = 86400 * 10**9
_KEPT_SHARE = 0.9
"""What remains of the bound when it was reached: making room is not done anew for each answer."""
_MEASURED_EVERY = 200
"""Answers that a server keeps before it looks how much all servers keep together."""

_tables = MetaData()
_answers = Table(
    "spanscore_judge_answers",
    _tables,
    Column("key", String(64), primary_key=True),
    Column("value", Text, nullable=False),
    Column("size_bytes", BigInteger, nullable=False),
    Column("used_ns", BigInteger, nullable=False),
    Index("spanscore_judge_answers_by_use", "used_ns"),
)


class _Breaker:
    """A circuit breaker: after a failure nobody uses the database for a while, then one thread
    until it answers.
    """

    def __init__(self, clock_s: Callable[[], float]) -> None:
        self._clock_s = clock_s
        self._lock = threading.Lock()
        self._is_closed = False
        self._is_tried = False
        self._not_before_s = -math.inf

    def admits(self) -> bool:
        """Whether the calling thread may use the database now; if so, it calls `note`
        afterwards.
        """
        with self._lock:
            if self._is_closed:
                return True
            if self._is_tried or self._clock_s() < self._not_before_s:
                return False
            self._is_tried = True
            return True

    def note(self, *, has_answered: bool) -> None:
        """Note how the database answered a thread that was admitted."""
        with self._lock:
            self._is_closed = has_answered
            self._is_tried = False
            if not has_answered:
                self._not_before_s = self._clock_s() + _PAUSE_S


class SharedAnswers:
    """A judge's cache at a database URL, of `max_bytes` of answers; past that those not used for
    longest go.

    Its methods may be called from any thread, and raise nothing: while the database cannot be
    reached, answers are neither found nor kept, and a line a minute is logged. One thread tries
    again every 30 s; no other one waits for it.
    """

    def __init__(
        self,
        url: str,
        max_bytes: int,
        clock_ns: Callable[[], int] = time.time_ns,
        clock_s: Callable[[], float] = time.monotonic,
    ) -> None:
        """Raises ConfigError where `url` is none, or its database has no driver here.

        `clock_ns` dates answers, `clock_s` measures how long ago a failure was.
        """
        self._engine = connections.shared(url, "judge.cache.url")
        self._shown = self._engine.url.render_as_string(hide_password=True)
        self._max_bytes = max_bytes
        self._clock_ns = clock_ns
        self._breaker = _Breaker(clock_s)
        self._lock = threading.Lock()
        self._has_table = False
        self._kept = 0
        self._complaints = Complaints(lambda: int(clock_s() * 1e9))

    def get(self, keys: Sequence[str]) -> dict[str, str]:
        """The answers kept under any of `keys`, by key."""
        found: dict[str, str] = {}
        self._attempt(lambda: found.update(self._read(keys)))
        return found

    def put(self, answers: Mapping[str, str]) -> None:
        """Keep each answer under its key; one that another server kept meanwhile stays.

        An answer with a character that the database takes in no text is not kept.
        """
        texts = {
            key: value
            for key, value in answers.items()
            if not stored_rows.NO_TEXT.search(key + value)
        }
        if texts:
            self._attempt(lambda: self._write(texts))

    def close(self) -> None:
        """Close all connections."""
        self._engine.dispose()

    def _attempt(self, task: Callable[[], None]) -> None:
        """Run `task` if the database is used at this moment; what fails is named, and a pause
        follows if it may pass.

        No pause follows what the database refused for its contents: it has answered.
        """
        if not self._breaker.admits():
            return
        has_answered = False
        try:
            self._make_table()
            task()
            has_answered = True
        except RetryableError as error:
            self._name(error)
        except (PermanentError, ValueError) as error:  # ValueError: a text that has no UTF-8
            has_answered = self._has_table
            self._name(error)
        finally:
            self._breaker.note(has_answered=has_answered)

    def _read(self, keys: Sequence[str]) -> dict[str, str]:
        now_ns = self._clock_ns()
        with transaction(self._engine) as connection:
            rows = connection.execute(select(_answers).where(_answers.c.key.in_(keys))).all()
        seldom = [row.key for row in rows if now_ns - row.used_ns > _DAY_NS]
        if seldom:  # once a day is enough to know what is in use
            self._note_use(seldom, now_ns)
        return {row.key: row.value for row in rows}

    def _note_use(self, keys: Sequence[str], now_ns: int) -> None:
        """Note that these answers were used; those that another server writes at this moment are
        left to it.
        """
        free = (
            select(_answers.c.key).where(_answers.c.key.in_(keys)).with_for_update(skip_locked=True)
        )
        used = update(_answers).where(_answers.c.key.in_(free)).values(used_ns=now_ns)
        with suppress(RetryableError, PermanentError), transaction(self._engine) as connection:
            connection.execute(used)

    def _write(self, answers: Mapping[str, str]) -> None:
        """Keep answers in the order of their keys: servers that keep the same ones wait for each
        other in one order.
        """
        now_ns = self._clock_ns()
        rows = [
            (key, value, records.size_bytes(value), now_ns)
            for key, value in sorted(answers.items())
        ]
        with transaction(self._engine) as connection:
            stored_rows.put_rows(connection, _answers, rows, unless_there=True)
        if self._is_to_be_measured(len(rows)):
            with transaction(self._engine) as connection:
                connection.exec_driver_sql(f"SET LOCAL statement_timeout = {_MAKING_ROOM_MS}")
                self._make_room(connection)

    def _make_table(self) -> None:
        """Make the table where there is none; where two servers make it at once, one of them finds
        it made.
        """
        if self._has_table:
            return
        try:
            with transaction(self._engine) as connection:
                _tables.create_all(connection)
        except PermanentError:
            with transaction(self._engine) as connection:
                _tables.create_all(connection)
        self._has_table = True

    def _is_to_be_measured(self, answers: int) -> bool:
        with self._lock:
            before = self._kept
            self._kept += answers
        return before // _MEASURED_EVERY != (before + answers) // _MEASURED_EVERY

    def _make_room(self, connection: Connection) -> None:
        """Delete what was not used for longest, if all servers' answers together are too much."""
        size_bytes = int(
            connection.execute(
                select(func.coalesce(func.sum(_answers.c.size_bytes), 0))
            ).scalar_one()
        )
        over = size_bytes - _KEPT_SHARE * self._max_bytes
        if size_bytes <= self._max_bytes:
            return
        going = []
        for key, size in connection.execute(
            select(_answers.c.key, _answers.c.size_bytes).order_by(
                _answers.c.used_ns, _answers.c.key
            )
        ):
            if over <= 0:
                break
            going.append(key)
            over -= size
        for start in range(0, len(going), _MAX_KEYS):
            connection.execute(
                delete(_answers).where(_answers.c.key.in_(going[start : start + _MAX_KEYS]))
            )

    def _name(self, error: Exception) -> None:
        """Say that the database cannot be used, once a minute at most."""
        with self._lock:
            self._complaints.complain(
                "judge.cache.url",
                f"{self._shown} cannot be used ({error}); meanwhile the judge is asked what others"
                " may have been answered",
            )
