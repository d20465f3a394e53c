"""The assembler's clock, the only place that asks what time it is when traces are cut."""

import asyncio
from collections.abc import Callable, Iterable
from typing import TypeVar

from spanscore.assemble.config import Config
from spanscore.assemble.sessions import Sessions
from spanscore.assemble.work_queue import WorkQueue

WorkT = TypeVar("WorkT")


def interval_s(config: Config) -> float:
    """How often to look: a tenth of the shortest wait, between 20 ms and 1 s."""
    shortest_ns = min(config.complete_after, config.idle_after, config.stitch_window, config.session_idle_after)
    return min(1.0, max(0.02, shortest_ns / 10 / 1e9))


async def run(
    cut: Callable[[int], Iterable[WorkT]],
    sessions: Sessions,
    *,
    traces_out: WorkQueue[WorkT],
    sessions_out: WorkQueue[str],
    clock_ns: Callable[[], int],
    every_s: float,
) -> None:
    """Put what is complete into the queues, for ever; a full queue holds the cutting up, not the receiving.

    `cut` gives, for a time, what is to be done with the traces that are complete by then.
    """
    while True:
        await traces_out.fill(lambda: cut(clock_ns()))
        await sessions_out.fill(lambda: sessions.cut(clock_ns()))
        await asyncio.sleep(every_s)
