"""Providers with a rate limit, on a virtual clock: a bucket that fills, a window that turns, a
window that slides.
"""

import asyncio
import math
import random
from collections import deque
from collections.abc import Callable, Mapping
from email.utils import formatdate
from typing import Protocol

from virtual_time import START_S

from spanscore.judge.provider import CallError, Completion

Headers = Callable[["Limit", float], Mapping[str, str]]


class Limit(Protocol):
    """Takes a call of a size at a time, in seconds, or gives the seconds after which it would."""

    def take(self, now_s: float, size: float = 1.0) -> float | None: ...


class Bucket:
    """`capacity` at once, refilled by `rate` a second."""

    def __init__(self, rate: float, capacity: float) -> None:
        self.rate, self.capacity, self.level, self.then_s = rate, capacity, capacity, 0.0

    def take(self, now_s: float, size: float = 1.0) -> float | None:
        self.level = min(self.capacity, self.level + (now_s - self.then_s) * self.rate)
        self.then_s = now_s
        if self.level < size:
            return (size - self.level) / self.rate
        self.level -= size
        return None


class Window:
    """`limit` in each second by the clock."""

    def __init__(self, limit: int, length_s: float = 1.0) -> None:
        self.limit, self.length_s, self.number, self.used = limit, length_s, -1.0, 0.0

    def take(self, now_s: float, size: float = 1.0) -> float | None:
        number = now_s // self.length_s
        if number != self.number:
            self.number, self.used = number, 0.0
        if self.used + size > self.limit:
            return (number + 1) * self.length_s - now_s
        self.used += size
        return None


class Sliding:
    """`limit` in any `length_s`; `counts_refused`: a refused call counts like one that was
    accepted.
    """

    def __init__(self, limit: int, *, counts_refused: bool = False, length_s: float = 1.0) -> None:
        self.limit, self.counts_refused, self.length_s = limit, counts_refused, length_s
        self.taken_s: deque[float] = deque()

    def take(self, now_s: float, size: float = 1.0) -> float | None:
        while self.taken_s and self.taken_s[0] <= now_s - self.length_s:
            self.taken_s.popleft()
        is_full = len(self.taken_s) >= self.limit
        if not is_full or self.counts_refused:
            self.taken_s.append(now_s)
        return self.taken_s[0] + self.length_s - now_s if is_full else None


def no_hint(_after_s: float) -> dict[str, str]:
    """A 429 and nothing else."""
    return {}


def in_milliseconds(after_s: float) -> dict[str, str]:
    """As OpenAI and Azure do."""
    return {"retry-after-ms": f"{math.ceil(after_s * 1e3)}"}


def in_seconds(after_s: float) -> dict[str, str]:
    """As most do: rounded up."""
    return {"retry-after": f"{math.ceil(after_s)}"}


def as_date(after_s: float) -> dict[str, str]:
    """As some gateways do: a date, which is to the second; rounded up."""
    at_s = START_S + asyncio.get_running_loop().time() + after_s
    return {"retry-after": formatdate(math.ceil(at_s), usegmt=True)}


class LimitedProvider:
    """Answers after `latency_s` give or take a half, refuses at once; `done_s` are the times of the
    answers.
    """

    def __init__(
        self,
        limit: Limit,
        latency_s: float = 0.5,
        hint: Callable[[float], Mapping[str, str]] = no_hint,
        size: float = 1.0,
        stated: Callable[[], Mapping[str, str]] = dict,
    ) -> None:
        self.limit, self.latency_s, self.hint, self.size, self.stated = (
            limit,
            latency_s,
            hint,
            size,
            stated,
        )
        self.refused = 0
        self.under_way = self.most_at_once = 0
        self.done_s: list[float] = []
        self.order: list[int] = []
        self._chance = random.Random(1)

    async def send(self, number: int = 0) -> Completion:
        loop = asyncio.get_running_loop()
        self.under_way += 1
        self.most_at_once = max(self.most_at_once, self.under_way)
        try:
            await asyncio.sleep(self._chance.uniform(0.002, 0.02))
            after_s = self.limit.take(loop.time(), self.size)
            if after_s is not None:
                self.refused += 1
                await asyncio.sleep(self._chance.uniform(0.002, 0.02))
                raise CallError(
                    "slow down", status=429, headers={**self.hint(after_s), **self.stated()}
                )
            self.order.append(number)
            stated = self.stated()
            await asyncio.sleep(self._chance.uniform(0.5, 1.5) * self.latency_s)
            self.done_s.append(loop.time())
            return Completion("{}", 100, 20, None, headers=stated)
        finally:
            self.under_way -= 1

    def share_of(self, rate: float) -> float:
        """How much of `rate` was reached once the first fifth was done: the rest is warm by
        then.
        """
        warm = self.done_s[len(self.done_s) // 5 :]
        return (len(warm) - 1) / (warm[-1] - warm[0]) / rate
