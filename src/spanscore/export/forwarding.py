"""Requests that pass through in inline mode: one bounded queue to each exporter."""

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass

from spanscore.errors import RetryableError
from spanscore.export.config import SendingQueue
from spanscore.export.delivery import Delivery
from spanscore.otlp.signal import Signal


@dataclass(slots=True)
class _Passing:
    """A request on its way; `done` is resolved when no exporter is left that has still to deal with it."""

    signal: Signal
    body: bytes
    left: int
    done: "asyncio.Future[None]"

    def dealt_with(self) -> None:
        self.left -= 1
        if not self.left and not self.done.done():
            self.done.set_result(None)


class Forwarding:
    """The queue to one exporter."""

    def __init__(self, delivery: Delivery, config: SendingQueue) -> None:
        self._delivery = delivery
        self._queue: asyncio.Queue[_Passing] = asyncio.Queue(config.queue_size)
        self._consumers = config.num_consumers
        self._underway: list[_Passing] = []

    @property
    def waiting(self) -> int:
        """Requests queued or under way."""
        return self._queue.qsize() + len(self._underway)

    def require_room(self) -> None:
        """Raises RetryableError when the queue is full."""
        if self._queue.full():
            raise RetryableError(f"the sending queue of {self._delivery.name} is full")

    def put(self, passing: _Passing) -> None:
        """Queue a request; there must be room."""
        self._queue.put_nowait(passing)

    def consumers(self, progress: Callable[[], None]) -> list[Coroutine[None, None, None]]:
        """The loops that send what is queued; each calls `progress` after every request."""
        return [self._consume(progress) for _ in range(self._consumers)]

    def abandon(self) -> None:
        """Cancel the futures of all that has not left: whoever holds the request must bring it again."""
        while not self._queue.empty():
            self._underway.append(self._queue.get_nowait())
        for passing in self._underway:
            passing.done.cancel()
        self._underway.clear()

    async def _consume(self, progress: Callable[[], None]) -> None:
        while True:
            passing = await self._queue.get()
            self._underway.append(passing)  # and stays there when this task is cancelled, for `abandon`
            await self._delivery.deliver(passing.signal, passing.body)
            self._underway.remove(passing)
            passing.dealt_with()
            progress()


def forward_to_all(forwardings: Sequence[Forwarding], signal: Signal, body: bytes) -> "asyncio.Future[None]":
    """Put one request into all queues, or into none; the future is done when all have dealt with it.

    Raises RetryableError when one of them is full.
    """
    for forwarding in forwardings:
        forwarding.require_room()
    done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    if not forwardings:
        done.set_result(None)
    passing = _Passing(signal, body, len(forwardings), done)
    for forwarding in forwardings:
        forwarding.put(passing)
    return done
