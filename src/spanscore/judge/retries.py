"""When a failed call is worth another try and how long to wait for it: a pure decision, and the
loop that obeys it.
"""

import asyncio
import random
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from itertools import count
from typing import TypeVar

from spanscore.judge.provider import CallError
from spanscore.judge.ratelimits import read

T = TypeVar("T")

_PASSING = frozenset({408, 409, 429})


@dataclass(frozen=True, slots=True)
class Policy:
    """`timeout_s` bounds one call, `max_elapsed_s` all calls for an answer and the waits after
    failed ones together.
    """

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
    """Whether the same call may succeed later: 408, 409, 429, any 5xx, a time-out, no
    connection.
    """
    if error.hopeless or error.refused:
        return False
    return (
        error.timed_out or error.status is None or error.status in _PASSING or error.status >= 500
    )


def wait_s(
    error: CallError, tried: int, elapsed_s: float, now_ns: int, policy: Policy, chance: float
) -> float | None:
    """Seconds to wait before the next try, after `tried` failed ones; None: give up.

    Exponential backoff of which half is random ("equal jitter"), so that clients that failed
    together do not come back together, and never sooner than Retry-After. A wait that would end
    past `max_elapsed_s` is not begun.
    """
    if tried > policy.max_retries or not may_pass(error):
        return None
    interval = min(policy.initial_interval_s * 2.0 ** min(tried - 1, 60), policy.max_interval_s)
    wait = max(interval * (0.5 + 0.5 * chance), read(error.headers, now_ns).retry_after_s or 0.0)
    return wait if elapsed_s + wait < policy.max_elapsed_s else None


@dataclass(slots=True)
class Used:
    """How much of `max_elapsed_s` the calls for one answer have used up: time in calls, and waits
    after failed ones.

    Time in which a call waits for its turn, since its provider takes no more at present, is not
    part of it.
    """

    seconds: float = 0.0


async def retrying(
    call: Callable[[float], Awaitable[T]],
    policy: Policy,
    timing: Timing,
    used: Used,
    again: Callable[[], None] = lambda: None,
) -> T:
    """What `call(timeout_s)` gives, tried again as `wait_s` says. Raises the last CallError.

    `call` adds its own time to `used`; `again` is called before each retry.
    """
    for tried in count(1):
        left_s = policy.max_elapsed_s - used.seconds
        if left_s <= 0:
            raise CallError(f"no time left of {policy.max_elapsed_s:g} s", timed_out=True)
        try:
            return await call(min(policy.timeout_s, left_s))
        except CallError as error:
            wait = wait_s(error, tried, used.seconds, timing.clock_ns(), policy, timing.chance())
            if wait is None:
                raise
            used.seconds += wait
            await timing.sleep(wait)
            again()
    raise AssertionError("count() never ends")
