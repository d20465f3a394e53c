"""A pool's worker processes: how soon one is started, what health has of them, and messages that
cannot be sent.
"""

import asyncio
import socket
from contextlib import asynccontextmanager, suppress

import pytest

from spanscore.telemetry import Meter
from spanscore.workers import messages, pool, process
from spanscore.workers.messages import Answers, NotForked, Ready
from spanscore.workers.pool import WorkerPool

LOOK_EVERY_S = pool._LOOK_EVERY_S


class Process:
    """A worker process that is a task: it answers so many batches and dies with the next."""

    pid = 1

    def __init__(self, number, batches):
        self.socket = socket.socket(fileno=socket.dup(number))
        self.batches = batches
        self.task = asyncio.create_task(self.work())

    async def work(self):
        reader, writer = await asyncio.open_connection(sock=self.socket)
        with suppress(asyncio.IncompleteReadError, OSError):
            await message(reader)
            writer.write(messages.encode(Ready()))
            for _ in range(self.batches):
                await message(reader)
                writer.write(messages.encode(Answers([], [])))
            await message(reader)
        writer.close()

    async def wait(self):
        await asyncio.shield(self.task)
        return 9


class Silent(Process):
    """A worker process that answers no batch, but can be killed."""

    @classmethod
    async def start(cls, *_command, pass_fds, env):
        return cls(pass_fds[0], 0)

    async def work(self):
        reader, writer = await asyncio.open_connection(sock=self.socket)
        with suppress(asyncio.CancelledError, asyncio.IncompleteReadError):
            await message(reader)
            writer.write(messages.encode(Ready()))
            await reader.read()
        writer.close()

    def kill(self):
        self.task.cancel()


class WithoutMemory(Process):
    """A worker process that gets no other for what is to be done alone."""

    @classmethod
    async def start(cls, *_command, pass_fds, env):
        return cls(pass_fds[0], 0)

    async def work(self):
        reader, writer = await asyncio.open_connection(sock=self.socket)
        await message(reader)
        writer.write(messages.encode(Ready()))
        await message(reader)
        writer.write(messages.encode(NotForked("Cannot allocate memory")))
        writer.close()


async def message(reader):
    (size,) = messages.LENGTH.unpack(await reader.readexactly(messages.LENGTH.size))
    return await reader.readexactly(size)


class Setup:
    """One that processes here do not read."""

    evaluation = None


@pytest.fixture
def waits(monkeypatch):
    """The seconds that pools waited before they started a process; they pass at once."""
    found, pause = [], asyncio.sleep

    async def wait(seconds):
        found.append(seconds)
        await pause(0)

    monkeypatch.setattr(pool.asyncio, "sleep", wait)
    return found


@pytest.fixture
def dying_after(monkeypatch):
    """Has each process die with the batch after so many."""

    def set_up(batches):
        async def start(*_command, pass_fds, env):
            return Process(pass_fds[0], batches)

        monkeypatch.setattr(pool.asyncio, "create_subprocess_exec", start)

    return set_up


@asynccontextmanager
async def running_pool(count=1):
    """A pool of so many processes that runs."""
    workers = WorkerPool(Setup(), count, Meter(), lambda _: {})
    working = asyncio.create_task(workers.run())
    try:
        yield workers
    finally:
        working.cancel()
        await asyncio.wait([working])
        await workers.close()


async def asked(times):
    """What comes of asking a pool of one process so often."""
    async with running_pool() as workers:
        return [
            (await asyncio.gather(workers.ask([]), return_exceptions=True))[0] for _ in range(times)
        ]


def test_a_process_that_answered_before_it_died_is_started_again_soon(waits, dying_after):
    dying_after(1)
    asyncio.run(asked(10))
    assert set(waits) - {LOOK_EVERY_S} == {0.1}


def test_each_process_that_dies_with_its_first_batch_waits_longer(waits, dying_after):
    dying_after(0)
    asyncio.run(asked(4))
    assert [x for x in waits if x != LOOK_EVERY_S][:3] == [0.2, 0.4, 0.8]


def test_where_a_batch_cannot_be_sent_who_asked_gets_the_error(monkeypatch, dying_after):
    dying_after(5)
    encode = pool.encode

    def full(sent):
        if isinstance(sent, messages.Batch):
            raise MemoryError  # noqa: TRY004 - as where memory is short
        return encode(sent)

    monkeypatch.setattr(pool, "encode", full)
    assert [type(x) for x in asyncio.run(asked(3))] == [MemoryError] * 3


def test_a_pool_whose_first_processes_are_being_started_has_no_notice():
    assert WorkerPool(Setup(), 2, Meter(), lambda _: {}).trouble is None


async def failed_start(monkeypatch):
    """A pool that could start no process, at its next try."""
    tried_again = asyncio.Event()

    async def start(*_command, **_options):
        if workers.trouble:
            tried_again.set()
        raise BlockingIOError(11, "Resource temporarily unavailable")

    monkeypatch.setattr(pool.asyncio, "create_subprocess_exec", start)
    async with running_pool() as workers:
        await tried_again.wait()
    return workers


@pytest.mark.usefixtures("waits")
def test_the_notice_of_a_pool_that_can_start_no_process_has_the_reason(monkeypatch):
    trouble = asyncio.run(failed_start(monkeypatch)).trouble
    assert "no worker process runs" in trouble
    assert "Resource temporarily unavailable" in trouble


@pytest.mark.usefixtures("waits")
def test_the_health_page_has_why_a_process_did_not_start(monkeypatch):
    (state,) = asyncio.run(failed_start(monkeypatch)).health()
    assert state["state"] == "starting"
    assert "Resource temporarily unavailable" in state["fault"]


async def ask_of_silent(monkeypatch):
    """What comes of a batch that a process does not end in time."""
    monkeypatch.setattr(pool, "LIMIT_S", -1.0)
    monkeypatch.setattr(pool.asyncio, "create_subprocess_exec", Silent.start)
    async with running_pool() as workers:
        return await workers.ask([])


@pytest.mark.usefixtures("waits")
def test_a_process_that_takes_too_long_for_a_batch_is_killed(monkeypatch):
    with pytest.raises(pool.WorkerDiedError, match="had not ended after"):
        asyncio.run(ask_of_silent(monkeypatch))


async def ask_without_memory(monkeypatch):
    monkeypatch.setattr(pool.asyncio, "create_subprocess_exec", WithoutMemory.start)
    async with running_pool() as workers:
        return await workers.ask([], alone_s=1.0)


def test_where_no_process_can_be_made_for_a_batch_who_asked_learns_why(monkeypatch):
    with pytest.raises(pool.NotForkedError, match="Cannot allocate memory"):
        asyncio.run(ask_without_memory(monkeypatch))


class Slow(Process):
    """The first of these answers nothing; each other one answers at once."""

    made = 0

    @classmethod
    async def start(cls, *_command, pass_fds, env):
        cls.made += 1
        return cls(pass_fds[0], 0 if cls.made == 1 else 1000)

    async def work(self):
        if self.batches:
            return await super().work()
        reader, writer = await asyncio.open_connection(sock=self.socket)
        await message(reader)
        writer.write(messages.encode(Ready()))
        await reader.read()
        writer.close()
        return None


async def ask_beside_a_slow_one(monkeypatch):
    """What comes of batches while the only other process works on one alone."""
    monkeypatch.setattr(Slow, "made", 0)
    monkeypatch.setattr(pool.asyncio, "create_subprocess_exec", Slow.start)
    monkeypatch.setattr(pool, "_PATIENCE_S", 300.0)
    async with running_pool(2) as workers:
        slow = asyncio.create_task(workers.ask([], alone_s=1.0))
        found = await asyncio.gather(*(workers.ask([]) for _ in range(20)))
        slow.cancel()
        return found


def test_no_batch_waits_behind_what_is_done_alone(monkeypatch):
    assert len(asyncio.run(ask_beside_a_slow_one(monkeypatch))) == 20


def test_a_process_without_memory_for_a_message_ends(monkeypatch):
    def full(_server, _size):
        raise MemoryError

    def end(code):
        raise SystemExit(code)

    monkeypatch.setattr(process, "_exactly", full)
    monkeypatch.setattr(process.os, "_exit", end)
    with pytest.raises(SystemExit, match="1"):
        process._listen(None, None)
