"""Searches whose answers have no pages: their time range is halved until each answer is all there
is.
"""

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from typing import Final, TypeVar

T = TypeVar("T")

_SHORTEST_NS: Final = 1_000_000
"""A range this short is not halved again: what does not fit is said to be missing."""


async def sliced(
    start_ns: int,
    end_ns: int,
    search: Callable[[int, int], Awaitable[tuple[Sequence[T], bool]]],
    overfull: Callable[[int, int], None],
    *,
    shortest_ns: int = _SHORTEST_NS,
) -> AsyncIterator[T]:
    """Everything between two times, the newest ranges first; what lies in two ranges may come
    twice.

    `search` is given a range (its end is part of it) and gives what it found and whether there may
    be more. `overfull` is told of the ranges that cannot be halved again, being `shortest_ns` long,
    and have more than the backend gives.
    """
    waiting = [(start_ns, end_ns)]
    while waiting:
        low_ns, high_ns = waiting.pop()
        found, has_more = await search(low_ns, high_ns)
        if has_more and high_ns - low_ns > shortest_ns:
            middle_ns = (low_ns + high_ns) // 2
            waiting += [(low_ns, middle_ns), (middle_ns + 1, high_ns)]
            continue
        if has_more:
            overfull(low_ns, high_ns)
        for item in found:
            yield item
