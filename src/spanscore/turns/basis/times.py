"""When things happened, and whether one may have happened within another, as far as clocks
agree.
"""

from typing import TypeAlias

MAX_SKEW_NS = 2 * 10**9
"""By how much the clocks of two that work on one turn may differ."""

Times: TypeAlias = tuple[int, int]
"""When something started and ended, in Unix nanoseconds."""


def may_lie_in(inner: Times, outer: Times, skew_ns: int = MAX_SKEW_NS) -> bool:
    """Whether one thing happened within another, as far as clocks agree: they do on how long each
    took.
    """
    return (
        outer[0] - skew_ns <= inner[0]
        and inner[1] <= outer[1] + skew_ns
        and inner[1] - inner[0] <= outer[1] - outer[0]
    )
