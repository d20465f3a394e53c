"""One export request from bytes to acknowledgement, the same for gRPC and HTTP."""

import asyncio
import logging
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Final, Literal, TypeAlias

from google.protobuf.message import Message

from spanscore.errors import PermanentError, RetryableError
from spanscore.model.headers import Headers, tenant_in
from spanscore.otlp import check
from spanscore.otlp.signal import WIRE, Signal
from spanscore.receive.admission import Admission, Arrival
from spanscore.receive.auth import UnauthenticatedError
from spanscore.receive.decoding import Decoded, Decoder
from spanscore.receive.intake import Intake
from spanscore.receive.pressure import Allowance, Pressure, Seldom
from spanscore.telemetry import Meter, declared
from spanscore.threads import Precedence

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
