"""Answers are kept by content, in bounded memory, and one question is under way once."""

import asyncio

import pytest

from spanscore.judge import Prompt
from spanscore.judge.cache import MemoryCache, SingleFlight, content_key

KEY = content_key("m", Prompt("i", "t", "q"), {"type": "object"}, {"temperature": 0.0})


def test_the_least_recently_used_entry_goes_first():
    cache = MemoryCache(2)
    cache.put({"a": "1", "b": "2"})
    cache.get(["a"])
    cache.put({"c": "3"})

    assert cache.get(["a", "b", "c"]) == {"a": "1", "c": "3"}


def test_the_key_is_the_same_for_the_same_content():
    assert content_key("m", Prompt("i", "t", "q"), {"type": "object"}, {"temperature": 0.0}) == KEY


@pytest.mark.parametrize(
    "other",
    [
        ("n", Prompt("i", "t", "q"), {"type": "object"}, {"temperature": 0.0}),
        ("m", Prompt("it", "", "q"), {"type": "object"}, {"temperature": 0.0}),
        ("m", Prompt("i", "t", "q"), {"type": "array"}, {"temperature": 0.0}),
        ("m", Prompt("i", "t", "q"), {"type": "object"}, {"temperature": 0.1}),
        ("m", Prompt("i", "t", "q", tenant="acme"), {"type": "object"}, {"temperature": 0.0}),
    ],
)
def test_the_key_is_another_for_other_content(other):
    assert content_key(*other) != KEY


def test_when_the_one_that_works_is_cancelled_another_takes_over():
    async def scenario():
        flights = SingleFlight()
        begun = asyncio.Event()

        async def stuck():
            begun.set()
            await asyncio.Event().wait()

        async def quick():
            return "done"

        first = asyncio.ensure_future(flights.run("k", stuck))
        await begun.wait()
        second = asyncio.ensure_future(flights.run("k", quick))
        await asyncio.sleep(0)
        first.cancel()
        return await second

    assert asyncio.run(scenario()) == ("done", False)


def test_one_that_waits_can_be_cancelled_without_harm():
    async def scenario():
        flights = SingleFlight()
        go = asyncio.Event()

        async def work():
            await go.wait()
            return "done"

        first = asyncio.ensure_future(flights.run("k", work))
        await asyncio.sleep(0)
        second = asyncio.ensure_future(flights.run("k", work))
        await asyncio.sleep(0)
        second.cancel()
        go.set()
        return await first

    assert asyncio.run(scenario()) == ("done", False)


def test_what_has_ended_is_not_remembered():
    async def scenario():
        flights = SingleFlight()
        results = iter("ab")

        async def work():
            return next(results)

        return [await flights.run("k", work) for _ in "ab"]

    assert asyncio.run(scenario()) == [("a", False), ("b", False)]
