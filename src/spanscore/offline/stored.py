"""The agent traces that a URL names, of another backend or of an object store, in windows as those
of local files.
"""

import heapq
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import replace

from spanscore.content import ContentWatch
from spanscore.model.span import Span
from spanscore.offline.windows import Window, windows
from spanscore.otlp.documents import Document, Documents, Place
from spanscore.otlp.files import Telemetry
from spanscore.sources import Location, Query, is_backend
from spanscore.sources.loading import Stopped, add, copies, stored_traces
from spanscore.sources.port import Stored
from spanscore.turns import Watch


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
