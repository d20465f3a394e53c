"""The threads of requests are not those of all else."""

import asyncio
import threading
from concurrent.futures import wait
from functools import partial

from spanscore.threads import TenantThreads, answered_tenant, in_thread


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


def test_slow_requests_of_one_tenant_leave_threads_for_another():
    released = threading.Event()

    async def as_tenant(tenant, ask):
        answered_tenant.set(tenant)
        return await in_thread(ask)

    async def scenario():
        slow = [asyncio.create_task(as_tenant("acme", released.wait)) for _ in range(50)]
        try:
            async with asyncio.timeout(60):
                return await asyncio.create_task(as_tenant("blue", lambda: "answered"))
        finally:
            released.set()
            await asyncio.gather(*slow)

    assert asyncio.run(scenario()) == "answered"


def test_tenants_take_turns():
    threads, released, begun = TenantThreads(), threading.Event(), []
    first = [threads.submit("", released.wait) for _ in range(6)]
    later = [
        threads.submit(x, partial(begun.append, x))
        for x in ("acme", "acme", "acme", "blue", "blue")
    ]
    released.set()
    wait([*first, *later])
    assert begun.index("blue") <= 4
    assert sorted(begun) == ["acme"] * 3 + ["blue"] * 2


def test_what_nobody_waits_for_any_more_is_not_begun():
    threads, released, begun = TenantThreads(), threading.Event(), []
    busy = [threads.submit("", released.wait) for _ in range(6)]
    given_up = threads.submit("", lambda: begun.append(1))
    given_up.cancel()
    released.set()
    wait([*busy, threads.submit("", lambda: None)])
    assert begun == []
