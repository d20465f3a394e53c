"""The difference between two selections of scores."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

from sqlalchemy.engine import Connection

from spanscore.analytics import cells
from spanscore.analytics.cells import Cells, Sample
from spanscore.analytics.figures import (
    NO_VALUES,
    NO_VERDICTS,
    ONE_SESSION,
    Corrected,
    Figure,
    corrected_difference,
    without_interval,
)
from spanscore.analytics.selection import Part, Selected, Selection, select
from spanscore.analytics.summary import Summary, calibrations_of, summaries
from spanscore.calibration import Calibration
from spanscore.stats.weighted import weighted_difference
from spanscore.store.connections import in_threads

_Key: TypeAlias = tuple[str, str, str, tuple[tuple[str, str | None], ...]]

_UNSCALED = "the scale of the values is not recorded, so the difference has no interval"


@dataclass(frozen=True, slots=True)
class Comparison:
    """One metric from one source and of one group, before and after; a side is None where it has no
    such scores.

    The differences are after less before. `corrected_difference`: that of the pass rates, freed of
    the judges' errors; None where no judge of the metric was calibrated. `shared_sessions` have
    scores on both sides.
    """

    metric: str
    scope: str
    source: str
    groups: Mapping[str, str | None]
    before: Summary | None
    after: Summary | None
    mean_difference: Figure
    pass_rate_difference: Figure
    corrected_difference: Corrected | None
    shared_sessions: int


def compare(
    connection: Connection,
    before: Selection,
    after: Selection,
    group_by: Sequence[str] = (),
    level: float = 0.95,
) -> list[Comparison]:
    """Each metric, scope, source and group of two selections.

    Raises FieldError where the question cannot be right.
    """
    sides = select(connection, before, group_by), select(connection, after, group_by)
    known = calibrations_of(connection, after.tenant)
    keys = sorted({_key(x) for side in sides for x in side.parts}, key=repr)

    def work(key: _Key) -> Callable[[Connection], list[Comparison]]:
        return lambda own: list(_compared(own, sides, key, known, level))

    return [x for found in in_threads(connection, [work(key) for key in keys]) for x in found]


def _compared(
    connection: Connection,
    sides: tuple[Selected, Selected],
    key: _Key,
    known: Sequence[Calibration],
    level: float,
) -> Iterator[Comparison]:
    summed: list[dict[_Key, Summary]] = [{}, {}]
    read = []
    for side, of_side in zip(sides, summed, strict=True):
        for part in side.parts:
            if _key(part) == key:
                read.append(cells.read(connection, side, part))
                rows = summaries(connection, side, part, read[-1], known, level)
                of_side.update((_key(x), x) for _, x in rows)
    differences = _differences(read[0], read[1], level) if len(read) > 1 else {}
    for own in sorted({*summed[0], *summed[1]}, key=repr):
        metric, scope, source, groups = own
        named = dict(groups)
        group = tuple(named[x] for x in sides[0].fields)
        mean, rate, count = differences.get(group, _NOTHING)
        pair = summed[0].get(own), summed[1].get(own)
        freed = corrected_difference(
            rate, [None if x is None else x.corrected for x in pair], level
        )
        yield Comparison(metric, scope, source, named, *pair, mean, rate, freed, count)


_NOTHING = Figure(None, 0, 0, NO_VALUES), Figure(None, 0, 0, NO_VERDICTS), 0


def _differences(
    before: Cells, after: Cells, level: float
) -> dict[tuple[str | None, ...], tuple[Figure, Figure, int]]:
    """By group the differences of mean and pass rate, and how many sessions the sides share."""
    joint = replace(before.part, procedures=[*before.part.procedures, *after.part.procedures])
    own = before.bounds, after.bounds
    bounds = joint.scale or (min(x[0] for x in own), max(x[1] for x in own))
    values = before.sample("value", bounds), after.sample("value", bounds)
    verdicts = before.sample("verdict"), after.sample("verdict")
    found = {}
    for place in before.places.keys() & after.places.keys():
        pair = before.places[place], after.places[place]
        mean, shared = _difference(values, pair, NO_VALUES, bounds, level)
        if joint.scale is None and mean.estimate is not None:
            mean = replace(mean, estimate=without_interval(mean.estimate, _UNSCALED))
        rate, judged = _difference(verdicts, pair, NO_VERDICTS, (0.0, 1.0), level)
        found[place.group] = mean, rate, max(shared, judged)
    return found


def _difference(
    sides: tuple[Sample, Sample],
    places: tuple[int, int],
    why_none: str,
    bounds: tuple[float, float],
    level: float,
) -> tuple[Figure, int]:
    """The difference of two places, and how many sessions they share."""
    old, new = (side.moments[place] for side, place in zip(sides, places, strict=True))
    if not (old.units and new.units):
        return Figure(None, 0, 0, why_none), 0
    shared = sides[0].shared(places[0], sides[1], places[1])
    found = weighted_difference(old, new, shared=shared, level=level, bounds=bounds)
    if min(old.clusters, new.clusters) < 2:
        found = without_interval(found, f"one side: {ONE_SESSION}")
    count = shared.clusters if shared else 0
    return Figure(found, old.units + new.units, old.clusters + new.clusters - count), count


def _key(found: Part | Summary) -> _Key:
    return found.metric, found.scope, found.source, tuple(found.groups.items())
