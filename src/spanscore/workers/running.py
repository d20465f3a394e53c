"""One worker process, from its start to its end, as the server sees it."""

import asyncio
import os
import socket
import sys
import time
from asyncio.subprocess import Process
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from spanscore.workers.messages import LENGTH

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
