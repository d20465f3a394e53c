"""Summaries and trends of each metric's scores."""

from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta, tzinfo
from typing import Any, Final, Literal, NamedTuple, TypeAlias

from sqlalchemy.engine import Connection

from spanscore.analytics.figures import Corrected, Figure, corrected, means, moments, pass_rates
from spanscore.analytics.selection import Part, Selected, Selection, groups_of, select
from spanscore.calibration import Calibration
from spanscore.errors import FieldError
from spanscore.model.score import Evaluation
from spanscore.stats import outweighed
from spanscore.store import calibrations, selections, session_ranks, sums
from spanscore.store.connections import in_threads
from spanscore.store.sums import Cell
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
class Missing:
    """Scores that are missing: "skipped" or "failed", the skip's cause or the error's type, and how
    many.
    """

    status: str
    cause: str
    count: int


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


_Place = tuple[int | None, tuple[str | None, ...]]


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
    return lambda connection: list(summaries(connection, selected, part, known, edges, level=level))


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
        everything = selected.scores(x for part in selected.parts for x in part.procedures)
        first, last = selections.times(connection, everything.conditions())
        if first is None or last is None:
            return []
        start_ns = first if start_ns is None else start_ns
        end_ns = last + 1 if end_ns is None else end_ns
    return bucket_edges(start_ns, end_ns, unit, time_zone)


def summaries(
    connection: Connection,
    selected: Selected,
    part: Part,
    known: Sequence[Calibration],
    edges: Sequence[int] = (),
    *,
    level: float,
    cells: Collection[Cell] | None = None,
) -> Iterator[tuple[int | None, Summary]]:
    """The summaries of a part, each with the number of its bucket, None without `edges`.

    `cells` are those of the part, where they are known.
    """
    bounds = bounds_of(connection, selected, part)
    if cells is None:
        scores = selected.scores(part.scored, bounds)
        cells = sums.cells(connection, scores, edges=edges, groups=selected.groups)
    by_place = {(x.bucket, x.group): x for x in cells}
    missing = _missing(connection, selected, part, edges)
    places = sorted({*by_place, *missing}, key=repr)
    found = [by_place.get(place) or _no_scores(place) for place in places]
    of_values = means(found, bounds, is_scaled=part.scale is not None, level=level)
    rates = pass_rates(found, level=level)
    heaviest = _Heaviest(connection, selected, part, edges)
    of_values = heaviest.named("value", found, of_values)
    rates = heaviest.named("verdict", found, rates)
    for place, cell, mean, rate in zip(places, found, of_values, rates, strict=True):
        yield (
            place[0],
            _summary(selected, part, cell, (mean, rate), missing.get(place, ()), known, level),
        )


@dataclass(slots=True)
class _Heaviest:
    """The sessions that make intervals wide, which are looked up only where there are any."""

    connection: Connection
    selected: Selected
    part: Part
    edges: Sequence[int]
    _members: dict[str, dict[_Place, int]] = field(default_factory=dict)

    def named(self, kind: str, cells: Sequence[Cell], figures: list[Figure]) -> list[Figure]:
        """The figures, with notes that name these sessions."""
        rest_on = [moments(x.values if kind == "value" else x.verdicts) for x in cells]
        wide = [
            n
            for n, x in enumerate(figures)
            if x.estimate is not None and x.estimate.interval is not None and rest_on[n].outweighing
        ]
        if not wide:
            return figures
        members = self._members_of(kind)
        of_wide = {n: members[cells[n].bucket, cells[n].group] for n in wide}
        examples = session_ranks.examples(
            self.connection, self.selected.selection.tenant, sorted({*of_wide.values()})
        )
        found = list(figures)
        for n, number in of_wide.items():
            estimate, example = figures[n].estimate, examples.get(number)
            if estimate is not None and example is not None:
                estimate = outweighed(estimate, rest_on[n], _name_of(example))
                found[n] = replace(figures[n], estimate=estimate)
        return found

    def _members_of(self, kind: str) -> dict[_Place, int]:
        scores = self.selected.scores(self.part.scored)
        alike = "value" if scores.is_complete(kind) else kind
        if alike not in self._members:
            self._members[alike] = sums.heaviest(
                self.connection, scores, alike, edges=self.edges, groups=self.selected.groups
            )
        return self._members[alike]


def _name_of(score: Evaluation) -> str:
    """The session of a score, or its trace that belongs to none."""
    session = score.session_id or score.session_key
    return f"session {session}" if session else f"trace {score.target.trace_id}"


def _summary(
    selected: Selected,
    part: Part,
    cell: Cell,
    figures: tuple[Figure, Figure],
    missing: Sequence[Missing],
    known: Sequence[Calibration],
    level: float,
) -> Summary:
    of_contexts = dict(zip(selected.groups.fields, cell.group, strict=True))
    named = {**of_contexts, **part.groups}
    return Summary(
        part.metric,
        part.scope,
        part.source,
        {name: named[name] for name in selected.group_by},
        cell.scores,
        cell.subjects,
        cell.clusters,
        *figures,
        corrected(cell, part.scored, known, level),
        part.scale,
        part.least_chance,
        missing,
    )


def bounds_of(connection: Connection, selected: Selected, part: Part) -> tuple[float, float]:
    """The values that become 0 and 1: the scale, or where none is recorded the lowest and highest
    that there are.
    """
    if part.scale is not None:
        return part.scale
    low, high = selections.extremes(connection, selected.scores(part.scored).conditions())
    if low is None or high is None:
        return 0.0, 1.0
    return (low, high) if low < high else (low, low + 1.0)


def _missing(
    connection: Connection, selected: Selected, part: Part, edges: Sequence[int]
) -> dict[_Place, list[Missing]]:
    """What is missing, by bucket and group."""
    procedures = part.missing
    if not procedures:
        return {}
    counted: defaultdict[_Place, Counter[tuple[str, str]]] = defaultdict(Counter)
    scores = selected.scores(procedures.values())
    for bucket, procedure, context, count in sums.counts(
        connection, scores, edges, by_context=bool(selected.groups.fields)
    ):
        made = procedures[procedure]
        groups: Any = (
            [()] if context is None else groups_of(selected.known[context], selected.groups.fields)
        )
        for group in groups:
            counted[bucket, group][made.status, made.cause or ""] += count
    return {
        place: [Missing(*x, n) for x, n in found.most_common()] for place, found in counted.items()
    }


def _no_scores(place: _Place) -> Cell:
    none = sums.Sums(0, 0, 0.0, 0.0, 0.0, 0.0, 0.0, (0.0,) * len(sums.POWERS))
    return Cell(*place, 0, 0, 0, none, none)


def calibrations_of(connection: Connection, tenant: str) -> list[Calibration]:
    """The calibrations that hold for a tenant."""
    found = (Calibration.from_json(x) for x in calibrations.read(connection, tenant))
    return [x for x in found if x is not None]
