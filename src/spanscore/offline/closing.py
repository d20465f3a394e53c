"""Which units of large files can be read, since nothing more of them follows: known before anything
is decoded.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

from spanscore.dialects import unit_scopes
from spanscore.offline.unit_reading import Piece
from spanscore.otlp.documents import Documents, EncodedDocument, Place, trace_ids
from spanscore.rebuild import unit_of

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
