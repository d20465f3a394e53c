"""The pace of one model's calls.

The rate is a fixed point of small steps: each call that is sent raises it a little, each refusal
lowers it by a few percent, so that it settles where about one call in fifty is refused (stochastic
approximation; Robbins and Monro 1951). Many refusals lower it in proportion, and a long time
without any raises it faster and faster, as TCP CUBIC does (RFC 9438), so that a limit that was
lifted is found. Calls are spaced evenly, since limits differ in how long a burst they take.
"""

import asyncio
import math
import random
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from spanscore.judge.provider import NOTHING_STATED, Quota, RateLimits

_LEAST_CUT = 0.03
"""Part of the rate that a single refusal takes away."""
_MOST_CUT = 0.5
_DENSE = 0.15
"""Share of refusals from which on the rate is far off, and no longer close to the limit."""
_SMOOTHING = 0.08
"""Weight of one call in the share of refusals: the last dozen count."""
_KEPT_SHARE = 0.5
"""Part of the share of refusals that is still expected after the rate was lowered."""
_LEAST_SHARE, _MOST_SHARE = 0.01, 0.06
"""Share of refusals at which the rate settles: small once it is close to the limit, larger while it
is not.
"""
_SEARCHING_STEP = 0.06
"""Part by which each call raises the rate while nothing is known of the limit but that it was
hit.
"""
_BURST_S = 0.1
"""What is not sent of a known limit is made up for, for so long."""
_LIMIT_S = 60.0
"""Limits are configured by the minute: with what is made up for, none is exceeded in any."""
_LATE_S = 0.1
"""The same of a rate that was learnt, on top of one call: timers and event loops are late."""
_LONGEST_PAUSE_S = 30.0
_PAUSE_SHARE = 0.1
"""Part of the time for which all calls have been refused that the next pause lasts at most: a limit
that opens again is found after a tenth more than it was closed.
"""
_NEARLY_USED_UP = 0.1


@dataclass(frozen=True, slots=True)
class Timing:
    """The world's part in waiting; tests replace it. `chance` gives numbers in [0, 1)."""

    clock_ns: Callable[[], int] = time.time_ns
    sleep: Callable[[float], Awaitable[object]] = asyncio.sleep
    chance: Callable[[], float] = random.random


@dataclass(slots=True)
class _Bucket:
    """A limit on tokens as the provider last stated it, less what was sent since."""

    quota: Quota
    stated_ns: int
    in_flight: float = 0.0

    def wait_s(self, tokens: float, now_ns: int) -> float:
        """Seconds until `tokens` fit; a call above the whole limit waits until all of it is
        there.
        """
        passed_s = (now_ns - self.stated_ns) / 1e9
        reset_s = self.quota.reset_s
        if reset_s is None or passed_s >= reset_s:
            return 0.0
        refill = self.quota.refill_per_s or 0.0
        missing = min(tokens, self.quota.limit) - (
            self.quota.remaining + refill * passed_s - self.in_flight
        )
        left_s = reset_s - passed_s
        if missing <= 0:
            return 0.0
        return min(missing / refill, left_s) if refill else left_s


@dataclass(slots=True)
class _EvenTokens:
    """A limit on tokens that is known beforehand: they are spread evenly, so that any kind of limit
    is kept.
    """

    rate_per_s: float
    credit: float = 0.0
    credited_ns: int = 0

    def wait_s(self, tokens: float, now_ns: int) -> float:
        """Seconds until a call of `tokens` may be sent, or until that is to be asked again: a
        minute at most.
        """
        self._fill(now_ns)
        return min(max(-self.credit / self.rate_per_s, 0.0), 60.0) if tokens else 0.0

    def sent(self, tokens: float, now_ns: int) -> None:
        """A call was sent: the next one waits until its tokens are there again."""
        self._fill(now_ns)
        self.credit -= tokens

    def _fill(self, now_ns: int) -> None:
        gained = max(now_ns - self.credited_ns, 0) / 1e9 * self.rate_per_s
        self.credit = min(self.credit + gained, self.rate_per_s * _BURST_S)
        self.credited_ns = now_ns


class Pace:
    """The pace of one model; times are nanoseconds of one clock.

    Pure bookkeeping: nothing here waits.
    """

    def __init__(
        self, requests_per_s: float | None = None, tokens_per_s: float | None = None
    ) -> None:
        """`requests_per_s` and `tokens_per_s` are never exceeded; None: what the provider takes has
        to be learnt.

        Above ten requests a second a tenth of a second's may come at once; in no minute are there
        more than 60 times `requests_per_s`.
        """
        self.rate_per_s: float | None = requests_per_s
        """Calls a second; None while no limit was met."""
        self._most_per_s = math.inf if requests_per_s is None else requests_per_s
        self._is_known = requests_per_s is not None
        self._even_tokens = None if tokens_per_s is None else _EvenTokens(tokens_per_s)
        self._credit = 0.0
        self._credited_ns = 0
        self._closed_until_ns = 0
        self._pause_s = 0.0
        self._is_searching = requests_per_s is None
        self._share = 0.0
        self._goal_share = _MOST_SHARE
        self._epoch_ns: int | None = None
        self._sent = 0
        self._refused = 0
        self._in_flight = 0
        self._is_limiting = False
        self._refused_since_ns: int | None = None
        self._tokens: _Bucket | None = None
        self._in_flight_tokens = 0.0

    def wait_s(self, now_ns: int, tokens: float = 0.0) -> float:
        """Seconds until a call of so many tokens may be sent; 0: now."""
        waits = [(self._closed_until_ns - now_ns) / 1e9]
        if self.rate_per_s is not None:
            self._fill(now_ns)
            waits.append((1.0 - self._credit) / self.rate_per_s)
            self._is_limiting = self._is_limiting or waits[-1] > 0
        if self._tokens is not None:
            waits.append(self._tokens.wait_s(tokens, now_ns))
        if self._even_tokens is not None:
            waits.append(self._even_tokens.wait_s(tokens, now_ns))
        longest = max(waits)
        return longest if longest > 1e-6 else 0.0  # a microsecond is a rounding error, not a wait

    def interval_s(self, tokens: float) -> float:
        """For how long a call of so many tokens uses the configured limits up; 0 where there are
        none.
        """
        of_tokens = tokens / self._even_tokens.rate_per_s if self._even_tokens else 0.0
        return max(1 / self._most_per_s, of_tokens)

    def closed_s(self, now_ns: int, tokens: float = 0.0) -> float:
        """The part of `wait_s` that the provider asked for, or stated: for how many seconds it
        takes no such call.
        """
        of_tokens_s = self._tokens.wait_s(tokens, now_ns) if self._tokens else 0.0
        return max((self._closed_until_ns - now_ns) / 1e9, of_tokens_s, 0.0)

    def refused_s(self, now_ns: int) -> float:
        """For how many seconds every call that ended was refused; 0 where the last one was
        accepted.
        """
        return 0.0 if self._refused_since_ns is None else (now_ns - self._refused_since_ns) / 1e9

    def sent(self, now_ns: int, tokens: float = 0.0) -> None:
        """A call was sent."""
        if self._epoch_ns is None or (self.rate_per_s is None and not self._in_flight):
            # what was sent long before a limit was met says nothing about it
            self._epoch_ns, self._sent = now_ns, 0
        self._sent += 1
        self._in_flight += 1
        self._share *= 1 - _SMOOTHING
        self._in_flight_tokens += tokens
        if self._tokens is not None:
            self._tokens.in_flight += tokens
        if self._even_tokens is not None:
            self._even_tokens.sent(tokens, now_ns)
        if self.rate_per_s is not None:
            self._fill(now_ns)
            self._credit -= 1.0
            if self._is_limiting:  # a rate that nobody waited for was not tried
                self.rate_per_s = min(self.rate_per_s * (1.0 + self._step()), self._most_per_s)
            self._is_limiting = False

    def accepted(
        self, now_ns: int, tokens: float = 0.0, limits: RateLimits = NOTHING_STATED
    ) -> None:
        """A call of so many tokens was answered."""
        self._pause_s = 0.0
        self._refused_since_ns = None
        self.failed(now_ns, tokens, limits)

    def failed(self, now_ns: int, tokens: float = 0.0, limits: RateLimits = NOTHING_STATED) -> None:
        """A call ended for a reason that has nothing to do with the rate."""
        self._in_flight -= 1
        self._in_flight_tokens = max(self._in_flight_tokens - tokens, 0.0)
        if limits.tokens is not None:
            self._tokens = _Bucket(limits.tokens, now_ns, self._in_flight_tokens)
        elif self._tokens is not None:
            self._tokens.in_flight = self._in_flight_tokens
        if self.rate_per_s is None and limits.requests is not None:
            self._take_over(limits.requests, now_ns)

    def refused(
        self, sent_ns: int, now_ns: int, tokens: float = 0.0, limits: RateLimits = NOTHING_STATED
    ) -> None:
        """A call that was sent at `sent_ns` was refused because there were too many."""
        self.failed(now_ns, tokens, limits)
        self._refused_since_ns = self._refused_since_ns or now_ns
        after_s = limits.retry_after_s or 0.0
        # Whole seconds are rounded up: others may be accepted a second before the one that was
        # refused.
        self._close(now_ns, after_s if limits.is_exact else after_s - 1.0)
        if self._epoch_ns is None or sent_ns < self._epoch_ns:
            return  # the rate was lowered since that call was sent
        self._refused += 1
        self._share += _SMOOTHING
        self._fill(now_ns)
        self._lower(now_ns)
        self._credit = min(self._credit, 0.0)
        self._epoch_ns, self._sent, self._refused = now_ns, 0, 0

    def _lower(self, now_ns: int) -> None:
        passed = self._sent - self._refused
        if self.rate_per_s is None:
            started_ns = self._epoch_ns or now_ns
            self.rate_per_s = max(passed, 1) / max((now_ns - started_ns) / 1e9, 1.0)
        elif passed <= 0:
            longest_s = max(_PAUSE_SHARE * self.refused_s(now_ns), 1 / self.rate_per_s)
            self._pause_s = min(
                2 * self._pause_s or 1 / self.rate_per_s, longest_s, _LONGEST_PAUSE_S
            )
            self._close(now_ns, self._pause_s)
        else:
            cut = max(_LEAST_CUT, self._share - _SMOOTHING)  # the refusals before this one
            self._goal_share = (
                _MOST_SHARE if cut > _DENSE else max(_LEAST_SHARE, 0.7 * self._goal_share)
            )
            self.rate_per_s *= 1.0 - min(cut, _MOST_CUT)
            self._share *= _KEPT_SHARE
            self._is_searching = False

    def _step(self) -> float:
        """Part by which a call that is sent raises the rate."""
        if self._is_searching:
            return _SEARCHING_STEP
        # above 1: longer without a refusal than is usual at the limit
        quiet = self._goal_share * self._sent
        return min(self._goal_share * _LEAST_CUT * max(1.0, quiet**3), _SEARCHING_STEP)

    def _take_over(self, quota: Quota, now_ns: int) -> None:
        """Begin with the stated rate once little of the limit is left."""
        nearly_used_up = quota.remaining <= max(_NEARLY_USED_UP * quota.limit, 1.0)
        if nearly_used_up and quota.refill_per_s is not None:
            self.rate_per_s = quota.refill_per_s
            self._is_known = True
            self._is_searching = False
            self._fill(now_ns)

    def _close(self, now_ns: int, seconds: float) -> None:
        self._closed_until_ns = max(self._closed_until_ns, now_ns + int(max(seconds, 0.0) * 1e9))

    def _fill(self, now_ns: int) -> None:
        rate = self.rate_per_s or 0.0
        most = 1.0 + rate * _LATE_S
        if self._is_known:
            most = max(1.0, rate * _BURST_S)
            rate -= most / _LIMIT_S if most > 1.0 else 0.0
        self._credit = min(most, self._credit + max(now_ns - self._credited_ns, 0) / 1e9 * rate)
        self._credited_ns = now_ns
