"""What a worker process does: `python -m spanscore.workers.process SOCKET`, started by a
`WorkerPool`.

It ends when the server closes the other end of the socket, or has died. Signals that a terminal or
a supervisor sends to all processes of a server are for the server, which finishes what is under way
first.
"""

import gc
import os
import queue
import signal
import socket
import sys
import threading

from spanscore import dialects, metrics, turns
from spanscore.telemetry import configure_logging
from spanscore.workers import messages
from spanscore.workers.answering import Answering
from spanscore.workers.apart import done_apart
from spanscore.workers.evaluating import Evaluating
from spanscore.workers.parent import die_with_parent

_COLLECT_EVERY = 50_000
"""As in the server: objects between two collections."""


class _Work:
    """What a process does. Not thread-safe."""

    def __init__(self, setup: messages.Setup) -> None:
        self._evaluating = None if setup.evaluation is None else Evaluating(setup.evaluation)
        self._answering = Answering(setup, self._evaluating)

    def answer(self, message: messages.Batch | messages.SessionKeys) -> bytes:
        """The answer to a message, with its length."""
        if isinstance(message, messages.Batch):
            return messages.encode_answer(self._answering.answers(message))
        if self._evaluating is None:
            raise ValueError("the setup has no sessions evaluated")
        return messages.encode_answer(self._evaluating.sessions(message))


def main(number: int) -> None:
    """Answer what comes through the socket with this file descriptor, for as long as it is open."""
    # `_listen` cannot end the process while C code, such as a regular expression, keeps Python's
    # lock. A server that died before this call has sent nothing to work on: `_listen` ends the
    # process.
    die_with_parent()
    for name in (signal.SIGINT, signal.SIGTERM):
        signal.signal(name, signal.SIG_IGN)
    server = socket.socket(fileno=number)
    inbox: queue.SimpleQueue[bytes] = queue.SimpleQueue()
    threading.Thread(target=_listen, args=(server, inbox), name="server", daemon=True).start()
    setup: messages.Setup = messages.decode(inbox.get())
    configure_logging(setup.telemetry)
    work = _Work(setup)
    import_readers()
    gc.freeze()
    gc.set_threshold(_COLLECT_EVERY)
    server.sendall(messages.encode(messages.Ready()))
    while True:
        message = messages.decode(inbox.get())
        if isinstance(message, messages.Alone):
            server.sendall(_answered_apart(setup, message, unneeded=number))
        else:
            server.sendall(work.answer(message))


def import_readers() -> None:
    """Import what reads and measures traces, which each process that is forked from here then has
    from the start.
    """
    for package in (dialects, turns):
        for name in package.__all__:
            getattr(package, name)
    dialects.all_dialects()
    metrics.available()


def _answered_apart(setup: messages.Setup, alone: messages.Alone, *, unneeded: int) -> bytes:
    """The answer of a process that is forked for this message.

    What is open here, such as the journal, must not be used there: it opens all anew.
    """
    answer = done_apart(
        lambda: _Work(setup).answer(alone.message), alone.limit_s, unneeded=unneeded
    )
    return answer if isinstance(answer, bytes) else messages.encode(answer)


def _listen(server: socket.socket, inbox: "queue.SimpleQueue[bytes]") -> None:
    """Take in messages. Where there will be no more, the process ends, whatever it is doing."""
    try:
        while True:
            (size,) = messages.LENGTH.unpack(_exactly(server, messages.LENGTH.size))
            inbox.put(_exactly(server, size))
    except OSError:
        os._exit(0)
    except BaseException:  # noqa: BLE001 - such as no memory for a message
        os._exit(1)  # the server reports the death; without this thread `main` waits for ever


def _exactly(server: socket.socket, size: int) -> bytes:
    """So many bytes. Raises OSError where the other end is closed before."""
    body = bytearray(size)
    view = memoryview(body)
    while view:
        count = server.recv_into(view)
        if not count:
            raise ConnectionResetError
        view = view[count:]
    return bytes(body)


if __name__ == "__main__":
    main(int(sys.argv[1]))
