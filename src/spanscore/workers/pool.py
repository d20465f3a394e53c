"""The worker processes: started, given batches, and started again where one dies."""

import asyncio
import logging
import os
import socket
import sys
import time
from asyncio.subprocess import Process
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from spanscore.assemble.assembler import Cut
from spanscore.errors import ConfigError
from spanscore.store.reading import StoredSessions
from spanscore.telemetry import Meter, declared
from spanscore.workers.messages import (
    LENGTH,
    Answers,
    Batch,
    Failed,
    Scored,
    Setup,
    Task,
    decode,
    encode,
)

_log = logging.getLogger(__name__)

_BATCHES_AT_ONCE: Final = 2
"""Of one process: one that it works on, and one that it finds when it has done that."""

_FIRST_WAIT_S, _LONGEST_WAIT_S = 0.1, 30.0
_HEALTHY_S: Final = 60.0
"""A process that lived so long, or has answered a batch, is started again at once; of the others
each waits longer.
"""

_START_S: Final = 60.0
_END_S: Final = 5.0


class WorkerDiedError(Exception):
    """A worker process died while it worked on a batch."""


@dataclass(slots=True)
class _Sent:
    """A message, and where its answer is waited for."""

    message: Batch | StoredSessions
    answer: "asyncio.Future[Any]"


@dataclass(slots=True)
class _Running:
    """A process, and what leads to it."""

    process: Process
    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter
    since_s: float

    async def end(self) -> int:
        """Have the process end, and wait until it has; its return code."""
        self.writer.close()
        try:
            async with asyncio.timeout(_END_S):
                return await self.process.wait()
        except TimeoutError:
            self.process.kill()
            return await self.process.wait()


@dataclass(slots=True)
class _Place:
    """The place of one process, which may have had others before it."""

    running: _Running | None = None
    """None while no process takes batches."""

    sent: "deque[_Sent]" = field(default_factory=deque)
    """Batches without an answer, in the order in which the process works on them."""

    batches: int = 0
    restarts: int = 0

    def to_json(self) -> dict[str, Any]:
        """As the health endpoint shows it."""
        state = "starting" if self.running is None else "working" if self.sent else "idle"
        pid = None if self.running is None else self.running.process.pid
        return {"pid": pid, "state": state, "batches": self.batches, "restarts": self.restarts}


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
        self.scores_sessions = setup.sessions is not None
        """Whether the processes evaluate sessions."""
        self._setup = encode(setup)
        self._meter = meter
        self._places = [_Place() for _ in range(count)]
        self._waiting: asyncio.Queue[_Sent] = asyncio.Queue()
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
        """What is wrong where no process runs; else None."""
        if any(place.running is not None for place in self._places):
            return None
        return (
            "no worker process runs, so no trace is read; the server goes on to start them, and"
            " its log contains why they ended"
        )

    def health(self) -> list[dict[str, Any]]:
        """What the health endpoint shows of each process."""
        return [place.to_json() for place in self._places]

    async def start(self) -> None:
        """Start all processes. Raises ConfigError where one does not come up."""
        try:
            await asyncio.gather(*map(self._start, self._places))
        except (OSError, EOFError) as error:
            await self.close()
            raise ConfigError(
                f"workers: a worker process did not start ({type(error).__name__}: {error}); what"
                " it logged is above. With `workers: 1` the server does without"
            ) from error

    async def run(self) -> None:
        """Give the processes batches, and start those again that die, for ever."""
        async with asyncio.TaskGroup() as tasks:
            for place in self._places:
                tasks.create_task(self._keep(place))

    async def ask(self, tasks: Sequence[Task]) -> Answers:
        """What became of tasks.

        Raises WorkerDiedError where the process died that worked on them.
        """
        batch = Batch(tasks, self._checksums(cut for task in tasks for cut in task.job.cuts))
        answers: Answers = await self._answer(batch)
        return answers

    async def score(self, stored: StoredSessions) -> Scored | Failed:
        """The scores of sessions.

        Raises WorkerDiedError where the process died that worked on them.
        """
        scored: Scored | Failed = await self._answer(stored)
        return scored

    async def _answer(self, message: Batch | StoredSessions) -> Any:
        sent = _Sent(message, asyncio.get_running_loop().create_future())
        self._waiting.put_nowait(sent)
        return await sent.answer

    async def close(self) -> None:
        """End the processes, and wait until they have ended. Calling it again does nothing."""
        running = [place.running for place in self._places if place.running is not None]
        await asyncio.gather(*(x.end() for x in running))
        for place in self._places:
            place.running = None

    async def _keep(self, place: _Place) -> None:
        """Serve the process of a place, for ever one after the other."""
        wait_s = _FIRST_WAIT_S
        while True:
            if place.running is not None:
                before = place.batches
                lived_s = await self._serve(place, place.running)
                is_sound = place.batches > before or lived_s > _HEALTHY_S
                wait_s = _FIRST_WAIT_S if is_sound else min(wait_s * 2, _LONGEST_WAIT_S)
            await asyncio.sleep(wait_s)
            try:
                await self._start(place)
                place.restarts += 1
            except (OSError, EOFError) as error:
                wait_s = min(wait_s * 2, _LONGEST_WAIT_S)
                _log.error(
                    "a worker process did not start (%s); the next try is in %.1f s", error, wait_s
                )

    async def _start(self, place: _Place) -> None:
        """Start a process in a place. Raises OSError or EOFError where it does not come up."""
        ours, theirs = socket.socketpair()
        with theirs:
            number = theirs.fileno()
            command = (sys.executable, "-P", "-m", "spanscore.workers.process", str(number))
            path = os.pathsep.join(x or str(Path.cwd()) for x in sys.path)
            process = await asyncio.create_subprocess_exec(
                *command, pass_fds=(number,), env={**os.environ, "PYTHONPATH": path}
            )
        reader, writer = await asyncio.open_connection(sock=ours)
        running = _Running(process, reader, writer, time.monotonic())
        try:
            async with asyncio.timeout(_START_S):
                writer.write(self._setup)
                await _body(reader)
        except BaseException:
            await running.end()
            raise
        place.running = running

    async def _serve(self, place: _Place, running: _Running) -> float:
        """Exchange batches and answers until the process is dead; the seconds that it lived."""
        room = asyncio.Semaphore(_BATCHES_AT_ONCE)
        sending = asyncio.create_task(self._send(place, running.writer, room))
        try:
            await self._receive(place, running.reader, room)
        except (OSError, EOFError):
            code = await running.end()
            place.running = None  # not sooner: `close` ends those that it finds
            self._report(running.process.pid, code)
        finally:
            sending.cancel()
            await asyncio.wait([sending])
            self._give_back(place)
        return time.monotonic() - running.since_s

    async def _send(
        self, place: _Place, writer: asyncio.StreamWriter, room: asyncio.Semaphore
    ) -> None:
        # the process is dead, which is noticed by whoever waits for its answers
        with suppress(OSError):
            while True:
                await room.acquire()
                sent = await self._waiting.get()
                try:
                    message = encode(sent.message)
                except Exception as error:  # noqa: BLE001 - whoever waits for the answer gets it
                    room.release()
                    if not sent.answer.done():
                        sent.answer.set_exception(error)
                    continue
                place.sent.append(sent)
                writer.write(message)
                await writer.drain()

    async def _receive(
        self, place: _Place, reader: asyncio.StreamReader, room: asyncio.Semaphore
    ) -> None:
        """Raises OSError or EOFError where the process is dead."""
        while True:
            body = await _body(reader)
            try:
                answer = await asyncio.to_thread(decode, body)
            except Exception as error:
                raise EOFError("a worker process sent what cannot be read") from error
            sent = place.sent.popleft()
            place.batches += 1
            room.release()
            if not sent.answer.done():
                sent.answer.set_result(answer)

    def _give_back(self, place: _Place) -> None:
        """The process is dead: who waits for the batch that it worked on hears of that, the others
        wait on.
        """
        if place.sent and not (sent := place.sent.popleft()).answer.done():
            sent.answer.set_exception(WorkerDiedError())
        while place.sent:
            self._waiting.put_nowait(place.sent.popleft())

    def _report(self, pid: int, code: int) -> None:
        self._meter.add(declared.WORKERS_ENDED)
        how = f"was killed by signal {-code}" if code < 0 else f"ended with {code}"
        _log.warning(
            "worker process %d %s; another is started, and what it was reading is read again",
            pid,
            how,
        )


async def _body(reader: asyncio.StreamReader) -> bytes:
    """The next message without its length. Raises OSError or EOFError where there is none."""
    (size,) = LENGTH.unpack(await reader.readexactly(LENGTH.size))
    return await reader.readexactly(size)
