"""Read jobs in worker processes, and make of what they found what only this process knows."""

from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from spanscore.content import ContentNote
from spanscore.turn_scheduling import JobKind, ReadJob, ReadResult, TurnScheduler
from spanscore.workers.lone_tries import LoneTries
from spanscore.workers.messages import Answers, Failed, Task
from spanscore.workers.pool import NotForkedError, WorkerDiedError, WorkerPool
from spanscore.workers.reading import JobReading, Read, ReadFailedError


class InProcesses:
    """Reads jobs in the processes of a pool; in this one what they cannot. Loses no job."""

    def __init__(
        self,
        pool: WorkerPool,
        scheduler: TurnScheduler,
        *,
        here: JobReading,
        noted: Callable[[ContentNote], None],
        lone_tries: LoneTries,
    ) -> None:
        """`here` reads in this process. `noted` is called with what the processes noted."""
        self._pool = pool
        self._scheduler = scheduler
        self._here = here
        self._noted = noted
        self._lone_tries = lone_tries

    async def read(self, jobs: Sequence[ReadJob]) -> Mapping[ReadJob, Read]:
        """See `JobReading.read`."""
        try:
            return await self._read(jobs)
        except WorkerDiedError:  # one of them may have killed it
            return {}

    async def read_one_by_one(self, jobs: Sequence[ReadJob]) -> AsyncIterator[tuple[ReadJob, Read]]:
        """See `JobReading.read_one_by_one`."""
        async for found in self._lone_tries.answers(jobs, self._read_alone):
            yield found

    def health(self) -> list[dict[str, Any]]:
        """See `JobReading.health`."""
        return self._pool.health()

    def _is_referred_to(self, read: Read) -> bool:
        """Whether what was read as an ordinary trace is none, since another refers to it."""
        if not isinstance(read, ReadResult) or read.job.kind is JobKind.TURN:
            return False
        is_referred_to = self._scheduler.is_referred_to(read.job, read.ids_of_calls, read.hints)
        return is_referred_to and read.fragment is None

    async def _read_alone(self, job: ReadJob, limit_s: float) -> Read:
        try:
            return (await self._read([job], limit_s))[job]
        except (WorkerDiedError, NotForkedError):
            raise
        except Exception as error:  # noqa: BLE001 - one trace must not stop the others
            return error

    async def _read(
        self, jobs: Sequence[ReadJob], alone_s: float | None = None
    ) -> dict[ReadJob, Read]:
        """What was read of jobs; once more where another trace turns out to refer to the trace.

        Raises WorkerDiedError and NotForkedError.
        """
        tasks = [Task(job) for job in jobs]
        answers = await self._pool.ask(tasks, alone_s=alone_s)
        reads = await self._taken(tasks, answers)
        again = [Task(x, is_referred_to=True) for x in jobs if self._is_referred_to(reads[x])]
        if again:  # nothing is noted of these: they were read before as ordinary traces
            reads |= await self._taken(again, await self._pool.ask(again, alone_s=alone_s))
        self._pass_on_notes(answers)
        return reads

    def _pass_on_notes(self, answers: Answers) -> None:
        """Pass on what was noted of traces, but for those that the server has read itself."""
        for read, notes in zip(answers.read, answers.notes, strict=True):
            if isinstance(read, Failed) and read.is_for_server:
                continue
            for note in notes:
                self._noted(note)

    async def _taken(self, tasks: Sequence[Task], answers: Answers) -> dict[ReadJob, Read]:
        return {
            task.job: await self._taken_one(task.job, read)
            for task, read in zip(tasks, answers.read, strict=True)
        }

    async def _taken_one(self, job: ReadJob, read: ReadResult | Failed) -> Read:
        if isinstance(read, ReadResult):
            return self._scheduler.marked(replace(read, job=job))
        if read.is_for_server:
            return (await self._here.read([job]))[job]
        return ReadFailedError(read.error, read.traceback)
