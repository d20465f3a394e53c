"""Export requests: bounded, decoded, acknowledged."""

import asyncio
import logging
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from typing import Any, Final, Literal, Protocol, TypeAlias

from google.protobuf.message import DecodeError, Message

from spanscore.errors import PermanentError, RetryableError
from spanscore.model.span import Delivery, Headers, Partition, tenant_in
from spanscore.otlp import check, codec
from spanscore.otlp.check import Refusal, mend
from spanscore.otlp.signal import WIRE, Signal
from spanscore.receive.auth import UnauthenticatedError
from spanscore.telemetry import Meter, declared
from spanscore.threads import Precedence

_MAX_ARRIVING: Final = 1000
"""Requests that may be arriving at once, over all connections; past it the one that takes longest
gives way.
"""

_SMALL_ARRIVAL_BYTES: Final = 2**20
_FAIR_S: Final = 5.0
"""How long a request may take to arrive before it gives way to any other."""


class Arrival:
    """A request that has come, at least in part. Its bytes count until `end`."""

    def __init__(self, admission: "Admission", give_way: Callable[[], None], now_s: float) -> None:
        self._admission = admission
        self._give_way = give_way
        self.since_s = now_s
        self.size_bytes = 0
        self.gave_way = False

    def grow(self, size_bytes: int) -> None:
        """It has this many bytes now.

        Raises RetryableError where that is more than there is room for.
        """
        self._admission.grow(self, size_bytes)

    def complete(self, size_bytes: int) -> None:
        """It has arrived, with this many bytes, and gives way no more.

        Raises RetryableError likewise.
        """
        self._admission.grow(self, size_bytes)
        self._admission.arrived(self)

    def end(self) -> None:
        """It is answered; calling it again does nothing."""
        self._admission.end(self)

    def make_way(self) -> None:
        """Stop receiving it."""
        self.gave_way = True
        self.end()
        self._give_way()


class Admission:
    """Counts the bytes of requests, from when they begin to arrive until they are answered,
    `max_bytes` at most.

    Where a request needs room and there is none, others that are arriving give way, those first
    that have taken the most memory for the longest: all that take longer than five seconds, and for
    a small request all that are larger. A complete request never gives way. Belongs to one event
    loop; `clock_s` counts seconds.
    """

    def __init__(self, max_bytes: int, *, clock_s: Callable[[], float] = time.monotonic) -> None:
        self.size_bytes = 0
        self._max_bytes = max_bytes
        self._clock_s = clock_s
        self._arriving: dict[Arrival, None] = {}  # in the order in which they began
        self._complete: set[Arrival] = set()

    @property
    def arriving(self) -> int:
        """How many requests are arriving."""
        return len(self._arriving)

    @property
    def is_idle(self) -> bool:
        """Whether no request is arriving or being worked on."""
        return not self._arriving and not self._complete

    def arrive(self, give_way: Callable[[], None]) -> Arrival:
        """A request begins to arrive; `give_way` is called when it must stop, and its `gave_way` is
        set then.
        """
        if len(self._arriving) >= _MAX_ARRIVING:
            next(iter(self._arriving)).make_way()
        arrival = Arrival(self, give_way, self._clock_s())
        self._arriving[arrival] = None
        return arrival

    def grow(self, arrival: Arrival, size_bytes: int) -> None:
        """See `Arrival.grow`."""
        if arrival.gave_way:
            raise _no_room(self._max_bytes)
        lacking = self.size_bytes + size_bytes - arrival.size_bytes - self._max_bytes
        if lacking > 0 and not self._make_room(arrival, lacking, size_bytes):
            raise _no_room(self._max_bytes)
        self.size_bytes += size_bytes - arrival.size_bytes
        arrival.size_bytes = size_bytes

    def arrived(self, arrival: Arrival) -> None:
        """See `Arrival.complete`."""
        self._arriving.pop(arrival, None)
        self._complete.add(arrival)

    def end(self, arrival: Arrival) -> None:
        """See `Arrival.end`."""
        self._arriving.pop(arrival, None)
        self._complete.discard(arrival)
        self.size_bytes -= arrival.size_bytes
        arrival.size_bytes = 0

    def _make_room(self, newcomer: Arrival, lacking: int, size_bytes: int) -> bool:
        is_small = size_bytes <= _SMALL_ARRIVAL_BYTES
        now_s = self._clock_s()
        giving_way = sorted(
            (
                x
                for x in self._arriving
                if x is not newcomer
                and (now_s - x.since_s >= _FAIR_S or (is_small and x.size_bytes > size_bytes))
            ),
            key=lambda x: x.size_bytes * (now_s - x.since_s),
            reverse=True,
        )
        if sum(x.size_bytes for x in giving_way) < lacking:
            return False
        for other in giving_way:
            if lacking <= 0:
                break
            lacking -= other.size_bytes
            other.make_way()
        return True


def _no_room(max_bytes: int) -> RetryableError:
    return RetryableError(
        f"requests that are being received take all of {max_bytes:,} bytes"
        " (receive.max_bytes_in_flight): try again",
        why="memory",
    )


_log = logging.getLogger(__name__)

_EVERY_S: Final = 60.0
REASONS: Final = frozenset({"busy", "connections", "decoding", "headers", "memory", "slow"})
"""Why something is turned away that is sound as far as it came."""


class Seldom:
    """Lets a line of the log pass once in `every_s` seconds, where senders decide how often there
    is one.
    """

    def __init__(self, every_s: float = 1.0, clock_s: Callable[[], float] = time.monotonic) -> None:
        self._every_s = every_s
        self._clock_s = clock_s
        self._last_s: float | None = None

    def is_due(self) -> bool:
        """Whether a line may be logged now; if so, it counts as logged."""
        now_s = self._clock_s()
        if self._last_s is not None and now_s - self._last_s < self._every_s:
            return False
        self._last_s = now_s
        return True


class Allowance:
    """`max_bytes` at once, and as many again in `every_s` seconds, little by little."""

    def __init__(
        self, max_bytes: int, every_s: float, clock_s: Callable[[], float] = time.monotonic
    ) -> None:
        self._max_bytes = max_bytes
        self._per_s = max_bytes / every_s
        self._clock_s = clock_s
        self._left = float(max_bytes)
        self._then_s = clock_s()

    def take(self, size_bytes: int) -> bool:
        """Whether so many bytes are allowed now; if so, they are used up."""
        now_s = self._clock_s()
        self._left = min(self._max_bytes, self._left + (now_s - self._then_s) * self._per_s)
        self._then_s = now_s
        if size_bytes > self._left:
            return False
        self._left -= size_bytes
        return True


class Pressure:
    """Logs what was turned away: the first at once, what follows within a minute with the next
    after it.
    """

    def __init__(self, clock_s: Callable[[], float] = time.monotonic) -> None:
        self._since: Counter[str] = Counter()
        self._seldom = Seldom(_EVERY_S, clock_s)

    def note(self, transport: str, reason: str) -> None:
        """Something was turned away; a `reason` that is none of `REASONS` is passed over."""
        if reason not in REASONS:
            return
        self._since[f"{transport} {reason}"] += 1
        if self._seldom.is_due():
            shown = ", ".join(f"{what}: {count}" for what, count in sorted(self._since.items()))
            _log.warning(
                "requests or connections were turned away to keep memory and time bounded (%s);"
                " their senders are asked to send again. If they are yours, raise the limits under"
                " `receive`; else find out who sends",
                shown,
            )
            self._since.clear()


class Intake(Protocol):
    """Takes requests over; once a method returns, the sender learns that its data are safe."""

    async def accept(
        self,
        signal: Signal,
        body: bytes,
        request: Message,
        headers: Headers = (),
        delivery: Delivery | None = None,
    ) -> None:
        """Keep a request: `body` in protobuf, `request` the same decoded, with the headers that
        exporters may need, or a message that its broker keeps until its `delivery` is done.

        Raises RetryableError when it cannot now.
        """
        ...

    async def quarantine(self, signal: Signal, body: bytes, reason: str) -> None:
        """Put aside a request that cannot be decoded: `body` as it came.

        Raises RetryableError when it cannot now.
        """
        ...

    async def has_room(self) -> bool:
        """Whether messages should be taken now that can as well wait where they are."""
        ...

    async def give_up(self, partitions: Collection[Partition], within_s: float) -> None:
        """Finish what is being scored of these partitions, as far as the time allows."""
        ...

    def forget(self, partitions: Collection[Partition]) -> None:
        """Drop what came from these partitions and is not done: it is delivered again, here or
        elsewhere.
        """
        ...

    @property
    def trouble(self) -> str | None:
        """Why a request would not be kept now; None where it would."""
        ...

    @property
    def notice(self) -> str | None:
        """What does not work although requests are kept; None where all does."""
        ...

    def health(self) -> Mapping[str, Any]:
        """What the health check shows beside the counters, as a JSON object."""
        ...


_SMALL_BYTES: Final = 256 * 2**10
_SMALL_JSON_BYTES: Final = 16 * 2**10
_SMALL_MESSAGES: Final = 16_384
"""Up to this size and this many messages the event loop decodes a request itself, in ten
milliseconds at most.
"""

_LANES: Final = ((20_000, 64), (200_000, 16), (None, 4))
"""Threads that decode: the values of the largest request that each takes, and how many requests may
wait for it.

Each has one request at a time, so that what one takes in memory is taken once; small ones never
wait for large ones.
"""

_MESSAGES_A_VALUE: Final = 20
"""About how many messages in protobuf are decoded in the time of one value in JSON."""


@dataclass(frozen=True, slots=True)
class Decoded:
    """A request that was understood: its protobuf, the same as a message, and what was done to make
    it so.

    `items` counts its spans or log records; `refused` was taken out; in `replaced` texts, bytes
    that are not UTF-8 were replaced.
    """

    body: bytes
    request: Message
    refused: list[Refusal]
    items: int = 0
    replaced: int = 0


def decode(signal: Signal, body: bytes) -> Decoded:
    """Decode and check a protobuf request; its body is handed on as it came, unless something had
    to be taken out.

    Raises DecodeError where it is no such request.
    """
    return _checked(signal, body, WIRE[signal].request.FromString(body))


def decode_slowly(signal: Signal, body: bytes, *, as_json: bool) -> Decoded:
    """Decode and check a request in JSON, or one in protobuf that `decode` failed at.

    Raises ValueError, which says what is wrong, where nothing can be made of it.
    """
    if as_json:
        parsed, replaced = codec.loads(body)
        request = codec.from_object(signal, parsed)
        checked = _checked(signal, request.SerializeToString(), request)
        return replace(checked, replaced=replaced)
    mended = mend(signal, body)
    rest = decode(signal, mended.body)
    return replace(rest, refused=mended.refused + rest.refused, replaced=mended.replaced)


def _checked(signal: Signal, body: bytes, request: Message) -> Decoded:
    refused = check.remove_damaged(request) if signal == "traces" else []
    return Decoded(
        request.SerializeToString() if refused else body,
        request,
        refused,
        items_in(signal, request),
    )


def items_in(signal: Signal, request: Any) -> int:
    """How many spans or log records a request contains."""
    if signal == "traces":
        return sum(
            len(scoped.spans) for group in request.resource_spans for scoped in group.scope_spans
        )
    if signal == "logs":
        return sum(
            len(scoped.log_records)
            for group in request.resource_logs
            for scoped in group.scope_logs
        )
    return 0


class Decoder:
    """Decodes requests of at most `max_elements` messages (in JSON, values).

    Belongs to one event loop.
    """

    def __init__(self, max_elements: int) -> None:
        self._max_elements = max_elements
        self._lanes = [_Lane(values, waiting) for values, waiting in _LANES]

    async def decode(self, signal: Signal, body: bytes, *, as_json: bool) -> Decoded:
        """Decode and check a request.

        Raises ValueError where nothing can be made of it, RetryableError if too busy.
        """
        if as_json:
            if len(body) <= _SMALL_JSON_BYTES:
                return decode_slowly(signal, body, as_json=True)
            return await self._in_thread(check.json_values(body), lambda: self._json(signal, body))
        messages = check.short_messages(body)
        if len(body) <= _SMALL_BYTES and messages <= _SMALL_MESSAGES:
            with suppress(DecodeError):
                return decode(signal, body)
        values = messages // _MESSAGES_A_VALUE
        try:
            return await self._in_thread(values, lambda: self._protobuf(signal, body))
        except DecodeError:
            return await self._in_thread(
                messages, lambda: decode_slowly(signal, body, as_json=False)
            )

    def close(self) -> None:
        """Let go of the threads; what they are doing is finished."""
        for lane in self._lanes:
            lane.close()

    def _json(self, signal: Signal, body: bytes) -> Decoded:
        if check.has_more_values(body, self._max_elements):
            raise ValueError(self._too_many("values"))
        return decode_slowly(signal, body, as_json=True)

    def _protobuf(self, signal: Signal, body: bytes) -> Decoded:
        if check.has_more_messages(signal, body, self._max_elements):
            raise ValueError(self._too_many("spans, attributes and values"))
        return decode(signal, body)

    def _too_many(self, what: str) -> str:
        return (
            f"more than {self._max_elements:,} {what} in one request (receive.max_elements): send"
            " smaller batches"
        )

    async def _in_thread(self, values: int, work: Callable[[], Decoded]) -> Decoded:
        lane = next(x for x in self._lanes if x.max_values is None or values <= x.max_values)
        return await lane.run(work)


class _Lane:
    """One thread for requests of up to `max_values`; None: of any size."""

    def __init__(self, max_values: int | None, max_waiting: int) -> None:
        self.max_values = max_values
        self._max_waiting = max_waiting
        self._waiting = 0
        self._thread = ThreadPoolExecutor(1, "decode")

    async def run(self, work: Callable[[], Decoded]) -> Decoded:
        """Do `work` after what came before it.

        Raises RetryableError where too much waits already.
        """
        if self._waiting >= self._max_waiting:
            raise RetryableError(
                f"{self._waiting} requests as large as this one wait to be decoded: try again",
                retry_after_s=5.0,
                why="decoding",
            )
        self._waiting += 1
        try:
            return await asyncio.get_running_loop().run_in_executor(self._thread, work)
        finally:
            self._waiting -= 1

    def close(self) -> None:
        self._thread.shutdown(wait=False, cancel_futures=True)


_MAX_IN_FLIGHT: Final = 256
"""Requests being decoded and kept at once, over both protocols: what bounds memory when the journal
is slow.
"""

_MAX_ASIDE_BYTES: Final = 64 * 2**20
_ASIDE_EVERY_S: Final = 600.0
"""As many bytes as the quarantine holds are put aside in ten minutes: more would only write over
what is there.
"""

Transport: TypeAlias = Literal["grpc", "http", "kafka"]
"""What a request came over."""

_ITEMS: Final[dict[Signal, str]] = {"traces": "span", "logs": "log record", "metrics": "metric"}


class Exports:
    """Decodes, checks and hands over export requests; refuses them all once it drains."""

    def __init__(
        self,
        intake: Intake,
        meter: Meter,
        *,
        max_bytes: int,
        max_elements: int,
        precedence: Precedence | None = None,
    ) -> None:
        """Other work gives way to requests by `precedence`."""
        self._intake = intake
        self._meter = meter
        self._admission = Admission(max_bytes)
        self._decoder = Decoder(max_elements)
        self._pressure = Pressure()
        self._putting_aside = Seldom()
        self._aside = Allowance(_MAX_ASIDE_BYTES, _ASIDE_EVERY_S)
        self._precedence = precedence or Precedence()
        self._in_flight = 0
        self._draining = False
        self._idle = asyncio.Event()
        meter.watch(declared.RECEIVER_BYTES_IN_FLIGHT, lambda: self._admission.size_bytes)
        meter.watch(declared.RECEIVER_ARRIVING, lambda: self._admission.arriving)

    @property
    def draining(self) -> bool:
        """Whether new requests are refused."""
        return self._draining

    @contextmanager
    def arriving(self, deadline: asyncio.Timeout) -> Iterator[Arrival]:
        """Count a request, and its bytes, from when it begins to arrive until it is answered.

        The `deadline` for its arrival is brought forward where it must give way. Raises
        RetryableError when it must come back later.
        """
        if self._draining:
            raise RetryableError("spanscore is shutting down: try again", why="stopping")
        arrival = self._admission.arrive(lambda: _expire(deadline))
        try:
            yield arrival
        except TimeoutError:
            if not deadline.expired():
                raise
            if arrival.gave_way:
                message = (
                    "other requests need the memory that this one takes and it has not arrived yet:"
                    " try again"
                )
                raise RetryableError(message, why="memory") from None
            raise RetryableError(
                "the request did not arrive in time (read_timeout): try again", why="slow"
            ) from None
        finally:
            arrival.end()
            if self._admission.is_idle:
                self._idle.set()

    @contextmanager
    def working(self) -> Iterator[None]:
        """Count a request that has arrived as worked on.

        Raises RetryableError when it must come back later.
        """
        if self._in_flight >= _MAX_IN_FLIGHT:
            raise RetryableError(
                f"spanscore is busy with {self._in_flight} requests: try again", why="busy"
            )
        self._in_flight += 1
        try:
            with self._precedence.request():
                yield
        finally:
            self._in_flight -= 1

    def turned_away(self, transport: Transport, reason: str) -> None:
        """Count a connection that was closed before a request had come."""
        self._meter.add(declared.RECEIVER_CLOSED_CONNECTIONS, transport=transport, reason=reason)
        self._pressure.note(transport, reason)

    def refused(
        self, transport: Transport, signal: str, error: Exception, why: str | None = None
    ) -> None:
        """Count a request that was not taken, by `why`, else by the text of `error`."""
        reason = why or _reason(error)
        self._meter.add(
            declared.RECEIVER_REFUSED_REQUESTS, transport=transport, signal=signal, reason=reason
        )
        self._pressure.note(transport, reason)

    async def export(
        self,
        signal: Signal,
        body: bytes,
        *,
        transport: Transport,
        as_json: bool = False,
        headers: Headers = (),
    ) -> Message:
        """Take over one request; the response says what was refused. Raises what `Intake` raises.

        A request that cannot be decoded would come back for ever: it is put aside, and the response
        says so.
        """
        try:
            decoded = await self.decode(signal, body, as_json=as_json)
        except RetryableError:
            raise
        except Exception as error:  # noqa: BLE001 - also what crashes the decoder must not come back for ever
            return await self.put_aside(transport, signal, body, error, tenant_in(headers))
        await self._intake.accept(signal, decoded.body, decoded.request, headers)
        self.count(transport, signal, decoded)
        return _response(signal, decoded)

    async def decode(self, signal: Signal, body: bytes, *, as_json: bool) -> Decoded:
        """Decode and check a request.

        Raises RetryableError if too busy, anything else where nothing can be made of it.
        """
        return await self._decoder.decode(signal, body, as_json=as_json)

    async def put_aside(
        self, transport: Transport, signal: Signal, body: bytes, error: Exception, tenant: str
    ) -> Message:
        """Quarantine a request that `decode` failed at with `error`; returns the response to it.

        Raises RetryableError, or PermanentError where too much is there already.
        """
        foreseen = isinstance(error, ValueError)
        reason = str(error) if foreseen else f"the decoder failed at it ({type(error).__name__})"
        # the sender and the quarantine may see it, the log not
        without_content = reason.partition(", found ")[0]
        if self._putting_aside.is_due():
            fault = None if foreseen else error
            about = {"tenant": tenant}
            _log.warning(
                "%s: a request was put aside: %s",
                signal,
                without_content,
                exc_info=fault,
                extra=about,
            )
        if not self._aside.take(len(body)):
            message = (
                "nothing was kept, and too much is put aside already to keep this request for"
                f" inspection: {reason}"
            )
            raise PermanentError(message)
        await self._intake.quarantine(
            signal, body, f"of tenant {tenant}: {reason}" if tenant else reason
        )
        self._meter.add(declared.RECEIVER_QUARANTINED_REQUESTS, transport=transport, signal=signal)
        return WIRE[signal].partial(
            0, f"nothing was kept, the request is put aside for inspection: {reason}"
        )

    def count(self, transport: Transport, signal: Signal, decoded: Decoded) -> None:
        """Count a request that was taken."""
        self._meter.add(declared.RECEIVER_REQUESTS, transport=transport, signal=signal)
        if decoded.refused:
            self._meter.add(
                declared.RECEIVER_REFUSED_ITEMS,
                len(decoded.refused),
                transport=transport,
                signal=signal,
            )
        if signal == "traces":
            self._meter.add(declared.RECEIVER_ACCEPTED_SPANS, decoded.items, transport=transport)
        elif signal == "logs":
            self._meter.add(
                declared.RECEIVER_ACCEPTED_LOG_RECORDS, decoded.items, transport=transport
            )

    async def drain(self, grace_s: float) -> bool:
        """Refuse new requests and wait for those under way, `grace_s` seconds at most; False: some
        were not done.
        """
        self._draining = True
        self._idle.clear()
        if not self._admission.is_idle:
            with suppress(TimeoutError):
                await asyncio.wait_for(self._idle.wait(), grace_s)
        return self._admission.is_idle

    def close(self) -> None:
        """Let go of the threads that decode."""
        self._decoder.close()


def _expire(deadline: asyncio.Timeout) -> None:
    with suppress(RuntimeError):  # it is over already
        deadline.reschedule(asyncio.get_running_loop().time())


def _response(signal: Signal, decoded: Decoded) -> Message:
    messages = []
    if decoded.refused:
        messages.append(check.describe(decoded.refused, _ITEMS[signal]))
    if decoded.replaced:
        messages.append(f"texts that are not UTF-8, mended with U+FFFD: {decoded.replaced}")
    return (
        WIRE[signal].partial(len(decoded.refused), ". ".join(messages))
        if messages
        else WIRE[signal].response()
    )


def _reason(error: Exception) -> str:
    """One of few words for why a request was not taken."""
    if isinstance(error, RetryableError):
        return error.why
    if isinstance(error, UnauthenticatedError):
        return "unauthenticated"
    return "invalid" if isinstance(error, PermanentError) else "fault"
