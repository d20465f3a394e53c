"""Retries: which refusals pass, and how long to wait."""

import math
from datetime import UTC
from email.utils import parsedate_to_datetime

_PASSING = frozenset({408, 409, 429})


def may_pass(status: int | None) -> bool:
    """Whether a request that was refused so may succeed later: 408, 409, 429, any 5xx, no
    answer.
    """
    return status is None or status in _PASSING or status >= 500


def backoff_s(
    tried: int, first_s: float, chance: float = 0.5, *, longest_s: float = math.inf
) -> float:
    """Seconds to wait after `tried` failures: doubled for each, half more or less by `chance`, so
    that clients that failed together do not come back together.

    >>> backoff_s(3, 0.5), backoff_s(3, 0.5, 0.0)
    (2.0, 1.0)
    """
    return min(first_s * 2.0 ** min(tried - 1, 60), longest_s) * (0.5 + chance)


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
        except (ValueError, OverflowError):
            return None
        seconds = date.replace(tzinfo=date.tzinfo or UTC).timestamp() - now_ns / 1e9
    return max(seconds, 0.0) if seconds < math.inf else None
