"""What is being received goes first: work on what came before waits for it, though never for
long.
"""

import asyncio
import math
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Final

_LONGEST_WAIT_S: Final = 0.02
"""Before each trace."""

_SHARE: Final = 0.25
"""Of the time, that work waits under a load that never pauses: the rest is its own, or what came
would be scored ever later.
"""

_SAVED_S: Final = 2.0
"""The wait that is saved up meanwhile: senders export in bursts, which go first as a whole."""

_WORTH_S: Final = 0.001

_PAUSE_S: Final = 0.005
"""Requests that follow one another within this time are one stream: what began between two of them
would keep the next one waiting.
"""


class Allowance:
    """How long work may still wait: a share of the time that has gone by, saved up to a bound.

    Thread-safe.
    """

    def __init__(self, share: float = _SHARE, saved_s: float = _SAVED_S) -> None:
        """`saved_s` seconds at first and at most."""
        self._share = share
        self._most_s = self._left_s = saved_s
        self._at_s = math.inf
        self._lock = threading.Lock()

    def left_s(self, now_s: float) -> float:
        """The seconds left by now, which never runs backwards; 0 where too few to be worth it."""
        with self._lock:
            gained_s = max(0.0, now_s - self._at_s) * self._share
            self._left_s = min(self._most_s, self._left_s + gained_s)
            self._at_s = now_s
            return self._left_s if self._left_s >= _WORTH_S else 0.0

    def spend(self, waited_s: float) -> None:
        """Take a wait off what is left."""
        with self._lock:
            self._left_s -= waited_s


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
        pause_s: float = _PAUSE_S,
        allowance: Allowance | None = None,
        clock_s: Callable[[], float] = time.monotonic,
    ) -> None:
        """While `is_urgent`, other work does not wait; else `longest_wait_s` seconds at most for
        each trace, until there has been no request for `pause_s`, and as long as `allowance` lasts.
        """
        self._is_urgent = is_urgent
        self._longest_wait_s = longest_wait_s
        self._pause_s = pause_s
        self._allowance = allowance or Allowance()
        self._clock_s = clock_s
        self._requests = 0
        self._ended_at_s = -math.inf
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
                self._ended_at_s = self._clock_s()
                self._idle.set()
                self._idle_for_threads.set()

    def give_way_in_thread(self) -> None:
        """Wait until no request is being received, within the bound; threads that wait go on one by
        one.

        May be called from any thread.
        """
        if not self._is_receiving():
            return
        with self._next_thread, self._waiting() as until_s:
            while (left_s := self._may_wait_s(until_s)) > 0:
                if not self._idle_for_threads.wait(left_s):
                    return
                time.sleep(self._pause_left_s())

    async def give_way(self) -> None:
        """Wait in the event loop.

        Those that wait go on one by one, each after the loop has done what was due.
        """
        async with self._next:
            await asyncio.sleep(0)
            with self._waiting() as until_s:
                while (left_s := self._may_wait_s(until_s)) > 0:
                    with suppress(TimeoutError):
                        async with asyncio.timeout(left_s):
                            await self._idle.wait()
                            await asyncio.sleep(self._pause_left_s())

    @contextmanager
    def _waiting(self) -> Iterator[float]:
        """Until when work may wait; the block waits, which is taken off the allowance."""
        began_s = self._clock_s()
        yield began_s + min(self._longest_wait_s, self._allowance.left_s(began_s))
        self._allowance.spend(self._clock_s() - began_s)

    def _may_wait_s(self, until_s: float) -> float:
        """How long to wait at most, by now; 0: not at all."""
        if not self._is_receiving() or self._is_urgent():
            return 0.0
        return until_s - self._clock_s()

    def _is_receiving(self) -> bool:
        return self._requests > 0 or self._pause_left_s() > 0

    def _pause_left_s(self) -> float:
        return max(0.0, self._ended_at_s + self._pause_s - self._clock_s())
