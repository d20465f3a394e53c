"""The pool of worker processes."""

import asyncio
import itertools
import logging
import os
import socket
import sys
import time
from asyncio.subprocess import Process
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from spanscore.assemble.assembler import Cut
from spanscore.telemetry import Meter, declared
from spanscore.workers.messages import (
    LENGTH,
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

_START_S: Final = 60.0
_END_S: Final = 5.0


@dataclass(slots=True)
class Running:
    """A process, and what leads to it."""

    process: Process
    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter
    since_s: float
    """When it was started, by `time.monotonic`."""

    async def message(self) -> bytes:
        """The next message, without its length. Raises OSError or EOFError where there is none."""
        (size,) = LENGTH.unpack(await self.reader.readexactly(LENGTH.size))
        return await self.reader.readexactly(size)

    async def end(self) -> int:
        """Have the process end, and wait until it has; its return code."""
        self.writer.close()
        try:
            async with asyncio.timeout(_END_S):
                return await self.process.wait()
        except TimeoutError:
            self.process.kill()
            return await self.process.wait()


async def started(setup: bytes) -> Running:
    """A process that has read its setup, a message, and takes batches.

    Raises OSError or EOFError where it does not come up.
    """
    ours, theirs = socket.socketpair()
    try:
        with theirs:
            process = await _process(theirs.fileno())
        reader, writer = await asyncio.open_connection(sock=ours)
    except BaseException:
        ours.close()  # a process that was started nevertheless ends by that
        raise
    running = Running(process, reader, writer, time.monotonic())
    try:
        async with asyncio.timeout(_START_S):
            writer.write(setup)
            await running.message()
    except BaseException:
        await running.end()
        raise
    return running


async def _process(number: int) -> Process:
    """A process that has the socket with this file descriptor."""
    command = (sys.executable, "-P", "-m", "spanscore.workers.process", str(number))
    path = os.pathsep.join(x or str(Path.cwd()) for x in sys.path)
    return await asyncio.create_subprocess_exec(
        *command, pass_fds=(number,), env={**os.environ, "PYTHONPATH": path}
    )


_PATIENCE_S: Final = 1.0
"""A batch that takes longer keeps none waiting behind it."""

LIMIT_S: Final = 60.0
"""What a batch may take, which is some MiB: a process that takes longer is killed. Each of what is
in it may take longer by itself.
"""


@dataclass(slots=True, eq=False)
class Sent:
    """A message, and where its answer is waited for."""

    message: Batch | SessionKeys | Alone
    answer: "asyncio.Future[Any]"
    is_moved: bool = False
    """Whether a second process is to get it, since the first is slow with another one."""


@dataclass(slots=True)
class Place:
    """The place of one process, which may have had others before it.

    Times are by `time.monotonic`.
    """

    running: Running | None = None
    """None while no process takes batches."""

    sent: "deque[Sent]" = field(default_factory=deque)
    """Batches without an answer, in the order in which the process works on them."""

    working_since_s: float = 0.0
    """When the process began with the first of them."""

    has_answered: asyncio.Event = field(default_factory=asyncio.Event)
    """Set with each answer."""

    batches: int = 0
    restarts: int = 0
    fault: str | None = None
    """Why no process runs: how the last one ended, or why the next did not start."""

    def give(self, sent: Sent, now_s: float) -> None:
        """The process gets a batch."""
        if not self.sent:
            self.working_since_s = now_s
        self.sent.append(sent)

    def take_answered(self, now_s: float) -> Sent:
        """The batch that the process has just answered; it begins with the next one."""
        self.batches += 1
        self.working_since_s = now_s
        self.has_answered.set()
        return self.sent.popleft()

    def take_back(self) -> tuple[Sent | None, list[Sent]]:
        """The process is dead: the batch that it worked on, and those that it had not begun and
        that no other process has.
        """
        first = self.sent.popleft() if self.sent else None
        others = [x for x in self.sent if not x.is_moved]
        for sent in self.sent:
            sent.is_moved = False  # one process is left that has it, or none
        self.sent.clear()
        return first, others

    def is_overdue(self, now_s: float) -> bool:
        """Whether the process takes too long for its batch."""
        return bool(self.sent) and now_s - self.working_since_s > LIMIT_S

    def is_slow(self, now_s: float) -> bool:
        """Whether the process takes so long for its batch that no other one is to wait for it."""
        return bool(self.sent) and now_s - self.working_since_s > _PATIENCE_S

    def is_engaged(self, now_s: float) -> bool:
        """Whether a batch that it gets now would have to wait for one that takes long."""
        return self.is_slow(now_s) or (bool(self.sent) and isinstance(self.sent[0].message, Alone))

    def works_on(self, sent: Sent) -> bool:
        """Whether this is the batch that the process works on."""
        return bool(self.sent) and self.sent[0] is sent

    def to_json(self) -> dict[str, Any]:
        """As the health endpoint shows it."""
        state = "starting" if self.running is None else "working" if self.sent else "idle"
        found: dict[str, Any] = {
            "pid": None if self.running is None else self.running.process.pid,
            "state": state,
            "batches": self.batches,
            "restarts": self.restarts,
        }
        return found if self.fault is None else found | {"fault": self.fault}


def to_move(places: Sequence[Place], now_s: float) -> Iterator[Sent]:
    """Batches that wait behind a slow one, which the next process with room is to get.

    They stay where they are, too: whoever answers first has answered.
    """
    waiting = [
        sent
        for place in places
        if place.is_slow(now_s)
        for sent in list(place.sent)[1:]
        if not sent.is_moved and not sent.answer.done()
    ]
    for sent in waiting:
        sent.is_moved = True
        yield sent


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
