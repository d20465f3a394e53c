"""The assembler's clock, the only place that asks what time it is when traces are cut."""

from collections.abc import Callable, Iterable
from typing import TypeVar

from spanscore import threads
from spanscore.assemble.config import Config
from spanscore.assemble.sessions import Sessions
from spanscore.assemble.work_queue import WorkQueue

WorkT = TypeVar("WorkT")


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
