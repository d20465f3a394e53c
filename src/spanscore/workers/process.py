"""What a worker process does: `python -m spanscore.workers.process SOCKET`, started by a
`WorkerPool`.

It ends when the server closes the other end of the socket, or has died. Signals that a terminal or
a supervisor sends to all processes of a server are for the server, which finishes what is under way
first.
"""

import ctypes
import gc
import os
import queue
import signal
import socket
import sys
import threading

from spanscore.store.reading import StoredSessions
from spanscore.telemetry import configure_logging
from spanscore.workers import messages
from spanscore.workers.answering import Answering
from spanscore.workers.scoring_sessions import ScoringSessions

_COLLECT_EVERY = 50_000
"""As in the server: objects between two collections."""

_PR_SET_PDEATHSIG = 1
"""From linux/prctl.h: the signal that a process gets when its parent dies."""


def main(number: int) -> None:
    """Answer what comes through the socket with this file descriptor, for as long as it is open."""
    _die_with_server()
    for name in (signal.SIGINT, signal.SIGTERM):
        signal.signal(name, signal.SIG_IGN)
    server = socket.socket(fileno=number)
    inbox: queue.SimpleQueue[bytes] = queue.SimpleQueue()
    threading.Thread(target=_listen, args=(server, inbox), name="server", daemon=True).start()
    setup: messages.Setup = messages.decode(inbox.get())
    configure_logging(setup.telemetry)
    answering = Answering(setup)
    sessions = None if setup.sessions is None else ScoringSessions(setup.sessions)
    gc.freeze()
    gc.set_threshold(_COLLECT_EVERY)
    server.sendall(messages.encode(messages.Ready()))
    while True:
        message: messages.Batch | StoredSessions = messages.decode(inbox.get())
        if isinstance(message, messages.Batch):
            server.sendall(messages.encode_answer(answering.answers(message)))
        elif sessions is not None:
            server.sendall(messages.encode_answer(sessions.scored(message)))


def _die_with_server() -> None:
    """Have Linux kill this process when the server dies.

    `_listen` cannot end the process while C code, such as a regular expression, keeps Python's
    lock. A server that died before this call has sent nothing to work on: `_listen` ends the
    process.
    """
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


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
