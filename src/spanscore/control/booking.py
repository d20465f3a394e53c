"""What a run's calls may cost is in the store before they are made, so that a kill spends nothing
of its budget twice.
"""

import asyncio
from collections.abc import Awaitable, Callable


class Booking:
    """Writes what is booked of a budget; calls that wait at the same time share one write.

    Belongs to one event loop.
    """

    def __init__(self, write: Callable[[], Awaitable[None]]) -> None:
        """`write` stores what is booked at the moment of its transaction."""
        self._write = write
        self._booked = self._written = 0
        self._writing = asyncio.Lock()

    async def keep(self) -> None:
        """Return when all that is booked by now is stored."""
        self._booked += 1
        own = self._booked
        async with self._writing:
            if self._written >= own:
                return
            last = self._booked
            await self._write()
            self._written = last
