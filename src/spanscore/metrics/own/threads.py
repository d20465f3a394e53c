"""Threads for custom functions, which may hang."""

import asyncio
import contextvars
import os
import threading
from collections.abc import Callable
from queue import SimpleQueue
from typing import Any

_AT_ONCE = 8
_MAX_LOST = 32


class _Job:
    """A function to be called once in a thread, for a coroutine that waits in `loop`.

    The futures are what the coroutine waits for, and cancelled with it; how far the thread is, the
    flags say.
    """

    def __init__(self, function: Callable[[], Any], loop: asyncio.AbstractEventLoop) -> None:
        self.begun: asyncio.Future[None] = loop.create_future()
        self.ended: asyncio.Future[tuple[Any, BaseException | None]] = loop.create_future()
        self.has_begun = False
        self.is_over = False
        self.is_given_up = False
        self._function = function
        self._loop = loop
        self._context = contextvars.copy_context()

    def run(self) -> tuple[Any, BaseException | None]:
        """Call the function; returns what it returned, or what it raised."""
        self._report(self.begun, None)
        try:
            return self._context.run(self._function), None
        except BaseException as error:  # noqa: BLE001 - a function that calls sys.exit() must end no thread
            return None, error

    def report(self, result: tuple[Any, BaseException | None]) -> None:
        """Let the coroutine have what `run` returned."""
        self._report(self.ended, result)

    def _report(self, future: asyncio.Future[Any], result: Any) -> None:
        def set_result() -> None:
            if not future.done():
                future.set_result(result)

        try:
            self._loop.call_soon_threadsafe(set_result)
        except RuntimeError:  # the loop was closed meanwhile: nobody waits any more
            return


class Threads:
    """Runs functions in a few daemon threads, which do not keep the process from ending.

    A thread whose function took too long is given up and another takes its place, up to a bound.
    """

    def __init__(self, at_once: int = _AT_ONCE, max_lost: int = _MAX_LOST) -> None:
        self._at_once = at_once
        self._max_lost = max_lost
        self._reset()
        if hasattr(os, "register_at_fork"):
            # a child has none of its parent's threads
            os.register_at_fork(after_in_child=self._reset)

    def _reset(self) -> None:
        self._lock = threading.Lock()
        self._jobs: SimpleQueue[_Job] = SimpleQueue()
        self._working = 0
        self._lost = 0

    async def call(self, function: Callable[[], Any], *, timeout_s: float, name: str) -> Any:
        """What `function` returns. `name` is what errors call it.

        Raises what it raises, and SystemExit and the like as RuntimeError; TimeoutError where it
        takes longer than `timeout_s` from when it begins; RuntimeError where too many threads have
        been given up.
        """
        job = _Job(function, asyncio.get_running_loop())
        self._enqueue(job, name)
        try:
            await job.begun
            async with asyncio.timeout(timeout_s):
                value, error = await job.ended
        except TimeoutError:
            raise TimeoutError(too_long(name, timeout_s)) from None
        finally:
            self._let_go(job)
        if error is None:
            return value
        if isinstance(error, Exception) and not isinstance(error, StopIteration):
            raise error
        raise RuntimeError(f"{name} raised {type(error).__name__}: {error}") from error

    def _enqueue(self, job: _Job, name: str) -> None:
        with self._lock:
            if self._lost >= self._max_lost:
                raise RuntimeError(
                    f"{name} was not called: {self._lost} threads hang in functions that do not"
                    " return; mend the metric that takes too long, and restart"
                )
            self._jobs.put(job)
            self._start_thread()

    def _start_thread(self) -> None:
        if self._working < self._at_once:
            self._working += 1
            threading.Thread(target=self._work, name="spanscore-metric", daemon=True).start()

    def _work(self) -> None:
        while True:
            job = self._jobs.get()
            with self._lock:
                job.has_begun = not job.is_given_up
            if not job.has_begun:  # nobody waits for it any more
                continue
            result = job.run()
            with self._lock:
                job.is_over = True
                if job.is_given_up:
                    self._lost -= 1  # another thread has taken the place of this one
                    return
            job.report(result)

    def _let_go(self, job: _Job) -> None:
        """Nobody waits for a job any more: if it has begun and is not over, another thread takes
        this one's place.
        """
        with self._lock:
            if job.is_over:
                return
            job.is_given_up = True
            if job.has_begun:
                self._lost += 1
                self._working -= 1
                self._start_thread()


def too_long(name: str, timeout_s: float) -> str:
    """What is said of a function that takes too long."""
    return (
        f"{name} took longer than {timeout_s:g} s; make it faster, or give it more time with"
        " timeout_s"
    )
