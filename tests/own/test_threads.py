"""Functions of other people run in a few threads, which are neither blocked for good nor
multiplied.
"""

import asyncio
import threading

import pytest

from spanscore.metrics.own.threads import Threads


class Hanging:
    """A function that does not return before it may."""

    def __init__(self):
        self.has_begun = threading.Event()
        self.may_return = threading.Event()

    def __call__(self):
        self.has_begun.set()
        self.may_return.wait()

    async def begun(self):
        await asyncio.to_thread(self.has_begun.wait, 30)


@pytest.fixture
def hanging():
    made = Hanging()
    yield made
    made.may_return.set()


def called(threads, function, timeout_s=60.0):
    return threads.call(function, timeout_s=timeout_s, name="the function")


def test_a_call_that_is_cancelled_before_its_turn_starts_no_thread(hanging):
    async def main():
        threads = Threads(at_once=1)
        running = asyncio.create_task(called(threads, hanging))
        await hanging.begun()
        queued = asyncio.create_task(called(threads, int))
        await asyncio.sleep(0)
        before = set(threading.enumerate())
        queued.cancel()
        await asyncio.wait([queued])
        started = set(threading.enumerate()) - before
        hanging.may_return.set()
        await running
        return started

    assert not asyncio.run(main())


def test_a_call_that_was_cancelled_before_its_turn_is_not_made(hanging):
    async def main():
        threads, calls = Threads(at_once=1), []
        running = asyncio.create_task(called(threads, hanging))
        await hanging.begun()
        queued = asyncio.create_task(called(threads, lambda: calls.append("queued")))
        await asyncio.sleep(0)
        queued.cancel()
        await asyncio.wait([queued])
        hanging.may_return.set()
        await running
        await called(threads, lambda: calls.append("next"))
        return calls

    assert asyncio.run(main()) == ["next"]


@pytest.mark.parametrize("is_cancelled", [False, True])
def test_a_function_that_hangs_gives_its_place_to_the_next(hanging, is_cancelled):
    async def main():
        threads = Threads(at_once=1)
        running = asyncio.create_task(
            called(threads, hanging, timeout_s=60.0 if is_cancelled else 0.01)
        )
        await hanging.begun()
        if is_cancelled:
            running.cancel()
        await asyncio.gather(running, return_exceptions=True)
        async with asyncio.timeout(30):
            return await called(threads, lambda: "answered")

    assert asyncio.run(main()) == "answered"


def test_a_thread_that_answers_goes_on_with_the_next_call():
    async def main():
        threads = Threads(at_once=1)
        return {await called(threads, threading.get_ident) for _ in range(20)}

    assert len(asyncio.run(main())) == 1


def test_no_more_functions_may_hang_than_the_bound(hanging):
    async def main():
        threads = Threads(at_once=1, max_lost=1)
        running = asyncio.create_task(called(threads, hanging))
        await hanging.begun()
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
        with pytest.raises(RuntimeError, match="1 threads hang"):
            await called(threads, int)

    asyncio.run(main())
