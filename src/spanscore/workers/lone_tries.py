"""Have traces or sessions worked on one by one, after a worker process died while it worked on
several.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from typing import Final, TypeAlias, TypeVar

from spanscore.workers.pool import NotForkedError, WorkerDiedError
from spanscore.workers.reading import KillsWorkersError

TRIES: Final = ((0.0, 10.0), (1.0, 60.0), (10.0, 240.0))
"""Of each try the seconds before it, and those that it may take.

What else kills processes, such as a lack of memory that other traces cause, has time to pass. The
first try ends soon: it finds the traces that are innocent, which wait for its end.
"""

_FIRST_WAIT_S, _LONGEST_WAIT_S = 1.0, 30.0
"""Before a try for which the system had no process is made once more."""

_log = logging.getLogger(__name__)

Sleep: TypeAlias = Callable[[float], Awaitable[object]]
_Item = TypeVar("_Item")
_Answer = TypeVar("_Answer")


class LoneTries:
    """Tries things one by one. Belongs to one event loop.

    Several may be trying at once; of their first tries so many are under way as `at_once` allows,
    and of the later ones, which may take long, one.
    """

    def __init__(self, at_once: int = 1, sleep: Sleep = asyncio.sleep) -> None:
        self._sleep = sleep
        self._first = asyncio.Semaphore(at_once)
        self._later = asyncio.Semaphore(1)

    async def answers(
        self, items: Sequence[_Item], ask: Callable[[_Item, float], Awaitable[_Answer]]
    ) -> AsyncIterator[tuple[_Item, _Answer | KillsWorkersError]]:
        """What `ask` gives for each, at the first try at which no process dies.

        `ask` gets a thing and the seconds that it may take. Each answer comes when it is given.
        Those that kill processes come last, with a KillsWorkersError. A try for which the system
        has no process is made later, and counts as none. Raises whatever else `ask` raises.
        """
        how = ""
        for number, (pause_s, limit_s) in enumerate(TRIES):
            await self._sleep(pause_s)
            room = self._later if number else self._first
            died: list[_Item] = []
            for item in items:
                try:
                    answer = await self._asked(item, ask, limit_s, room)
                except WorkerDiedError as error:
                    died.append(item)
                    how = str(error)
                else:
                    yield item, answer
            items = died
            if not items:
                return
        reason = f"{len(TRIES)} worker processes died while they worked on it; the last {how}"
        for item in items:
            yield item, KillsWorkersError(reason)

    async def _asked(
        self,
        item: _Item,
        ask: Callable[[_Item, float], Awaitable[_Answer]],
        limit_s: float,
        room: asyncio.Semaphore,
    ) -> _Answer:
        wait_s = _FIRST_WAIT_S
        while True:
            try:
                async with room:
                    return await ask(item, limit_s)
            except NotForkedError as error:
                _log.warning(
                    "a worker process could not start one of its own to read or evaluate one trace"
                    " or session in (%s): the next try is in %g s; check the memory and the number"
                    " of processes and open files that the system allows",
                    error,
                    wait_s,
                )
            await self._sleep(wait_s)
            wait_s = min(wait_s * 2, _LONGEST_WAIT_S)
