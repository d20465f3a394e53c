"""The difference between two selections of scores."""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from sqlalchemy.engine import Connection

from spanscore.analytics.figures import (
    NO_VALUES,
    NO_VERDICTS,
    ONE_SESSION,
    Corrected,
    Figure,
    corrected_difference,
    moments,
    without_interval,
)
from spanscore.analytics.selection import Part, Selected, Selection, select
from spanscore.analytics.summary import Summary, bounds_of, calibrations_of, summaries
from spanscore.calibration import Calibration
from spanscore.stats import Estimate
from spanscore.stats.weighted import Crossed, weighted_difference
from spanscore.store.connections import in_threads
from spanscore.store.selections import Compared, Shared, compared
from spanscore.store.sums import Cell

_UNSCALED = "the scale of the values is not recorded, so the difference has no interval"

_Key = tuple[str, str, str, tuple[tuple[str, str | None], ...]]


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
    keys = sorted({_part_key(x) for side in sides for x in side.parts}, key=repr)

    def work(key: tuple[object, ...]) -> Callable[[Connection], list[Comparison]]:
        parts = [next((x for x in side.parts if _part_key(x) == key), None) for side in sides]
        return lambda own: list(_compared(own, sides, (parts[0], parts[1]), known, level))

    return [x for found in in_threads(connection, [work(key) for key in keys]) for x in found]


def _compared(
    connection: Connection,
    sides: tuple[Selected, Selected],
    parts: tuple[Part | None, Part | None],
    known: Sequence[Calibration],
    level: float,
) -> Iterator[Comparison]:
    found = _both_sides(connection, sides, parts)
    summed = []
    for place, (side, part) in enumerate(zip(sides, parts, strict=True)):
        cells = None if found is None else found.cells[place]
        rows = (
            ()
            if part is None
            else summaries(connection, side, part, known, level=level, cells=cells)
        )
        summed.append({_key(x): x for _, x in rows})
    differences = {} if found is None else _differences(found, level)
    for own in sorted({*summed[0], *summed[1]}, key=repr):
        metric, scope, source, groups = own
        named = dict(groups)
        mean, rate, count = differences.get(_values(named, sides[0]), _NOTHING)
        pair = summed[0].get(own), summed[1].get(own)
        freed = corrected_difference(
            rate, [None if x is None else x.corrected for x in pair], level
        )
        yield Comparison(metric, scope, source, named, *pair, mean, rate, freed, count)


_NOTHING = Figure(None, 0, 0, NO_VALUES), Figure(None, 0, 0, NO_VERDICTS), 0


@dataclass(frozen=True, slots=True)
class _BothSides:
    """What a metric's scores come to on both sides, their values between the same bounds.

    `cells` has those of a side only where its own figures have these bounds too.
    """

    sums: Compared
    bounds: tuple[float, float]
    is_scaled: bool
    cells: tuple[Collection[Cell] | None, Collection[Cell] | None]


def _both_sides(
    connection: Connection, sides: tuple[Selected, Selected], parts: tuple[Part | None, Part | None]
) -> _BothSides | None:
    """None where only one side has such scores."""
    old, new = parts
    if old is None or new is None:
        return None
    scale = replace(old, procedures=[*old.procedures, *new.procedures]).scale
    own = [bounds_of(connection, side, part) for side, part in zip(sides, (old, new), strict=True)]
    bounds = (min(x[0] for x in own), max(x[1] for x in own)) if scale is None else scale
    scores = sides[0].scores(old.scored, bounds), sides[1].scores(new.scored, bounds)
    sums = compared(connection, *scores, (sides[0].groups, sides[1].groups))
    before = sums.before.values() if own[0] == bounds else None
    after = sums.after.values() if own[1] == bounds else None
    return _BothSides(sums, bounds, scale is not None, (before, after))


def _differences(
    found: _BothSides, level: float
) -> dict[tuple[str | None, ...], tuple[Figure, Figure, int]]:
    """By group the differences of mean and pass rate, and how many sessions the sides share."""
    sums = found.sums
    differences = {}
    for group in sums.before.keys() & sums.after.keys():
        pair = sums.before[group], sums.after[group]
        mean = _difference(pair, "value", sums.shared["value"].get(group), level, found.bounds)
        if not found.is_scaled and mean.estimate is not None:
            mean = replace(mean, estimate=without_interval(mean.estimate, _UNSCALED))
        rate = _difference(pair, "verdict", sums.shared["verdict"].get(group), level, (0.0, 1.0))
        counts = [x[group].clusters for x in sums.shared.values() if group in x]
        differences[group] = mean, rate, max(counts, default=0)
    return differences


def _difference(
    pair: tuple[Cell, Cell],
    kind: str,
    shared: Shared | None,
    level: float,
    bounds: tuple[float, float],
) -> Figure:
    old, new = ((x.values if kind == "value" else x.verdicts) for x in pair)
    if not (old.units and new.units):
        return Figure(None, 0, 0, NO_VALUES if kind == "value" else NO_VERDICTS)
    crossed = None if shared is None else Crossed(*shared)
    found: Estimate = weighted_difference(
        moments(old), moments(new), shared=crossed, level=level, bounds=bounds
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
