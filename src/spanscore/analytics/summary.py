"""Summaries and trends of each metric's scores."""

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta, tzinfo
from typing import Final, Literal, NamedTuple, TypeAlias

from sqlalchemy import func
from sqlalchemy import select as query
from sqlalchemy.engine import Connection

from spanscore.analytics import cells
from spanscore.analytics.cells import Cells, Missing, Sample
from spanscore.analytics.figures import (
    Corrected,
    Figure,
    corrected,
    means_and_rates,
)
from spanscore.analytics.selection import Part, Selected, Selection, select
from spanscore.calibration import Calibration
from spanscore.errors import FieldError
from spanscore.model.score import Evaluation
from spanscore.stats import outweighed
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
