"""The worker processes: started, given batches, and started again where one dies."""

import asyncio
import itertools
import logging
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from typing import Any, Final

from spanscore.assemble.assembler import Cut
from spanscore.telemetry import Meter, declared
from spanscore.workers.messages import (
    Alone,
    Answers,
    Batch,
    Died,
    Failed,
    NotForked,
    Scored,
    SessionKeys,
    Setup,
    Task,
    decode,
    encode,
)
from spanscore.workers.places import LIMIT_S, Place, Sent, to_move
from spanscore.workers.running import Running, started

_log = logging.getLogger(__name__)

_BATCHES_AT_ONCE: Final = 2
"""Of one process: one that it works on, and one that it finds when it has done that.

It gets no second one while the first takes long.
"""

_FIRST_WAIT_S, _LONGEST_WAIT_S = 0.1, 30.0
_HEALTHY_S: Final = 60.0
"""A process that lived so long, or has answered a batch, is started again at once; of the others
each waits longer.
"""

_LOOK_EVERY_S: Final = 1.0
"""How often the pool looks for processes that take long."""


class WorkerDiedError(Exception):
    """A process died while it worked on a batch; the text, the end of a sentence, says how."""


class NotForkedError(Exception):
    """The system gave no process for what was to be done in one of its own; the text has why."""


class WorkerPool:
    """Some worker processes. Belongs to one event loop."""

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
        self._checksums = checksums
        self.scores_sessions = setup.evaluation is not None
        """Whether the processes evaluate sessions."""
        self._setup = encode(setup)
        self._meter = meter
        self._places = [Place() for _ in range(count)]
        self._numbers = itertools.count()
        self._waiting: asyncio.PriorityQueue[tuple[bool, int, Sent]] = asyncio.PriorityQueue()
        meter.watch(
            declared.WORKERS_RUNNING, lambda: sum(x.running is not None for x in self._places)
        )
        meter.watch(declared.WORKERS_CONFIGURED, lambda: len(self._places))
        meter.watch(
            declared.WORKERS_BATCHES,
            lambda: self._waiting.qsize() + sum(len(x.sent) for x in self._places),
        )

    def __len__(self) -> int:
        """How many processes there are to be."""
        return len(self._places)

    @property
    def trouble(self) -> str | None:
        """What is wrong where no process runs; None while the first are being started."""
        faults = [place.fault for place in self._places if place.fault is not None]
        if not faults or any(place.running is not None for place in self._places):
            return None
        return (
            "no worker process runs, so traces wait in the journal and are not scored; the server"
            f" goes on to start them, and its log contains what they logged. The last: {faults[-1]}"
        )

    def health(self) -> list[dict[str, Any]]:
        """What the health endpoint shows of each process."""
        return [place.to_json() for place in self._places]

    async def run(self) -> None:
        """Start the processes, give them batches, and start those again that die, for ever."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._watch())
            for place in self._places:
                tasks.create_task(self._keep(place))

    async def ask(self, tasks: Sequence[Task], *, alone_s: float | None = None) -> Answers:
        """What became of tasks.

        With `alone_s` they are done in a process of their own, which may take so many seconds.
        Raises WorkerDiedError where the process died that worked on them, and NotForkedError where
        there could be no process of their own.
        """
        batch = Batch(tasks, self._checksums(cut for task in tasks for cut in task.job.cuts))
        answers: Answers = await self._answer(batch, alone_s)
        return answers

    async def score(self, wanted: SessionKeys, *, alone_s: float | None = None) -> Scored | Failed:
        """The scores of sessions; the argument and the errors are as for `ask`."""
        scored: Scored | Failed = await self._answer(wanted, alone_s)
        return scored

    async def _answer(self, message: Batch | SessionKeys, alone_s: float | None) -> Any:
        sent = Sent(
            message if alone_s is None else Alone(message, alone_s),
            asyncio.get_running_loop().create_future(),
        )
        self._put(sent)
        return await sent.answer

    def _put(self, sent: Sent, *, is_first: bool = False) -> None:
        """Have a message wait for a process: `is_first` if it comes before those that are new."""
        self._waiting.put_nowait((not is_first, next(self._numbers), sent))

    async def close(self) -> None:
        """End the processes, and wait until they have ended. Calling it again does nothing."""
        running = [place.running for place in self._places if place.running is not None]
        await asyncio.gather(*(x.end() for x in running))
        for place in self._places:
            place.running = None

    async def _watch(self) -> None:
        """Have no batch wait behind a slow one, and none last for ever."""
        while True:
            await asyncio.sleep(_LOOK_EVERY_S)
            now_s = time.monotonic()
            for sent in to_move(self._places, now_s):
                self._put(sent, is_first=True)
            for place in self._places:
                if place.running is not None and place.is_overdue(now_s):
                    place.fault = f"had not ended after {LIMIT_S:g} s"
                    with suppress(ProcessLookupError):
                        place.running.process.kill()  # noticed where its answer is waited for

    async def _keep(self, place: Place) -> None:
        """Start and serve the processes of a place, for ever one after the other."""
        wait_s = _FIRST_WAIT_S
        while True:
            try:
                running = place.running = await started(self._setup)
            except (OSError, EOFError) as error:
                wait_s = min(wait_s * 2, _LONGEST_WAIT_S)
                place.fault = f"a worker process did not start ({type(error).__name__}: {error})"
                _log.error("%s; the next try is in %.1f s", place.fault, wait_s)
            else:
                place.fault = None
                before = place.batches
                lived_s = await self._serve(place, running)
                is_sound = place.batches > before or lived_s > _HEALTHY_S
                wait_s = _FIRST_WAIT_S if is_sound else min(wait_s * 2, _LONGEST_WAIT_S)
                place.restarts += 1
            await asyncio.sleep(wait_s)

    async def _serve(self, place: Place, running: Running) -> float:
        """Exchange batches and answers until the process is dead; the seconds that it lived."""
        room = asyncio.Semaphore(_BATCHES_AT_ONCE)
        sending = asyncio.create_task(self._send(place, running.writer, room))
        how = "was stopped"
        try:
            await self._receive(place, running, room)
        except (OSError, EOFError):
            code = await running.end()
            place.running = None  # not sooner: `close` ends those that it finds
            how = place.fault or Died.with_code(code).how
            place.fault = f"worker process {running.process.pid} {how}"
            self._meter.add(declared.WORKERS_ENDED)
            _log.warning(
                "%s; another is started, and what it was reading is read again", place.fault
            )
        finally:
            sending.cancel()
            await asyncio.wait([sending])
            self._give_back(place, how)
        return time.monotonic() - running.since_s

    async def _send(
        self, place: Place, writer: asyncio.StreamWriter, room: asyncio.Semaphore
    ) -> None:
        # the process is dead, which is noticed by whoever waits for its answers
        with suppress(OSError):
            while True:
                await room.acquire()
                sent = await self._next()
                if place.is_engaged(time.monotonic()):
                    room.release()
                    self._put(sent, is_first=True)
                    place.has_answered.clear()
                    await place.has_answered.wait()
                    continue
                try:
                    message = encode(sent.message)
                except Exception as error:  # noqa: BLE001 - whoever waits for the answer gets it
                    room.release()
                    sent.answer.set_exception(error)
                    continue
                place.give(sent, time.monotonic())
                writer.write(message)
                await writer.drain()

    async def _next(self) -> Sent:
        """The next message that still needs an answer, and that no process works on."""
        while True:
            *_, sent = await self._waiting.get()
            # else another process has answered it meanwhile, or nobody waits any more
            if not sent.answer.done() and not any(x.works_on(sent) for x in self._places):
                return sent

    async def _receive(self, place: Place, running: Running, room: asyncio.Semaphore) -> None:
        """Raises OSError or EOFError where the process is dead."""
        while True:
            body = await running.message()
            try:
                answer = await asyncio.to_thread(decode, body)
            except Exception as error:
                raise EOFError("a worker process sent what cannot be read") from error
            sent = place.take_answered(time.monotonic())
            room.release()
            if sent.answer.done():
                continue
            if isinstance(answer, Died):
                sent.answer.set_exception(WorkerDiedError(answer.how))
            elif isinstance(answer, NotForked):
                sent.answer.set_exception(NotForkedError(answer.reason))
            else:
                sent.answer.set_result(answer)

    def _give_back(self, place: Place, how: str) -> None:
        """The process is dead: who waits for the batch that it worked on hears of that, the others
        wait on.
        """
        first, others = place.take_back()
        if first is not None and not first.answer.done():
            first.answer.set_exception(WorkerDiedError(how))
        for sent in others:
            self._put(sent, is_first=True)
