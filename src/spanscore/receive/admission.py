"""Bounds on requests while memory is short.

A sender decides how long its request takes to arrive, and what has come of it takes memory
meanwhile. So a request that has not arrived whole gives way to others: see `Admission`.
"""

import logging
import time
from collections import Counter
from collections.abc import Callable
from typing import Final

from spanscore.errors import RetryableError

_MAX_ARRIVING: Final = 1000
"""Requests that may be arriving at once, over all connections; past it the one that takes longest
gives way.
"""

_SMALL_BYTES: Final = 2**20
_FAIR_S: Final = 5.0
"""How long a request may take to arrive before it gives way to any other."""


class Arrival:
    """A request that has come, at least in part. Its bytes count until `end`."""

    def __init__(self, admission: "Admission", give_way: Callable[[], None], now_s: float) -> None:
        self._admission = admission
        self._give_way = give_way
        self.since_s = now_s
        self.size_bytes = 0
        self.gave_way = False

    def grow(self, size_bytes: int) -> None:
        """It has this many bytes now.

        Raises RetryableError where that is more than there is room for.
        """
        self._admission.grow(self, size_bytes)

    def complete(self, size_bytes: int) -> None:
        """It has arrived, with this many bytes, and gives way no more.

        Raises RetryableError likewise.
        """
        self._admission.grow(self, size_bytes)
        self._admission.arrived(self)

    def end(self) -> None:
        """It is answered; calling it again does nothing."""
        self._admission.end(self)

    def make_way(self) -> None:
        """Stop receiving it."""
        self.gave_way = True
        self.end()
        self._give_way()


class Admission:
    """Counts the bytes of requests, from when they begin to arrive until they are answered,
    `max_bytes` at most.

    Where a request needs room and there is none, others that are arriving give way, those first
    that have taken the most memory for the longest: all that take longer than five seconds, and for
    a small request all that are larger. A complete request never gives way. Belongs to one event
    loop; `clock_s` counts seconds.
    """

    def __init__(self, max_bytes: int, *, clock_s: Callable[[], float] = time.monotonic) -> None:
        self.size_bytes = 0
        self._max_bytes = max_bytes
        self._clock_s = clock_s
        self._arriving: dict[Arrival, None] = {}  # in the order in which they began
        self._complete: set[Arrival] = set()

    @property
    def arriving(self) -> int:
        """How many requests are arriving."""
        return len(self._arriving)

    @property
    def is_idle(self) -> bool:
        """Whether no request is arriving or being worked on."""
        return not self._arriving and not self._complete

    def arrive(self, give_way: Callable[[], None]) -> Arrival:
        """A request begins to arrive; `give_way` is called when it must stop, and its `gave_way` is
        set then.
        """
        if len(self._arriving) >= _MAX_ARRIVING:
            next(iter(self._arriving)).make_way()
        arrival = Arrival(self, give_way, self._clock_s())
        self._arriving[arrival] = None
        return arrival

    def grow(self, arrival: Arrival, size_bytes: int) -> None:
        """See `Arrival.grow`."""
        if arrival.gave_way:
            raise _no_room(self._max_bytes)
        lacking = self.size_bytes + size_bytes - arrival.size_bytes - self._max_bytes
        if lacking > 0 and not self._make_room(arrival, lacking, size_bytes):
            raise _no_room(self._max_bytes)
        self.size_bytes += size_bytes - arrival.size_bytes
        arrival.size_bytes = size_bytes

    def arrived(self, arrival: Arrival) -> None:
        """See `Arrival.complete`."""
        self._arriving.pop(arrival, None)
        self._complete.add(arrival)

    def end(self, arrival: Arrival) -> None:
        """See `Arrival.end`."""
        self._arriving.pop(arrival, None)
        self._complete.discard(arrival)
        self.size_bytes -= arrival.size_bytes
        arrival.size_bytes = 0

    def _make_room(self, newcomer: Arrival, lacking: int, size_bytes: int) -> bool:
        is_small = size_bytes <= _SMALL_BYTES
        now_s = self._clock_s()
        giving_way = sorted(
            (
                x
                for x in self._arriving
                if x is not newcomer
                and (now_s - x.since_s >= _FAIR_S or (is_small and x.size_bytes > size_bytes))
            ),
            key=lambda x: x.size_bytes * (now_s - x.since_s),
            reverse=True,
        )
        if sum(x.size_bytes for x in giving_way) < lacking:
            return False
        for other in giving_way:
            if lacking <= 0:
                break
            lacking -= other.size_bytes
            other.make_way()
        return True


def _no_room(max_bytes: int) -> RetryableError:
    return RetryableError(
        f"requests that are being received take all of {max_bytes:,} bytes"
        " (receive.max_bytes_in_flight): try again",
        why="memory",
    )


_log = logging.getLogger(__name__)

_EVERY_S: Final = 60.0
REASONS: Final = frozenset({"busy", "connections", "decoding", "headers", "memory", "slow"})
"""Why something is turned away that is sound as far as it came."""


class Seldom:
    """Lets a line of the log pass once in `every_s` seconds, where senders decide how often there
    is one.
    """

    def __init__(self, every_s: float = 1.0, clock_s: Callable[[], float] = time.monotonic) -> None:
        self._every_s = every_s
        self._clock_s = clock_s
        self._last_s: float | None = None

    def is_due(self) -> bool:
        """Whether a line may be logged now; if so, it counts as logged."""
        now_s = self._clock_s()
        if self._last_s is not None and now_s - self._last_s < self._every_s:
            return False
        self._last_s = now_s
        return True


class Allowance:
    """`max_bytes` at once, and as many again in `every_s` seconds, little by little."""

    def __init__(
        self, max_bytes: int, every_s: float, clock_s: Callable[[], float] = time.monotonic
    ) -> None:
        self._max_bytes = max_bytes
        self._per_s = max_bytes / every_s
        self._clock_s = clock_s
        self._left = float(max_bytes)
        self._then_s = clock_s()

    def take(self, size_bytes: int) -> bool:
        """Whether so many bytes are allowed now; if so, they are used up."""
        now_s = self._clock_s()
        self._left = min(self._max_bytes, self._left + (now_s - self._then_s) * self._per_s)
        self._then_s = now_s
        if size_bytes > self._left:
            return False
        self._left -= size_bytes
        return True


class Pressure:
    """Logs what was turned away: the first at once, what follows within a minute with the next
    after it.
    """

    def __init__(self, clock_s: Callable[[], float] = time.monotonic) -> None:
        self._since: Counter[str] = Counter()
        self._seldom = Seldom(_EVERY_S, clock_s)

    def note(self, transport: str, reason: str) -> None:
        """Something was turned away; a `reason` that is none of `REASONS` is passed over."""
        if reason not in REASONS:
            return
        self._since[f"{transport} {reason}"] += 1
        if self._seldom.is_due():
            shown = ", ".join(f"{what}: {count}" for what, count in sorted(self._since.items()))
            _log.warning(
                "requests or connections were turned away to keep memory and time bounded (%s);"
                " their senders are asked to send again. If they are yours, raise the limits under"
                " `receive`; else find out who sends",
                shown,
            )
            self._since.clear()
