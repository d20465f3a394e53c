"""A pool of worker processes for functions."""

import ctypes
import os
import pickle
import queue
import signal
import socket
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import CancelledError, Future
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, NamedTuple, Self, TypeAlias, TypeVar

from spanscore.errors import SpanscoreError

ResultT = TypeVar("ResultT")

SetUp: TypeAlias = tuple[Callable[..., object], tuple[Any, ...]]
"""A function that each process calls first, and its arguments."""

MAX_WORKERS: Final = 256
"""Processes that a pool is to have at most: each has a thread of its own here."""

_LENGTH: Final = struct.Struct("<Q")
_START_S, _END_S = 60.0, 5.0
_LOOK_EVERY_S: Final = 1.0
"""How often a process that has nothing to do is looked at."""

_FIRST_WAIT_S, _LONGEST_WAIT_S = 0.1, 30.0
_HEALTHY_S: Final = 60.0
"""A process that lived so long, or has answered a call, is started again at once; of the others
each waits longer.
"""


_LOST: Final = (OSError, EOFError, MemoryError)
"""What is raised where a process has died, or its answer cannot be taken in."""


class WorkerDiedError(SpanscoreError):
    """A process died while it made a call; the text, the end of a sentence, says how."""


class NotForkedError(SpanscoreError):
    """The system gave no process for a call that was to have its own; the text has why."""


class _Call(NamedTuple):
    function: Callable[..., Any]
    arguments: tuple[Any, ...]
    limit_s: float | None
    about: str
    result: Future[Any]
    is_again: bool = False


@dataclass(slots=True)
class Place:
    """The place of one process, which may have had others before it."""

    process: "subprocess.Popen[bytes] | None" = None
    connection: socket.socket | None = None
    is_ready: bool = False
    """Whether the process takes calls."""

    is_working: bool = False
    calls: int = 0
    restarts: int = 0
    fault: str | None = None
    """Why no process runs: how the last one ended, or why the next did not start."""

    def start(self, set_up: SetUp | None) -> None:
        """Start a process. Raises OSError or EOFError where it does not come up."""
        self.connection, theirs = socket.socketpair()
        with theirs:
            self.process = _process(theirs.fileno())
        self.answer(pickle.dumps(set_up), _START_S)
        self.is_ready, self.fault = True, None

    def answer(self, message: bytes, limit_s: float | None) -> bytes:
        """What the process answers. Raises OSError or EOFError where it dies, or is too slow."""
        if self.connection is None:
            raise EOFError
        self.connection.settimeout(limit_s)
        _write(self.connection, message)
        return _read(self.connection)

    def end(self, error: Exception | None = None) -> str:
        """Have the process end; how it did, or why there is none, as the end of a sentence."""
        process, self.process = self.process, None
        self.is_ready = self.is_working = False
        limit_s = None if self.connection is None else self.connection.gettimeout()
        if self.connection is not None:
            self.connection.close()
        if process is None:
            return f"{type(error).__name__}: {error}"
        if error is None or isinstance(error, TimeoutError):
            process.kill()
        try:
            code = process.wait(_END_S)
        except subprocess.TimeoutExpired:
            process.kill()
            code = process.wait()
        if isinstance(error, TimeoutError):
            return f"had not ended after {limit_s:g} s"
        return _how(code)

    def stop(self) -> None:
        """Kill the process, whatever it does."""
        if (process := self.process) is not None:
            process.kill()
            process.wait()


class WorkerPool:
    """Worker processes that make calls, each one at a time, in the order in which the calls were
    submitted.

    Functions, arguments and results are pickled, so functions are those of modules. Processes are
    started with the first call, and again where they die; they do not notice Ctrl-C, and end with
    this process.
    """

    def __init__(
        self,
        count: int,
        set_up: SetUp | None = None,
        *,
        limit_s: float | None = None,
        is_patient: bool = False,
    ) -> None:
        """A process that takes longer than `limit_s` for a call is killed. Where none starts, calls
        wait if the pool `is_patient`, else they fail.
        """
        self.places = [Place() for _ in range(count)]
        self.calls: queue.SimpleQueue[_Call | None] = queue.SimpleQueue()
        self._set_up = set_up
        self._limit_s = limit_s
        self._is_patient = is_patient
        self._is_wanted = threading.Event()
        self._is_closed = threading.Event()
        self._threads = [
            threading.Thread(target=self._keep, args=(x,), name="worker process", daemon=True)
            for x in self.places
        ]
        for thread in self._threads:
            thread.start()

    def __len__(self) -> int:
        """How many processes there are to be."""
        return len(self.places)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        self.close()

    def start(self) -> None:
        """Start the processes before there is a call."""
        self._is_wanted.set()

    def submit(
        self,
        function: Callable[..., ResultT],
        *arguments: Any,
        limit_s: float | None = None,
        about: str = "",
    ) -> "Future[ResultT]":
        """Have a function called; `limit_s` is in place of the pool's.

        `about` names what with: then it is called once more where the process dies, for what killed
        it may not have been the call.

        The future raises what the function raised, and WorkerDiedError.
        """
        call = _Call(function, arguments, limit_s or self._limit_s, about, Future())
        if self._is_closed.is_set():
            call.result.cancel()
        else:
            self.calls.put(call)
            self.start()
        return call.result

    def close(self) -> None:
        """End all processes; calls that have no result are cancelled."""
        self._is_closed.set()
        self.start()
        self._refuse_waiting(CancelledError())
        for place in self.places:
            self.calls.put(None)
            place.stop()
        for thread in self._threads:
            thread.join(_END_S)

    def died(self, place: Place) -> None:
        """Called in any thread, when the process of a place has died."""

    def did_not_start(self, place: Place, wait_s: float) -> None:
        """Called in any thread; the next try is in so many seconds."""

    def _refuse_waiting(self, error: Exception) -> None:
        with suppress(queue.Empty):
            while True:
                call = self.calls.get_nowait()
                if call is not None and _is_begun(call.result):
                    call.result.set_exception(error)

    def _keep(self, place: Place) -> None:
        """Start and serve the processes of a place, one after the other."""
        self._is_wanted.wait()
        wait_s = _FIRST_WAIT_S
        while not self._is_closed.is_set():
            before, since_s = place.calls, time.monotonic()
            try:
                place.start(self._set_up)
            except _LOST as error:
                place.fault = f"a worker process did not start: {place.end(error)}"
                wait_s = min(wait_s * 2, _LONGEST_WAIT_S)
                self.did_not_start(place, wait_s)
                if not self._is_patient:
                    self._refuse_waiting(WorkerDiedError(place.fault))
            else:
                self._serve(place)
                is_sound = place.calls > before or time.monotonic() - since_s > _HEALTHY_S
                wait_s = _FIRST_WAIT_S if is_sound else min(wait_s * 2, _LONGEST_WAIT_S)
                place.restarts += 1
            self._is_closed.wait(wait_s)

    def _serve(self, place: Place) -> None:
        """Have the process of a place make calls, until it is dead or the pool closed."""
        call: _Call | None = None
        pid = place.process.pid if place.process is not None else None
        try:
            while not self._is_closed.is_set():
                call = None
                call = self._next(place)
                if call is not None and _is_begun(call.result):
                    self._make(place, call)
        except _LOST as error:
            how = place.end(error)
            place.fault = f"worker process {pid} {how}"
            if not self._is_closed.is_set():
                self.died(place)
            if call is not None:
                self._give_back(call, how)
        else:
            place.end()

    def _next(self, place: Place) -> _Call | None:
        """The next call; None where there is none within a second.

        Raises EOFError where the process has ended meanwhile.
        """
        call = None
        with suppress(queue.Empty):
            call = self.calls.get(timeout=_LOOK_EVERY_S)
        if place.process is None or place.process.poll() is not None:
            self.calls.put(call)
            raise EOFError
        return call

    def _make(self, place: Place, call: _Call) -> None:
        """Raises OSError or EOFError where the process dies of it."""
        place.is_working = True
        try:
            message = pickle.dumps((call.function, call.arguments), pickle.HIGHEST_PROTOCOL)
        except Exception as error:  # noqa: BLE001 - whoever waits for the result gets it
            call.result.set_exception(error)
        else:
            answer = place.answer(message, call.limit_s)
            place.calls += 1
            _settle(call.result, answer)
        place.is_working = False

    def _give_back(self, call: _Call, how: str) -> None:
        """The process is dead: the call that it made is made again, or fails."""
        if self._is_closed.is_set():
            call.result.set_exception(CancelledError())
        elif call.about and not call.is_again:
            self.calls.put(call._replace(is_again=True))
        elif call.about:
            how = (
                f"a worker process {how} while it worked on {call.about}, and so did a second one;"
                " where memory ran out use fewer workers, and to see what fails one alone"
            )
            call.result.set_exception(WorkerDiedError(how))
        else:
            call.result.set_exception(WorkerDiedError(how))


def _is_begun(result: Future[Any]) -> bool:
    """Whether a call is to be made, for the first time or once more; else nobody waits for it."""
    return result.running() or result.set_running_or_notify_cancel()


def _settle(result: Future[Any], answer: bytes) -> None:
    try:
        succeeded, found = pickle.loads(answer)  # noqa: S301 - what a process of this very program wrote
    except Exception as error:  # noqa: BLE001 - such as that of an error that takes other arguments
        succeeded, found = False, error
    if succeeded:
        result.set_result(found)
    else:
        result.set_exception(found)


def _process(number: int) -> "subprocess.Popen[bytes]":
    """A process that has the socket with this file descriptor."""
    command = [sys.executable, "-P", "-c", f"from {__name__} import serve; serve({number})"]
    path = os.pathsep.join(x or str(Path.cwd()) for x in sys.path)
    # In a group of its own, which Ctrl-C in the terminal does not reach: what was begun is ended by
    # this process.
    return subprocess.Popen(  # noqa: S603 - this very program
        command,
        pass_fds=(number,),
        stdin=subprocess.DEVNULL,
        stdout=2,
        env={**os.environ, "PYTHONPATH": path},
        process_group=0,
    )


def _how(code: int) -> str:
    """What ended a process with this return code."""
    return f"was killed by signal {-code}" if code < 0 else f"ended with {code}"


class _Served(NamedTuple):
    """What this process, a worker, was started with."""

    number: int
    set_up: SetUp | None


_served = _Served(-1, None)


def serve(number: int) -> None:
    """Make the calls that come through the socket with this file descriptor, until it is closed.

    What a function prints goes to standard error. Signals that a terminal or a supervisor sends to
    all processes are for the one that started this one.
    """
    global _served  # noqa: PLW0603 - there is one for a process
    die_with_parent()
    for name in (signal.SIGINT, signal.SIGTERM):
        signal.signal(name, signal.SIG_IGN)
    with socket.socket(fileno=number) as calls, suppress(EOFError, BrokenPipeError):
        _served = _Served(number, pickle.loads(_read(calls)))  # noqa: S301 - from the process that started this one
        _set_up(_served.set_up)
        _write(calls, b"")
        while True:
            _write(calls, _outcome(*pickle.loads(_read(calls))))  # noqa: S301 - as above


def _set_up(found: SetUp | None) -> None:
    if found is not None:
        function, arguments = found
        function(*arguments)


def _outcome(function: Callable[..., Any], arguments: tuple[Any, ...]) -> bytes:
    """Whether a function gave something, and what, else its error; pickled."""
    try:
        return pickle.dumps((True, function(*arguments)), pickle.HIGHEST_PROTOCOL)
    except Exception as error:  # noqa: BLE001 - raised again where the call was submitted
        return pickle.dumps((False, error), pickle.HIGHEST_PROTOCOL)


def _write(connection: socket.socket, content: bytes) -> None:
    connection.sendall(_LENGTH.pack(len(content)) + content)


def _read(connection: socket.socket) -> bytes:
    [size] = _LENGTH.unpack(_exactly(connection, _LENGTH.size))
    return bytes(_exactly(connection, size))


def _exactly(connection: socket.socket, size: int) -> bytearray:
    """So many bytes. Raises EOFError where the other end is closed before."""
    body = bytearray(size)
    view = memoryview(body)
    while view:
        count = connection.recv_into(view)
        if not count:
            raise EOFError
        view = view[count:]
    return body


def apart(function: Callable[..., ResultT], arguments: Sequence[Any], limit_s: float) -> ResultT:
    """Have a function called in a process of its own, which is forked from this worker process.

    What is open here, such as a database, must not be used there: it is set up anew. Raises
    WorkerDiedError where that process dies or takes longer than `limit_s` seconds, and
    NotForkedError where there can be none.
    """

    def work() -> bytes:
        _set_up(_served.set_up)
        return pickle.dumps(function(*arguments), pickle.HIGHEST_PROTOCOL)

    found: ResultT = pickle.loads(done_apart(work, limit_s, unneeded=_served.number))  # noqa: S301 - as above
    return found


_FAILED: Final = 70
"""The exit code of a process that has no answer; as `sysexits.h` has it for a fault within."""


def done_apart(work: Callable[[], bytes], limit_s: float, *, unneeded: int) -> bytes:
    """What `work` gives in a process of its own, which the system ends after `limit_s` seconds.

    It closes the file descriptor `unneeded`. No other thread may have a lock that `work` needs.
    Raises as `apart`.
    """
    try:
        reading, writing = os.pipe()
    except OSError as error:
        raise NotForkedError(str(error)) from None
    try:
        pid = os.fork()
    except OSError as error:  # such as too little memory, or too many processes
        os.close(reading)
        os.close(writing)
        raise NotForkedError(str(error)) from None
    if pid == 0:
        _work(work, limit_s, writing, close=(reading, unneeded))
    os.close(writing)
    with os.fdopen(reading, "rb") as answer:
        found = answer.read()
    _, status = os.waitpid(pid, 0)
    code = os.waitstatus_to_exitcode(status)
    if code:
        is_late = code == -signal.SIGALRM
        raise WorkerDiedError(f"had not ended after {limit_s:g} s" if is_late else _how(code))
    return found


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


_PR_SET_PDEATHSIG: Final = 1
"""From linux/prctl.h: the signal that a process gets when its parent dies."""


def die_with_parent() -> None:
    """Have Linux kill this process when the one that started it dies, whatever it is doing.

    C code that keeps Python's lock cannot put that off.
    """
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
