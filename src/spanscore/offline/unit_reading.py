"""The agent traces of units, out of the documents of files that contain them: the part of reading
that takes long.
"""

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple, TypeAlias

from spanscore.content import ContentNote, ContentNotes
from spanscore.model.score import Evaluation
from spanscore.model.trace import AgentTrace
from spanscore.otlp.documents import EncodedDocument, Place
from spanscore.otlp.files import Telemetry
from spanscore.rebuild import RebuiltUnit, Received, ReceivedUnits, is_read, unit_of
from spanscore.received_scores import read_external
from spanscore.span_attributes import SpanAttributes
from spanscore.turns import Stitching, TraceFragment


class Options(NamedTuple):
    """By what units are read: what keeps sessions apart, the spans' attributes that rules read, and
    `stitch_off`.
    """

    session_scope: tuple[str, ...]
    attributes: tuple[str, ...]
    stitch_off: tuple[str, ...]


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
    return ReceivedUnits(gathered(parts), Stitching(options.stitch_off)).referred(names)


def join(
    parts: Parts, group: Sequence[TraceFragment], options: Options
) -> tuple[list[AgentTrace], list[ContentNote]]:
    """The agent traces of a turn, of which these are the parts."""
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
