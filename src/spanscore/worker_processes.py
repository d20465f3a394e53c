"""A pool of worker processes for functions."""

import contextlib
import os
import pickle
import queue
import signal
import struct
import subprocess
import sys
import threading
from collections.abc import Callable
from concurrent.futures import CancelledError, Future
from typing import IO, Any, NamedTuple, Self, TypeVar

from spanscore.errors import SpanscoreError

ResultT = TypeVar("ResultT")

_LENGTH = struct.Struct("!Q")
_TRIES = 2
"""How often a call is made whose process dies: what killed it may not have been the call."""

MAX_WORKERS = 256
"""Processes that a pool is to have at most: each has a thread of its own here."""

_END_S = 5.0
"""How long a process may take to end once it was asked to."""


class WorkerDiedError(SpanscoreError):
    """A worker process ended while it made a call, and another one that was started for the same
    call as well.
    """


class _Call(NamedTuple):
    function: Callable[..., Any]
    arguments: tuple[Any, ...]
    about: str
    result: Future[Any]


class WorkerPool:
    """Worker processes that make calls, each one at a time, in the order in which the calls were
    submitted.

    Functions, arguments and results are pickled, so functions are those of modules. Processes are
    started as they are needed; they do not notice Ctrl-C, and end with this process.
    """

    def __init__(self, count: int) -> None:
        """`count` processes at most."""
        self._calls: queue.SimpleQueue[_Call | None] = queue.SimpleQueue()
        self._is_closed = False
        self._workers = [_Worker() for _ in range(count)]
        self._threads = [
            threading.Thread(
                target=self._make_calls, args=(worker,), name="worker process", daemon=True
            )
            for worker in self._workers
        ]
        for thread in self._threads:
            thread.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        self.close()

    @property
    def count(self) -> int:
        """How many processes there are at most."""
        return len(self._workers)

    def submit(
        self, function: Callable[..., ResultT], *arguments: Any, about: str
    ) -> "Future[ResultT]":
        """Have a function called; `about` names what with, for the error where a process dies of
        it.

        The future raises what the function raised, and WorkerDiedError.
        """
        call = _Call(function, arguments, about, Future())
        if self._is_closed:
            call.result.cancel()
        else:
            self._calls.put(call)
        return call.result

    def close(self) -> None:
        """End all processes; calls that have no result are cancelled."""
        self._is_closed = True
        with contextlib.suppress(queue.Empty):
            while True:
                call = self._calls.get_nowait()
                if call is not None:
                    call.result.cancel()
        for _ in self._threads:
            self._calls.put(None)
        for worker in self._workers:
            worker.stop()
        for thread in self._threads:
            thread.join(_END_S)

    def _make_calls(self, worker: "_Worker") -> None:
        while (call := self._calls.get()) is not None:
            if call.result.set_running_or_notify_cancel():
                self._make(worker, call)
        worker.stop()

    def _make(self, worker: "_Worker", call: _Call) -> None:
        try:
            succeeded, result = self._answer(worker, call)
        except BaseException as error:  # noqa: BLE001 - whatever it is, somebody waits for the result
            call.result.set_exception(error)
            return
        if succeeded:
            call.result.set_result(result)
        else:
            call.result.set_exception(result)

    def _answer(self, worker: "_Worker", call: _Call) -> Any:
        for _ in range(_TRIES):
            try:
                return worker.answer((call.function, call.arguments))
            except (EOFError, BrokenPipeError):
                how = worker.ended()
                if self._is_closed:
                    raise CancelledError from None
        raise WorkerDiedError(
            f"a worker process ended ({how}) while it worked on {call.about}, and so did a second"
            " one; where memory ran out use fewer workers, and to see what fails one alone"
        )


class _Worker:
    """A process that makes calls, and another one where it has died."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None
        self._is_stopped = False

    def answer(self, call: object) -> Any:
        """What a call gives.

        Raises EOFError or BrokenPipeError where the process ended meanwhile, and CancelledError
        where it was stopped before it began.
        """
        process = self._process or self._start()
        _send(process.stdin, call)
        return _receive(process.stdout)

    def _start(self) -> "subprocess.Popen[bytes]":
        process = self._process = _started()
        if self._is_stopped:  # while the process was started: `stop` saw none
            self.stop()
            raise CancelledError
        _send(process.stdin, sys.path)
        return process

    def ended(self) -> str:
        """How the process ended, in words; the next call starts another one."""
        process, self._process = self._process, None
        if process is None:
            return "before it began"
        try:
            code = process.wait(_END_S)
        except subprocess.TimeoutExpired:
            process.kill()
            code = process.wait()
        _close(process)
        return f"killed by {signal.Signals(-code).name}" if code < 0 else f"exit code {code}"

    def stop(self) -> None:
        """End the process, whatever it does; no other one is started."""
        self._is_stopped = True
        process = self._process
        if process is not None:
            process.kill()
            process.wait()


def _started() -> "subprocess.Popen[bytes]":
    command = [sys.executable, "-P", "-c", f"from {__name__} import serve; serve()"]
    # In a group of its own, which Ctrl-C in the terminal does not reach: what was begun is ended by
    # this process.
    return subprocess.Popen(  # noqa: S603 - this very program
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, process_group=0
    )


def _close(process: "subprocess.Popen[bytes]") -> None:
    for stream in (process.stdin, process.stdout):
        if stream is not None:
            with contextlib.suppress(OSError):
                stream.close()


def serve() -> None:
    """Make the calls that standard input contains until it ends, and write what they give to
    standard output.

    What a function itself prints goes to standard error.
    """
    with (
        # Around the streams: closing writes what the pipe did not take, and fails once more.
        contextlib.suppress(EOFError, BrokenPipeError),
        os.fdopen(os.dup(0), "rb") as calls,
        os.fdopen(os.dup(1), "wb") as results,
    ):
        nothing = os.open(os.devnull, os.O_RDONLY)
        os.dup2(nothing, 0)
        os.dup2(2, 1)
        sys.path[:] = _receive(calls)
        while True:
            _write(results, _outcome(*_receive(calls)))


def _outcome(function: Callable[..., Any], arguments: tuple[Any, ...]) -> bytes:
    """Whether a function gave something, and what, else its error; pickled."""
    try:
        return _pickled((True, function(*arguments)))
    except Exception as error:  # noqa: BLE001 - raised again where the call was submitted
        return _pickled((False, error))


def _pickled(item: object) -> bytes:
    return pickle.dumps(item, pickle.HIGHEST_PROTOCOL)


def _send(stream: IO[bytes] | None, item: object) -> None:
    if stream is not None:
        _write(stream, _pickled(item))


def _write(stream: IO[bytes], content: bytes) -> None:
    stream.write(_LENGTH.pack(len(content)))
    stream.write(content)
    stream.flush()


def _receive(stream: IO[bytes] | None) -> Any:
    if stream is None:
        raise EOFError
    [length] = _LENGTH.unpack(_exactly(stream, _LENGTH.size))
    return pickle.loads(_exactly(stream, length))  # noqa: S301 - what a process of this very program wrote


def _exactly(stream: IO[bytes], count: int) -> bytes:
    content = stream.read(count)
    if len(content) < count:
        raise EOFError
    return content
