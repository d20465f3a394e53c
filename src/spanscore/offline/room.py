"""Room in memory for a number of bytes: who does not fit waits."""

import asyncio


class Room:
    """Lets in what fits beside what is inside, in the order of asking; what is larger than the room
    enters alone.
    """

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self._inside_bytes = 0
        self._count = 0
        self._has_left = asyncio.Event()

    async def enter(self, size_bytes: int) -> None:
        """Wait until there is room. For one caller at a time."""
        while self._count and self._inside_bytes + size_bytes > self._max_bytes:
            self._has_left.clear()
            await self._has_left.wait()
        self._count += 1
        self._inside_bytes += size_bytes

    def leave(self, size_bytes: int) -> None:
        """Make room for others."""
        self._count -= 1
        self._inside_bytes -= size_bytes
        self._has_left.set()
