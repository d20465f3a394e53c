"""Summaries, trends and comparisons of each metric's scores."""

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta, tzinfo
from typing import Final, Literal, NamedTuple, TypeAlias

from sqlalchemy import func, select as query
from sqlalchemy.engine import Connection

from spanscore.analytics import cells
from spanscore.analytics.cells import Cells, Missing, Sample
from spanscore.analytics.figures import (
    NO_VALUES,
    NO_VERDICTS,
    ONE_SESSION,
    Corrected,
    Figure,
    corrected,
    corrected_difference,
    means_and_rates,
    without_interval,
)
from spanscore.analytics.selection import Part, Selected, Selection, select
from spanscore.calibration import Calibration
from spanscore.errors import FieldError
from spanscore.model.score import Evaluation
from spanscore.stats import outweighed
from spanscore.stats.weighted import weighted_difference
from spanscore.store import calibrations, selections, session_ranks, stored_rows
from spanscore.store.connections import in_threads
from spanscore.store.schema import scores as scores_table
from spanscore.time_zones import zone_of

Unit: TypeAlias = Literal["hour", "day", "week", "month", "quarter", "year"]

MAX_BUCKETS: Final = 2000
_MONTHS: Final = {"month": 1, "quarter": 3, "year": 12}
_NS: Final = 10**9
_LAST_YEAR: Final = 2262


def zone(name: str) -> tzinfo:
    """The time zone of this name, such as Europe/Berlin; "" is UTC. Raises FieldError."""
    try:
        return zone_of(name or "UTC")
    except ValueError as error:
        raise FieldError("time_zone", str(error)) from None


def bucket_edges(start_ns: int, end_ns: int, unit: Unit, time_zone: tzinfo) -> list[int]:
    """The beginnings of the buckets that cover `start_ns` to before `end_ns`, and the end of the
    last; Unix ns.

    A day begins at midnight of the time zone and has 23 or 25 hours where the clocks change; an
    hour has 60 minutes. Weeks begin on Monday. Raises FieldError where they are too many.

    >>> berlin = zone("Europe/Berlin")
    >>> days = bucket_edges(
    ...     1_774_738_800 * 10**9, 1_774_825_200 * 10**9, "day", berlin
    ... )  # 29 March 2026, clocks change
    >>> [(b - a) // 3_600_000_000_000 for a, b in zip(days, days[1:])]
    [23, 24]
    """
    found = []
    for edge in _from(start_ns, unit, time_zone):
        found.append(edge)
        if edge >= end_ns:
            return found
        if len(found) > MAX_BUCKETS:
            raise FieldError(
                "unit",
                f"more than {MAX_BUCKETS} buckets of one {unit}: take longer ones, or a shorter"
                " time",
            )
    return found


def _from(start_ns: int, unit: Unit, time_zone: tzinfo) -> Iterator[int]:
    """The beginning of the bucket that contains a moment, and of those after it."""
    moment = datetime.fromtimestamp(start_ns // _NS, UTC).astimezone(time_zone)
    if unit == "hour":
        first = moment.astimezone(UTC) - timedelta(minutes=moment.minute, seconds=moment.second)
        yield from (_ns(first + timedelta(hours=x)) for x in range(MAX_BUCKETS + 2))
        return
    begin = datetime(moment.year, moment.month, moment.day)  # noqa: DTZ001 - a day of the calendar
    if unit == "week":
        begin -= timedelta(days=begin.weekday())
    elif unit in _MONTHS:
        months = _MONTHS[unit]
        begin = begin.replace(month=(begin.month - 1) // months * months + 1, day=1)
    while begin.year <= _LAST_YEAR:
        yield _ns(begin.replace(tzinfo=time_zone))
        begin = _next(begin, unit)


def _next(begin: datetime, unit: Unit) -> datetime:
    if unit in _MONTHS:
        month = begin.month - 1 + _MONTHS[unit]
        return begin.replace(year=begin.year + month // 12, month=month % 12 + 1)
    return begin + timedelta(days=7 if unit == "week" else 1)


def _ns(moment: datetime) -> int:
    return int(moment.timestamp()) * _NS


@dataclass(frozen=True, slots=True)
class Summary:
    """The scores of one metric from one source, of one group: figures, and on how many scores they
    rest.

    `groups` has the value of each field that was grouped by. `scale` is that of the mean, None
    where none is recorded. `least_chance`: the least chance with which one of them was drawn.
    `corrected`: None where no judge of the metric was calibrated.
    """

    metric: str
    scope: str
    source: str
    groups: Mapping[str, str | None]
    scores: int
    subjects: int
    sessions: int
    mean: Figure
    pass_rate: Figure
    corrected: Corrected | None
    scale: tuple[float, float] | None
    least_chance: float
    missing: Sequence[Missing]


class Point(NamedTuple):
    """The summary of a time: from `start_ns` to before `end_ns`, Unix ns."""

    start_ns: int
    end_ns: int
    summary: Summary


@dataclass(frozen=True, slots=True)
class Series:
    """One metric of one source and group over time; times without any score, also a missing one,
    are left out.
    """

    metric: str
    scope: str
    source: str
    groups: Mapping[str, str | None]
    points: Sequence[Point]


def summarize(
    connection: Connection, selection: Selection, group_by: Sequence[str] = (), level: float = 0.95
) -> list[Summary]:
    """The summary of each metric, scope, source and group.

    Raises FieldError where the question cannot be right.
    """
    selected, known = (
        select(connection, selection, group_by),
        calibrations_of(connection, selection.tenant),
    )
    found = in_threads(
        connection, [_work(selected, part, known, (), level) for part in selected.parts]
    )
    return [summary for of_part in found for _, summary in of_part]


def trend(
    connection: Connection,
    selection: Selection,
    unit: Unit,
    time_zone: tzinfo,
    group_by: Sequence[str] = (),
    level: float = 0.95,
) -> list[Series]:
    """The summaries of each `unit` of time.

    Raises FieldError where the question cannot be right.
    """
    selected, known = (
        select(connection, selection, group_by),
        calibrations_of(connection, selection.tenant),
    )
    edges = _edges(connection, selected, unit, time_zone)
    found: dict[str, list[tuple[int, Summary]]] = defaultdict(list)
    tasks = [_work(selected, part, known, edges, level) for part in selected.parts] if edges else []
    for of_part in in_threads(connection, tasks):
        for bucket, summary in of_part:
            key = repr(
                (summary.metric, summary.scope, summary.source, tuple(summary.groups.items()))
            )
            found[key].append((bucket or 0, summary))
    return [_series(points, edges) for points in found.values()]


def _work(
    selected: Selected, part: Part, known: Sequence[Calibration], edges: Sequence[int], level: float
) -> Callable[[Connection], list[tuple[int | None, Summary]]]:
    return lambda connection: list(
        summaries(
            connection, selected, part, cells.read(connection, selected, part, edges), known, level
        )
    )


def _series(found: Sequence[tuple[int, Summary]], edges: Sequence[int]) -> Series:
    first = found[0][1]
    ordered = sorted(found, key=lambda x: x[0])
    points = [Point(edges[bucket], edges[bucket + 1], summary) for bucket, summary in ordered]
    return Series(first.metric, first.scope, first.source, first.groups, points)


def _edges(connection: Connection, selected: Selected, unit: Unit, time_zone: tzinfo) -> list[int]:
    """The edges of the buckets: of the time that is asked for, else of all scores; none where there
    are no scores.
    """
    start_ns, end_ns = selected.selection.start_ns, selected.selection.end_ns
    if start_ns is None or end_ns is None:
        procedures = [x for part in selected.parts for x in part.procedures]
        first, last = selections.times(connection, selected.scores(procedures))
        if first is None or last is None:
            return []
        start_ns = first if start_ns is None else start_ns
        end_ns = last + 1 if end_ns is None else end_ns
    return bucket_edges(start_ns, end_ns, unit, time_zone)


def summaries(
    connection: Connection,
    selected: Selected,
    part: Part,
    found: Cells,
    known: Sequence[Calibration],
    level: float,
) -> Iterator[tuple[int | None, Summary]]:
    """The summaries of a part, each with the number of its bucket, None without buckets."""
    values, verdicts = found.sample("value", found.bounds), found.sample("verdict")
    figures = means_and_rates(
        values.moments,
        verdicts.moments,
        found.bounds,
        is_scaled=part.scale is not None,
        level=level,
    )
    _name_heaviest(connection, selected, part, (values, verdicts), figures)
    for place in sorted(found.places, key=repr):
        number, missing = found.places[place], found.missing.get(place, ())
        if not (found.scores[number] or missing):
            continue
        named = {**dict(zip(selected.fields, place.group, strict=True)), **part.groups}
        yield (
            place.bucket,
            Summary(
                part.metric,
                part.scope,
                part.source,
                {name: named[name] for name in selected.group_by},
                found.scores[number],
                found.subjects[number],
                found.clusters[number],
                figures[0][number],
                figures[1][number],
                corrected(verdicts.moments[number], part.scored, known, level),
                part.scale,
                part.least_chance,
                missing,
            ),
        )


def _name_heaviest(
    connection: Connection,
    selected: Selected,
    part: Part,
    samples: tuple[Sample, Sample],
    figures: tuple[list[Figure], list[Figure]],
) -> None:
    """Add notes to `figures` that name the sessions which make intervals wide."""
    heaviest = {
        (kind, place): sample.heaviest(place)
        for kind, sample in enumerate(samples)
        for place, figure in enumerate(figures[kind])
        if figure.estimate is not None
        and figure.estimate.interval is not None
        and sample.moments[place].outweighing
    }
    if not heaviest:
        return
    table = scores_table.c
    member = query(table.cluster, func.max(table.number).label("number")).where(
        *selected.scores(part.scored).conditions(),
        stored_rows.among(table.cluster, [*{*heaviest.values()}]),
    )
    members = {x.cluster: x.number for x in connection.execute(member.group_by(table.cluster))}
    examples = session_ranks.examples(
        connection, selected.selection.tenant, sorted(members.values())
    )
    for (kind, place), cluster in heaviest.items():
        estimate, example = figures[kind][place].estimate, examples.get(members[cluster])
        if estimate is not None and example is not None:
            noted = outweighed(estimate, samples[kind].moments[place], _name_of(example))
            figures[kind][place] = replace(figures[kind][place], estimate=noted)


def _name_of(score: Evaluation) -> str:
    """The session of a score, or its trace that belongs to none."""
    session = score.session_id or score.session_key
    return f"session {session}" if session else f"trace {score.target.trace_id}"


def calibrations_of(connection: Connection, tenant: str) -> list[Calibration]:
    """The calibrations that hold for a tenant."""
    found = (Calibration.from_json(x) for x in calibrations.read(connection, tenant))
    return [x for x in found if x is not None]


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
