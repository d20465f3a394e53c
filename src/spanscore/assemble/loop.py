"""The assembler's clock, sessions and queues."""

import asyncio
import heapq
from collections.abc import Awaitable, Callable, Iterable
from typing import Generic, TypeVar

from spanscore import threads
from spanscore.assemble.config import Config


class Sessions:
    """Open sessions, by when they were last heard of. Not thread-safe."""

    def __init__(self, config: Config) -> None:
        self._config = config
        self._last_ns: dict[str, int] = {}
        self._in_order: list[tuple[int, str]] = []

    def __len__(self) -> int:
        return len(self._last_ns)

    def push(self, session_id: str, now_ns: int) -> None:
        """An agent trace of this session was rebuilt."""
        if session_id not in self._last_ns:
            heapq.heappush(self._in_order, (now_ns, session_id))
        self._last_ns[session_id] = now_ns

    def cut(self, now_ns: int) -> list[str]:
        """The sessions that are quiet by now, or too many; each is handed out once for each time it
        goes on.
        """
        quiet_since_ns = now_ns - self._config.session_idle_after
        ready = []
        while self._in_order and (
            self._in_order[0][0] <= quiet_since_ns
            or len(self._last_ns) > self._config.max_open_sessions
        ):
            known_ns, session_id = self._in_order[0]
            last_ns = self._last_ns[session_id]
            if last_ns > known_ns:  # it has gone on since
                heapq.heapreplace(self._in_order, (last_ns, session_id))
                continue
            heapq.heappop(self._in_order)
            del self._last_ns[session_id]
            ready.append(session_id)
        return ready


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


_SHORTEST_S, _LONGEST_S = 0.02, 0.15
_IDLE_S = 1.0


def interval_s(config: Config, *, is_idle: bool) -> float:
    """How often to look: a tenth of the shortest wait, 20 to 150 ms; half of it, up to 1 s, where
    nothing waits.
    """
    waits_ns = (config.whole_after, config.complete_after, config.idle_after, config.stitch_window)
    shortest_s = min(*waits_ns, config.session_idle_after) / 1e9
    wanted_s = min(_IDLE_S, shortest_s / 2) if is_idle else min(_LONGEST_S, shortest_s / 10)
    return max(_SHORTEST_S, wanted_s)


async def run(
    cut: Callable[[int], Iterable[WorkT]],
    sessions: Sessions,
    *,
    traces_out: WorkQueue[WorkT],
    sessions_out: WorkQueue[str],
    clock_ns: Callable[[], int],
    every_s: Callable[[], float],
) -> None:
    """Put what is complete into the queues, for ever; a full queue delays the cutting, not the
    receiving.

    `cut` gives, for a time, what is to be done with the traces that are complete by then. `every_s`
    is how long to wait before the next look.
    """
    while True:
        await traces_out.fill(lambda: cut(clock_ns()))
        await sessions_out.fill(lambda: sessions.cut(clock_ns()))
        await threads.next_multiple(every_s())
