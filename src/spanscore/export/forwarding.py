"""Requests that pass through in inline mode: one bounded queue to each exporter."""

import asyncio
from collections.abc import Callable, Collection, Coroutine, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

from spanscore.errors import RetryableError
from spanscore.export.config import SendingQueue
from spanscore.export.delivery import Delivery
from spanscore.model.headers import Headers
from spanscore.otlp.signal import Signal


@dataclass(slots=True)
class _Passing:
    """A request on its way; `done` is resolved when no exporter is left that has still to deal with
    it.
    """

    signal: Signal
    body: bytes
    headers: Headers
    left: int
    done: "asyncio.Future[None]"

    def size(self, sizer: Literal["requests", "bytes"]) -> int:
        """How much of a queue it takes."""
        return 1 if sizer == "requests" else len(self.body)

    def dealt_with(self) -> None:
        self.left -= 1
        if not self.left and not self.done.done():
            self.done.set_result(None)


class Passed(Protocol):
    """What is configured of an exporter that requests pass through."""

    @property
    def sending_queue(self) -> SendingQueue: ...  # noqa: D102 # the configuration has it
    @property
    def signals(self) -> Sequence[Signal]: ...  # noqa: D102 # the configuration has it


class Forwarding:
    """The queue to one exporter."""

    def __init__(self, delivery: Delivery, exporter: Passed) -> None:
        config = exporter.sending_queue
        self.name = delivery.name
        self.capacity = config.queue_size
        self.signals: Collection[Signal] = exporter.signals
        self._delivery = delivery
        self._config = config
        self._queue: asyncio.Queue[_Passing] = asyncio.Queue()
        self._size = 0
        self._underway: list[_Passing] = []

    @property
    def waiting(self) -> int:
        """Requests queued or under way."""
        return self._queue.qsize() + len(self._underway)

    def require_room(self, passing: _Passing) -> None:
        """Raises RetryableError when the queue is too full for this; an empty one is for none."""
        if self._size and self._size + passing.size(self._config.sizer) > self._config.queue_size:
            raise RetryableError(f"the sending queue of {self.name} is full", why="queue_full")

    def put(self, passing: _Passing) -> None:
        """Queue a request; there must be room."""
        self._queue.put_nowait(passing)
        self._size += passing.size(self._config.sizer)

    def consumers(self, progress: Callable[[], None]) -> list[Coroutine[None, None, None]]:
        """The loops that send what is queued; each calls `progress` after every request."""
        return [self._consume(progress) for _ in range(self._config.num_consumers)]

    def abandon(self) -> None:
        """Cancel the futures of all that has not left: whoever holds the request must bring it
        again.
        """
        while not self._queue.empty():
            self._underway.append(self._queue.get_nowait())
        for passing in self._underway:
            passing.done.cancel()
        self._underway.clear()

    async def _consume(self, progress: Callable[[], None]) -> None:
        while True:
            passing = await self._queue.get()
            self._size -= passing.size(self._config.sizer)
            # and stays there when this task is cancelled, for `abandon`
            self._underway.append(passing)
            await self._delivery.deliver(passing.signal, passing.body, passing.headers)
            self._underway.remove(passing)
            passing.dealt_with()
            progress()


def forward_to_all(
    forwardings: Sequence[Forwarding], signal: Signal, body: bytes, headers: Headers = ()
) -> "asyncio.Future[None]":
    """Put one request into all queues that take its signal, or into none; the future is done when
    all dealt with it.

    Raises RetryableError when one of them is full.
    """
    done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    taking = [x for x in forwardings if signal in x.signals]
    if not taking:
        done.set_result(None)
    passing = _Passing(signal, body, headers, len(taking), done)
    for forwarding in taking:
        forwarding.require_room(passing)
    for forwarding in taking:
        forwarding.put(passing)
    return done
