"""When a failed call is worth another try and how long to wait for it: a pure decision, and the loop that obeys it."""

import asyncio
import random
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import UTC
from email.utils import parsedate_to_datetime
from itertools import count
from typing import TypeVar

from spanscore.judge.provider import CallError

T = TypeVar("T")

_PASSING = frozenset({408, 409, 429})


@dataclass(frozen=True, slots=True)
class Policy:
    """`timeout_s` bounds one call, `max_elapsed_s` all calls and waits together."""

    max_retries: int
    timeout_s: float
    initial_interval_s: float
    max_interval_s: float
    max_elapsed_s: float


@dataclass(frozen=True, slots=True)
class Timing:
    """The world's part in retrying; tests replace it. `chance` gives numbers in [0, 1)."""

    clock_ns: Callable[[], int] = time.time_ns
    sleep: Callable[[float], Awaitable[object]] = asyncio.sleep
    chance: Callable[[], float] = random.random


def may_pass(error: CallError) -> bool:
    """Whether the same call may succeed later: 408, 409, 429, any 5xx, a time-out, no connection."""
    if error.hopeless or error.refused:
        return False
    return error.timed_out or error.status is None or error.status in _PASSING or error.status >= 500


def retry_after_s(header: str | None, now_ns: int) -> float | None:
    """Seconds that a Retry-After header asks to wait: a number of seconds or an HTTP date; None for anything else.

    >>> retry_after_s("2.5", 0)
    2.5
    >>> retry_after_s("Thu, 01 Jan 1970 00:00:07 GMT", 0)
    7.0
    """
    if header is None:
        return None
    try:
        seconds = float(header)
    except ValueError:
        try:
            date = parsedate_to_datetime(header)
        except ValueError:
            return None
        seconds = date.replace(tzinfo=date.tzinfo or UTC).timestamp() - now_ns / 1e9
    return max(seconds, 0.0) if seconds < float("inf") else None


def wait_s(error: CallError, tried: int, elapsed_s: float, now_ns: int, policy: Policy, chance: float) -> float | None:
    """Seconds to wait before the next try, after `tried` failed ones; None: give up.

    Exponential backoff of which half is random ("equal jitter"), so that clients that failed together do not come
    back together, and never sooner than Retry-After. A wait that would end past `max_elapsed_s` is not begun.
    """
    if tried > policy.max_retries or not may_pass(error):
        return None
    interval = min(policy.initial_interval_s * 2.0 ** min(tried - 1, 60), policy.max_interval_s)
    wait = max(interval * (0.5 + 0.5 * chance), retry_after_s(error.headers.get("retry-after"), now_ns) or 0.0)
    return wait if elapsed_s + wait < policy.max_elapsed_s else None


async def retrying(
    call: Callable[[float], Awaitable[T]],
    policy: Policy,
    timing: Timing,
    started_ns: int,
    again: Callable[[], None] = lambda: None,
) -> T:
    """What `call(timeout_s)` gives, tried again as `wait_s` says. Raises the last CallError.

    `started_ns` is when the bound `max_elapsed_s` began to run; `again` is called before each retry.
    """
    for tried in count(1):
        left_s = policy.max_elapsed_s - (timing.clock_ns() - started_ns) / 1e9
        if left_s <= 0:
            raise CallError(f"no time left of {policy.max_elapsed_s:g} s", timed_out=True)
        try:
            return await call(min(policy.timeout_s, left_s))
        except CallError as error:
            now_ns = timing.clock_ns()
            wait = wait_s(error, tried, (now_ns - started_ns) / 1e9, now_ns, policy, timing.chance())
            if wait is None:
                raise
            await timing.sleep(wait)
            again()
    raise AssertionError("count() never ends")
