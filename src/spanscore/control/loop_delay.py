"""How late the event loop is: what comes in is scored in the same one as runs are, and waits as
long.
"""

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Final

_EVERY_S: Final = 0.05
_LATE_S: Final = 0.01
_DECAY: Final = 0.7


class LoopDelay:
    """Looks every 50 ms by how much its own wake-up is late, while anybody asks.

    Belongs to one event loop.
    """

    def __init__(
        self,
        clock_s: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], Awaitable[object]] = asyncio.sleep,
    ) -> None:
        self._clock_s = clock_s
        self._sleep = sleep
        self._late_s = 0.0
        self._askers = 0

    @property
    def is_long(self) -> bool:
        """Whether whoever waits for the loop waited for more than 10 ms lately."""
        return self._late_s > _LATE_S

    @asynccontextmanager
    async def watched(self) -> AsyncIterator[None]:
        """Look within this context; a loop that nobody asks about is not woken."""
        self._askers += 1
        if self._askers == 1:
            self._watching = asyncio.create_task(self.watch())
        try:
            yield
        finally:
            self._askers -= 1
            if not self._askers:
                self._watching.cancel()

    async def watch(self) -> None:
        """Look until cancelled."""
        while True:
            before_s = self._clock_s()
            await self._sleep(_EVERY_S)
            late_s = self._clock_s() - before_s - _EVERY_S
            self._late_s = max(late_s, self._late_s * _DECAY)
