"""What was cut and waits for a worker: bounded, and nothing is lost where the one who cuts is
interrupted.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from typing import Generic, TypeVar

WorkT = TypeVar("WorkT")


class WorkQueue(Generic[WorkT]):
    """Work in the order in which it was cut, until workers have done it. Belongs to one event loop.

    What one cut gives is taken in whole: it may exceed the bound, and then nothing more is cut
    until there is room.
    """

    def __init__(self, size: int) -> None:
        """Nothing is cut while `size` or more wait."""
        self.unfinished = 0
        """How much was taken in and is not done: what waits, and what workers have taken."""
        self._size = size
        self._queue: asyncio.Queue[WorkT] = asyncio.Queue()
        self._has_room = asyncio.Event()
        self._has_room.set()

    def __len__(self) -> int:
        """How much waits for a worker; what a worker has taken waits no more."""
        return self._queue.qsize()

    async def fill(self, cut: Callable[[], Iterable[WorkT]]) -> int:
        """Wait until there is room, then take in what `cut` gives; how much that was."""
        await self._has_room.wait()
        found = list(cut())
        self.unfinished += len(found)
        for work in found:  # between the cut and the last of these nobody can interrupt
            self._queue.put_nowait(work)
        self._note_room()
        return len(found)

    async def join(self) -> None:
        """Wait until all that was taken in is done."""
        await self._queue.join()

    async def run(
        self,
        batch_size: int,
        do: Callable[[list[WorkT]], Awaitable[None]],
        *,
        size_bytes: Callable[[WorkT], int] = lambda _: 0,
        enough_bytes: int = 1,
    ) -> None:
        """Be a worker: `do` what waits, for ever.

        At most `batch_size` at a time, and no more once they take `enough_bytes` by `size_bytes`.
        """
        while True:
            batch = [await self._queue.get()]
            taken_bytes = size_bytes(batch[0])
            while (
                len(batch) < batch_size and taken_bytes < enough_bytes and not self._queue.empty()
            ):
                batch.append(self._queue.get_nowait())
                taken_bytes += size_bytes(batch[-1])
            self._note_room()
            try:
                await do(batch)
            finally:
                self.unfinished -= len(batch)
                for _ in batch:
                    self._queue.task_done()

    def _note_room(self) -> None:
        if len(self) < self._size:
            self._has_room.set()
        else:
            self._has_room.clear()
