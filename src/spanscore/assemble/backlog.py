"""Acknowledged requests that are not finished yet."""

import asyncio
import logging
import threading
from collections import OrderedDict
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any

from spanscore.assemble import fragments
from spanscore.assemble.assembler import Assembler, Cut
from spanscore.assemble.config import Config
from spanscore.assemble.fragments import BY_TRACE, Units
from spanscore.model.span import (
    Delivery,
    Headers,
    LogRecord,
    Partition,
    Resource,
    Scope,
    Span,
    tenant_in,
    with_headers,
)
from spanscore.otlp import check, codec
from spanscore.otlp.signal import SIGNALS, WIRE, Signal
from spanscore.store.departures import Leaving
from spanscore.store.journal import Journal, Request
from spanscore.telemetry import Meter, declared

MAX_DECODED_BYTES = 32 * 2**20
"""Bytes of decoded requests that are kept in memory."""

_Items = dict[bytes, list[tuple[Any, Resource, Scope]]]


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
        read: Callable[[Iterable[int]], Iterable[Request]],
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
        return _read((x.signal, x.of_trace(key, self._units)) for x in self._find(rows))

    def load_request(
        self, row: int, is_wanted: Callable[[bytes], bool]
    ) -> tuple[list[Span], list[LogRecord]]:
        """The spans and log records of one request whose own protobuf `is_wanted`.

        Raises as `load`.
        """
        return _read(
            (x.signal, [item for item in x.all() if is_wanted(item[0].SerializeToString())])
            for x in self._find((row,))
        )

    def _find(self, rows: Iterable[int]) -> Iterator[_Decoded]:
        for row in rows:
            with self._lock:
                request = self._requests.get(row)
            yield from (request,) if request else self._reread(row)

    def _reread(self, row: int) -> Iterator[_Decoded]:
        for stored in self._read((row,)):
            signal: Signal = "traces" if stored.signal == "traces" else "logs"
            message = WIRE[signal].request.FromString(stored.body)
            request = _Decoded(signal, message, check.decoded_bytes(stored.body), stored.headers)
            self._keep(row, request)  # its neighbours are likely to be loaded next
            yield request

    def _keep(self, row: int, request: _Decoded) -> None:
        with self._lock:
            self._requests[row] = request
            self._size_bytes += request.size_bytes
            while self._size_bytes > self._max_bytes:
                self._size_bytes -= self._requests.popitem(last=False)[1].size_bytes


def _read(
    found: Iterable[tuple[str, list[tuple[Any, Resource, Scope]]]],
) -> tuple[list[Span], list[LogRecord]]:
    """Spans and log records, by the signal of the request in which they came."""
    spans: list[Span] = []
    records: list[LogRecord] = []
    for signal, items in found:
        if signal == "traces":
            spans += [codec.span(*item) for item in items]
        else:
            records += [codec.log_record(*item) for item in items]
    return spans, records


def _walk(signal: str, request: Any, headers: Headers) -> Iterator[tuple[Any, Resource, Scope]]:
    groups = request.resource_spans if signal == "traces" else request.resource_logs
    for group in groups:
        resource = Resource(with_headers(codec.attributes(group.resource.attributes), headers))
        for scoped in group.scope_spans if signal == "traces" else group.scope_logs:
            scope = codec.scope(scoped.scope)
            for item in scoped.spans if signal == "traces" else scoped.log_records:
                yield item, resource, scope


_log = logging.getLogger(__name__)

_SHARE_FOR_LATE_SPANS = 0.5
"""Above this fill of the journal, requests kept only for late spans make room for new ones."""

_ROOM_WAIT_S = 5.0

_SMALL_BYTES = 256 * 2**10
"""Up to this size a request is split into fragments in the event loop; above it in a thread."""

_PUSHED_AT_ONCE = 500

_SHARE_FOR_SENDERS = 0.2
"""Of the journal, for requests: messages of a broker wait there as well as here."""


@dataclass(frozen=True, slots=True)
class Journaled:
    """A request that is in the journal, decoded; whoever was given it must `let_go` of its row."""

    signal: Signal
    row: int
    body: bytes
    message: Any
    headers: Headers = ()


class Backlog:
    """Requests go in, traces to be read come out, and what nothing needs any more leaves the
    journal.

    `shows_genai`: whether a request's protobuf may contain GenAI spans; `units`: what of it is read
    as one where that is not one trace. Belongs to one event loop, but for `load`.
    """

    def __init__(
        self,
        config: Config,
        journal: Journal,
        meter: Meter,
        *,
        shows_genai: Callable[[bytes], bool],
        clock_ns: Callable[[], int],
        units: Units = BY_TRACE,
        max_decoded_bytes: int = MAX_DECODED_BYTES,
    ) -> None:
        """`max_decoded_bytes` of decoded requests are kept in memory, for `load`."""
        self.assembler = Assembler(config, goes_on=units.goes_on)
        self._config = config
        self._journal = journal
        self._meter = meter
        self._shows_genai = shows_genai
        self._clock_ns = clock_ns
        self._units = units
        self._requests = Requests(journal.read, max_decoded_bytes, units=units)
        self.load_request = self._requests.load_request
        self.is_genai = self.assembler.is_genai
        self._deliveries: dict[int, Delivery] = {}
        meter.watch(declared.JOURNAL_SIZE, lambda: journal.size_bytes)
        meter.watch(declared.JOURNAL_CAPACITY, lambda: journal.max_bytes)
        meter.watch(declared.JOURNAL_REQUESTS, lambda: journal.requests)
        meter.watch(declared.JOURNAL_OLDEST_AGE, self._oldest_age_s)
        meter.watch(
            declared.JOURNAL_LOST_REQUESTS,
            lambda: {(why,): x.count for why, x in journal.lost.items()},
        )
        meter.watch(declared.TRACES_OPEN, lambda: self.assembler.open_traces)

    @property
    def size_bytes(self) -> int:
        """Bytes of the requests in the journal."""
        return self._journal.size_bytes

    @property
    def is_filling(self) -> bool:
        """Whether the journal is so full that what can leave it should."""
        return self._journal.fill > _SHARE_FOR_LATE_SPANS

    @property
    def trouble(self) -> str | None:
        """Why a request would not be kept now; None where it would."""
        return self._journal.trouble

    @property
    def notice(self) -> str | None:
        """Which acknowledged requests were lost since the journal was opened; None where all are
        there.
        """
        lost = [str(x) for x in self._journal.lost.values()]
        return f"the journal is damaged: {'; '.join(lost)}" if lost else None

    async def has_room(self) -> bool:
        """Whether a message that its broker keeps should be taken now; makes room if it can."""
        if self._journal.fill <= 1 - _SHARE_FOR_SENDERS:
            return True
        await self._make_room(int(self._journal.max_bytes * _SHARE_FOR_SENDERS))
        return self._journal.fill <= 1 - _SHARE_FOR_SENDERS

    async def add(
        self,
        signal: Signal,
        body: bytes,
        message: Any,
        headers: Headers = (),
        delivery: Delivery | None = None,
    ) -> Journaled:
        """Keep a request; when this returns it is in the journal.

        A `delivery` is done when its row leaves the journal, unless `forget` was called for it.

        Raises RetryableError when it cannot be kept now.
        """
        now_ns = self._clock_ns()
        await self._make_room(len(body))
        row = await asyncio.wrap_future(
            self._journal.append(signal, body, now_ns, headers, delivered=delivery is not None)
        )
        if delivery is not None:
            self._deliveries[row] = delivery
        if self._is_assembled(signal):
            self._requests.put(row, signal, message, check.decoded_bytes(body), headers)
        journaled = Journaled(signal, row, body, message, headers)
        self.hold(row)
        if len(body) > _SMALL_BYTES:
            found = await asyncio.to_thread(self._fragments, journaled)
        else:
            found = self._fragments(journaled)
        for number, fragment in enumerate(found, start=1):
            if not self.assembler.push(fragment, now_ns):
                self._meter.add(declared.TRACES_LATE_ITEMS, fragment.items, signal=signal)
            if not number % _PUSHED_AT_ONCE:
                # a request can contain a hundred thousand traces: others get their turn
                await asyncio.sleep(0)
        return journaled

    def rows_of(self, partitions: Collection[Partition]) -> set[int]:
        """The rows of messages that came from these partitions."""
        return {row for row, x in self._deliveries.items() if x.partition in partitions}

    def recover(self, *, delivered: bool = True) -> Iterator[tuple[Journaled, Leaving]]:
        """Take up what the journal contains from before a restart; with each request, what had left
        of it.

        Not `delivered`: what a broker delivers again is dropped.
        """
        if self.notice:
            _log.error("%s", self.notice)
        closed = self._journal.closed_traces()
        now_ns = self._clock_ns()
        dropped = [] if delivered else self._journal.delivered()
        if dropped:
            self._journal.delete(dropped)
        for request in self._journal.replay(without=dropped):
            self._meter.add(declared.JOURNAL_REPLAYED_REQUESTS)
            journaled = _decoded(request)
            self.hold(journaled.row)
            for fragment in self._fragments(journaled):
                last_row, closed_ns = closed.get(fragment.key, (0, 0))
                if journaled.row <= last_row:
                    self.assembler.restore(fragment, closed_ns)
                else:
                    self.assembler.push(fragment, now_ns)
            yield journaled, self._journal.leaving(request.row)
        self.assembler.remember_past({key: closed_ns for key, (_, closed_ns) in closed.items()})
        for key in sorted(self._journal.parts()):
            self.assembler.recut_next(key, now_ns)

    def cut(self, now_ns: int) -> list[Cut]:
        """The traces that are complete by now; see `Assembler.cut`."""
        cuts = self.assembler.cut(now_ns)
        for cut in cuts:
            if not cut.is_early:
                self._meter.add(declared.TRACES_CUT, completeness=cut.completeness)
            if cut.reopened:
                self._meter.add(declared.TRACES_REOPENED)
        self._release()  # also while nothing comes: a full journal gets room by itself
        return cuts

    def accept(self, cut: Cut, now_ns: int) -> bool:
        """See `Assembler.accept`."""
        is_accepted = self.assembler.accept(cut, now_ns)
        if is_accepted:
            self._meter.add(declared.TRACES_CUT, completeness=cut.completeness)
        return is_accepted

    def load(self, cut: Cut) -> tuple[list[Span], list[LogRecord]]:
        """The spans and log records of a trace that was cut. May be called from any thread."""
        return self._requests.load(cut.key, cut.rows)

    def checksums(self, cuts: Iterable[Cut]) -> dict[int, int | None]:
        """The checksums of the requests with these traces, by row, for a process that reads them
        from the journal.
        """
        return self._journal.checksums(row for cut in cuts for row in cut.rows)

    def put_aside(self, cut: Cut, reason: str) -> None:
        """Copy the requests with this trace into quarantine. May be called from any thread."""
        self._journal.put_aside(list(cut.rows), reason, self._clock_ns())

    async def quarantine(self, signal: Signal, body: bytes, reason: str) -> None:
        """Put a request aside that cannot be decoded.

        Raises RetryableError when it cannot be kept now.
        """
        await asyncio.wrap_future(self._journal.quarantine(signal, body, reason, self._clock_ns()))

    def finish(self, cuts: Sequence[Cut], *, parts: Sequence[Cut] = ()) -> None:
        """These traces were dealt with: remember that of those that were read, and let go of their
        requests.

        Those that are `parts` of turns with others are read once more after a restart, while late
        spans may open them.
        """
        now_ns = self._clock_ns()
        self._journal.close_traces(
            [(cut.key, max(cut.rows), now_ns) for cut in cuts if cut.genai and self._stays(cut)],
            [cut.key for cut in parts if self._stays(cut)],
        )
        for cut in cuts:
            self.assembler.done(cut)
        self._release()

    def _stays(self, cut: Cut) -> bool:
        """Whether a restart finds the trace in the journal; else it is delivered again, all of it
        new.
        """
        return self._deliveries.keys().isdisjoint(cut.rows)

    def hold(self, row: int) -> None:
        """Keep a row until `let_go` is called for it."""
        self.assembler.hold((row,))

    def let_go(self, row: int) -> None:
        """Undo one `hold`."""
        self.assembler.let_go((row,))

    def key(self, trace_id: bytes, headers: Headers) -> bytes:
        """What the assembler knows a trace by that a request with these headers contains spans
        of.
        """
        return fragments.with_tenant(trace_id, tenant_in(headers))

    def rest_left(self, row: int, held_back: Collection[bytes]) -> None:
        """All of a request but what is held back has left: remember that, and undo the `hold` for
        its sake.
        """
        self._journal.mark_rest_left(row, held_back)
        self.let_go(row)

    def span_left(self, row: int, span: bytes) -> None:
        """A span that was held back has left, or need not: remember that."""
        self._journal.mark_span_left(row, span)

    def tidy(self) -> None:
        """Let the journal forget requests that nothing needs, and the oldest of the traces that
        were dealt with.
        """
        self._journal.forget_closed(self._config.max_closed_traces)
        self._release()

    def close(self) -> None:
        """Commit what is under way, and close the journal."""
        self._journal.close()

    def _is_assembled(self, signal: Signal) -> bool:
        """Whether traces are made of what such a request contains."""
        return self._config.enabled and signal != "metrics"

    def _fragments(self, journaled: Journaled) -> list[fragments.Fragment]:
        if not self._is_assembled(journaled.signal):
            return []
        split = fragments.of_traces if journaled.signal == "traces" else fragments.of_logs
        genai, tenant = self._shows_genai(journaled.body), tenant_in(journaled.headers)
        size_bytes = len(journaled.body)
        return split(
            journaled.message,
            journaled.row,
            size_bytes=size_bytes,
            genai=genai,
            units=self._units,
            tenant=tenant,
        )

    def _oldest_age_s(self) -> float:
        oldest_ns = self._journal.oldest_ns
        return 0.0 if oldest_ns is None else max(0.0, (self._clock_ns() - oldest_ns) / 1e9)

    async def _make_room(self, size_bytes: int) -> None:
        """Let go of what nothing needs; where that is too little for a request, of traces until it
        is enough.

        The request finds the room: where it needs it, this returns once the journal is without what
        was let go of, or, while the disk refuses even that, after some seconds.
        """
        lacking = self._journal.size_bytes + size_bytes - self._journal.max_bytes
        is_filling = self.is_filling
        freed, deleted = self._release()
        while (freed < lacking or (is_filling and not freed)) and self.assembler.forget_oldest():
            more, later = self._release()
            freed, deleted = freed + more, later or deleted
        if lacking > 0 and deleted:
            room = asyncio.wrap_future(deleted)
            # nobody waits for it after this
            room.add_done_callback(lambda done: done.cancelled() or done.exception())
            await asyncio.wait([room], timeout=_ROOM_WAIT_S)

    def _release(self) -> "tuple[int, Future[None] | None]":
        """How many bytes could be let go of, and when the journal is without them; None where there
        were none.
        """
        rows = self.assembler.released()
        if not rows:
            return 0, None
        size_bytes = self._journal.size_of(rows)
        self._requests.drop(rows)
        for row in rows:
            if (delivery := self._deliveries.pop(row, None)) is not None:
                delivery.done()
        return size_bytes, self._journal.delete(rows)


def _decoded(request: Request) -> Journaled:
    signal = next(x for x in SIGNALS if x == request.signal)
    return Journaled(
        signal,
        request.row,
        request.body,
        WIRE[signal].request.FromString(request.body),
        request.headers,
    )
