"""Read jobs in threads of this process."""

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from concurrent.futures import Executor, ThreadPoolExecutor
from contextvars import copy_context
from dataclasses import replace
from typing import Any

from spanscore.model.session_scope import in_scope
from spanscore.precedence import Precedence
from spanscore.turn_scheduling import ReadJob, TurnScheduler
from spanscore.workers.reading import Read

_THREADS = 2
"""One would be as fast, since Python runs one at a time; with two, a trace that takes long delays
no others.
"""


class InThreads:
    """Reads jobs one after the other; each gives way to requests that are being received."""

    def __init__(
        self,
        scheduler: TurnScheduler,
        session_scope: Sequence[str],
        *,
        precedence: Precedence | None = None,
        threads: Executor | None = None,
    ) -> None:
        """`session_scope` is as `in_scope` wants it; `threads` read in place of its own."""
        self._scheduler = scheduler
        self._session_scope = session_scope
        self._precedence = precedence or Precedence()
        self._threads = threads or ThreadPoolExecutor(_THREADS, thread_name_prefix="reading")

    async def read(self, jobs: Sequence[ReadJob]) -> Mapping[ReadJob, Read]:
        """See `JobReading.read`."""
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._threads, copy_context().run, self._read_all, jobs)

    async def read_one_by_one(self, jobs: Sequence[ReadJob]) -> AsyncIterator[tuple[ReadJob, Read]]:
        """See `JobReading.read_one_by_one`."""
        for job in jobs:
            yield job, (await self.read([job]))[job]

    def health(self) -> list[dict[str, Any]]:
        """See `JobReading.health`."""
        return []

    def _read_all(self, jobs: Sequence[ReadJob]) -> dict[ReadJob, Read]:
        return {job: self._read(job) for job in jobs}

    def _read(self, job: ReadJob) -> Read:
        self._precedence.give_way_in_thread()
        try:
            result = self._scheduler.read(job)
            return replace(result, traces=in_scope(result.traces, self._session_scope))
        except Exception as error:  # noqa: BLE001 - one trace must not stop the others
            return error
