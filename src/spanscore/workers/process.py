"""The program of a worker process.

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
from collections.abc import Callable
from contextlib import suppress

from spanscore import dialects, metrics, turns
from spanscore.telemetry import configure_logging
from spanscore.workers import messages
from spanscore.workers.answers import Answering, Evaluating
from spanscore.workers.messages import Died, NotForked

_COLLECT_EVERY = 50_000
"""As in the server: objects between two collections."""


class _Work:
    """What a process does. Not thread-safe."""

    def __init__(self, setup: messages.Setup) -> None:
        dialects.configure(setup.span_names)
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


_FAILED = 70
"""The exit code of a process that has no answer; as `sysexits.h` has it for a fault within."""


def done_apart(
    work: Callable[[], bytes], limit_s: float, *, unneeded: int
) -> bytes | Died | NotForked:
    """What `work` gives in a process of its own, which the system ends after `limit_s` seconds.

    It closes the file descriptor `unneeded`. No other thread may have a lock that `work` needs.
    """
    try:
        reading, writing = os.pipe()
    except OSError as error:
        return NotForked(str(error))
    try:
        pid = os.fork()
    except OSError as error:  # such as too little memory, or too many processes
        os.close(reading)
        os.close(writing)
        return NotForked(str(error))
    if pid == 0:
        _work(work, limit_s, writing, close=(reading, unneeded))
    os.close(writing)
    with os.fdopen(reading, "rb") as answer:
        found = answer.read()
    _, status = os.waitpid(pid, 0)
    code = os.waitstatus_to_exitcode(status)
    if code == -signal.SIGALRM:
        return Died(f"had not ended after {limit_s:g} s")
    return Died.with_code(code) if code else found


def _work(work: Callable[[], bytes], limit_s: float, writing: int, close: tuple[int, ...]) -> None:
    """Write what `work` gives, and end this process."""
    code = _FAILED
    with suppress(BaseException):
        for number in close:
            os.close(number)
        die_with_parent()
        # The system's own action, which C code that keeps Python's lock cannot put off.
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        signal.setitimer(signal.ITIMER_REAL, limit_s)
        with os.fdopen(writing, "wb") as answer:
            answer.write(work())
        code = os.EX_OK
    sys.stderr.flush()
    os._exit(code)


_PR_SET_PDEATHSIG = 1
"""From linux/prctl.h: the signal that a process gets when its parent dies."""


def die_with_parent() -> None:
    """Have Linux kill this process when the one that started it dies, whatever it is doing."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


if __name__ == "__main__":
    main(int(sys.argv[1]))
