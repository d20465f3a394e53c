"""Agent traces of recordings, a window at a time where they are too many for memory."""

import heapq
from collections import defaultdict, deque
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple, TypeAlias, TypeVar

from spanscore import dialects
from spanscore.dialects import SpanNames, unit_scopes
from spanscore.model.score import Evaluation
from spanscore.model.trace import AgentTrace
from spanscore.otlp.documents import Documents, EncodedDocument, Place, trace_ids
from spanscore.otlp.files import Telemetry
from spanscore.rebuild import (
    RebuiltUnit,
    Received,
    ReceivedUnits,
    by_unit,
    is_read,
    join_units,
    unit_of,
)
from spanscore.received_scores import read_external
from spanscore.sources import Location, Query, is_backend
from spanscore.sources.port import Stored
from spanscore.sources.stored_traces import Stopped, add, copies, stored_traces
from spanscore.turns import Stitching, TraceFragment
from spanscore.watches import ContentNote, ContentNotes, ContentWatch, SpanAttributes
from spanscore.worker_processes import WorkerPool

ResultT = TypeVar("ResultT")

_FIRST_BYTES, _MAX_BYTES = 2 * 2**20, 16 * 2**20
"""How much is read for a window: little for the first, so that its scores are there soon, then ever
more.
"""

_MAX_OPEN_BYTES = 64 * 2**20
"""Documents with parts of open units; of more, only these parts are kept, decoded."""

_BATCH_BYTES = 2 * 2**20
"""Documents that one worker reads at once."""

_JOIN_WITHIN_NS = 30 * 10**9
_MAX_WAITING_BYTES = 16 * 2**20
"""How long a unit waits for others of its turn: in the time of the recording, and in what was read
at most.
"""

_NAMED = 3


class Options(NamedTuple):
    """By what units are read: what keeps sessions apart, the spans' attributes that rules read,
    `stitch_off`, what `dialects.configure` was given, and which units are read, None: all.
    """

    session_scope: tuple[str, ...] = ()
    attributes: tuple[str, ...] = ()
    stitch_off: tuple[str, ...] = ()
    span_names: SpanNames = SpanNames()
    query: Query | None = None


@dataclass(slots=True)
class Piece:
    """A document, which is decoded when that is needed and sent to other processes as it stands in
    its file; or a stored trace, or what is left of a document.
    """

    place: Place
    size_bytes: int
    document: EncodedDocument | None = None
    telemetry: Telemetry | None = None
    """What it contains, once it was decoded in this process."""

    def __reduce__(self) -> tuple[Any, ...]:
        """Without what another process can decode."""
        telemetry = self.telemetry if self.document is None else None
        return Piece, (self.place, self.size_bytes, self.document, telemetry)

    def decoded(self) -> Telemetry:
        """What it contains; kept, since other units may have parts in it.

        Raises InputError where it is damaged.
        """
        if self.telemetry is None:
            self.telemetry = Telemetry() if self.document is None else self.document.decoded()
        return self.telemetry

    def units(self, scopes: Sequence[bytes]) -> Sequence[str]:
        """The units that it mentions: of a document its traces, but where one of `scopes`, of what
        may be no trace's, is in it.
        """
        document = self.document
        if document is not None and not any(x in document.content for x in scopes):
            return sorted(trace_ids(document.path, document.content))
        telemetry = self.decoded()
        names = [unit_of(x, of_log=False) for x in telemetry.spans]
        names += [unit_of(x, of_log=True) for x in telemetry.logs]
        return [name for name in dict.fromkeys(names) if name]

    def narrowed(self, units: Collection[str]) -> "Piece":
        """What these units have in it."""
        telemetry = self.decoded()
        left = Telemetry(
            [x for x in telemetry.spans if unit_of(x, of_log=False) in units],
            [x for x in telemetry.logs if unit_of(x, of_log=True) in units],
            truncated=telemetry.truncated,
        )
        return Piece(self.place, 0, telemetry=left)


Parts: TypeAlias = Mapping[str, Sequence[Piece]]
"""By unit, the pieces that may contain something of it."""


class ReadUnit(NamedTuple):
    """What was read of a unit; `is_unread`: it contains spans, and none that a dialect reads.

    `trace_ids` are those of its spans.
    """

    rebuilt: RebuiltUnit
    trace_ids: frozenset[str]
    spans: int
    logs: int
    is_unread: bool
    external: list[Evaluation]


class ReadPiece(NamedTuple):
    """What is of no unit in a piece: what was left out of it, scores that others gave, and how many
    log records. `truncated` are traces that are not all there.
    """

    place: Place
    refused: list[str]
    truncated: dict[str, str]
    external: list[Evaluation]
    logs: int


@dataclass(slots=True)
class ReadUnits:
    """Units by their ids, without those of which there is nothing; and what is of no unit."""

    units: dict[str, ReadUnit] = field(default_factory=dict)
    pieces: list[ReadPiece] = field(default_factory=list)
    content: list[ContentNote] = field(default_factory=list)


def read_units(parts: Parts, fresh: Sequence[Piece], options: Options) -> ReadUnits:
    """Each unit by itself; and of the `fresh` pieces, which were not read before, what is of no
    unit.
    """
    content = ContentNotes()
    noting = SpanAttributes(options.attributes, content)
    received = gathered(parts, options)
    rebuilt = _units(parts, received, options, noting).rebuilt()
    traces = iter(noting.added_to(trace for unit in rebuilt.values() for trace in unit.traces))
    found = ReadUnits(pieces=[_read_piece(piece, options) for piece in fresh])
    for name, unit in rebuilt.items():
        with_attributes = replace(unit, traces=[next(traces) for _ in unit.traces])
        found.units[name] = _read(received[name], with_attributes, options)
    found.content = content.take()
    return found


def refer(parts: Parts, options: Options) -> dict[str, TraceFragment]:
    """What `rebuild.Units.referred` gives."""
    return _units(parts, gathered(parts, options), options).referred(list(parts))


def join(
    parts: Parts, group: Sequence[TraceFragment], options: Options
) -> tuple[list[AgentTrace], list[ContentNote]]:
    """The agent traces of a turn, of which these are the parts."""
    content = ContentNotes()
    noting = SpanAttributes(options.attributes, content)
    [traces] = _units(parts, gathered(parts, options), options, noting).joined([group])
    return noting.added_to(traces), content.take()


def _units(
    parts: Parts,
    received: Mapping[str, Received],
    options: Options,
    watch: SpanAttributes | None = None,
) -> ReceivedUnits:
    dialects.configure(options.span_names)
    pieces = {piece.place: piece for own in parts.values() for piece in own}
    truncated = {x for piece in pieces.values() for x in piece.decoded().truncated}
    stitching = Stitching(options.stitch_off)
    return ReceivedUnits(received, stitching, watch=watch, truncated=truncated)


def gathered(parts: Parts, options: Options) -> dict[str, Received]:
    """The spans and log records of units in the order of their files; without units of which there
    are none, or that are not read.
    """
    found: defaultdict[str, Received] = defaultdict(lambda: ([], []))
    pieces = {piece.place: piece for own in parts.values() for piece in own}
    for piece in sorted(pieces.values(), key=lambda x: (x.place.file, x.place.number)):
        telemetry = piece.decoded()
        for span in telemetry.spans:
            if (name := unit_of(span, of_log=False)) in parts:
                found[name][0].append(span)
        for log in telemetry.logs:
            if (name := unit_of(log, of_log=True)) in parts:
                found[name][1].append(log)
    query = options.query
    return {
        name: found[name]
        for name in parts
        if name in found and (query is None or query.accepts(*found[name]))
    }


def _read(received: Received, rebuilt: RebuiltUnit, options: Options) -> ReadUnit:
    spans, logs = received
    return ReadUnit(
        rebuilt,
        frozenset(span.trace_id for span in spans),
        len(spans),
        len(logs),
        not rebuilt.traces and bool(spans) and not is_read(received),
        read_external(spans, logs, session_scope=options.session_scope),
    )


def _read_piece(piece: Piece, options: Options) -> ReadPiece:
    found = piece.decoded()
    logs = [log for log in found.logs if not unit_of(log, of_log=True)]
    external = read_external((), logs, session_scope=options.session_scope)
    return ReadPiece(piece.place, found.refused, found.truncated, external, len(logs))


class Recorded(NamedTuple):
    """Pieces by their time, and whether no piece after that of a place mentions a unit."""

    pieces: Iterable[Piece]
    is_last: Callable[[str, Place], bool] = lambda _unit, _place: True


def recorded(documents: Documents) -> Recorded:
    """The documents of files."""
    pieces = (Piece(x.place, len(x.content), x) for x in documents.encoded())
    return Recorded(pieces, documents.is_last)


def of_telemetry(telemetry: Telemetry) -> Recorded:
    """What is in memory, each unit by itself."""
    of_none = [log for log in telemetry.logs if not unit_of(log, of_log=True)]
    found = [Telemetry(logs=of_none, refused=telemetry.refused)]
    for spans, logs in by_unit(telemetry.spans, telemetry.logs).values():
        found.append(Telemetry(spans, logs, truncated=telemetry.truncated))
    return Recorded(Piece(Place(0, 0, n), 0, telemetry=x) for n, x in enumerate(found))


def _of_stored(stored: Iterable[Stored]) -> Iterator[Piece]:
    """Stored traces, each of which is all of its trace."""
    latest_ns = 0
    for number, one in enumerate(stored):
        latest_ns = max(latest_ns, min((x.start_ns for x in one.spans), default=0))
        telemetry = Telemetry()
        add(telemetry, one)
        yield Piece(Place(latest_ns, 0, number), one.size_bytes, telemetry=telemetry)


@dataclass(slots=True)
class _Unit:
    """What a unit consists of, and where it was last mentioned; `last_bytes` is how much had been
    read by then.
    """

    last: Place
    last_bytes: int = 0
    pieces: list[Piece] = field(default_factory=list)


@dataclass(slots=True)
class _Closed:
    """The units that became whole while a window was read, and the pieces that are read with them
    for the first time.

    `now_ns` and `read_bytes` are the time in the recording, and what was read, at its end.
    """

    units: dict[str, _Unit]
    fresh: list[Piece]
    now_ns: int
    read_bytes: int
    is_end: bool

    @property
    def parts(self) -> Parts:
        """The pieces of the units."""
        return {name: unit.pieces for name, unit in self.units.items()}

    def may_be_joined(self, unit: _Unit) -> bool:
        """Whether another unit of its turn may still come."""
        age_ns, read_bytes = self.now_ns - unit.last.time_ns, self.read_bytes - unit.last_bytes
        return not self.is_end and age_ns < _JOIN_WITHIN_NS and read_bytes < _MAX_WAITING_BYTES


def closings(given: Recorded, read: Callable[[int], bool]) -> Iterator[_Closed]:
    """The units of all pieces, window by window; one is whole once no later piece mentions it.

    `read` is given how many bytes each piece had, and returns whether to go on.
    """
    scopes = tuple(scope.encode() for scope in unit_scopes())
    units: dict[str, _Unit] = {}
    fresh: list[Piece] = []
    wanted, size_bytes, read_bytes, now_ns = _FIRST_BYTES, 0, 0, 0
    for piece in given.pieces:
        fresh.append(piece)
        size_bytes, read_bytes = size_bytes + piece.size_bytes, read_bytes + piece.size_bytes
        now_ns = piece.place.time_ns
        for name in piece.units(scopes):
            unit = units.setdefault(name, _Unit(piece.place))
            unit.last, unit.last_bytes = piece.place, read_bytes
            unit.pieces.append(piece)
        if not read(piece.size_bytes):
            return
        if size_bytes >= wanted:
            whole = {name: x for name, x in units.items() if given.is_last(name, x.last)}
            units = {name: x for name, x in units.items() if name not in whole}
            yield _Closed(whole, fresh, now_ns, read_bytes, is_end=False)
            _bound(units)
            fresh, wanted, size_bytes = [], min(2 * wanted, _MAX_BYTES), 0
    yield _Closed(units, fresh, now_ns, read_bytes, is_end=True)


def _bound(units: Mapping[str, _Unit]) -> None:
    """Keep of documents only what open units have in them, where the documents take much memory."""
    pieces = {piece.place: piece for unit in units.values() for piece in unit.pieces}
    if sum(piece.size_bytes for piece in pieces.values()) <= _MAX_OPEN_BYTES:
        return
    narrowed = {place: x.narrowed(units) if x.document else x for place, x in pieces.items()}
    for unit in units.values():
        unit.pieces = [narrowed[piece.place] for piece in unit.pieces]


class Window(NamedTuple):
    """Agent traces, and what is to be said of what was dealt with: `spans` and `logs` are counts.

    `unread` is the number of traces that contain nothing that was read, `truncated` those that are
    known not to be all there, by id, and why.
    """

    traces: list[AgentTrace]
    external: list[Evaluation]
    refused: list[str]
    truncated: dict[str, str]
    spans: int
    logs: int
    unread: int


def windows(
    given: Recorded,
    options: Options,
    watch: ContentWatch,
    read: Callable[[int], bool] = lambda _size: True,
    pool: WorkerPool | None = None,
) -> Iterator[Window]:
    """The agent traces of all pieces; a turn that is spread over several traces is one.

    `read` is as `closings` has it, `watch` is given what was seen of the traces' content. Units are
    read in the processes of `pool`. Raises InputError where a document is damaged.
    """
    found = _Windows(options, watch, pool)
    begun: deque[tuple[_Closed, Callable[[], ReadUnits]]] = deque()
    for closed in closings(given, read):
        begun.append((closed, found.start(closed.parts, closed.fresh)))
        if pool is None or len(begun) > 1:  # of a pool, one window is read while the next is begun
            first, result = begun.popleft()
            yield found.finish(first, result())
    for closed, result in begun:
        yield found.finish(closed, result())


class _Windows:
    """Reads units by themselves, and joins them to turns."""

    def __init__(self, options: Options, watch: ContentWatch, pool: WorkerPool | None) -> None:
        self._options = options
        self._watch = watch
        self._pool = pool
        self._stitching = Stitching(options.stitch_off)
        self._ready: dict[str, tuple[_Unit, ReadUnit]] = {}

    def start(self, parts: Parts, fresh: Sequence[Piece]) -> Callable[[], ReadUnits]:
        """Begin to read units; what is returned waits for the result."""
        begun = [
            self._begun(read_units, own, pieces, about=_about(own, pieces))
            for own, pieces in _batches(parts, fresh)
        ]
        return lambda: _merged(parts, (x.result() for x in begun))

    def finish(self, closed: _Closed, read: ReadUnits) -> Window:
        """The agent traces that wait for nothing any more, once a window is read; at the end, all
        that are left.
        """
        self._take(closed, read)
        ready = {name: unit for name, (_, unit) in self._ready.items()}
        traces, _ = join_units(
            {name: x.rebuilt for name, x in ready.items()}, self, self._stitching
        )
        groups = _units_of(traces, ready)
        waiting = {name for name, (x, _) in self._ready.items() if closed.may_be_joined(x)}
        _spread(waiting, groups)
        given = {name: unit for name, unit in ready.items() if name not in waiting}
        for name in given:
            del self._ready[name]
        found = [trace for trace, group in zip(traces, groups, strict=True) if not group & waiting]
        return _window(found, given, read)

    def referred(self, names: Sequence[str]) -> Mapping[str, TraceFragment]:
        """See `rebuild.Units`."""
        begun = [
            self._begun(refer, own, about=_about(own, ()))
            for own, _ in _batches(self._parts(names), ())
        ]
        return {name: fragment for one in begun for name, fragment in one.result().items()}

    def joined(self, groups: Sequence[Sequence[TraceFragment]]) -> list[list[AgentTrace]]:
        """See `rebuild.Units`."""
        parts = [self._parts([part.trace_id for part in group]) for group in groups]
        begun = [
            self._begun(join, own, group, about=_about(own, ()))
            for own, group in zip(parts, groups, strict=True)
        ]
        found: list[list[AgentTrace]] = []
        for traces, content in (one.result() for one in begun):
            self._note(content)
            found.append(traces)
        return found

    def _begun(
        self, function: Callable[..., ResultT], *arguments: Any, about: str
    ) -> Future[ResultT]:
        """A call of one of the functions above, with the options; made at once without a pool."""
        if self._pool is not None:
            return self._pool.submit(function, *arguments, self._options, about=about)
        made: Future[ResultT] = Future()
        made.set_result(function(*arguments, self._options))
        return made

    def _take(self, closed: _Closed, read: ReadUnits) -> None:
        """Take in what was read; a unit of which a part waits is read again, as a whole."""
        parted = {name: x for name, x in closed.units.items() if name in self._ready}
        for name, unit in parted.items():
            unit.pieces = [*self._ready[name][0].pieces, *unit.pieces]
        again = self.start({name: x.pieces for name, x in parted.items()}, ())()
        for name, found in {**read.units, **again.units}.items():
            self._ready[name] = closed.units[name], found
        self._note([*read.content, *again.content])

    def _note(self, content: Iterable[ContentNote]) -> None:
        for note in content:
            self._watch.take(note)

    def _parts(self, names: Sequence[str]) -> Parts:
        return {name: self._ready[name][0].pieces for name in names}


def _batches(parts: Parts, fresh: Sequence[Piece]) -> Iterator[tuple[Parts, list[Piece]]]:
    """The units in groups that share their documents, as far as that goes, each with pieces that
    are read there first.

    A piece that is in no unit is in the last.
    """
    unread = {piece.place: piece for piece in fresh}
    batch: dict[str, Sequence[Piece]] = {}
    pieces: set[Place] = set()
    size_bytes = 0
    for name, own in parts.items():
        added_bytes = sum(piece.size_bytes for piece in own if piece.place not in pieces)
        if batch and size_bytes + added_bytes > _BATCH_BYTES:
            yield batch, [unread.pop(place) for place in list(unread) if place in pieces]
            batch, pieces, size_bytes = {}, set(), 0
            added_bytes = sum(piece.size_bytes for piece in own)
        batch[name] = own
        pieces.update(piece.place for piece in own)
        size_bytes += added_bytes
    if batch or unread:
        yield batch, list(unread.values())


def _merged(parts: Parts, batches: Iterable[ReadUnits]) -> ReadUnits:
    """What was read in batches, as if it had been read at once."""
    merged = ReadUnits()
    for batch in batches:
        merged.units.update(batch.units)
        merged.pieces += batch.pieces
        merged.content += batch.content
    merged.units = {name: merged.units[name] for name in parts if name in merged.units}
    merged.pieces.sort(key=lambda piece: piece.place)
    return merged


def _about(parts: Parts, fresh: Sequence[Piece]) -> str:
    """Which traces a batch contains, and in which file these are."""
    pieces = [*(piece for own in parts.values() for piece in own), *fresh]
    files = sorted({str(piece.document.path) for piece in pieces if piece.document is not None})
    names = list(parts)
    more = f" and {len(names) - _NAMED:,} more" if len(names) > _NAMED else ""
    traces = (
        f"trace{'s' * (len(names) > 1)} {', '.join(names[:_NAMED])}{more}"
        if names
        else "what is of no trace"
    )
    return f"{traces} in {', '.join(files[:_NAMED])}" if files else traces


def _window(traces: Sequence[AgentTrace], given: Mapping[str, ReadUnit], read: ReadUnits) -> Window:
    """What units gave, and what was read of no unit."""
    in_traces = {name for trace in traces for name in trace.trace_ids}
    return Window(
        list(traces),
        _external(given.values(), read),
        [refused for piece in read.pieces for refused in piece.refused],
        {trace_id: why for piece in read.pieces for trace_id, why in piece.truncated.items()},
        sum(unit.spans for unit in given.values()),
        sum(unit.logs for unit in given.values()) + sum(piece.logs for piece in read.pieces),
        sum(x.is_unread and name not in in_traces for name, x in given.items()),
    )


def _units_of(traces: Sequence[AgentTrace], units: Mapping[str, ReadUnit]) -> list[set[str]]:
    """The units that each agent trace is made of."""
    names = {name: name for name in units}
    for name, unit in units.items():
        names.update(dict.fromkeys(unit.trace_ids, name))
    return [{names[x] for x in trace.trace_ids if x in names} for trace in traces]


def _spread(waiting: set[str], groups: Sequence[Collection[str]]) -> None:
    """Add to the units that wait those that are of one turn with one of these."""
    while (
        more := {name for group in groups if not waiting.isdisjoint(group) for name in group}
        - waiting
    ):
        waiting |= more


def _external(units: Iterable[ReadUnit], read: ReadUnits) -> list[Evaluation]:
    """The scores that others gave, each once, in the order in which they were given."""
    lists = [*(unit.external for unit in units), *(piece.external for piece in read.pieces)]
    scores = {x.uid: x for found in lists for x in found}
    return sorted(scores.values(), key=lambda x: (x.evaluated_at_ns, x.uid))


def stored_windows(
    location: Location, options: Options, watch: ContentWatch, stopped: Stopped
) -> Iterator[Window]:
    """The windows of all traces that a location's query accepts, by their start.

    Raises InputError or RetryableError where the source cannot be read.
    """
    with _stored(location, stopped) as (given, query):
        yield from windows(given, options._replace(query=query), watch, lambda _size: not stopped)


def load_stored(found: Telemetry, location: Location) -> None:
    """Add all spans and log records that a location's query accepts. Raises as `stored_windows`."""
    with _stored(location, Stopped()) as (given, query):
        options = Options(query=query)
        for closed in closings(given, lambda _size: True):
            for spans, logs in gathered(closed.parts, options).values():
                found.spans += spans
                found.logs += logs
            for telemetry in (piece.decoded() for piece in closed.fresh):
                found.logs += [x for x in telemetry.logs if not unit_of(x, of_log=True)]
                found.refused += telemetry.refused
                found.truncated.update(telemetry.truncated)


@contextmanager
def _stored(location: Location, stopped: Stopped) -> Iterator[tuple[Recorded, Query | None]]:
    """What a location names, and which of its traces are read."""
    if is_backend(location):
        yield Recorded(_of_stored(stored_traces(location, stopped))), None
        return
    with copies(location) as path:
        documents, query = Documents([path]), location.query
        if query.limit is not None:
            query = _newest(documents, query)
        yield recorded(documents), query if query.conditions else None


def _newest(documents: Documents, query: Query) -> Query:
    """The query that accepts as many of the newest traces as the limit says, and no other."""
    newest: list[tuple[int, str]] = []
    for closed in closings(recorded(documents), lambda _size: True):
        starts: dict[str, int] = {}
        for spans, _ in gathered(closed.parts, Options(query=query)).values():
            for span in spans:
                starts[span.trace_id] = min(span.start_ns, starts.get(span.trace_id, span.start_ns))
        found = ((start_ns, trace_id) for trace_id, start_ns in starts.items())
        newest = heapq.nlargest(query.limit or 0, [*newest, *found])
    return replace(query, trace_ids=tuple(trace_id for _, trace_id in newest), limit=None)


def truncated_notice(trace_id: str, why: str) -> str:
    """What is said of a trace that is not all there."""
    return (
        f"warning: trace {trace_id} is truncated, and what is measured of it counts as such: {why}"
    )
