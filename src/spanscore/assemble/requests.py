"""The spans and log records of a trace, from its requests."""

import threading
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Protocol

from spanscore.assemble import fragments
from spanscore.assemble.fragments import BY_TRACE, Units
from spanscore.model.headers import Headers, tenant_in, with_headers
from spanscore.model.span import LogRecord, Resource, Scope, Span
from spanscore.otlp import codec, weight
from spanscore.otlp.signal import WIRE, Signal

MAX_DECODED_BYTES = 32 * 2**20
"""Bytes of decoded requests that are kept in memory."""

_Items = dict[bytes, list[tuple[Any, Resource, Scope]]]


class Stored(Protocol):
    """A request as the journal gives it back: its row, its signal and its protobuf."""

    @property
    def row(self) -> int: ...  # noqa: D102 # the class has it
    @property
    def signal(self) -> str: ...  # noqa: D102 # the class has it
    @property
    def body(self) -> bytes: ...  # noqa: D102 # the class has it
    @property
    def headers(self) -> Headers: ...  # noqa: D102 # the class has it


class _Decoded:
    """A decoded request; its spans (or log records) are sorted by trace when the first trace is
    loaded.
    """

    __slots__ = ("_headers", "_items", "_message", "signal", "size_bytes")

    def __init__(self, signal: str, message: Any, size_bytes: int, headers: Headers) -> None:
        self._headers = headers
        self.signal = signal
        self.size_bytes = size_bytes
        self._message = message
        self._items: _Items | None = None

    def all(self) -> Iterator[tuple[Any, Resource, Scope]]:
        """Everything, in its order."""
        return _walk(self.signal, self._message, self._headers)

    def of_trace(self, key: bytes, units: Units) -> list[tuple[Any, Resource, Scope]]:
        """What is gathered under this key; nothing of what another tenant sent under the same trace
        id.
        """
        if fragments.tenant_in(key) != tenant_in(self._headers):
            return []
        if self._items is None:
            items: _Items = {}
            of_log = self.signal != "traces"
            for item, resource, scope in _walk(self.signal, self._message, self._headers):
                unit = units.key(scope.name, item, of_log=of_log)
                items.setdefault(unit, []).append((item, resource, scope))
            # only now that it is whole: another thread may be loading a neighbour
            self._items = items
        return self._items.get(fragments.id_in(key), [])


class Requests:
    """Decoded requests by row: the latest, up to `max_bytes` decoded, in memory; the others from
    `read`.

    May be used from several threads.
    """

    def __init__(
        self,
        read: Callable[[Iterable[int]], Iterable[Stored]],
        max_bytes: int = MAX_DECODED_BYTES,
        *,
        units: Units = BY_TRACE,
    ) -> None:
        self._read = read
        self._units = units
        self._max_bytes = max_bytes
        self._size_bytes = 0
        self._requests: OrderedDict[int, _Decoded] = OrderedDict()
        self._lock = threading.Lock()

    def put(
        self, row: int, signal: str, message: Any, size_bytes: int, headers: Headers = ()
    ) -> None:
        """Keep a request that takes `size_bytes` decoded, with its headers; the oldest ones make
        room.
        """
        self._keep(row, _Decoded(signal, message, size_bytes, headers))

    def drop(self, rows: Iterable[int]) -> None:
        """Forget requests that nothing needs any more."""
        with self._lock:
            for row in rows:
                request = self._requests.pop(row, None)
                self._size_bytes -= request.size_bytes if request else 0

    def load(self, key: bytes, rows: Iterable[int]) -> tuple[list[Span], list[LogRecord]]:
        """The spans and log records of one trace, or other unit, in the requests at `rows`, by its
        key as in `keys`.

        Raises google.protobuf's DecodeError where a journalled request is damaged.
        """
        spans: list[Span] = []
        records: list[LogRecord] = []
        for request in self._find(rows):
            items = request.of_trace(key, self._units)
            if request.signal == "traces":
                spans += [codec.span(*item) for item in items]
            else:
                records += [codec.log_record(*item) for item in items]
        return spans, records

    def load_request(
        self, row: int, is_wanted: Callable[[bytes], bool]
    ) -> tuple[list[Span], list[LogRecord]]:
        """The spans and log records of one request whose own protobuf `is_wanted`.

        Raises as `load`.
        """
        spans: list[Span] = []
        records: list[LogRecord] = []
        for request in self._find((row,)):
            for item, resource, scope in request.all():
                if not is_wanted(item.SerializeToString()):
                    continue
                if request.signal == "traces":
                    spans.append(codec.span(item, resource, scope))
                else:
                    records.append(codec.log_record(item, resource, scope))
        return spans, records

    def _find(self, rows: Iterable[int]) -> Iterator[_Decoded]:
        for row in rows:
            with self._lock:
                request = self._requests.get(row)
            yield from (request,) if request else self._reread(row)

    def _reread(self, row: int) -> Iterator[_Decoded]:
        for stored in self._read((row,)):
            signal: Signal = "traces" if stored.signal == "traces" else "logs"
            message = WIRE[signal].request.FromString(stored.body)
            request = _Decoded(signal, message, weight.decoded_bytes(stored.body), stored.headers)
            self._keep(row, request)  # its neighbours are likely to be loaded next
            yield request

    def _keep(self, row: int, request: _Decoded) -> None:
        with self._lock:
            self._requests[row] = request
            self._size_bytes += request.size_bytes
            while self._size_bytes > self._max_bytes:
                self._size_bytes -= self._requests.popitem(last=False)[1].size_bytes


def _walk(signal: str, request: Any, headers: Headers) -> Iterator[tuple[Any, Resource, Scope]]:
    groups = request.resource_spans if signal == "traces" else request.resource_logs
    for group in groups:
        resource = Resource(with_headers(codec.attributes(group.resource.attributes), headers))
        for scoped in group.scope_spans if signal == "traces" else group.scope_logs:
            scope = codec.scope(scoped.scope)
            for item in scoped.spans if signal == "traces" else scoped.log_records:
                yield item, resource, scope
