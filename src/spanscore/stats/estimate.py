"""Estimates: a value with its interval."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from spanscore.errors import SpanscoreError
from spanscore.lazy_imports import np


class NotEstimableError(SpanscoreError):
    """The data hold no estimate; the message is the reason, in a clause that can stand after a
    colon.
    """


@dataclass(frozen=True, slots=True)
class Interval:
    """Both limits belong to it.

    `level` is the share of such intervals that hold the true value, 0 to 1.
    """

    low: float
    high: float
    level: float = 0.95

    def __contains__(self, value: float) -> bool:
        """Whether `value` lies within.

        >>> 0.5 in Interval(0.4, 0.6), 0.7 in Interval(0.4, 0.6)
        (True, False)
        """
        return self.low <= value <= self.high


@dataclass(frozen=True, slots=True)
class Estimate:
    """A value with its interval.

    `n` counts the independent units that it rests on (labels, traces, sessions, tasks);
    `effective_n` is how many of equal weight would say as much, where units have weights or come in
    clusters. `method` names the interval; `note` says what a reader must know besides, such as that
    the value was cut to its range.
    """

    value: float
    n: int
    interval: Interval | None
    method: str
    effective_n: float | None = None
    note: str = ""

    def to_json(self) -> dict[str, Any]:
        """The estimate as JSON has it, with the interval's limits beside the value.

        >>> Estimate(0.5, 4, Interval(0.1, 0.9), "exact").to_json()["low"]
        0.1
        """
        low, high, level = (
            (self.interval.low, self.interval.high, self.interval.level)
            if self.interval
            else (None, None, None)
        )
        return {
            "value": self.value,
            "n": self.n,
            "low": low,
            "high": high,
            "level": level,
            "method": self.method,
            "effective_n": self.effective_n,
            "note": self.note or None,
        }


def require_level(level: float) -> None:
    """Refuse a confidence level that is no share of intervals. Raises ValueError."""
    if not 0 < level < 1:
        raise ValueError(f"level {level}: give a number between 0 and 1, such as 0.95")


_ROUNDS, _POINTS = 6, 64  # 1e-10 of where it begins


def crossing(holds: Callable[[Any], Any], low: float, high: float) -> float:
    """From where on `holds` between the two, to be safe just before it; many points at once, which
    costs little.
    """
    for _ in range(_ROUNDS):
        points = np.linspace(low, high, _POINTS)
        found = np.flatnonzero(holds(points[1:-1]))
        place = int(found[0]) + 1 if len(found) else _POINTS - 1
        low, high = float(points[place - 1]), float(points[place])
    return low
