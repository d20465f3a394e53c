"""An export request, from bytes to acknowledgement."""

import asyncio
import logging
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from typing import Any, Final, Literal, Protocol, TypeAlias

from google.protobuf.message import DecodeError, Message

from spanscore.errors import PermanentError, RetryableError
from spanscore.model.headers import Headers, tenant_in
from spanscore.otlp import check, json, prefilter
from spanscore.otlp.check import Refusal, mend
from spanscore.otlp.signal import WIRE, Signal
from spanscore.receive.admission import Admission, Allowance, Arrival, Pressure, Seldom
from spanscore.receive.auth import UnauthenticatedError
from spanscore.telemetry import Meter, declared
from spanscore.threads import Precedence


class Intake(Protocol):
    """Takes requests over; once a method returns, the sender learns that its data are safe."""

    async def accept(
        self, signal: Signal, body: bytes, request: Message, headers: Headers = ()
    ) -> None:
        """Keep a request: `body` in protobuf, `request` the same decoded, with the headers that
        exporters may need.

        Raises RetryableError when it cannot now.
        """
        ...

    async def quarantine(self, signal: Signal, body: bytes, reason: str) -> None:
        """Put aside a request that cannot be decoded: `body` as it came.

        Raises RetryableError when it cannot now.
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
        parsed, replaced = json.loads(body)
        request = json.from_object(signal, parsed)
        checked = _checked(signal, request.SerializeToString(), request)
        return replace(checked, replaced=replaced)
    mended = mend(signal, body)
    rest = decode(signal, mended.body)
    return replace(rest, refused=mended.refused + rest.refused, replaced=mended.replaced)


def _checked(signal: Signal, body: bytes, request: Message) -> Decoded:
    refused = check.remove_damaged(request) if signal == "traces" else []
    return Decoded(
        request.SerializeToString() if refused else body, request, refused, _items(signal, request)
    )


def _items(signal: Signal, request: Any) -> int:
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
            return await self._in_thread(
                prefilter.json_values(body), lambda: self._json(signal, body)
            )
        messages = prefilter.short_messages(body)
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
        if prefilter.has_more_values(body, self._max_elements):
            raise ValueError(self._too_many("values"))
        return decode_slowly(signal, body, as_json=True)

    def _protobuf(self, signal: Signal, body: bytes) -> Decoded:
        if prefilter.has_more_messages(signal, body, self._max_elements):
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


_log = logging.getLogger(__name__)

_MAX_IN_FLIGHT: Final = 256
"""Requests being decoded and kept at once, over both protocols: what bounds memory when the journal
is slow.
"""

_MAX_ASIDE_BYTES: Final = 64 * 2**20
_ASIDE_EVERY_S: Final = 600.0
"""As many bytes as the quarantine holds are put aside in ten minutes: more would only write over
what is there.
"""

Transport: TypeAlias = Literal["grpc", "http"]
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
            decoded = await self._decoder.decode(signal, body, as_json=as_json)
        except RetryableError:
            raise
        except Exception as error:  # noqa: BLE001 - also what crashes the decoder must not come back for ever
            return await self._put_aside(transport, signal, body, error, tenant_in(headers))
        await self._intake.accept(signal, decoded.body, decoded.request, headers)
        self._count(transport, signal, decoded)
        return _response(signal, decoded)

    async def _put_aside(
        self, transport: Transport, signal: Signal, body: bytes, error: Exception, tenant: str
    ) -> Message:
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

    def _count(self, transport: Transport, signal: Signal, decoded: Decoded) -> None:
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
