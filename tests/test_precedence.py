"""Requests go before work on what was received earlier."""

import asyncio
import itertools
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from spanscore.threads import Allowance, Precedence, Turns

MANY_ROUNDS = 20
"""Of the event loop: enough for all that does not wait to come to its end."""


async def rounds() -> None:
    for _ in range(MANY_ROUNDS):
        await asyncio.sleep(0)


def test_scoring_waits_until_the_request_is_answered():
    async def run() -> list[bool]:
        precedence = Precedence(longest_wait_s=3600, pause_s=0)
        with precedence.request():
            scoring = asyncio.create_task(precedence.give_way())
            await rounds()
            during = scoring.done()
        await rounds()
        return [during, scoring.done()]

    assert asyncio.run(run()) == [False, True]


def test_scoring_waits_for_the_last_of_several_requests():
    async def run() -> list[bool]:
        precedence = Precedence(longest_wait_s=3600, pause_s=0)
        with precedence.request():
            with precedence.request():
                scoring = asyncio.create_task(precedence.give_way())
            await rounds()
            during = scoring.done()
        await rounds()
        return [during, scoring.done()]

    assert asyncio.run(run()) == [False, True]


def test_scoring_goes_on_under_a_load_that_never_pauses():
    async def run() -> None:
        precedence = Precedence(longest_wait_s=0)
        with precedence.request():
            await precedence.give_way()

    asyncio.run(run())


def test_scoring_waits_no_longer_than_it_is_allowed_to():
    async def run() -> None:
        precedence = Precedence(
            longest_wait_s=3600, pause_s=3600, allowance=Allowance(share=0, saved_s=0)
        )
        with precedence.request():
            await precedence.give_way()
            precedence.give_way_in_thread()

    asyncio.run(run())


def test_under_a_load_that_never_pauses_waiting_takes_no_more_than_its_share_of_the_time():
    allowance = Allowance(share=0.25, saved_s=2)
    now_s = waited_s = 0.0
    while now_s < 60:
        wait_s = min(0.02, allowance.left_s(now_s))
        allowance.spend(wait_s)
        waited_s += wait_s
        now_s += wait_s + 0.001  # the work on one trace
    assert waited_s == pytest.approx(2 + 0.25 * 60, rel=0.01)


def test_waits_are_saved_up_to_a_bound_for_the_next_burst():
    allowance = Allowance(share=0.25, saved_s=2)
    assert allowance.left_s(0) == 2
    allowance.spend(2)
    assert allowance.left_s(0) == 0
    assert allowance.left_s(4) == 1
    assert allowance.left_s(1000) == 2


def test_scoring_does_not_wait_while_it_is_urgent():
    async def run() -> None:
        precedence = Precedence(is_urgent=lambda: True, longest_wait_s=3600)
        with precedence.request():
            await precedence.give_way()

    asyncio.run(run())


def test_each_trace_lets_the_event_loop_go_round_before_the_next():
    order: list[str] = []
    now_s = itertools.count()

    async def score(name: str, precedence: Precedence) -> None:
        await precedence.give_way()
        order.append(name)
        asyncio.get_running_loop().call_soon(order.append, f"what came during {name}")

    async def run() -> None:
        precedence = Precedence(pause_s=0, clock_s=lambda: next(now_s))
        await asyncio.gather(score("first", precedence), score("second", precedence))
        await rounds()

    asyncio.run(run())
    assert order == ["first", "what came during first", "second", "what came during second"]


def test_scoring_does_not_begin_between_two_requests_of_one_stream():
    async def run() -> bool:
        precedence = Precedence(longest_wait_s=3600, pause_s=3600)
        with precedence.request():
            pass
        scoring = asyncio.create_task(precedence.give_way())
        await rounds()
        scoring.cancel()
        return scoring.done()

    assert asyncio.run(run()) is False


def test_scoring_goes_on_when_no_request_has_followed():
    now_s = [100.0]
    precedence = Precedence(longest_wait_s=3600, pause_s=1, clock_s=lambda: now_s[0])
    with precedence.request():
        pass
    now_s[0] += 1
    asyncio.run(precedence.give_way())
    precedence.give_way_in_thread()


def test_a_thread_waits_until_the_request_is_answered():
    precedence = Precedence(longest_wait_s=3600, pause_s=0)
    went_on = threading.Event()
    thread = threading.Thread(target=lambda: (precedence.give_way_in_thread(), went_on.set()))
    with precedence.request():
        thread.start()
        assert not went_on.is_set()
    thread.join()
    assert went_on.is_set()


def test_a_thread_does_not_wait_while_it_is_urgent():
    precedence = Precedence(is_urgent=lambda: True, longest_wait_s=3600)
    with precedence.request():
        precedence.give_way_in_thread()


def test_all_threads_go_on_when_the_request_is_answered():
    precedence = Precedence(longest_wait_s=3600, pause_s=0)
    threads = [threading.Thread(target=precedence.give_way_in_thread) for _ in range(3)]
    with precedence.request():
        for thread in threads:
            thread.start()
    for thread in threads:
        thread.join()
    assert not any(thread.is_alive() for thread in threads)


def test_threads_that_compute_go_on_in_the_order_in_which_they_came():
    turns, order = Turns(patience_s=3600), []
    with ThreadPoolExecutor(2) as threads:
        with turns.turn():
            waiting = []
            for name in ("first", "second"):
                waiting.append(threads.submit(turns.run, order.append, name))
                while len(turns._waiting) < len(waiting):
                    time.sleep(0.001)
            before = list(order)
        for one in waiting:
            one.result()
    assert (before, order) == ([], ["first", "second"])


def test_a_thread_waits_no_longer_for_its_turn_than_it_is_patient():
    turns = Turns(patience_s=0)
    with turns.turn(), ThreadPoolExecutor(1) as threads:
        assert threads.submit(turns.run, lambda: "went on").result() == "went on"
    assert turns.run(lambda: "went on") == "went on"
