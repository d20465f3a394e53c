"""Calls go through at the pace that their provider takes, whatever kind of limit it has, and none
is lost.
"""

import asyncio
import bisect
import logging
import random
import re
from functools import partial

import pytest
from limited_provider import (
    Bucket,
    LimitedProvider,
    Sliding,
    Window,
    as_date,
    in_milliseconds,
    in_seconds,
    no_hint,
)
from virtual_time import run, timing

from spanscore.judge.pace import Pace
from spanscore.judge.provider import CallError, Completion
from spanscore.judge.queues import Lane

PATIENCE_S = 180.0


async def sent(provider, calls, *, most_at_once=32, tokens=0.0, pace=None, late_s=0.0):
    """The outcomes of so many calls that are all there at once."""
    slots, when = asyncio.Semaphore(most_at_once), timing(late_s)
    lane = Lane("m", slots, most_at_once, when, PATIENCE_S, pace)
    waiting = [
        lane.call(lane.place(), tokens, lambda number=number: provider.send(number))
        for number in range(calls)
    ]
    return await asyncio.gather(*waiting, return_exceptions=True)


def lost(outcomes):
    return [x for x in outcomes if isinstance(x, BaseException)]


LIMITS = {
    "bucket": lambda: Bucket(10, 10),
    "bucket of three": lambda: Bucket(10, 3),
    "bucket of twenty": lambda: Bucket(10, 20),
    "window": lambda: Window(10),
    "sliding window": lambda: Sliding(10),
    "sliding window that counts refusals": lambda: Sliding(10, counts_refused=True),
}


@pytest.mark.slow
@pytest.mark.parametrize("hint", [no_hint, in_milliseconds, in_seconds])
@pytest.mark.parametrize("limit", LIMITS.values(), ids=LIMITS.keys())
def test_nothing_is_lost_to_a_limit_of_ten_a_second(limit, hint):
    provider = LimitedProvider(limit(), hint=hint)

    assert lost(run(sent(provider, 560))) == []


@pytest.mark.slow
@pytest.mark.parametrize("hint", [no_hint, in_milliseconds, in_seconds])
@pytest.mark.parametrize("latency_s", [0.05, 0.5, 2.0])
@pytest.mark.parametrize("limit", [LIMITS["bucket"], LIMITS["bucket of three"], LIMITS["window"]])
def test_ten_a_second_are_used_nearly_whole(limit, latency_s, hint):
    provider = LimitedProvider(limit(), latency_s, hint)
    run(sent(provider, 560))

    assert provider.share_of(10) >= 0.95


@pytest.mark.parametrize("hint", [no_hint, in_milliseconds, in_seconds, as_date])
def test_a_sliding_window_is_used_nearly_whole(hint):
    provider = LimitedProvider(Sliding(10), hint=hint)
    run(sent(provider, 560))

    assert provider.share_of(10) >= 0.95


@pytest.mark.slow
@pytest.mark.parametrize("rate", [1, 3, 50])
def test_any_rate_is_found(rate):
    provider = LimitedProvider(Bucket(rate, rate), 0.3, in_milliseconds)
    run(sent(provider, 120 if rate == 1 else 30 * rate))

    assert provider.share_of(rate) >= 0.9


@pytest.mark.slow
def test_few_calls_are_refused_once_the_pace_is_known():
    provider = LimitedProvider(Bucket(10, 10), hint=in_milliseconds)
    run(sent(provider, 2000))

    assert provider.refused < 2000 * 0.05


def test_a_limit_that_is_lifted_is_found():
    provider = LimitedProvider(Bucket(5, 5))

    async def scenario():
        asyncio.get_running_loop().call_later(30, lambda: setattr(provider.limit, "rate", 20))
        await sent(provider, 1500)

    run(scenario())
    after = [x for x in provider.done_s if x > 60]
    assert len(after) / (after[-1] - 60) >= 0.75 * 20


def test_calls_of_long_before_do_not_make_the_first_pace_too_low():
    provider = LimitedProvider(Bucket(10, 10))

    async def scenario():
        lane = Lane("m", asyncio.Semaphore(32), 32, timing(), PATIENCE_S)
        await lane.call(lane.place(), 0, provider.send)
        await asyncio.sleep(600)
        started_s = asyncio.get_running_loop().time()
        await asyncio.gather(*(lane.call(lane.place(), 0, provider.send) for _ in range(100)))
        return asyncio.get_running_loop().time() - started_s

    assert run(scenario()) < 100 / 10 / 0.9


@pytest.mark.parametrize("late_s", [0.015, 0.04])
def test_a_sliding_window_is_used_nearly_whole_by_late_timers(late_s):
    provider = LimitedProvider(Sliding(10))
    run(sent(provider, 620, late_s=late_s))

    assert provider.share_of(10) >= (0.95 if late_s < 0.02 else 0.93)


def test_a_small_bucket_is_used_nearly_whole_by_very_late_timers():
    provider = LimitedProvider(Bucket(10, 3))
    run(sent(provider, 620, late_s=0.15))

    assert provider.share_of(10) >= 0.96


def test_a_window_of_a_minute_loses_nothing():
    provider = LimitedProvider(Window(60, 60.0), hint=in_seconds)

    assert lost(run(sent(provider, 200))) == []


@pytest.mark.slow
@pytest.mark.parametrize("limit", [Window(600, 60.0), Sliding(600, length_s=60.0)])
def test_a_minute_that_opens_again_is_found_without_a_hint(limit):
    provider = LimitedProvider(limit, 0.05)
    outcomes = run(sent(provider, 1900))

    # the fourth minute is the first that takes the last of them
    assert (lost(outcomes), max(provider.done_s) <= 180 / 0.9) == ([], True)


def test_a_provider_without_a_limit_is_not_slowed_down():
    provider = LimitedProvider(Bucket(1e9, 1e9), 0.5)
    run(sent(provider, 640, most_at_once=32))

    assert provider.done_s[-1] < 640 / 32 * 0.5 * 1.5


def stated_by(bucket):
    """The headers of a bucket of requests, as OpenAI states it."""
    used = bucket.capacity - bucket.level
    return {
        "x-ratelimit-limit-requests": f"{bucket.capacity}",
        "x-ratelimit-remaining-requests": f"{int(bucket.level)}",
        "x-ratelimit-reset-requests": f"{used / bucket.rate * 1e3:.0f}ms",
    }


def test_a_stated_limit_is_kept_before_it_is_hit():
    bucket = Bucket(10, 100)
    provider = LimitedProvider(bucket, hint=in_milliseconds, stated=lambda: stated_by(bucket))
    run(sent(provider, 560))

    assert (provider.share_of(10) >= 0.95, provider.refused < 20) == (True, True)


def tokens_of(bucket):
    used = bucket.capacity - bucket.level
    return {
        "x-ratelimit-limit-tokens": f"{bucket.capacity:.0f}",
        "x-ratelimit-remaining-tokens": f"{bucket.level:.0f}",
        "x-ratelimit-reset-tokens": f"{used / bucket.rate:.3f}s",
    }


@pytest.mark.parametrize("states", [True, False])
def test_a_limit_on_tokens_is_used_nearly_whole(states):
    bucket = Bucket(30_000 / 60, 30_000)
    stated = (lambda: tokens_of(bucket)) if states else dict
    provider = LimitedProvider(bucket, 1.0, in_milliseconds, size=1000, stated=stated)
    outcomes = run(sent(provider, 150, tokens=1000))

    assert (lost(outcomes), provider.share_of(0.5) >= 0.95) == ([], True)


def test_with_stated_tokens_hardly_a_call_is_refused():
    bucket = Bucket(30_000 / 60, 30_000)
    provider = LimitedProvider(
        bucket, 1.0, in_milliseconds, size=1000, stated=lambda: tokens_of(bucket)
    )
    run(sent(provider, 150, tokens=1000))

    assert provider.refused <= 5


def test_calls_go_in_the_order_in_which_they_came():
    provider = LimitedProvider(Bucket(10, 1), hint=in_milliseconds)
    run(sent(provider, 100))

    assert all(abs(place - number) <= 32 for place, number in enumerate(provider.order))


def test_no_more_calls_are_under_way_than_there_are_places():
    provider = LimitedProvider(Bucket(1e9, 1e9))
    run(sent(provider, 100, most_at_once=4))

    assert provider.most_at_once == 4


def test_a_model_that_waits_takes_no_place_from_another():
    refusing = LimitedProvider(Bucket(0.01, 0), hint=lambda _: {"retry-after": "60"})
    other = LimitedProvider(Bucket(1e9, 1e9), 0.1)

    async def scenario():
        slots = asyncio.Semaphore(1)
        slow, quick = (Lane(x, slots, 1, timing(), PATIENCE_S) for x in ("slow", "quick"))
        waiting = [
            asyncio.ensure_future(slow.call(slow.place(), 0, refusing.send)) for _ in range(5)
        ]
        await asyncio.sleep(1)
        await quick.call(quick.place(), 0, other.send)
        ended_s = asyncio.get_running_loop().time()
        for each in waiting:
            each.cancel()
        return ended_s

    assert run(scenario()) < 2


def test_a_model_that_refuses_everything_is_given_up_after_a_while():
    provider = LimitedProvider(Bucket(1e-9, 0))

    async def scenario():
        outcomes = await sent(provider, 20)
        return outcomes, asyncio.get_running_loop().time()

    outcomes, ended_s = run(scenario())
    assert ([type(x) for x in outcomes], ended_s < 3 * PATIENCE_S) == ([CallError] * 20, True)


def test_a_model_that_is_closed_for_an_hour_is_given_up_at_once():
    provider = LimitedProvider(Bucket(1e-9, 0), hint=lambda _: {"retry-after": "3600"})

    async def scenario():
        await sent(provider, 50)
        return asyncio.get_running_loop().time()

    assert (run(scenario()) < 1, provider.refused <= 32) == (True, True)


@pytest.mark.slow
def test_a_call_that_is_refused_whatever_the_others_do_is_given_up():
    async def refuse():
        await asyncio.sleep(0.01)
        raise CallError("not this one", status=429)

    async def scenario():
        lane = Lane("m", asyncio.Semaphore(8), 8, timing(), PATIENCE_S)
        provider = LimitedProvider(Bucket(1e9, 1e9), 0.1)
        others = [
            asyncio.ensure_future(lane.call(lane.place(), 0, provider.send)) for _ in range(2000)
        ]
        outcome = (
            await asyncio.gather(lane.call(lane.place(), 0, refuse), return_exceptions=True)
        )[0]
        for each in others:
            each.cancel()
        return outcome

    assert isinstance(run(scenario()), CallError)


def test_a_call_that_is_refused_for_long_is_given_up_and_says_for_how_long():
    async def refuse():
        raise CallError("not this one", status=429, headers={"retry-after": "60"})

    async def scenario():
        lane = Lane("m", asyncio.Semaphore(8), 8, timing(), PATIENCE_S)
        provider = LimitedProvider(Bucket(1e9, 1e9), 0.1)

        async def call_others():
            while True:
                await lane.call(lane.place(), 0, provider.send)

        others = asyncio.ensure_future(call_others())
        (outcome,) = await asyncio.gather(
            lane.call(lane.place(), 0, refuse), return_exceptions=True
        )
        others.cancel()
        return outcome, asyncio.get_running_loop().time()

    outcome, ended_s = run(scenario())
    assert re.search(r"refused this call for 9\d\d s, while it took others", str(outcome))
    assert 5 * PATIENCE_S <= ended_s < 6 * PATIENCE_S


@pytest.mark.slow
def test_a_call_that_let_others_pass_for_long_is_not_given_up_for_how_long_it_waited():
    refused = 0
    provider = LimitedProvider(Bucket(1e9, 1e9), 0.1)

    async def send():
        nonlocal refused
        if refused == 3:
            return await provider.send()
        refused += 1
        raise CallError("not now", status=429, headers={"retry-after": "1"})

    async def scenario():
        lane = Lane("m", asyncio.Semaphore(8), 8, timing(), PATIENCE_S)

        async def call_others():
            while True:
                await lane.call(lane.place(), 0, provider.send)

        others = asyncio.ensure_future(call_others())
        place = lane.place()
        place.first_ns = timing().clock_ns()
        await asyncio.sleep(10 * PATIENCE_S)
        outcome = await lane.call(place, 0, send)
        others.cancel()
        return outcome

    assert run(scenario()) is not None
    assert refused == 3


def test_time_outs_lower_how_many_are_under_way():
    class Overrun:
        """Serves four at once in time; more time out."""

        under_way = timed_out = 0

        async def send(self):
            self.under_way += 1
            is_late = self.under_way > 4
            try:
                await asyncio.sleep(1)
            finally:
                self.under_way -= 1
            if is_late:
                self.timed_out += 1
                raise CallError("no answer", timed_out=True)
            return Completion("{}", 1, 1, None)

    async def scenario():
        lane, provider = Lane("m", asyncio.Semaphore(32), 32, timing(), PATIENCE_S), Overrun()
        await asyncio.gather(
            *(lane.call(lane.place(), 0, provider.send) for _ in range(300)), return_exceptions=True
        )
        return provider.timed_out

    assert run(scenario()) < 100


def test_a_cancelled_call_leaves_the_queue_to_the_others():
    async def scenario():
        lane, provider = (
            Lane("m", asyncio.Semaphore(1), 1, timing(), PATIENCE_S),
            LimitedProvider(Bucket(10, 1)),
        )
        calls = [asyncio.ensure_future(lane.call(lane.place(), 0, provider.send)) for _ in range(5)]
        await asyncio.sleep(0.01)
        for each in calls[:4]:
            each.cancel()
        return (await calls[4]).text

    assert run(scenario()) == "{}"


def test_a_line_in_the_log_says_why_calls_wait(caplog):
    caplog.set_level(logging.INFO)
    run(sent(LimitedProvider(Bucket(10, 10)), 100))

    assert (
        sum("its provider limits how often it is called" in x.message for x in caplog.records) == 1
    )


def test_a_call_that_stands_behind_lets_those_pass_that_come_later():
    provider = LimitedProvider(Bucket(1, 1), hint=in_milliseconds)

    async def scenario():
        lane = Lane("m", asyncio.Semaphore(1), 1, timing(), PATIENCE_S)
        behind = [
            lane.call(lane.place(behind=True), 0, partial(provider.send, number))
            for number in (1, 2, 3)
        ]
        waiting = [asyncio.ensure_future(x) for x in behind]
        await asyncio.sleep(0.1)
        await lane.call(lane.place(), 0, partial(provider.send, 4))
        await asyncio.gather(*waiting)

    run(scenario())
    assert provider.order.index(4) <= 2


def test_a_tenant_with_many_calls_keeps_no_other_waiting():
    provider = LimitedProvider(Bucket(1, 1), hint=in_milliseconds)

    async def scenario():
        lane = Lane("m", asyncio.Semaphore(1), 1, timing(), PATIENCE_S)
        many = [
            asyncio.ensure_future(lane.call(lane.place("a"), 0, partial(provider.send, number)))
            for number in range(50)
        ]
        await asyncio.sleep(3.5)
        before = len(provider.order)
        await asyncio.gather(
            *(
                lane.call(lane.place("b"), 0, partial(provider.send, number))
                for number in (100, 101)
            )
        )
        for call in many:
            call.cancel()
        return provider.order[before:]

    order = run(scenario())
    assert {100, 101} <= set(order)
    assert len(set(order)) <= 6


@pytest.mark.parametrize(
    "limit", [LIMITS["bucket of three"], LIMITS["window"], LIMITS["sliding window"]]
)
def test_a_configured_limit_on_requests_is_kept_and_used_nearly_whole(limit):
    provider = LimitedProvider(limit())
    run(sent(provider, 560, pace=Pace(requests_per_s=9.8)))

    assert (provider.share_of(10) >= 0.95, provider.refused < 560 * 0.02) == (True, True)


def most_within(pace, length_s):
    """Of the calls that `pace` lets through for three minutes after an idle one, by a late timer
    now and then: the most that begin within so many seconds of one of them.
    """
    chance, now_ns, sent_ns = random.Random(3), int(60e9), []
    while now_ns < 240e9:
        if (wait_s := pace.wait_s(now_ns)) > 0:
            now_ns += int((wait_s + chance.choice((0, 0, 0.05))) * 1e9) + 1
            continue
        pace.sent(now_ns)
        pace.accepted(now_ns)
        sent_ns.append(now_ns)
    return max(
        bisect.bisect_left(sent_ns, x + int(length_s * 1e9)) - i for i, x in enumerate(sent_ns)
    )


@pytest.mark.parametrize("rate", [1, 10])
def test_a_configured_limit_is_never_exceeded_in_a_second(rate):
    assert most_within(Pace(requests_per_s=rate), 1) <= rate


@pytest.mark.parametrize("rate", [1, 10, 100])
def test_a_configured_limit_is_never_exceeded_in_a_minute(rate):
    assert most_within(Pace(requests_per_s=rate), 60) <= 60 * rate


def test_a_configured_limit_on_tokens_is_kept_and_used_nearly_whole():
    provider = LimitedProvider(Bucket(10_000, 12_000), size=1000)
    run(sent(provider, 560, tokens=1000, pace=Pace(tokens_per_s=10_000)))

    assert (provider.share_of(10) >= 0.95, provider.refused) == (True, 0)


def test_below_a_configured_limit_a_lower_one_is_learned():
    provider = LimitedProvider(Bucket(5, 5))
    outcomes = run(sent(provider, 560, pace=Pace(requests_per_s=10)))

    assert (lost(outcomes), provider.share_of(5) >= 0.95) == ([], True)


@pytest.mark.parametrize("pace", [{"requests_per_s": 0.3 / 60}, {"tokens_per_s": 500 / 60}])
def test_a_configured_limit_is_waited_for_however_slow_it_is(pace):
    provider = LimitedProvider(Bucket(10, 10))

    assert lost(run(sent(provider, 4, tokens=11_000, pace=Pace(**pace)))) == []
