"""Sessions of an offline run, kept in files."""

import json
from collections import OrderedDict
from collections.abc import Container, Sequence
from contextlib import suppress
from operator import itemgetter
from tempfile import SpooledTemporaryFile
from typing import IO, Any, NamedTuple

from spanscore.evaluation import MAX_EARLIER_TURNS
from spanscore.model.score import Evaluation
from spanscore.model.trace import AgentTrace, Session
from spanscore.offline.workers import SessionRecords
from spanscore.store import records
from spanscore.temporary_files import TemporaryTables, temporary_space

_MAX_MEMORY_BYTES = 64 * 2**20
_MAX_TURNS = 1000
"""Turns of a session that its metrics see at most, the newest, as on a server."""

_MAX_RECENT_BYTES = 8 * 2**20
"""Records of turns that stay in memory after they were asked for: neighbours in a file are often of
one session.
"""

Signals = dict[str, dict[str, Evaluation]]
"""The evaluations of a session's traces, by agent trace id and metric."""


_TABLES = """
CREATE TABLE turn (
    id TEXT NOT NULL, session INTEGER NOT NULL, place_in_session TEXT NOT NULL,
    trace_offset INTEGER NOT NULL, trace_bytes INTEGER NOT NULL,
    evaluations_offset INTEGER, evaluations_bytes INTEGER
);
CREATE INDEX turn_id ON turn (id);
CREATE INDEX turn_session ON turn (session)
"""

_COLUMNS = "id, trace_offset, trace_bytes, evaluations_offset, evaluations_bytes"


class _Place(NamedTuple):
    offset: int
    size_bytes: int


class _Turn(NamedTuple):
    """Where a turn's record, and those of its evaluations, a line each, stand in the file."""

    id: str
    trace: _Place
    evaluations: _Place | None


class SessionTurns:
    """The turns of sessions, with the scores that session metrics rest on.

    Traces without a session are passed over.
    """

    def __init__(self, max_memory_bytes: int = _MAX_MEMORY_BYTES) -> None:
        self._file: IO[bytes] = SpooledTemporaryFile(max_memory_bytes)  # noqa: SIM115 - closed by `close`
        self._tables = TemporaryTables(_TABLES)
        self._sessions: dict[str, int] = {}
        self._recent: OrderedDict[_Place, AgentTrace] = OrderedDict()
        self._recent_bytes = 0

    def add(self, trace: AgentTrace) -> None:
        """Keep a turn, after those of its session that are here already."""
        if trace.session_key is None:
            return
        order = json.dumps([trace.started_ns, trace.trace_ids, trace.opening_span_id])
        session = self._sessions.setdefault(trace.session_key, len(self._sessions))
        place = self._written(records.encode(trace))
        self._tables.insert(
            "INSERT INTO turn VALUES (?, ?, ?, ?, ?, NULL, NULL)",
            [(trace.id, session, order, *place)],
        )

    def score(self, trace: AgentTrace, evaluations: Sequence[Evaluation]) -> None:
        """Keep the evaluations of a turn."""
        if trace.session_key is not None:
            self.keep_records(trace, records.encode_evaluations(evaluations))

    def keep_records(self, trace: AgentTrace, evaluations: Sequence[str]) -> None:
        """Keep the evaluations of a turn, given in their stored form."""
        if trace.session_key is None:
            return
        place = self._written("\n".join(evaluations)) if evaluations else (None, None)
        self._tables.insert(
            "UPDATE turn SET evaluations_offset = ?, evaluations_bytes = ?"
            " WHERE rowid = (SELECT MAX(rowid) FROM turn WHERE id = ?)",
            [(*place, trace.id)],
        )

    def before(self, trace: AgentTrace, known: Container[str] = ()) -> tuple[AgentTrace, ...]:
        """The newest turns that were kept of the session of `trace`, which is not among them yet,
        oldest first.

        Those whose ids are `known` are left out.
        """
        if trace.session_key is None:
            return ()
        newest_first = self._tables.rows(
            f"SELECT {_COLUMNS} FROM turn WHERE session = ? ORDER BY rowid DESC LIMIT ?",  # noqa: S608 - columns of this file
            (self._sessions.get(trace.session_key), MAX_EARLIER_TURNS),
        )
        turns = [_turn(row) for row in newest_first][::-1]
        return tuple(self._decoded(x.trace) for x in turns if x.id not in known)

    def __len__(self) -> int:
        return len(self._sessions)

    @property
    def keys(self) -> Sequence[str]:
        """The keys of all sessions, in the order in which their first turns were kept."""
        return list(self._sessions)

    def size_bytes(self, key: str) -> int:
        """Bytes of the records of a session that its metrics see."""
        return sum(
            place.size_bytes
            for turn in self._newest(key)
            for place in (turn.trace, turn.evaluations)
            if place is not None
        )

    def session(self, key: str) -> tuple[Session, Signals]:
        """A session with its turns by their start, and their evaluations."""
        turns = self._newest(key)
        traces = tuple(self._decoded(x.trace) for x in turns)
        scores = (
            (x, records.decode_evaluations(self._evaluations(turn)))
            for x, turn in zip(traces, turns, strict=True)
        )
        return Session(traces[0].session_id or key, traces), {
            trace.id: {x.metric: x for x in found} for trace, found in scores
        }

    def stored(self, key: str) -> SessionRecords:
        """What `session` gives, in its stored form."""
        turns = self._newest(key)
        evaluations = [self._evaluations(turn) for turn in turns]
        return SessionRecords(key, [self._read(turn.trace) for turn in turns], evaluations)

    def _newest(self, key: str) -> list[_Turn]:
        rows = self._tables.rows(
            f"SELECT place_in_session, {_COLUMNS} FROM turn WHERE session = ? ORDER BY rowid",  # noqa: S608 - columns of this file
            (self._sessions[key],),
        )
        ordered = sorted(((json.loads(order), row) for order, *row in rows), key=itemgetter(0))
        return [_turn(row) for _, row in ordered[-_MAX_TURNS:]]

    def close(self) -> None:
        """Let go of the file."""
        with suppress(OSError):  # of a full disk, which what was written before has raised
            self._file.close()

    def _decoded(self, place: _Place) -> AgentTrace:
        if place in self._recent:
            self._recent.move_to_end(place)
            return self._recent[place]
        found = self._recent[place] = records.decode_trace(self._read(place))
        self._recent_bytes += place.size_bytes
        while self._recent_bytes > _MAX_RECENT_BYTES:
            oldest, _ = self._recent.popitem(last=False)
            self._recent_bytes -= oldest.size_bytes
        return found

    def _evaluations(self, turn: _Turn) -> list[str]:
        """The evaluations of a turn in their stored form, which has no line break."""
        return [] if turn.evaluations is None else self._read(turn.evaluations).split("\n")

    def _written(self, text: str) -> _Place:
        content = text.encode("utf-8", "surrogatepass")
        with temporary_space():
            offset = self._file.seek(0, 2)
            self._file.write(content)
        return _Place(offset, len(content))

    def _read(self, place: _Place) -> str:
        with temporary_space():  # what is still in a buffer is written
            self._file.seek(place.offset)
        return self._file.read(place.size_bytes).decode("utf-8", "surrogatepass")


def _turn(row: Sequence[Any]) -> _Turn:
    """A row of `_COLUMNS`."""
    name, offset, size_bytes, of_evaluations, evaluations_bytes = row
    evaluations = None if of_evaluations is None else _Place(of_evaluations, evaluations_bytes)
    return _Turn(name, _Place(offset, size_bytes), evaluations)
