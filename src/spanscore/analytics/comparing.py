"""Two periods, two versions, or any two selections of scores: how far their figures differ, and how sure that is."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from sqlalchemy.engine import Connection

from spanscore.analytics.figures import NO_VALUES, NO_VERDICTS, ONE_SESSION, Figure, moments, without_interval
from spanscore.analytics.selection import Part, Selected, Selection, select
from spanscore.analytics.summary import Summary, bounds_of, calibrations_of, summaries
from spanscore.calibration import Calibration
from spanscore.stats import Estimate
from spanscore.stats.weighted import Crossed, weighted_difference
from spanscore.store import spread, sums
from spanscore.store.sums import Cell
from spanscore.store.transactions import together

_UNSCALED = "the scale of the values is not recorded, so the difference has no interval"

_Key = tuple[str, str, str, tuple[tuple[str, str | None], ...]]


@dataclass(frozen=True, slots=True)
class Comparison:
    """One metric from one source and of one group, before and after; a side is None where it has no such scores.

    The differences are after less before. `shared_sessions` have scores on both sides.
    """

    metric: str
    scope: str
    source: str
    groups: Mapping[str, str | None]
    before: Summary | None
    after: Summary | None
    mean_difference: Figure
    pass_rate_difference: Figure
    shared_sessions: int


def compare(
    connection: Connection, before: Selection, after: Selection, group_by: Sequence[str] = (), level: float = 0.95
) -> list[Comparison]:
    """Each metric, scope, source and group of two selections. Raises FieldError where the question cannot be right."""
    sides = select(connection, before, group_by), select(connection, after, group_by)
    known = calibrations_of(connection, after.tenant)
    keys = sorted({_part_key(x) for side in sides for x in side.parts}, key=repr)

    def work(key: tuple[object, ...]) -> Callable[[Connection], list[Comparison]]:
        parts = [next((x for x in side.parts if _part_key(x) == key), None) for side in sides]
        return lambda own: list(_compared(own, sides, (parts[0], parts[1]), known, level))

    return [x for found in together(connection, [work(key) for key in keys]) for x in found]


def _compared(
    connection: Connection,
    sides: tuple[Selected, Selected],
    parts: tuple[Part | None, Part | None],
    known: Sequence[Calibration],
    level: float,
) -> Iterator[Comparison]:
    summed = [
        {} if part is None else {_key(x): x for _, x in summaries(connection, side, part, known, level=level)}
        for side, part in zip(sides, parts, strict=True)
    ]
    differences = _differences(connection, sides, parts[0], parts[1], level)
    for own in sorted({*summed[0], *summed[1]}, key=repr):
        metric, scope, source, groups = own
        named = dict(groups)
        mean, rate, count = differences.get(_values(named, sides[0]), _NOTHING)
        pair = summed[0].get(own), summed[1].get(own)
        yield Comparison(metric, scope, source, named, *pair, mean, rate, count)


_NOTHING = Figure(None, 0, 0, NO_VALUES), Figure(None, 0, 0, NO_VERDICTS), 0


def _differences(
    connection: Connection, sides: tuple[Selected, Selected], old: Part | None, new: Part | None, level: float
) -> dict[tuple[str | None, ...], tuple[Figure, Figure, int]]:
    """By group the differences of mean and pass rate, and how many sessions the sides share."""
    if old is None or new is None:
        return {}
    both = replace(old, procedures=[*old.procedures, *new.procedures])
    bounds = both.scale
    is_scaled = bounds is not None
    if bounds is None:
        limits = [bounds_of(connection, side, part) for side, part in zip(sides, (old, new), strict=True)]
        bounds = min(x[0] for x in limits), max(x[1] for x in limits)
    scores = sides[0].scores(old.scored, bounds), sides[1].scores(new.scored, bounds)
    groups = sides[0].groups, sides[1].groups
    cells = [
        {x.group: x for x in sums.cells(connection, own, groups=of_groups)}
        for own, of_groups in zip(scores, groups, strict=True)
    ]
    shared = {
        kind: {x.group: x for x in spread.shared(connection, *scores, kind, groups)} for kind in ("value", "verdict")
    }
    chance = min(old.least_chance, new.least_chance)
    found = {}
    for group in cells[0].keys() & cells[1].keys():
        pair = cells[0][group], cells[1][group]
        mean = _difference(pair, "value", shared["value"].get(group), chance, level, bounds)
        if not is_scaled and mean.estimate is not None:
            mean = replace(mean, estimate=without_interval(mean.estimate, _UNSCALED))
        rate = _difference(pair, "verdict", shared["verdict"].get(group), chance, level, (0.0, 1.0))
        counts = [x[group].clusters for x in shared.values() if group in x]
        found[group] = mean, rate, max(counts, default=0)
    return found


def _difference(
    pair: tuple[Cell, Cell],
    kind: str,
    shared: spread.Shared | None,
    chance: float,
    level: float,
    bounds: tuple[float, float],
) -> Figure:
    old, new = ((x.values if kind == "value" else x.verdicts) for x in pair)
    if not (old.units and new.units):
        return Figure(None, 0, 0, NO_VALUES if kind == "value" else NO_VERDICTS)
    crossed = None if shared is None else Crossed(*shared[1:])
    found: Estimate = weighted_difference(
        moments(old), moments(new), shared=crossed, level=level, least_chance=chance, bounds=bounds
    )
    if min(old.clusters, new.clusters) < 2:
        found = without_interval(found, f"one side: {ONE_SESSION}")
    clusters = old.clusters + new.clusters - (shared.clusters if shared else 0)
    return Figure(found, old.units + new.units, clusters)


def _part_key(part: Part) -> tuple[object, ...]:
    return part.metric, part.scope, part.source, tuple(part.groups.items())


def _key(summary: Summary) -> _Key:
    return summary.metric, summary.scope, summary.source, tuple(summary.groups.items())


def _values(groups: Mapping[str, str | None], side: Selected) -> tuple[str | None, ...]:
    return tuple(groups[name] for name in side.groups.fields)
