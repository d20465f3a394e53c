"""Stored traces that are too many for memory, a window at a time: what has been read, and waits no
more.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol, TypeAlias

from spanscore.model.span import LogRecord, Span
from spanscore.model.trace import AgentTrace
from spanscore.offline.waiting import may_be_joined, with_joined
from spanscore.otlp.documents import Document, Place
from spanscore.rebuild import rebuild_all, unit_of
from spanscore.turns import Watch

Accepts: TypeAlias = Callable[[Sequence[Span], Sequence[LogRecord]], bool]

_FIRST_BYTES, _MAX_BYTES = 2 * 2**20, 16 * 2**20
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
