"""The agent traces of files that are too large for memory, a window at a time: what was read, and
waits no more.
"""

from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from spanscore.content import ContentNote, ContentWatch
from spanscore.model.score import Evaluation
from spanscore.model.trace import AgentTrace
from spanscore.offline.closing import Closed, ClosedUnit, closings
from spanscore.offline.unit_readers import UnitReader
from spanscore.offline.unit_reading import Parts, ReadUnit, ReadUnits
from spanscore.offline.waiting import may_be_joined, with_joined
from spanscore.otlp.documents import Documents
from spanscore.rebuild import join_units
from spanscore.turns import Stitching, TraceFragment


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
