"""Event loops for programs that wait for an answer without one of their own, or within one that is
running; and waits that end together.
"""

import asyncio
import threading
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

ResultT = TypeVar("ResultT")


class Loop:
    """Runs coroutines for callers of any thread, also such as run an event loop themselves, which
    then waits.
    """

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(
            target=self._loop.run_forever, name="spanscore", daemon=True
        )
        self._thread.start()

    def run(self, work: Coroutine[Any, Any, ResultT]) -> ResultT:
        """The result of `work`. Raises what it raises; an interrupt cancels it."""
        future = asyncio.run_coroutine_threadsafe(work, self._loop)
        try:
            return future.result()
        except BaseException:
            future.cancel()
            raise

    def close(self) -> None:
        """Stop the thread; may be called again."""
        if not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join()
            self._loop.close()


async def next_multiple(period_s: float) -> None:
    """Wait until the loop's time is a multiple of `period_s`, for half a period at least and one
    and a half at most.

    Periodic work with one period, or a multiple of it, so wakes an idle process once and not each
    at its own time.
    """
    await asyncio.sleep(_wait_s(asyncio.get_running_loop().time(), period_s))


def _wait_s(now_s: float, period_s: float) -> float:
    """How long `next_multiple` waits.

    >>> _wait_s(10.25, 1.0), _wait_s(10.75, 1.0), _wait_s(11.0, 1.0)
    (0.75, 1.25, 1.0)
    """
    wait_s = period_s - now_s % period_s
    return wait_s if wait_s > period_s / 2 else wait_s + period_s


def waited_for(work: Callable[[], Coroutine[Any, Any, ResultT]]) -> ResultT:
    """The result of `work`, in an event loop of its own: in another thread where this one has a
    running loop.
    """
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(work())
    return _in_a_thread(work)


def _in_a_thread(work: Callable[[], Coroutine[Any, Any, ResultT]]) -> ResultT:
    """As `waited_for`; an interrupt of the waiting thread, as a notebook's stop button is, ends the
    work as well.
    """
    outcome: list[ResultT | BaseException] = []
    started: list[tuple[asyncio.AbstractEventLoop, asyncio.Task[Any]]] = []

    async def noted() -> ResultT:
        if (task := asyncio.current_task()) is not None:
            started.append((asyncio.get_running_loop(), task))
        return await work()

    def run() -> None:
        try:
            outcome.append(asyncio.run(noted()))
        except BaseException as error:  # noqa: BLE001 - it is raised where the result is waited for
            outcome.append(error)

    thread = threading.Thread(target=run, name="spanscore", daemon=True)
    thread.start()
    try:
        thread.join()
    except KeyboardInterrupt:
        for loop, task in started:
            loop.call_soon_threadsafe(task.cancel)
        raise
    [result] = outcome
    if isinstance(result, BaseException):
        raise result
    return result
