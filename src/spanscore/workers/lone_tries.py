"""Have one trace or session worked on by itself, after a worker process died."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final, TypeAlias, TypeVar

from spanscore.workers.pool import WorkerDiedError
from spanscore.workers.reading import KillsWorkersError

PAUSES_S: Final = (0.0, 1.0, 10.0)
"""Seconds before each try.

What else kills processes, such as a lack of memory that other traces cause, has time to pass.
"""

Sleep: TypeAlias = Callable[[float], Awaitable[object]]
_Answer = TypeVar("_Answer")


async def tried_alone(
    ask: Callable[[], Awaitable[_Answer]], sleep: Sleep = asyncio.sleep
) -> _Answer:
    """What `ask` gives at the first try at which no process dies.

    Raises KillsWorkersError where one dies at each try, and whatever else `ask` raises.
    """
    for pause_s in PAUSES_S:
        await sleep(pause_s)
        try:
            return await ask()
        except WorkerDiedError:
            continue
    raise KillsWorkersError(f"{len(PAUSES_S)} worker processes died while they worked on it")
