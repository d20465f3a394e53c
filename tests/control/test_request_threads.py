"""The threads of requests are not those of all else."""

import asyncio
import threading

from spanscore.control.request_threads import in_thread


def test_requests_that_take_long_leave_the_other_threads_free():
    released = threading.Event()

    async def scenario():
        slow = [asyncio.create_task(in_thread(released.wait)) for _ in range(50)]
        try:
            async with asyncio.timeout(60):
                return await asyncio.to_thread(lambda: "free")
        finally:
            released.set()
            await asyncio.gather(*slow)

    assert asyncio.run(scenario()) == "free"


def test_what_a_request_asks_for_is_raised_where_it_is_waited_for():
    async def scenario():
        try:
            await in_thread(int, "x")
        except ValueError as error:
            return str(error)

    assert "invalid literal" in asyncio.run(scenario())
