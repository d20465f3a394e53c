"""Read jobs in worker processes, and make of what they found what only this process knows."""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from spanscore.content import ContentNote
from spanscore.turn_scheduling import JobKind, ReadJob, ReadResult, TurnScheduler
from spanscore.workers.lone_tries import Sleep, tried_alone
from spanscore.workers.messages import Failed, Task
from spanscore.workers.pool import WorkerDiedError, WorkerPool
from spanscore.workers.reading import JobReading, KillsWorkersError, Read, ReadFailedError


class InProcesses:
    """Reads jobs in the processes of a pool; in this one what they cannot. Loses no job."""

    def __init__(
        self,
        pool: WorkerPool,
        scheduler: TurnScheduler,
        *,
        here: JobReading,
        noted: Callable[[ContentNote], None],
        sleep: Sleep = asyncio.sleep,
    ) -> None:
        """`here` reads in this process. `noted` is called with what the processes noted."""
        self._pool = pool
        self._scheduler = scheduler
        self._here = here
        self._noted = noted
        self._sleep = sleep

    async def read(self, jobs: Sequence[ReadJob]) -> Sequence[Read]:
        """See `JobReading.read`.

        A job is read once more where another trace turns out to refer to its trace.
        """
        found = await self._done([Task(job) for job in jobs])
        referred = [place for place, read in enumerate(found) if self._is_referred_to(read)]
        again = await self._done([Task(jobs[place], is_referred_to=True) for place in referred])
        for place, read in zip(referred, again, strict=True):
            found[place] = read
        return found

    def health(self) -> list[dict[str, Any]]:
        """See `JobReading.health`."""
        return self._pool.health()

    def _is_referred_to(self, read: Read) -> bool:
        """Whether what was read as an ordinary trace is none, since another refers to it."""
        if not isinstance(read, ReadResult) or read.job.kind is JobKind.TURN:
            return False
        is_referred_to = self._scheduler.is_referred_to(read.job, read.ids_of_calls, read.hints)
        return is_referred_to and read.fragment is None

    async def _done(self, tasks: Sequence[Task]) -> list[Read]:
        try:
            return await self._read_by_worker(tasks)
        except WorkerDiedError:  # one of them may have killed it
            return [await self._alone(task) for task in tasks]

    async def _alone(self, task: Task) -> Read:
        try:
            (read,) = await tried_alone(lambda: self._read_by_worker([task]), self._sleep)
        except KillsWorkersError as error:
            return error
        return read

    async def _read_by_worker(self, tasks: Sequence[Task]) -> list[Read]:
        if not tasks:
            return []
        answers = await self._pool.ask(tasks)
        for task, read, notes in zip(tasks, answers.read, answers.notes, strict=True):
            self._take_notes(task, read, notes)
        return [
            await self._taken(task.job, read)
            for task, read in zip(tasks, answers.read, strict=True)
        ]

    def _take_notes(
        self, task: Task, read: ReadResult | Failed, notes: Sequence[ContentNote]
    ) -> None:
        """Pass on what was noted of a trace, unless that is noted when it is read another time."""
        if task.is_referred_to:  # it was read before as an ordinary trace
            return
        if isinstance(read, Failed) and read.is_for_server:
            return
        for note in notes:
            self._noted(note)

    async def _taken(self, job: ReadJob, read: ReadResult | Failed) -> Read:
        if isinstance(read, ReadResult):
            return self._scheduler.marked(replace(read, job=job))
        if read.is_for_server:
            return (await self._here.read([job]))[0]
        return ReadFailedError(read.error, read.traceback)
