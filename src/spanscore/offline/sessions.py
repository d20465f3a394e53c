"""The sessions of a run over recorded traces: their turns are kept in a file once they fill a bound
in memory.
"""

from collections import OrderedDict
from collections.abc import Container, Sequence
from contextlib import suppress
from dataclasses import dataclass
from tempfile import SpooledTemporaryFile
from typing import IO, NamedTuple

from spanscore.evaluation import MAX_EARLIER_TURNS
from spanscore.model.score import Evaluation
from spanscore.model.trace import AgentTrace, Session
from spanscore.offline.scoring_in_workers import SessionRecords
from spanscore.store import records
from spanscore.temporary_files import temporary_space

_MAX_MEMORY_BYTES = 64 * 2**20
_MAX_TURNS = 1000
"""Turns of a session that its metrics see at most, the newest, as on a server."""

_MAX_RECENT_BYTES = 8 * 2**20
"""Records of turns that stay in memory after they were asked for: neighbours in a file are often of
one session.
"""

Signals = dict[str, dict[str, Evaluation]]
"""The evaluations of a session's traces, by agent trace id and metric."""


class _Place(NamedTuple):
    offset: int
    size_bytes: int


@dataclass(slots=True)
class _Turn:
    """Where a turn's record, and those of its evaluations, a line each, stand in the file; `order`
    is that of its session.
    """

    id: str
    order: tuple[int, tuple[str, ...], str]
    trace: _Place
    evaluations: _Place | None = None


class SessionTurns:
    """The turns of sessions, with the scores that session metrics rest on.

    Traces without a session are passed over.
    """

    def __init__(self, max_memory_bytes: int = _MAX_MEMORY_BYTES) -> None:
        self._file: IO[bytes] = SpooledTemporaryFile(max_memory_bytes)  # noqa: SIM115 - closed by `close`
        self._sessions: dict[str, list[_Turn]] = {}
        self._turns: dict[str, _Turn] = {}
        self._recent: OrderedDict[_Place, AgentTrace] = OrderedDict()
        self._recent_bytes = 0

    def add(self, trace: AgentTrace) -> None:
        """Keep a turn, after those of its session that are here already."""
        if trace.session_key is None:
            return
        order = (trace.started_ns, trace.trace_ids, trace.opening_span_id)
        turn = _Turn(trace.id, order, self._written(records.encode(trace)))
        self._turns[trace.id] = turn
        self._sessions.setdefault(trace.session_key, []).append(turn)

    def score(self, trace: AgentTrace, evaluations: Sequence[Evaluation]) -> None:
        """Keep the evaluations of a turn."""
        if trace.id in self._turns:
            self.keep_records(trace, records.encode_evaluations(evaluations))

    def keep_records(self, trace: AgentTrace, evaluations: Sequence[str]) -> None:
        """Keep the evaluations of a turn, given in their stored form."""
        if (turn := self._turns.get(trace.id)) is not None:
            turn.evaluations = self._written("\n".join(evaluations)) if evaluations else None

    def before(self, trace: AgentTrace, known: Container[str] = ()) -> tuple[AgentTrace, ...]:
        """The newest turns that were kept of the session of `trace`, which is not among them yet,
        oldest first.

        Those whose ids are `known` are left out.
        """
        if trace.session_key is None:
            return ()
        turns = self._sessions.get(trace.session_key, ())[-MAX_EARLIER_TURNS:]
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
        return sorted(self._sessions[key], key=lambda x: x.order)[-_MAX_TURNS:]

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
