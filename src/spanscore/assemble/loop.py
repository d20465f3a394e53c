"""The assembler's clock, the only place that asks what time it is when traces are cut; and who takes what is cut."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from typing import TypeVar

from spanscore.assemble.config import Config
from spanscore.assemble.sessions import Sessions

WorkT = TypeVar("WorkT")


def interval_s(config: Config) -> float:
    """How often to look: a tenth of the shortest wait, between 20 ms and 1 s."""
    shortest_ns = min(config.complete_after, config.idle_after, config.stitch_window, config.session_idle_after)
    return min(1.0, max(0.02, shortest_ns / 10 / 1e9))


async def run(
    cut: Callable[[int], Iterable[WorkT]],
    sessions: Sessions,
    *,
    traces_out: "asyncio.Queue[WorkT]",
    sessions_out: "asyncio.Queue[str]",
    clock_ns: Callable[[], int],
    every_s: float,
) -> None:
    """Put what is complete into the queues, for ever; a full queue holds the cutting up, not the receiving.

    `cut` gives, for a time, what is to be done with the traces that are complete by then.
    """
    while True:
        for work in cut(clock_ns()):
            await traces_out.put(work)
        for session_id in sessions.cut(clock_ns()):
            await sessions_out.put(session_id)
        await asyncio.sleep(every_s)


async def batches(waiting: "asyncio.Queue[WorkT]", size: int, work: Callable[[list[WorkT]], Awaitable[None]]) -> None:
    """Do `work` on what is waiting, at most `size` at a time, for ever."""
    while True:
        batch = [await waiting.get()]
        while len(batch) < size and not waiting.empty():
            batch.append(waiting.get_nowait())
        await work(batch)
        for _ in batch:
            waiting.task_done()
