"""What is being received goes first: work on what came before waits for it, though never for
long.
"""

import asyncio
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Final

_LONGEST_WAIT_S: Final = 0.02
"""Before each trace: under a load that never pauses, about fifty traces a second are read all the
same.
"""


class Precedence:
    """Counts the requests that are being received, and has other work wait while there are any.

    Python runs one thread at a time: while a thread reads traces, the event loop waits for its turn
    at each step of each request. Belongs to one event loop, but for `give_way_in_thread`.
    """

    def __init__(
        self,
        is_urgent: Callable[[], bool] = lambda: False,
        *,
        longest_wait_s: float = _LONGEST_WAIT_S,
    ) -> None:
        """While `is_urgent`, other work does not wait; else `longest_wait_s` seconds at most for
        each trace.
        """
        self._is_urgent = is_urgent
        self._longest_wait_s = longest_wait_s
        self._requests = 0
        self._idle = asyncio.Event()
        self._idle_for_threads = threading.Event()
        self._next = asyncio.Lock()
        self._next_thread = threading.Lock()
        self._idle.set()
        self._idle_for_threads.set()

    @contextmanager
    def request(self) -> Iterator[None]:
        """Within the block a request is being received."""
        self._requests += 1
        if self._requests == 1:
            self._idle.clear()
            self._idle_for_threads.clear()
        try:
            yield
        finally:
            self._requests -= 1
            if not self._requests:
                self._idle.set()
                self._idle_for_threads.set()

    def give_way_in_thread(self) -> None:
        """Wait until no request is being received, within the bound; threads that wait go on one by
        one.

        May be called from any thread.
        """
        if self._idle_for_threads.is_set():
            return
        with self._next_thread:
            if not self._is_urgent():
                self._idle_for_threads.wait(self._longest_wait_s)

    async def give_way(self) -> None:
        """Wait in the event loop.

        Those that wait go on one by one, each after the loop has done what was due.
        """
        async with self._next:
            await asyncio.sleep(0)
            if self._requests and not self._is_urgent():
                with suppress(TimeoutError):
                    async with asyncio.timeout(self._longest_wait_s):
                        await self._idle.wait()
