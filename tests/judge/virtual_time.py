"""An event loop whose clock stands still while anything runs, and jumps to the next timer when
nothing does.
"""

import asyncio
import random
import selectors
from collections.abc import Coroutine
from typing import Any, TypeVar

from spanscore.judge.pace import Timing

T = TypeVar("T")
START_S = 1_700_000_000


class _Selector(selectors.SelectSelector):
    def __init__(self) -> None:
        super().__init__()
        self.now_s = 0.0

    def select(self, timeout: float | None = None) -> Any:
        self.now_s += max(timeout or 0.0, 0.0)
        return super().select(0)


class _Loop(asyncio.SelectorEventLoop):
    def __init__(self) -> None:
        self._virtual = _Selector()
        super().__init__(self._virtual)

    def time(self) -> float:
        return self._virtual.now_s


def run(work: Coroutine[Any, Any, T]) -> T:
    """What `work` returns, in a loop of its own; whatever it sleeps takes no time."""
    with asyncio.Runner(loop_factory=_Loop) as runner:
        return runner.run(work)


def timing(late_s: float = 0.0) -> Timing:
    """The clock of the running loop, as the judge takes it; its timers are late by up to `late_s`,
    as those of a busy machine.
    """
    loop, chance = asyncio.get_running_loop(), random.Random(7)

    async def sleep(seconds: float) -> None:
        await asyncio.sleep(seconds + chance.uniform(0, late_s))

    return Timing(
        clock_ns=lambda: int((START_S + loop.time()) * 1e9), sleep=sleep, chance=lambda: 1.0
    )
