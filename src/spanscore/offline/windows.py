"""Traces too many for memory, a window at a time."""

import heapq
from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple, Protocol, TypeAlias

from spanscore.content import ContentNote, ContentWatch
from spanscore.dialects import unit_scopes
from spanscore.model.score import Evaluation
from spanscore.model.span import LogRecord, Span
from spanscore.model.trace import AgentTrace
from spanscore.offline.units import Parts, Piece, ReadUnit, ReadUnits, UnitReader
from spanscore.otlp.documents import Document, Documents, EncodedDocument, Place, trace_ids
from spanscore.otlp.files import Telemetry
from spanscore.rebuild import join_units, rebuild_all, unit_of
from spanscore.sources import Location, Query, is_backend
from spanscore.sources.port import Stored
from spanscore.sources.stored_traces import Stopped, add, copies, stored_traces
from spanscore.turns import Stitching, TraceFragment, Watch

_FIRST_BYTES, _MAX_BYTES = 2 * 2**20, 16 * 2**20
"""How much is read for a window: little for the first, so that its scores are there soon, then ever
more.
"""

_MAX_OPEN_BYTES = 64 * 2**20
"""Documents with parts of open units; of more, only these parts are kept, decoded."""


@dataclass(slots=True)
class ClosedUnit:
    """What a unit consists of, and where it was last mentioned; `last_bytes` is how much had been
    read by then.
    """

    last: Place
    last_bytes: int = 0
    pieces: list[Piece] = field(default_factory=list)


@dataclass(slots=True)
class Closed:
    """The units that became whole while a window was read, and the pieces that are read with them
    for the first time.

    `now_ns` and `read_bytes` are the time in the recording, and what was read, at its end.
    """

    units: dict[str, ClosedUnit]
    fresh: list[Piece]
    now_ns: int
    read_bytes: int
    is_end: bool


class Closing:
    """Units by what documents mention; a unit is whole once no later document mentions it."""

    def __init__(self, documents: Documents) -> None:
        self._documents = documents
        self._open: dict[str, ClosedUnit] = {}
        self._fresh: list[Piece] = []
        self._scopes = tuple(scope.encode() for scope in unit_scopes())
        self._now_ns = 0
        self._read_bytes = 0

    def add(self, document: EncodedDocument) -> None:
        """Take in a document."""
        piece = Piece(document.place, document)
        self._read_bytes += piece.size_bytes
        self._now_ns = document.place.time_ns
        self._fresh.append(piece)
        for name in self._names(piece, document):
            unit = self._open.setdefault(name, ClosedUnit(document.place))
            unit.last, unit.last_bytes = document.place, self._read_bytes
            unit.pieces.append(piece)

    def close(self, *, is_end: bool) -> Closed:
        """The units that are whole now; at the end, all that are left."""
        closed = {
            name: unit for name, unit in self._open.items() if is_end or self._is_whole(name, unit)
        }
        for name in closed:
            del self._open[name]
        fresh, self._fresh = self._fresh, []
        self._bound_open_documents()
        return Closed(closed, fresh, self._now_ns, self._read_bytes, is_end)

    def _is_whole(self, name: str, unit: ClosedUnit) -> bool:
        return self._documents.is_last(name, unit.last)

    def _names(self, piece: Piece, document: EncodedDocument) -> Sequence[str]:
        """The units that a document mentions: its traces, but where it may contain what is no
        trace's.
        """
        if not any(scope in document.content for scope in self._scopes):
            return sorted(trace_ids(document.path, document.content))
        telemetry = piece.decoded()
        names = [unit_of(x, of_log=False) for x in telemetry.spans]
        names += [unit_of(x, of_log=True) for x in telemetry.logs]
        return [name for name in dict.fromkeys(names) if name]

    def _bound_open_documents(self) -> None:
        """Keep of documents only what open units have in them, where the documents take much
        memory.
        """
        pieces = {piece.place: piece for unit in self._open.values() for piece in unit.pieces}
        if sum(piece.size_bytes for piece in pieces.values()) <= _MAX_OPEN_BYTES:
            return
        narrowed = {
            place: x.narrowed(self._open.keys()) if x.document else x for place, x in pieces.items()
        }
        for unit in self._open.values():
            unit.pieces = [narrowed[piece.place] for piece in unit.pieces]


def closings(documents: Documents, read: Callable[[int], bool]) -> Iterator[Closed]:
    """The units of all documents, window by window.

    `read` is given how many bytes each document had, and returns whether to go on.
    """
    found = Closing(documents)
    wanted, size_bytes = _FIRST_BYTES, 0
    for document in documents.encoded():
        found.add(document)
        size_bytes += len(document.content)
        if not read(len(document.content)):
            return
        if size_bytes >= wanted:
            yield found.close(is_end=False)
            wanted, size_bytes = min(2 * wanted, _MAX_BYTES), 0
    yield found.close(is_end=True)


Accepts: TypeAlias = Callable[[Sequence[Span], Sequence[LogRecord]], bool]

"""How much is read for a window: little for the first, so that its scores are there soon, then ever
more.
"""


@dataclass(slots=True)
class _Unit:
    """What is read together: the spans and log records of one trace, mostly."""

    last: Place
    last_bytes: int = 0
    spans: list[tuple[Place, Span]] = field(default_factory=list)
    logs: list[tuple[Place, LogRecord]] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Window:
    """Agent traces, and the spans and log records that were dealt with, also those of which no
    agent trace came.
    """

    traces: list[AgentTrace]
    spans: list[Span]
    logs: list[LogRecord]
    refused: list[str]
    truncated: dict[str, str]
    """Which of these traces are known not to be all there, by id, and why."""


class Ordered(Protocol):
    """Documents by their time; it is known which of them is the last to mention a trace."""

    def __iter__(self) -> Iterator[Document]: ...

    def is_last(self, trace_id: str, place: Place) -> bool:
        """Whether no document after this one mentions a trace."""
        ...


class Windows:
    """Rebuilds agent traces from documents that come one after the other.

    A trace is rebuilt once no later document mentions it, together with those around it, so that a
    turn that is spread over several traces is one.
    """

    def __init__(
        self,
        documents: Ordered,
        watch: Watch,
        accepts: Accepts | None = None,
        *,
        stitch_off: Collection[str] = (),
    ) -> None:
        """`accepts` says of the spans and log records of a trace whether it is read; None: each is.

        `stitch_off` is for `rebuild_all`.
        """
        self._stitch_off = stitch_off
        self._documents = documents
        self._watch = watch
        self._accepts = accepts
        self._truncated: dict[str, str] = {}
        self._units: dict[str, _Unit] = {}
        self._read_bytes = 0
        self._now_ns = 0
        self._refused: list[str] = []
        self._of_no_trace: list[LogRecord] = []

    def add(self, document: Document) -> None:
        """Take in what a document contains."""
        self._read_bytes += document.size_bytes
        self._now_ns = document.place.time_ns
        self._refused += document.telemetry.refused
        self._truncated.update(document.telemetry.truncated)
        for span in document.telemetry.spans:
            self._unit(unit_of(span, of_log=False), document.place).spans.append(
                (document.place, span)
            )
        for log in document.telemetry.logs:
            if unit := unit_of(log, of_log=True):
                self._unit(unit, document.place).logs.append((document.place, log))
            else:
                self._of_no_trace.append(log)

    def give(self, *, is_end: bool) -> Window:
        """The agent traces that wait for nothing any more; at the end, all that are left."""
        ready = self._ready(is_end=is_end)
        traces = rebuild_all(
            _spans(ready.values()),
            _logs(ready.values()),
            watch=self._watch,
            truncated=self._truncated,
            stitch_off=self._stitch_off,
        )
        groups = _units_of(traces, ready)
        waiting: set[str] = set()
        if not is_end:
            waiting = {name for name, unit in ready.items() if self._may_be_joined(unit)}
            waiting = with_joined(waiting, groups)
        given = [unit for name, unit in ready.items() if name not in waiting]
        for name in ready.keys() - waiting:
            del self._units[name]
        found = [trace for trace, group in zip(traces, groups, strict=True) if not group & waiting]
        refused, self._refused = self._refused, []
        logs, self._of_no_trace = [*_logs(given), *self._of_no_trace], []
        return Window(found, _spans(given), logs, refused, self._no_longer_truncated())

    def _ready(self, *, is_end: bool) -> dict[str, _Unit]:
        """What no later document mentions, by name; what nobody wants of it is forgotten."""
        ready: dict[str, _Unit] = {}
        for name, unit in list(self._units.items()):
            if not is_end and self._is_open(name, unit):
                continue
            if self._is_wanted(unit):
                ready[name] = unit
            else:
                del self._units[name]
        return ready

    def _no_longer_truncated(self) -> dict[str, str]:
        """Why traces that are dealt with are not all there; it is forgotten here."""
        done = [trace_id for trace_id in self._truncated if trace_id not in self._units]
        return {trace_id: self._truncated.pop(trace_id) for trace_id in done}

    def _unit(self, name: str, place: Place) -> _Unit:
        unit = self._units.setdefault(name, _Unit(place))
        unit.last, unit.last_bytes = place, self._read_bytes
        return unit

    def _is_wanted(self, unit: _Unit) -> bool:
        return self._accepts is None or self._accepts(
            [x for _, x in unit.spans], [x for _, x in unit.logs]
        )

    def _is_open(self, name: str, unit: _Unit) -> bool:
        return not self._documents.is_last(name, unit.last)

    def _may_be_joined(self, unit: _Unit) -> bool:
        """Whether another trace of its turn may still come."""
        return may_be_joined(self._now_ns - unit.last.time_ns, self._read_bytes - unit.last_bytes)


def windows(
    documents: Ordered,
    watch: Watch,
    read: Callable[[int], bool],
    accepts: Accepts | None = None,
    *,
    stitch_off: Collection[str] = (),
) -> Iterator[Window]:
    """The windows of all documents; `read` is given how many bytes each had, and returns whether to
    go on.
    """
    found = Windows(documents, watch, accepts, stitch_off=stitch_off)
    wanted, size_bytes = _FIRST_BYTES, 0
    for document in documents:
        found.add(document)
        size_bytes += document.size_bytes
        if not read(document.size_bytes):
            return
        if size_bytes >= wanted:
            yield found.give(is_end=False)
            wanted, size_bytes = min(2 * wanted, _MAX_BYTES), 0
    yield found.give(is_end=True)


def _units_of(traces: Sequence[AgentTrace], units: Mapping[str, _Unit]) -> list[set[str]]:
    """For each agent trace the names of the units that it was rebuilt from."""
    names = {name: name for name in units}
    for name, unit in units.items():
        names.update((span.trace_id, name) for _, span in unit.spans)
    return [{names[x] for x in trace.trace_ids if x in names} for trace in traces]


def _spans(units: Iterable[_Unit]) -> list[Span]:
    """The spans of units in the order of their files, as if these had been loaded whole."""
    return [x for _, x in sorted((y for unit in units for y in unit.spans), key=_order)]


def _logs(units: Iterable[_Unit]) -> list[LogRecord]:
    return [x for _, x in sorted((y for unit in units for y in unit.logs), key=_order)]


def _order(item: tuple[Place, object]) -> tuple[int, int]:
    return item[0].file, item[0].number


def stored_windows(
    location: Location,
    watch: Watch,
    read: Callable[[int], bool],
    stopped: Stopped,
    *,
    stitch_off: Collection[str] = (),
) -> Iterator[Window]:
    """The windows of all traces that a location's query accepts, by their start.

    `read`, `watch` and `stitch_off` are those of `windows`. Raises InputError or RetryableError
    where the source cannot be read.
    """
    if is_backend(location):
        stored = _Whole(stored_traces(location, stopped))
        yield from windows(stored, watch, read, stitch_off=stitch_off)
        return
    with copies(location) as path:
        documents = Documents([path])
        query = (
            location.query if location.query.limit is None else _newest(documents, location.query)
        )
        accepts = query.accepts if query.conditions else None
        yield from windows(documents, watch, read, accepts, stitch_off=stitch_off)


def load_stored(found: Telemetry, location: Location) -> None:
    """Add all spans and log records that a location's query accepts. Raises as `stored_windows`."""
    for window in stored_windows(location, ContentWatch(), lambda _size: True, Stopped()):
        found.spans += window.spans
        found.logs += window.logs
        found.refused += window.refused
        found.truncated.update(window.truncated)


class _Whole:
    """Stored traces as documents: each is all of its trace."""

    def __init__(self, stored: Iterable[Stored]) -> None:
        self._stored = stored

    def __iter__(self) -> Iterator[Document]:
        latest_ns = 0
        for number, stored in enumerate(self._stored):
            latest_ns = max(latest_ns, min((x.start_ns for x in stored.spans), default=0))
            telemetry = Telemetry()
            add(telemetry, stored)
            yield Document(Place(latest_ns, 0, number), telemetry, stored.size_bytes)

    def is_last(self, _trace_id: str, _place: Place) -> bool:
        """True: a trace comes whole."""
        return True


def truncated_notice(trace_id: str, why: str) -> str:
    """What is said of a trace that is not all there."""
    return (
        f"warning: trace {trace_id} is truncated, and what is measured of it counts as such: {why}"
    )


def _newest(documents: Documents, query: Query) -> Query:
    """The query that accepts as many of the newest traces as the limit says, and no other."""
    newest: list[tuple[int, str]] = []
    for window in windows(documents, ContentWatch(), lambda _size: True, query.accepts):
        newest = heapq.nlargest(query.limit or 0, [*newest, *_starts(window.spans)])
    return replace(query, trace_ids=tuple(trace_id for _, trace_id in newest), limit=None)


def _starts(spans: Iterable[Span]) -> list[tuple[int, str]]:
    starts: dict[str, int] = {}
    for span in spans:
        starts[span.trace_id] = min(span.start_ns, starts.get(span.trace_id, span.start_ns))
    return [(start_ns, trace_id) for trace_id, start_ns in starts.items()]


class FileWindow(NamedTuple):
    """Agent traces, and what is to be said of what was dealt with: `spans` and `logs` are counts.

    `unread` is the number of traces that contain nothing that was read.
    """

    traces: list[AgentTrace]
    external: list[Evaluation]
    refused: list[str]
    spans: int
    logs: int
    unread: int


@dataclass(slots=True)
class _Ready:
    """A unit that was read, and may wait for others of its turn."""

    closed: ClosedUnit
    read: ReadUnit


class FileWindows:
    """Joins units that were read by themselves to turns, window by window."""

    def __init__(
        self, reader: UnitReader, watch: ContentWatch, stitch_off: Collection[str]
    ) -> None:
        """`watch` is given what was seen of the traces' content."""
        self._reader = reader
        self._watch = watch
        self._stitching = Stitching(stitch_off)
        self._ready: dict[str, _Ready] = {}

    def finish(self, closed: Closed, read: ReadUnits) -> FileWindow:
        """The agent traces that wait for nothing any more, once a window is read; at the end, all
        that are left.
        """
        self._take(closed, read)
        traces, _ = join_units(
            {name: x.read.rebuilt for name, x in self._ready.items()}, self, self._stitching
        )
        groups = self._units_of(traces)
        waiting = with_joined(self._waiting(closed), groups)
        given = {name: self._ready.pop(name).read for name in [*self._ready] if name not in waiting}
        found = [trace for trace, group in zip(traces, groups, strict=True) if not group & waiting]
        in_traces = {name for trace in found for name in trace.trace_ids}
        unread = [name for name, unit in given.items() if unit.is_unread and name not in in_traces]
        return FileWindow(
            found,
            _external(given.values(), read),
            [refused for piece in read.pieces for refused in piece.refused],
            sum(unit.spans for unit in given.values()),
            sum(unit.logs for unit in given.values()) + sum(piece.logs for piece in read.pieces),
            len(unread),
        )

    def _units_of(self, traces: Sequence[AgentTrace]) -> list[set[str]]:
        """The units that each agent trace is made of."""
        names = {name: name for name in self._ready}
        for name, unit in self._ready.items():
            names.update(dict.fromkeys(unit.read.trace_ids, name))
        return [{names[x] for x in trace.trace_ids if x in names} for trace in traces]

    def _waiting(self, closed: Closed) -> set[str]:
        """The units of whose turn another may still come."""
        if closed.is_end:
            return set()
        return {name for name, x in self._ready.items() if _waits(x.closed, closed)}

    def referred(self, names: Sequence[str]) -> Mapping[str, TraceFragment]:
        """See `rebuild.Units`."""
        return self._reader.refer(self._parts(names), names) if names else {}

    def joined(self, groups: Sequence[Sequence[TraceFragment]]) -> list[list[AgentTrace]]:
        """See `rebuild.Units`."""
        parts = [self._parts([part.trace_id for part in group]) for group in groups]
        found: list[list[AgentTrace]] = []
        for traces, content in self._reader.join(parts, groups):
            self._note(content)
            found.append(traces)
        return found

    def _take(self, closed: Closed, read: ReadUnits) -> None:
        """Take in what was read; a unit of which a part waits is read again, as a whole."""
        parted = {name: x for name, x in closed.units.items() if name in self._ready}
        for name, unit in parted.items():
            unit.pieces = [*self._ready[name].closed.pieces, *unit.pieces]
        again = (
            self._reader.start({name: x.pieces for name, x in parted.items()}, ())()
            if parted
            else ReadUnits()
        )
        for name, found in {**read.units, **again.units}.items():
            self._ready[name] = _Ready(closed.units[name], found)
        self._note([*read.content, *again.content])

    def _note(self, content: Iterable[ContentNote]) -> None:
        for note in content:
            self._watch.take(note)

    def _parts(self, names: Sequence[str]) -> Parts:
        return {name: self._ready[name].closed.pieces for name in names}


def file_windows(
    documents: Documents,
    reader: UnitReader,
    watch: ContentWatch,
    read: Callable[[int], bool],
    *,
    stitch_off: Collection[str] = (),
) -> Iterator[FileWindow]:
    """The windows of all documents; `read` is given how many bytes each had, and returns whether to
    go on.

    Raises InputError where a document is damaged.
    """
    found = FileWindows(reader, watch, stitch_off)
    begun: deque[tuple[Closed, Callable[[], ReadUnits]]] = deque()
    for closed in closings(documents, read):
        parts = {name: unit.pieces for name, unit in closed.units.items()}
        begun.append((closed, reader.start(parts, closed.fresh)))
        if len(begun) > reader.ahead:
            first, result = begun.popleft()
            yield found.finish(first, result())
    for closed, result in begun:
        yield found.finish(closed, result())


def _waits(unit: ClosedUnit, closed: Closed) -> bool:
    return may_be_joined(closed.now_ns - unit.last.time_ns, closed.read_bytes - unit.last_bytes)


def _external(units: Iterable[ReadUnit], read: ReadUnits) -> list[Evaluation]:
    """The scores that others gave, each once, in the order in which they were given."""
    lists = [*(unit.external for unit in units), *(piece.external for piece in read.pieces)]
    scores = {x.uid: x for found in lists for x in found}
    return sorted(scores.values(), key=lambda x: (x.evaluated_at_ns, x.uid))


_JOIN_WITHIN_NS = 30 * 10**9
_MAX_WAITING_BYTES = 16 * 2**20
"""How long in the time of the recording, and in what was read at most."""


def may_be_joined(age_ns: int, read_bytes: int) -> bool:
    """Whether another trace of its turn may still come; both since the last of the trace was
    read.
    """
    return age_ns < _JOIN_WITHIN_NS and read_bytes < _MAX_WAITING_BYTES


def with_joined(waiting: Collection[str], groups: Sequence[Collection[str]]) -> set[str]:
    """The traces that wait, with those that are of one turn with one of these; `groups` are the
    traces of each turn.
    """
    found = set(waiting)
    while more := {
        name
        for group in groups
        if not found.isdisjoint(group)
        for name in group
        if name not in found
    }:
        found |= more
    return found
