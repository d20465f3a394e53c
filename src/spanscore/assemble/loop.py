"""The assembler's clock: the only place that asks what time it is when traces and sessions are cut."""

import asyncio
from collections.abc import Callable

from spanscore.assemble.assembler import Assembler, Cut
from spanscore.assemble.config import Config
from spanscore.assemble.sessions import Sessions


def interval_s(config: Config) -> float:
    """How often to look: a tenth of the shortest wait, between 20 ms and 1 s."""
    shortest_ns = min(config.complete_after, config.idle_after, config.session_idle_after)
    return min(1.0, max(0.02, shortest_ns / 10 / 1e9))


async def run(
    assembler: Assembler,
    sessions: Sessions,
    *,
    traces_out: "asyncio.Queue[Cut]",
    sessions_out: "asyncio.Queue[str]",
    clock_ns: Callable[[], int],
    every_s: float,
) -> None:
    """Put what is complete into the queues, for ever; a full queue holds the cutting up, not the receiving."""
    while True:
        for cut in assembler.cut(clock_ns()):
            await traces_out.put(cut)
        for session_id in sessions.cut(clock_ns()):
            await sessions_out.put(session_id)
        await asyncio.sleep(every_s)
