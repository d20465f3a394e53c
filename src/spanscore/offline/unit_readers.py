"""Where units of large files are read: in this process, or in worker processes."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future
from typing import Protocol, TypeAlias

from spanscore.content import ContentNote
from spanscore.model.trace import AgentTrace
from spanscore.offline.unit_reading import Options, Parts, Piece, ReadUnits, join, read_units, refer
from spanscore.otlp.documents import Place
from spanscore.turns import TraceFragment
from spanscore.worker_processes import WorkerPool

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
