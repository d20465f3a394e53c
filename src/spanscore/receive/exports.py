"""One export request from bytes to acknowledgement, the same for gRPC and HTTP."""

import asyncio
import logging
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any, Final, Literal, TypeAlias

from google.protobuf.message import DecodeError, Message

from spanscore.errors import PermanentError, RetryableError
from spanscore.model.headers import Headers
from spanscore.otlp import check, json
from spanscore.otlp.check import Refusal
from spanscore.otlp.mend import mend
from spanscore.otlp.signal import WIRE, Signal
from spanscore.receive.auth import UnauthenticatedError
from spanscore.receive.intake import Intake
from spanscore.telemetry import Meter, declared

_log = logging.getLogger(__name__)

_MAX_IN_FLIGHT: Final = 256
"""Requests being worked on at once, over both protocols: what bounds memory when the journal is slow."""

_SMALL_JSON_BYTES: Final = 128 * 2**10
"""Up to this size JSON is parsed in the event loop, for some milliseconds; above it in a thread."""

Transport: TypeAlias = Literal["grpc", "http"]
"""What a request came over."""

_ITEMS: Final[dict[Signal, str]] = {"traces": "span", "logs": "log record", "metrics": "metric"}


@dataclass(frozen=True, slots=True)
class Decoded:
    """A request that was understood: its protobuf, the same as a message, and what was done to make it so.

    `refused` was taken out; in `replaced` texts, bytes that are not UTF-8 were replaced.
    """

    body: bytes
    request: Message
    refused: list[Refusal]
    replaced: int = 0


def decode(signal: Signal, body: bytes) -> Decoded:
    """Decode and check a protobuf request; its body is handed on as it came, unless something had to be taken out.

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
        return Decoded(checked.body, request, checked.refused, replaced)
    mended = mend(signal, body)
    rest = decode(signal, mended.body)
    return Decoded(rest.body, rest.request, mended.refused + rest.refused, mended.replaced)


def _checked(signal: Signal, body: bytes, request: Message) -> Decoded:
    refused = check.remove_damaged(request) if signal == "traces" else []
    return Decoded(request.SerializeToString() if refused else body, request, refused)


class Exports:
    """Decodes, checks and hands over export requests; refuses them all once it drains."""

    def __init__(self, intake: Intake, meter: Meter) -> None:
        self._intake = intake
        self._meter = meter
        self._in_flight = 0
        self._draining = False
        self._idle = asyncio.Event()
        self._idle.set()

    @property
    def draining(self) -> bool:
        """Whether new requests are refused."""
        return self._draining

    @contextmanager
    def admitted(self) -> Iterator[None]:
        """Count a request as under way. Raises RetryableError when it must come back later."""
        if self._draining:
            raise RetryableError("spanscore is shutting down: try again", why="stopping")
        if self._in_flight >= _MAX_IN_FLIGHT:
            raise RetryableError(f"spanscore is busy with {self._in_flight} requests: try again", why="busy")
        self._in_flight += 1
        self._idle.clear()
        try:
            yield
        finally:
            self._in_flight -= 1
            if not self._in_flight:
                self._idle.set()

    def refused(self, transport: Transport, signal: str, error: Exception, why: str | None = None) -> None:
        """Count a request that was not taken, by `why`, else by what `error` tells."""
        reason = why or _reason(error)
        self._meter.add(declared.RECEIVER_REFUSED_REQUESTS, transport=transport, signal=signal, reason=reason)

    async def export(
        self, signal: Signal, body: bytes, *, transport: Transport, as_json: bool = False, headers: Headers = ()
    ) -> Message:
        """Take over one request; the response says what was refused. Raises what `Intake` raises.

        A request that cannot be decoded would come back for ever: it is put aside, and the response says so.
        """
        try:
            decoded = await self._decode(signal, body, as_json)
        except Exception as error:  # noqa: BLE001 - also what crashes the decoder must not come back for ever
            return await self._put_aside(transport, signal, body, error)
        await self._intake.accept(signal, decoded.body, decoded.request, headers)
        self._count(transport, signal, decoded)
        return _response(signal, decoded)

    async def _decode(self, signal: Signal, body: bytes, as_json: bool) -> Decoded:
        if as_json and len(body) <= _SMALL_JSON_BYTES:
            return decode_slowly(signal, body, as_json=True)
        if not as_json:
            with suppress(DecodeError):
                return decode(signal, body)
        return await asyncio.to_thread(decode_slowly, signal, body, as_json=as_json)

    async def _put_aside(self, transport: Transport, signal: Signal, body: bytes, error: Exception) -> Message:
        foreseen = isinstance(error, ValueError)
        reason = str(error) if foreseen else f"the decoder failed at it ({type(error).__name__})"
        without_content = reason.partition(", found ")[0]  # the sender and the quarantine may see it, the log not
        _log.warning("%s: a request was put aside: %s", signal, without_content, exc_info=None if foreseen else error)
        await self._intake.quarantine(signal, body, reason)
        self._meter.add(declared.RECEIVER_QUARANTINED_REQUESTS, transport=transport, signal=signal)
        return WIRE[signal].partial(0, f"nothing was kept, the request is put aside for inspection: {reason}")

    def _count(self, transport: Transport, signal: Signal, decoded: Decoded) -> None:
        self._meter.add(declared.RECEIVER_REQUESTS, transport=transport, signal=signal)
        if decoded.refused:
            self._meter.add(declared.RECEIVER_REFUSED_ITEMS, len(decoded.refused), transport=transport, signal=signal)
        request: Any = decoded.request
        if signal == "traces":
            spans = sum(len(scoped.spans) for group in request.resource_spans for scoped in group.scope_spans)
            self._meter.add(declared.RECEIVER_ACCEPTED_SPANS, spans, transport=transport)
        elif signal == "logs":
            records = sum(len(scoped.log_records) for group in request.resource_logs for scoped in group.scope_logs)
            self._meter.add(declared.RECEIVER_ACCEPTED_LOG_RECORDS, records, transport=transport)

    async def drain(self, grace_s: float) -> bool:
        """Refuse new requests and wait for those under way, `grace_s` seconds at most; False: some were not done."""
        self._draining = True
        if self._in_flight:
            with suppress(TimeoutError):
                await asyncio.wait_for(self._idle.wait(), grace_s)
        return not self._in_flight


def _response(signal: Signal, decoded: Decoded) -> Message:
    said = []
    if decoded.refused:
        said.append(check.describe(decoded.refused, _ITEMS[signal]))
    if decoded.replaced:
        said.append(f"texts that are not UTF-8, mended with U+FFFD: {decoded.replaced}")
    return WIRE[signal].partial(len(decoded.refused), ". ".join(said)) if said else WIRE[signal].response()


def _reason(error: Exception) -> str:
    """One of few words for why a request was not taken."""
    if isinstance(error, RetryableError):
        return error.why
    if isinstance(error, UnauthenticatedError):
        return "unauthenticated"
    return "invalid" if isinstance(error, PermanentError) else "fault"
