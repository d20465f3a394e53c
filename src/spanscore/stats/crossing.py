"""Where a condition begins to hold along a line, for limits that have no formula."""

from collections.abc import Callable
from typing import Any

from spanscore.arrays import np

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
