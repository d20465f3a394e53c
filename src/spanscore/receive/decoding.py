"""Export requests from bytes to messages: small ones at once, large ones in threads, none with too
many parts.
"""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any, Final

from google.protobuf.message import DecodeError, Message

from spanscore.errors import RetryableError
from spanscore.otlp import check, json, weight
from spanscore.otlp.check import Refusal
from spanscore.otlp.mend import mend
from spanscore.otlp.signal import WIRE, Signal

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
            return await self._in_thread(weight.json_values(body), lambda: self._json(signal, body))
        messages = weight.short_messages(body)
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
        if weight.has_more_values(body, self._max_elements):
            raise ValueError(self._too_many("values"))
        return decode_slowly(signal, body, as_json=True)

    def _protobuf(self, signal: Signal, body: bytes) -> Decoded:
        if weight.has_more_messages(signal, body, self._max_elements):
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
