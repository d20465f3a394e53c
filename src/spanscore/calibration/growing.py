"""How far a judge agreed with people as their labels grew."""

from collections.abc import Mapping
from dataclasses import replace
from typing import NamedTuple

from spanscore.calibration.calibrating import Measure, measures
from spanscore.calibration.matching import Matched

_MAX_POINTS = 20


class Point(NamedTuple):
    """Agreement and Cohen's kappa of the first `n` labelled units, the last of them labelled at
    `labelled_ns`.
    """

    labelled_ns: int
    n: int
    agreement: Measure
    kappa: Measure


def growth(matched: Matched, given_ns: Mapping[str, int], level: float) -> list[Point]:
    """At most 20 points, after as many labels each, the last after all.

    `given_ns` is when each trace or session was labelled, by any of its names, in Unix ns.
    """

    def labelled_ns(place: int) -> int:
        names = matched.pairs[place].verdict.names
        return max((given_ns[x] for x in names if x in given_ns), default=0)

    order = sorted(range(len(matched.pairs)), key=labelled_ns)
    count = min(_MAX_POINTS, len(order))
    found = []
    for n in sorted({round(len(order) * step / count) for step in range(1, count + 1)}):
        first = replace(
            matched, pairs=[matched.pairs[x] for x in order[:n]], others=(), annotators={}
        )
        by_name = {x.name: x for x in measures(first, level)}
        found.append(
            Point(labelled_ns(order[n - 1]), n, by_name["agreement"], by_name["Cohen's kappa"])
        )
    return found
