"""Readers of jobs and sessions: threads, or worker processes."""

import asyncio
import logging
import pickle
import threading
import time
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping, Sequence
from concurrent.futures import Executor, ThreadPoolExecutor
from contextvars import copy_context
from dataclasses import replace
from functools import partial
from typing import Any, Final, Protocol, TypeAlias, TypeVar

from spanscore import worker_processes
from spanscore.assemble.assembler import Cut
from spanscore.errors import SpanscoreError
from spanscore.evaluation.engine import BatchScores
from spanscore.model.trace import in_scope
from spanscore.telemetry import Meter, declared
from spanscore.threads import Precedence, Turns
from spanscore.turn_scheduling import JobKind, ReadJob, ReadResult, TurnScheduler
from spanscore.watches import ContentNote
from spanscore.worker_processes import NotForkedError, Place, WorkerDiedError, apart
from spanscore.workers import answers
from spanscore.workers.answers import Answers, Evaluating, Failed, Scored, SessionKeys, Setup, Task

_log = logging.getLogger(__name__)

LIMIT_S: Final = 60.0
"""What a batch may take, which is some MiB: a process that takes longer is killed. Each of what is
in it may take longer by itself.
"""


class WorkerPool(worker_processes.WorkerPool):
    """The worker processes of a server."""

    def __init__(
        self,
        setup: Setup,
        count: int,
        meter: Meter,
        checksums: Callable[[Iterable[Cut]], dict[int, int | None]],
    ) -> None:
        """Nothing is started yet.

        `checksums` are those of the requests with some traces, by row.
        """
        super().__init__(count, (answers.set_up, (setup,)), limit_s=LIMIT_S, is_patient=True)
        self.scores_sessions = setup.evaluation is not None
        """Whether the processes evaluate sessions."""
        self._checksums = checksums
        self._meter = meter
        meter.watch(declared.WORKERS_RUNNING, lambda: sum(x.is_ready for x in self.places))
        meter.watch(declared.WORKERS_CONFIGURED, lambda: len(self))
        meter.watch(
            declared.WORKERS_BATCHES,
            lambda: self.calls.qsize() + sum(x.is_working for x in self.places),
        )

    @property
    def trouble(self) -> str | None:
        """What is wrong where no process runs; None while the first are being started."""
        faults = [place.fault for place in self.places if place.fault is not None]
        if not faults or any(place.is_ready for place in self.places):
            return None
        return (
            "no worker process runs, so traces wait in the journal and are not scored; the server"
            f" goes on to start them, and its log contains what they logged. The last: {faults[-1]}"
        )

    def health(self) -> list[dict[str, Any]]:
        """What the health endpoint shows of each process."""
        return [_health(place) for place in self.places]

    async def run(self) -> None:
        """Start the processes, and start those again that die, until the pool is closed."""
        self.start()

    async def ask(self, tasks: Sequence[Task], *, alone_s: float | None = None) -> Answers:
        """What became of tasks.

        With `alone_s` they are done in a process of their own, which may take so many seconds.
        Raises WorkerDiedError where the process died that worked on them, and NotForkedError where
        there could be no process of their own.
        """
        checksums = self._checksums(cut for task in tasks for cut in task.job.cuts)
        found: Answers = await self._answer(answers.read_jobs, tasks, checksums, alone_s=alone_s)
        return found

    async def score(self, wanted: SessionKeys, *, alone_s: float | None = None) -> Scored | Failed:
        """The scores of sessions; the argument and the errors are as for `ask`."""
        found: Scored | Failed = await self._answer(answers.score_sessions, wanted, alone_s=alone_s)
        return found

    async def _answer(
        self, function: Callable[..., bytes], *arguments: Any, alone_s: float | None
    ) -> Any:
        if alone_s is None:
            made = self.submit(function, *arguments)
        else:
            made = self.submit(apart, function, arguments, alone_s, limit_s=alone_s + LIMIT_S)
        body = await asyncio.wrap_future(made)
        return await asyncio.to_thread(pickle.loads, body)  # written by this very program

    def died(self, place: Place) -> None:
        """See `worker_processes.WorkerPool.died`."""
        self._meter.add(declared.WORKERS_ENDED)
        _log.warning("%s; another is started, and what it was reading is read again", place.fault)

    def did_not_start(self, place: Place, wait_s: float) -> None:
        """See `worker_processes.WorkerPool.did_not_start`."""
        _log.error("%s; the next try is in %.1f s", place.fault, wait_s)


def _health(place: Place) -> dict[str, Any]:
    state = "starting" if not place.is_ready else "working" if place.is_working else "idle"
    found: dict[str, Any] = {
        "pid": place.process.pid if place.is_ready and place.process else None,
        "state": state,
        "batches": place.calls,
        "restarts": place.restarts,
    }
    return found if place.fault is None else found | {"fault": place.fault}


Read: TypeAlias = ReadResult | Exception
"""What was read of a job, or why it cannot be read."""


class JobReading(Protocol):
    """Reads the traces of jobs."""

    async def read(self, jobs: Sequence[ReadJob]) -> Mapping[ReadJob, Read]:
        """What was read of each job; nothing where a worker process died while it read them: they
        are to be read one by one.
        """
        ...

    def read_one_by_one(self, jobs: Sequence[ReadJob]) -> AsyncIterator[tuple[ReadJob, Read]]:
        """What was read of each job, when it was read. Jobs that kill worker processes come last,
        many minutes later.
        """
        ...

    def health(self) -> list[dict[str, Any]]:
        """What the health endpoint shows of each worker process."""
        ...


class ReadFailedError(SpanscoreError):
    """Another process could not read a job: the class of its error, and where it was raised.

    Log lines contain its text: `traceback` must not quote a trace.
    """

    def __init__(self, error: str, traceback: str) -> None:
        super().__init__(f"{error} in a worker process\n{traceback}")
        self.error = error


class KillsWorkersError(SpanscoreError):
    """Worker processes died each time that they worked on a trace or session."""


def reason(error: Exception) -> str:
    """Why a trace cannot be scored, in few words, and none of those that the trace contains."""
    if isinstance(error, KillsWorkersError):
        return str(error)
    return error.error if isinstance(error, ReadFailedError) else type(error).__name__


TRIES: Final = ((0.0, 10.0), (1.0, 60.0), (10.0, 240.0))
"""Of each try the seconds before it, and those that it may take.

What else kills processes, such as a lack of memory that other traces cause, has time to pass. The
first try ends soon: it finds the traces that are innocent, which wait for its end.
"""

_FIRST_WAIT_S, _LONGEST_WAIT_S = 1.0, 30.0
"""Before a try for which the system had no process is made once more."""

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


_THREADS = 2
"""They take turns; with two, a trace that takes long delays no others."""

_TURN_S: Final = 0.05
"""How long one goes on: after each change of threads a processor's caches hold what the other one
needs.
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
        evaluating: Evaluating | None = None,
        turns: Turns | None = None,
    ) -> None:
        """`session_scope` is as `in_scope` wants it; `threads` read in place of its own, when it is
        their turn by `turns`.

        `evaluating` makes the scores of what was read, where that needs nothing else, and those of
        sessions.
        """
        self._turns = turns or Turns()
        self._evaluating = evaluating
        self._is_evaluating = threading.Lock()
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
        found: dict[ReadJob, Read] = {}
        waiting = deque(jobs)
        while waiting:
            with self._turns.turn():
                until_s = time.monotonic() + _TURN_S
                while waiting and time.monotonic() < until_s:
                    job = waiting.popleft()
                    found[job] = self._read(job)
        return found

    def _read(self, job: ReadJob) -> Read:
        self._precedence.give_way_in_thread()
        try:
            result = self._scheduler.read(job)
            result = replace(result, traces=in_scope(result.traces, self._session_scope))
            return self._scored(result)
        except Exception as error:  # noqa: BLE001 - one trace must not stop the others
            return error

    def _scored(self, result: ReadResult) -> ReadResult:
        if self._evaluating is None or not self._is_evaluating.acquire(blocking=False):
            return result
        try:
            return self._evaluating.scored(result)
        finally:
            self._is_evaluating.release()

    def __len__(self) -> int:
        """How many evaluate sessions at once."""
        return 1

    async def score(self, wanted: SessionKeys, *, alone_s: float | None = None) -> Scored | Failed:
        """The scores of sessions."""
        del alone_s  # no thread can be ended
        score = partial(copy_context().run, self._turns.run, partial(self._session_scores, wanted))
        return await asyncio.get_running_loop().run_in_executor(self._threads, score)

    def _session_scores(self, wanted: SessionKeys) -> Scored | Failed:
        if self._evaluating is None:
            raise ValueError("nothing evaluates sessions here")
        with self._is_evaluating:
            return self._evaluating.sessions(wanted)


_OF_PROCESS: Final = 2
"""Batches of sessions that processes have or get next, for each process. Those that are tried one
by one, which may take minutes, do not count.
"""


class SessionsElsewhere:
    """Evaluates sessions in threads, or in the processes of a pool. Loses none where one dies."""

    def __init__(self, pool: "WorkerPool | InThreads", meter: Meter, lone_tries: LoneTries) -> None:
        self._pool = pool
        self._lone_tries = lone_tries
        self._meter = meter
        self._room = asyncio.Semaphore(_OF_PROCESS * len(pool))

    async def session_scores(
        self, keys: Sequence[str], tenant: str | None = None
    ) -> AsyncIterator[BatchScores]:
        """The scores of sessions; one that cannot be evaluated costs the others nothing.

        Large ones come in several batches. Where the process dies, or an error ends a batch, each
        session of it is evaluated by itself, and comes when it is.
        """
        while keys:
            try:
                async with self._room:
                    scored = await self._pool.score(SessionKeys(keys, tenant))
            except Exception:  # noqa: BLE001 - such as WorkerDiedError: one session may be the cause
                break
            if len(keys) > 1 and _is_error(scored):
                break
            rest = scored.rest if isinstance(scored, Scored) else ()
            yield self._batch(keys[: len(keys) - len(rest)], scored)
            keys = rest
        alone = partial(self._alone, tenant)
        async for key, answer in self._lone_tries.answers(keys, alone):
            yield self._batch([key], answer)

    async def _alone(
        self, tenant: str | None, key: str, limit_s: float
    ) -> Scored | Failed | Exception:
        try:
            return await self._pool.score(SessionKeys([key], tenant), alone_s=limit_s)
        except (WorkerDiedError, NotForkedError):
            raise
        except Exception as error:  # noqa: BLE001 - one session must not stop the others
            return error

    def _batch(self, keys: Sequence[str], scored: Scored | Failed | Exception) -> BatchScores:
        """What became of sessions."""
        if isinstance(scored, Scored):
            for labels in scored.decisions:
                self._meter.add(declared.RULES_DECISIONS, **labels)
            return BatchScores(keys, [*scored.scores])
        if isinstance(scored, Exception):
            return BatchScores(keys, failed={keys[0]: scored})
        if scored.is_for_server:
            return BatchScores(keys, for_server=keys)
        error = ReadFailedError(scored.error, scored.traceback)
        return BatchScores(keys, failed={keys[0]: error})


def _is_error(scored: Scored | Failed) -> bool:
    """Whether a session of the batch, which one is not known, cannot be evaluated."""
    return isinstance(scored, Failed) and not scored.is_for_server
