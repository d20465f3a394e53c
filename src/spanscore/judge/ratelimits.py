"""What a provider's response headers state about its rate limits, in the several spellings that
providers use.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

_PART = re.compile(r"(\d+(?:\.\d+)?)(ms|h|m|s)")
_UNIT_S = {"h": 3600.0, "m": 60.0, "s": 1.0, "ms": 0.001}
_LEAST_EPOCH_S = 1e9
_LEAST_EPOCH_MS = 1e12
_NAMES = {
    "requests": (
        "x-ratelimit-{}-requests",  # OpenAI, Azure OpenAI, Groq and many that follow them
        "anthropic-ratelimit-requests-{}",
        "x-ratelimit-{}-req-minute",  # Mistral
        "ratelimit-{}",  # the IETF draft
        "x-ratelimit-{}",  # OpenRouter, gateways
    ),
    "tokens": (
        "x-ratelimit-{}-tokens",
        "anthropic-ratelimit-tokens-{}",
        "anthropic-ratelimit-input-tokens-{}",
        "x-ratelimit-{}-tokens-minute",
    ),
}


@dataclass(frozen=True, slots=True)
class Quota:
    """One limit: `limit` requests or tokens, of which `remaining` are left, all of them again in
    `reset_s` seconds.

    `reset_s` is None where no header states it.
    """

    limit: float
    remaining: float
    reset_s: float | None

    @property
    def refill_per_s(self) -> float | None:
        """How fast what was used comes back, where the limit is a bucket that fills; None where
        that is not stated.

        Where it is a window that ends in `reset_s`, this is at least the window's mean rate once it
        is used up.
        """
        used = self.limit - self.remaining
        return used / self.reset_s if self.reset_s and used > 0 else None


@dataclass(frozen=True, slots=True)
class RateLimits:
    """What the headers of one response state; None where they state nothing.

    `retry_after_s`: when to come back, in seconds. `is_exact`: that is not rounded up to a whole
    second.
    """

    retry_after_s: float | None = None
    is_exact: bool = False
    requests: Quota | None = None
    tokens: Quota | None = None


NOTHING_STATED = RateLimits()


def read(headers: Mapping[str, str], now_ns: int) -> RateLimits:
    """The limits in `headers`, whose names are in lower case; `now_ns` turns dates into seconds.

    Never raises.

    >>> read({"retry-after-ms": "250", "retry-after": "1"}, 0).retry_after_s
    0.25
    """
    milliseconds = _number(headers.get("retry-after-ms"))
    after = retry_after_s(headers.get("retry-after"), now_ns)
    seconds = _number(headers.get("retry-after"))  # a date is to the second
    is_exact = milliseconds is not None or (seconds is not None and seconds != int(seconds))
    return RateLimits(
        after if milliseconds is None else milliseconds / 1e3,
        is_exact,
        _quota(headers, "requests", now_ns),
        _quota(headers, "tokens", now_ns),
    )


def retry_after_s(header: str | None, now_ns: int) -> float | None:
    """Seconds that a Retry-After header asks to wait: a number of seconds or an HTTP date; None for
    anything else.

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


def _quota(headers: Mapping[str, str], unit: str, now_ns: int) -> Quota | None:
    """The first of the unit's spellings that states what is left of what limit."""
    for name in _NAMES[unit]:
        limit = _number(headers.get(name.format("limit")))
        remaining = _number(headers.get(name.format("remaining")))
        if limit and remaining is not None:
            return Quota(
                limit, min(remaining, limit), reset_s(headers.get(name.format("reset")), now_ns)
            )
    return None


def reset_s(text: str | None, now_ns: int) -> float | None:
    """Seconds until a limit is reset: a number of them, `6m0s`, `120ms`, a time since 1970, or an
    RFC 3339 time.

    >>> reset_s("1m0.5s", 0), reset_s("120ms", 0), reset_s("1970-01-01T00:00:07Z", 0)
    (60.5, 0.12, 7.0)
    """
    if text is None:
        return None
    number, now_s = _number(text), now_ns / 1e9
    if number is not None:
        if number >= _LEAST_EPOCH_MS:
            return max(number / 1e3 - now_s, 0.0)
        return max(number - now_s, 0.0) if number >= _LEAST_EPOCH_S else number
    compact = text.strip().lower()
    if compact and not _PART.sub("", compact):
        return sum(float(x) * _UNIT_S[unit] for x, unit in _PART.findall(compact))
    try:
        moment = datetime.fromisoformat(text.strip())
    except ValueError:
        return None
    return max(moment.replace(tzinfo=moment.tzinfo or UTC).timestamp() - now_s, 0.0)


def _number(text: str | None) -> float | None:
    """A finite number that is not negative."""
    try:
        number = float(text) if text is not None else -1.0
    except ValueError:
        return None
    return number if 0 <= number < float("inf") else None
