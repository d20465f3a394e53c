"""A pool's worker processes: how soon one is started again, and messages that cannot be sent."""

import asyncio
import socket
from contextlib import suppress

import pytest

from spanscore.telemetry import Meter
from spanscore.workers import messages, pool, process
from spanscore.workers.messages import Answers, Ready
from spanscore.workers.pool import WorkerPool


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


async def message(reader):
    (size,) = messages.LENGTH.unpack(await reader.readexactly(messages.LENGTH.size))
    return await reader.readexactly(size)


class Setup:
    """One that processes here do not read."""

    sessions = None


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


async def asked(times):
    """What comes of asking a pool of one process so often."""
    workers = WorkerPool(Setup(), 1, Meter(), lambda _: {})
    await workers.start()
    running = asyncio.create_task(workers.run())
    found = [
        (await asyncio.gather(workers.ask([]), return_exceptions=True))[0] for _ in range(times)
    ]
    running.cancel()
    await asyncio.wait([running])
    await workers.close()
    return found


def test_a_process_that_answered_before_it_died_is_started_again_soon(waits, dying_after):
    dying_after(1)
    asyncio.run(asked(10))
    assert set(waits) == {0.1}


def test_each_process_that_dies_with_its_first_batch_waits_longer(waits, dying_after):
    dying_after(0)
    asyncio.run(asked(4))
    assert waits[:3] == [0.2, 0.4, 0.8]


def test_where_a_batch_cannot_be_sent_who_asked_gets_the_error(monkeypatch, dying_after):
    dying_after(5)
    encode = pool.encode

    def full(sent):
        if isinstance(sent, messages.Batch):
            raise MemoryError  # noqa: TRY004 - as where memory is short
        return encode(sent)

    monkeypatch.setattr(pool, "encode", full)
    assert [type(x) for x in asyncio.run(asked(3))] == [MemoryError] * 3


def test_a_pool_without_a_running_process_has_a_notice():
    assert "no worker process runs" in WorkerPool(Setup(), 2, Meter(), lambda _: {}).trouble


def test_a_process_without_memory_for_a_message_ends(monkeypatch):
    def full(_server, _size):
        raise MemoryError

    def end(code):
        raise SystemExit(code)

    monkeypatch.setattr(process, "_exactly", full)
    monkeypatch.setattr(process.os, "_exit", end)
    with pytest.raises(SystemExit, match="1"):
        process._listen(None, None)
