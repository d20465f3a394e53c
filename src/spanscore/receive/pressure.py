"""What is turned away to keep memory and time bounded: counted, and logged in one line a minute at
most.
"""

import logging
import time
from collections import Counter
from collections.abc import Callable
from typing import Final

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
