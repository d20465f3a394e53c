"""Agent traces of large files, read in worker processes."""

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field, replace
from typing import NamedTuple, Protocol, TypeAlias

from spanscore import dialects
from spanscore.content import ContentNote, ContentNotes
from spanscore.dialects import SpanNames
from spanscore.model.score import Evaluation
from spanscore.model.trace import AgentTrace
from spanscore.otlp.documents import EncodedDocument, Place
from spanscore.otlp.files import Telemetry
from spanscore.rebuild import RebuiltUnit, Received, ReceivedUnits, is_read, unit_of
from spanscore.received_scores import read_external
from spanscore.span_attributes import SpanAttributes
from spanscore.turns import Stitching, TraceFragment
from spanscore.worker_processes import WorkerPool


class Options(NamedTuple):
    """By what units are read: what keeps sessions apart, the spans' attributes that rules read,
    `stitch_off`, and what `dialects.configure` was given.
    """

    session_scope: tuple[str, ...]
    attributes: tuple[str, ...]
    stitch_off: tuple[str, ...]
    span_names: SpanNames = SpanNames()


@dataclass(slots=True)
class Piece:
    """A document, or what is left of it: the spans and log records of units that are not read
    yet.
    """

    place: Place
    document: EncodedDocument | None
    telemetry: Telemetry | None = None
    """What it contains, once it was decoded in this process."""

    def decoded(self) -> Telemetry:
        """What it contains; kept, since other units may have parts in it.

        Raises InputError where it is damaged.
        """
        if self.telemetry is None:
            self.telemetry = Telemetry() if self.document is None else self.document.decoded()
        return self.telemetry

    @property
    def size_bytes(self) -> int:
        """Bytes of the document; 0 of what is left of one."""
        return 0 if self.document is None else len(self.document.content)

    def without_decoded(self) -> "Piece":
        """As it is sent to another process."""
        return self if self.document is None else Piece(self.place, self.document)

    def narrowed(self, units: Collection[str]) -> "Piece":
        """What these units have in it."""
        telemetry = self.decoded()
        return Piece(
            self.place,
            None,
            Telemetry(
                [x for x in telemetry.spans if unit_of(x, of_log=False) in units],
                [x for x in telemetry.logs if unit_of(x, of_log=True) in units],
            ),
        )


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
    log records.
    """

    place: Place
    refused: list[str]
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
    dialects.configure(options.span_names)
    content = ContentNotes()
    noting = SpanAttributes(options.attributes, content)
    received = gathered(parts)
    rebuilt = ReceivedUnits(received, Stitching(options.stitch_off), watch=noting).rebuilt()
    traces = iter(noting.added_to(trace for unit in rebuilt.values() for trace in unit.traces))
    found = ReadUnits()
    for name, unit in rebuilt.items():
        with_attributes = replace(unit, traces=[next(traces) for _ in unit.traces])
        found.units[name] = _read(received[name], with_attributes, options)
    found.pieces = [_read_piece(piece, options) for piece in fresh]
    found.content = content.take()
    return found


def _read_piece(piece: Piece, options: Options) -> ReadPiece:
    telemetry = piece.decoded()
    logs = [log for log in telemetry.logs if not unit_of(log, of_log=True)]
    external = read_external((), logs, session_scope=options.session_scope)
    return ReadPiece(piece.place, telemetry.refused, external, len(logs))


def refer(parts: Parts, names: Sequence[str], options: Options) -> dict[str, TraceFragment]:
    """What `rebuild.Units.referred` gives."""
    dialects.configure(options.span_names)
    return ReceivedUnits(gathered(parts), Stitching(options.stitch_off)).referred(names)


def join(
    parts: Parts, group: Sequence[TraceFragment], options: Options
) -> tuple[list[AgentTrace], list[ContentNote]]:
    """The agent traces of a turn, of which these are the parts."""
    dialects.configure(options.span_names)
    content = ContentNotes()
    noting = SpanAttributes(options.attributes, content)
    [traces] = ReceivedUnits(gathered(parts), Stitching(options.stitch_off), watch=noting).joined(
        [group]
    )
    return noting.added_to(traces), content.take()


def gathered(parts: Parts) -> dict[str, Received]:
    """The spans and log records of units in the order of their files; without units of which there
    are none.
    """
    found: defaultdict[str, Received] = defaultdict(lambda: ([], []))
    for piece in _in_order(parts):
        telemetry = piece.decoded()
        for span in telemetry.spans:
            if (name := unit_of(span, of_log=False)) in parts:
                found[name][0].append(span)
        for log in telemetry.logs:
            if (name := unit_of(log, of_log=True)) in parts:
                found[name][1].append(log)
    return {name: found[name] for name in parts if name in found}


def _in_order(parts: Parts) -> list[Piece]:
    pieces = {piece.place: piece for own in parts.values() for piece in own}
    return sorted(pieces.values(), key=lambda piece: (piece.place.file, piece.place.number))


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


_BATCH_BYTES = 2 * 2**20
"""Documents that one worker reads at once."""

_NAMED = 3

Joined: TypeAlias = tuple[list[AgentTrace], list[ContentNote]]


class UnitReader(Protocol):
    """Reads units; see the functions of `unit_reading`.

    All raise InputError where a document is damaged.
    """

    ahead: int
    """How many windows are begun before the result of the first is asked for."""

    def start(self, parts: Parts, fresh: Sequence[Piece]) -> Callable[[], ReadUnits]:
        """Begin to read units; what is returned waits for the result."""
        ...

    def refer(self, parts: Parts, names: Sequence[str]) -> dict[str, TraceFragment]:
        """The fragments of units to which others refer."""
        ...

    def join(
        self, parts: Sequence[Parts], groups: Sequence[Sequence[TraceFragment]]
    ) -> list[Joined]:
        """The agent traces of turns that are spread over several units."""
        ...


class InProcess:
    """Reads in this process, when the result is asked for."""

    ahead = 0

    def __init__(self, options: Options) -> None:
        self._options = options

    def start(self, parts: Parts, fresh: Sequence[Piece]) -> Callable[[], ReadUnits]:
        """See `UnitReader`."""
        return lambda: read_units(parts, fresh, self._options)

    def refer(self, parts: Parts, names: Sequence[str]) -> dict[str, TraceFragment]:
        """See `UnitReader`."""
        return refer(parts, names, self._options)

    def join(
        self, parts: Sequence[Parts], groups: Sequence[Sequence[TraceFragment]]
    ) -> list[Joined]:
        """See `UnitReader`."""
        return [join(own, group, self._options) for own, group in zip(parts, groups, strict=True)]


class InWorkers:
    """Reads in worker processes, some units in each. They are sent the documents as bytes."""

    ahead = 1

    def __init__(self, options: Options, pool: WorkerPool) -> None:
        self._options = options
        self._pool = pool

    def start(self, parts: Parts, fresh: Sequence[Piece]) -> Callable[[], ReadUnits]:
        """See `UnitReader`."""
        begun = [
            self._pool.submit(
                read_units, _encoded(own), pieces, self._options, about=_about(own, pieces)
            )
            for own, pieces in _batches(parts, fresh)
        ]
        return lambda: _merged(parts, (x.result() for x in begun))

    def refer(self, parts: Parts, names: Sequence[str]) -> dict[str, TraceFragment]:
        """See `UnitReader`."""
        batches = list(_batches({name: parts[name] for name in names}, ()))
        begun = [
            self._pool.submit(refer, _encoded(own), list(own), self._options, about=_about(own, ()))
            for own, _ in batches
        ]
        return {name: fragment for one in begun for name, fragment in one.result().items()}

    def join(
        self, parts: Sequence[Parts], groups: Sequence[Sequence[TraceFragment]]
    ) -> list[Joined]:
        """See `UnitReader`."""
        begun: list[Future[Joined]] = [
            self._pool.submit(join, _encoded(own), group, self._options, about=_about(own, ()))
            for own, group in zip(parts, groups, strict=True)
        ]
        return [one.result() for one in begun]


def _batches(parts: Parts, fresh: Sequence[Piece]) -> Iterator[tuple[Parts, list[Piece]]]:
    """The units in groups that share their documents, as far as that goes, each with pieces that
    are read there first.

    A piece that is in no unit is in the last.
    """
    unread = {piece.place: piece.without_decoded() for piece in fresh}
    batch: dict[str, Sequence[Piece]] = {}
    pieces: dict[Place, Piece] = {}
    size_bytes = 0
    for name, own in parts.items():
        added_bytes = sum(piece.size_bytes for piece in own if piece.place not in pieces)
        if batch and size_bytes + added_bytes > _BATCH_BYTES:
            yield batch, [unread.pop(place) for place in list(unread) if place in pieces]
            batch, pieces, size_bytes = {}, {}, 0
            added_bytes = sum(piece.size_bytes for piece in own)
        batch[name] = own
        pieces.update((piece.place, piece) for piece in own)
        size_bytes += added_bytes
    if batch or unread:
        yield batch, list(unread.values())


def _encoded(parts: Parts) -> Parts:
    """The same with each piece once, as it is sent to another process."""
    encoded = {piece.place: piece.without_decoded() for own in parts.values() for piece in own}
    return {name: [encoded[piece.place] for piece in own] for name, own in parts.items()}


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
