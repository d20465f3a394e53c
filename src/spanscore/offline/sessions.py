"""Sessions of an offline run, kept in a temporary file."""

import json
from collections import OrderedDict
from collections.abc import Container, Sequence
from operator import itemgetter

from spanscore.evaluation import MAX_EARLIER_TURNS
from spanscore.model.score import Evaluation
from spanscore.model.trace import AgentTrace, Session
from spanscore.offline.workers import SessionRecords
from spanscore.store import records
from spanscore.temporary_files import TemporaryTables

_MAX_TURNS = 1000
"""Turns of a session that its metrics see at most, the newest, as on a server."""

_MAX_RECENT_BYTES = 8 * 2**20
"""Records of turns that stay in memory after they were asked for: neighbours in a file are often of
one session.
"""

Signals = dict[str, dict[str, Evaluation]]
"""The evaluations of a session's traces, by agent trace id and metric."""

_TABLES = """
CREATE TABLE turn (id TEXT NOT NULL, session INTEGER NOT NULL, place TEXT NOT NULL, trace BLOB);
CREATE INDEX turn_id ON turn (id);
CREATE INDEX turn_session ON turn (session);
CREATE TABLE scores (turn INTEGER PRIMARY KEY, records BLOB)
"""
"""Of scores a line each: their stored form has no line break."""


class SessionTurns:
    """The turns of sessions, with the scores that session metrics rest on.

    Traces without a session are passed over. All raises OutputError where temporary files have no
    room.
    """

    def __init__(self) -> None:
        self._tables = TemporaryTables(_TABLES)
        self._sessions: dict[str, int] = {}
        self._recent: OrderedDict[int, tuple[AgentTrace, int]] = OrderedDict()
        self._recent_bytes = 0

    def add(self, trace: AgentTrace) -> None:
        """Keep a turn, after those of its session that are here already."""
        if trace.session_key is None:
            return
        order = json.dumps([trace.started_ns, trace.trace_ids, trace.opening_span_id])
        session = self._sessions.setdefault(trace.session_key, len(self._sessions))
        row = (trace.id, session, order, _encoded(records.encode(trace)))
        self._tables.insert("INSERT INTO turn VALUES (?, ?, ?, ?)", [row])

    def keep(self, trace: AgentTrace, evaluations: Sequence[str]) -> None:
        """Keep the evaluations of a turn, given in their stored form."""
        if trace.session_key is not None and evaluations:
            self._tables.insert(
                "REPLACE INTO scores SELECT MAX(rowid), ? FROM turn WHERE id = ?",
                [(_encoded("\n".join(evaluations)), trace.id)],
            )

    def before(self, trace: AgentTrace, known: Container[str] = ()) -> tuple[AgentTrace, ...]:
        """The newest turns that were kept of the session of `trace`, which is not among them yet,
        oldest first.

        Those whose ids are `known` are left out.
        """
        if trace.session_key is None:
            return ()
        newest_first = self._tables.rows(
            "SELECT rowid, id FROM turn WHERE session = ? ORDER BY rowid DESC LIMIT ?",
            (self._sessions.get(trace.session_key), MAX_EARLIER_TURNS),
        )
        turns = [number for number, name in newest_first if name not in known]
        return tuple(self._decoded(number) for number in turns[::-1])

    def __len__(self) -> int:
        return len(self._sessions)

    @property
    def keys(self) -> Sequence[str]:
        """The keys of all sessions, in the order in which their first turns were kept."""
        return list(self._sessions)

    def size_bytes(self, key: str) -> int:
        """Bytes of the records of a session that its metrics see."""
        return sum(size_bytes for _, size_bytes in self._newest(key))

    def session(self, key: str) -> tuple[Session, Signals]:
        """A session with its turns by their start, and their evaluations."""
        turns = [number for number, _ in self._newest(key)]
        traces = tuple(map(self._decoded, turns))
        scores = map(records.decode_evaluations, map(self._evaluations, turns))
        return Session(traces[0].session_id or key, traces), {
            trace.id: {x.metric: x for x in found}
            for trace, found in zip(traces, scores, strict=True)
        }

    def stored(self, key: str) -> SessionRecords:
        """What `session` gives, in its stored form."""
        turns = [number for number, _ in self._newest(key)]
        return SessionRecords(
            key, [self._record(x) for x in turns], [self._evaluations(x) for x in turns]
        )

    def close(self) -> None:
        """Let go of the file."""
        self._tables.close()

    def _newest(self, key: str) -> list[tuple[int, int]]:
        """The turns of a session that its metrics see, each with the bytes of its records."""
        rows = self._tables.rows(
            "SELECT place, turn.rowid, LENGTH(trace) + IFNULL(LENGTH(records), 0) FROM turn"
            " LEFT JOIN scores ON scores.turn = turn.rowid WHERE session = ? ORDER BY turn.rowid",
            (self._sessions[key],),
        )
        ordered = sorted(((json.loads(place), row) for place, *row in rows), key=itemgetter(0))
        return [(number, size_bytes) for _, (number, size_bytes) in ordered[-_MAX_TURNS:]]

    def _decoded(self, number: int) -> AgentTrace:
        if number in self._recent:
            self._recent.move_to_end(number)
            return self._recent[number][0]
        record = self._record(number)
        found, _ = self._recent[number] = records.decode_trace(record), len(record)
        self._recent_bytes += len(record)
        while self._recent_bytes > _MAX_RECENT_BYTES:
            _, (_, size_bytes) = self._recent.popitem(last=False)
            self._recent_bytes -= size_bytes
        return found

    def _record(self, number: int) -> str:
        [content] = self._tables.row("SELECT trace FROM turn WHERE rowid = ?", (number,))
        return _text(content)

    def _evaluations(self, number: int) -> list[str]:
        """The evaluations of a turn in their stored form."""
        found = self._tables.rows("SELECT records FROM scores WHERE turn = ?", (number,))
        return [line for [content] in found for line in _text(content).split("\n")]


def _encoded(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")


def _text(content: bytes) -> str:
    return content.decode("utf-8", "surrogatepass")
