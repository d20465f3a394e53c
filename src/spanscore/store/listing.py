"""Scores and agent traces, page by page."""

import heapq
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import islice, takewhile
from operator import attrgetter
from typing import Any, Final, Generic, NamedTuple, TypeVar

from sqlalchemy import ColumnElement, Row, Select, case, func, or_, select
from sqlalchemy.engine import Connection

from spanscore.filters import Field, Fields, Filter, Kind
from spanscore.model.score import Evaluation, Failure, Skip
from spanscore.model.span import without_headers
from spanscore.model.trace import TURN_OUTCOMES, AgentTrace, tags_of
from spanscore.store import connections, lookup, ordering, records, stored_rows
from spanscore.store.config import Config
from spanscore.store.ordering import Order, Place
from spanscore.store.schema import (
    COUNTED,
    GIVEN,
    MEASURED,
    NEWEST,
    agent_traces,
    score_procedures,
    scores as stored,
)
from spanscore.store.stored_rows import chunks, key, matching

STORED: Final = "stored_ns"
"""The order of storing."""

TRACE_ORDERS: Final = (STORED, "started_ns", *stored_rows.ORDERS)
"""What agent traces can be ordered by, one at a time."""

SCORE_ORDERS: Final[Mapping[str, Callable[[Evaluation], Any]]] = {
    "value": lambda x: x.value,
    "evaluated_at_ns": lambda x: x.evaluated_at_ns,
}
"""What scores can be ordered by, but for the order of storing, and how it is read of one; a score
without a value comes last.
"""

NEWEST_FIRST: Final = Order(STORED, is_falling=True)
OLDEST_FIRST: Final = Order(STORED)

_OURS = "spanscore"
_AT_ONCE = 200
_MAX_LOOKED_AT = 20_000
"""Records that are looked at for one page at most: a page may have fewer than were asked for, and
others after it.
"""
_TEXTS_OF_TRACES = frozenset(
    {"user_input", "final_output", "agent_name", "service_name", "user_id"}
)
"""Those of `TRACE_FIELDS` that are texts of the record."""

ItemT = TypeVar("ItemT")
RowT = TypeVar("RowT")


class TraceScores(NamedTuple):
    """An agent trace with the newest of each of its scores."""

    trace: AgentTrace
    scores: list[Evaluation]

    @property
    def is_failing(self) -> bool:
        """Whether a score does not pass, or could not be measured."""
        return any(x.is_failing for x in self.scores)


@dataclass(frozen=True, slots=True, kw_only=True)
class ScoreQuery:
    """Which scores are wanted; what is None or False is no condition.

    `failing`: only those that do not pass and those that could not be measured; skips are listed
    only with `skipped`. `since_ns`: only what was stored from then on (Unix ns). `trace_id`: of an
    agent trace or an OTel trace. `service` and `session_id` are compared as they are, `metric`
    names a metric or a family of them, such as rubric. `source` is "spanscore", "human" or whoever
    gave it. `filter` is of `SCORE_FIELDS`. `order`: by `SCORE_ORDERS`, or that of storing alone.
    `run`: only what this evaluation run measured; "": only what was evaluated as it came, or that
    others gave. `tenant`: whose scores; "" is the one tenant of a server without tenants.
    """

    failing: bool = False
    skipped: bool = False
    since_ns: int | None = None
    service: str | None = None
    metric: str | None = None
    trace_id: str | None = None
    session_id: str | None = None
    source: str | None = None
    filter: Filter[Evaluation] | None = None
    order: Sequence[Order] = (NEWEST_FIRST,)
    run: str = ""
    tenant: str = ""

    def wants(self, score: Evaluation) -> bool:
        """Whether a score is wanted, but for the time at which it was stored."""
        return (
            (self.skipped or score.status != "skipped")
            and (not self.failing or score.is_failing)
            and self.service in {None, score.service_name}
            and self.trace_id in {None, score.target.trace_id, score.subject_id}
            and self.session_id in {None, score.session_id, score.session_key}
            and self.source in {None, score.evaluator.source or _OURS}
            and self.run == (score.run or "")
            and (self.metric is None or f"{score.metric}.".startswith(f"{self.metric}."))
            and (self.filter is None or self.filter.matches(score))
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class TraceQuery:
    """Which agent traces are wanted, as `ScoreQuery`.

    `failing`: only those of which a score is failing.

    `filter` is of `fields.TRACE_FIELDS`. `order`: one of `TRACE_ORDERS`; without it what was stored
    last comes first.
    """

    failing: bool = False
    since_ns: int | None = None
    service: str | None = None
    session_id: str | None = None
    filter: "Filter[TraceScores] | None" = None
    order: Order = NEWEST_FIRST
    tenant: str = ""

    @property
    def has_conditions(self) -> bool:
        """Whether any but `failing` is set."""
        conditions = (self.since_ns, self.service, self.session_id, self.filter)
        return any(x is not None for x in conditions)

    def wants(self, found: TraceScores) -> bool:
        """Whether an agent trace is wanted, but for the time at which it was stored."""
        trace = found.trace
        return (
            (not self.failing or found.is_failing)
            and self.service in {None, trace.service_name}
            and self.session_id in {None, trace.session_id, trace.session_key}
            and (self.filter is None or self.filter.matches(found))
        )


@dataclass(frozen=True, slots=True)
class Page(Generic[ItemT]):
    """Some of what is wanted, and where the next page begins; None after the last.

    `total`: how many there are on all pages, where that is known.
    """

    items: list[ItemT]
    next: Place | None
    total: int | None = None


def page(
    rows: Iterator[tuple[Place, RowT]],
    limit: int,
    read: Callable[[Sequence[RowT]], Iterable[Sequence[ItemT]]],
    *,
    at_once: int,
    most: int,
) -> Page[ItemT]:
    """At most `limit` items, of `most` rows, each with its place; `read` gives the items of each of
    some rows, of `at_once` at most.
    """
    items: list[ItemT] = []
    looked_at, count = 0, min(limit, at_once)
    while some := list(islice(rows, count)):
        for (place, _), found in zip(some, read([row for _, row in some]), strict=True):
            items += found
            looked_at += 1
            if len(items) == limit or looked_at == most:
                return Page(items, place)
        count = min(2 * count, at_once)
    return Page(items, None)


def scores(
    connection: Connection, query: ScoreQuery, limit: int, after: Place | None = None
) -> Page[Evaluation]:
    """At most `limit` scores, of each measured one only the newest revision; those that others gave
    among them, in another order than that of storing only the last of each series.
    """
    walked = _as_stored if query.order[0].field == STORED else _by_fact
    read = partial(_scores_of, connection, query)
    rows = walked(connection, query, limit, after)
    return page(rows, limit, read, at_once=_AT_ONCE, most=_MAX_LOOKED_AT)


def _scores_of(
    connection: Connection, query: ScoreQuery, rows: Sequence[Row[Any]]
) -> Iterator[list[Evaluation]]:
    """The score of each row; none where it is damaged or not wanted."""
    numbers = [row[0] for row in rows]
    wanted = (stored.c.number.in_(numbers), stored.c.stored_ns >= (query.since_ns or 0))
    found = connection.execute(select(stored.c.number, stored.c.record).where(*wanted))
    there = {row.number: row for row in found}
    for number in numbers:
        decoded = stored_rows.read_scores([there[number]] if number in there else [])
        yield [x for _, x in decoded if query.wants(x)]


def _as_stored(
    connection: Connection, query: ScoreQuery, limit: int, after: Place | None
) -> Iterator[tuple[Place, Row[Any]]]:
    """(number, stored_ns) by the time of storing; a place has the last number of what was measured,
    and of what others gave.
    """
    is_newest_first = query.order[0].is_falling
    place = list(after or ((2**63 - 1, 1 - 2**63) if is_newest_first else (0, 0)))
    sides = [0] if query.source in {None, _OURS} else []
    sides += [1] if query.source != _OURS and not query.run else []
    streams = [_stream(connection, query, limit, place[x], is_given=x == 1) for x in sides]
    for row in heapq.merge(*streams, key=attrgetter(STORED), reverse=is_newest_first):
        place[0 if row[0] > 0 else 1] = row[0]
        yield tuple(place), row


def _stream(
    connection: Connection, query: ScoreQuery, limit: int, after: float, *, is_given: bool
) -> Iterator[Row[Any]]:
    """What was measured or given and stored since, with numbers past one: those of what was given
    fall as they are stored.
    """
    number, since_ns = stored.c.number, query.since_ns or 0
    is_newest_first = query.order[0].is_falling
    wanted = [
        stored.c.run == query.run,
        *stored_rows.is_of(stored, query.tenant),
        *_conditions(query, stored.c.metric, _COLUMNS),
        *_texts(query),
        *([] if is_given else [NEWEST]),
    ]
    if is_newest_first:  # else it begins at 0, and one bound must do: of two the wrong one is used
        wanted.append(GIVEN if is_given else MEASURED)
    elif since_ns:
        wanted.append(stored.c.stored_ns >= since_ns)  # also where a clock went back
        if not is_given:
            first = stored_rows.first_stored_at(connection, since_ns, stored)
            after = max(after, first - 1)
    found = select(number, stored.c.stored_ns).where(*wanted)
    is_falling = is_newest_first != is_given
    rows = ordering.walk(connection, found, [number], (after,), is_falling=is_falling, first=limit)
    return takewhile(lambda row: row.stored_ns >= since_ns, (row for _, row in rows))


def _by_fact(
    connection: Connection, query: ScoreQuery, limit: int, after: Place | None
) -> Iterator[tuple[Place, Row[Any]]]:
    """(number,) in an order by `SCORE_ORDERS`."""
    made, keys = score_procedures.c, list[ColumnElement[Any]]()
    for field, is_falling in query.order:
        column: ColumnElement[Any] = stored.c.evaluated_ns
        if field == "value":
            keys.append(case((stored.c.value.is_(None), 1), else_=0))
            column = func.coalesce(stored.c.value, 0.0)
        keys.append(-column if is_falling else column)
    wanted = [COUNTED, made.tenant == query.tenant, made.run == query.run]
    if query.source is not None:
        is_ours = query.source == _OURS
        wanted.append(made.source.is_(None) if is_ours else made.source == query.source[:256])
    if not query.skipped:
        wanted.append(made.status != "skipped")
    columns = {"metric": made.metric, "scope": made.scope, "value": stored.c.value}
    found = select(stored.c.number).join_from(
        stored, score_procedures, stored.c.procedure == made.id
    )
    found = found.where(*wanted, *_conditions(query, made.metric, columns))
    return ordering.walk(connection, found, [*keys, -stored.c.number], after, first=limit)


_COLUMNS: Final = {
    "uid": stored.c.uid,
    "scope": stored.c.scope,
    "metric": stored.c.metric,
    "evaluated_at_ns": stored.c.evaluated_ns,
}


def _conditions(
    query: ScoreQuery, metric: ColumnElement[str], columns: Mapping[str, ColumnElement[Any]]
) -> Iterator[ColumnElement[bool]]:
    """What of a query the database can check in whatever order."""
    if query.metric is not None:
        family = metric.startswith(f"{query.metric}.", autoescape=True)
        yield or_(metric == query.metric, family)
    if query.failing:
        failed = select(score_procedures.c.id).where(score_procedures.c.status == "failed")
        yield or_(stored.c.passing == 0, stored.c.procedure.in_(failed))
    found = ordering.condition(query.filter.node if query.filter else None, SCORE_FIELDS, columns)
    if found is not None:
        yield found


def _texts(query: ScoreQuery) -> Iterator[ColumnElement[bool]]:
    """What the records of wanted scores contain as text, so that the others need not be decoded; no
    condition where JSON has several ways to write it.
    """
    for value, *names in (
        (query.service, "service_name"),
        (query.trace_id, "trace_id", "subject_id"),
        (query.session_id, "session_id", "session_key"),
        (None if query.source == _OURS else query.source, "source"),
    ):
        if value and value.isascii() and value.isprintable() and not set(value) & set('"\\/'):
            texts = [f'"{name}":"{value}"' for name in names]
            yield or_(*(stored.c.record.contains(x, autoescape=True) for x in texts))


def traces(
    connection: Connection, query: TraceQuery, limit: int, after: Place | None = None
) -> Page[TraceScores]:
    """At most `limit` agent traces, in the order that is asked for; the first page has their
    number, unless there are conditions.
    """
    may_meet = records.test_of(query.filter.node if query.filter else None, _TEXTS_OF_TRACES)

    def read(rows: Sequence[Row[Any]]) -> Iterator[list[TraceScores]]:
        found = _with_scores(connection, [row[0] for row in rows], query.tenant, may_meet)
        return ([x for x in some if query.wants(x)] for some in found)

    rows = _walked(connection, query, limit, after)
    found = page(rows, limit, read, at_once=_AT_ONCE, most=_MAX_LOOKED_AT)
    if after is not None or query.has_conditions:
        return found
    return replace(found, total=connection.execute(_number_of(query)).scalar_one())


def turns_of(connection: Connection, trace_id: str, tenant: str = "") -> list[TraceScores]:
    """The agent traces that the id of an agent trace or an OTel trace stands for."""
    table, ids = agent_traces.c, lookup.turns(connection, trace_id, tenant)
    rows = matching(connection, select(table.row), table.id, ids)
    numbers = sorted(row for (row,) in rows)
    return [
        turn
        for some in chunks(numbers)
        for found in _with_scores(connection, some, tenant)
        for turn in found
    ]


def _walked(
    connection: Connection, query: TraceQuery, limit: int, after: Place | None
) -> Iterator[tuple[Place, Row[Any]]]:
    """(row,) of agent traces in the order of a query."""
    (field, is_falling), row = query.order, agent_traces.c.row
    wanted = [*stored_rows.is_of(agent_traces, query.tenant)]
    keys: list[ColumnElement[int]] = [row]
    if field == "started_ns":
        keys = [agent_traces.c.started_ns, row]
    elif field != STORED:
        keys = [stored_rows.ordered(field, is_falling=is_falling), row]
    if query.since_ns is not None:
        first = stored_rows.first_stored_at(connection, query.since_ns)
        wanted.append((_unindexed(row) if field == "started_ns" else row) >= first)
    if query.session_id is not None:
        sessions = lookup.session_keys(connection, key(query.session_id), query.tenant)
        wanted.append(agent_traces.c.session_id.in_(sessions))
        if len(sessions) > 1 or field != STORED:  # the index of one session has its rows in order
            keys = [_unindexed(x) for x in keys]
    found = select(row).where(*wanted)
    return ordering.walk(connection, found, keys, after, is_falling=is_falling, first=limit)


def _unindexed(column: ColumnElement[int]) -> ColumnElement[int]:
    """The values of a column, for a condition or order for which the database is to use no index:
    SQLite would prefer it to a better one.
    """
    return column + 0


def _with_scores(
    connection: Connection,
    numbers: Sequence[int],
    tenant: str,
    may_meet: Callable[[str], bool] | None = None,
) -> Iterator[list[TraceScores]]:
    """The agent trace of each of these rows with its scores; none where it is damaged, gone, or its
    record `may_meet` nothing.
    """
    wanted = select(agent_traces.c.row, agent_traces.c.record)
    found = {
        row.row: records.undamaged(records.decode_trace, row.record)
        for row in connection.execute(wanted.where(agent_traces.c.row.in_(numbers)))
        if may_meet is None or may_meet(row.record)
    }
    ids = [x.id for some in found.values() for x in some]
    by_trace = lookup.scores_of_traces(connection, ids, tenant)
    return ([TraceScores(x, by_trace[x.id]) for x in found.get(row, ())] for row in numbers)


def _number_of(query: TraceQuery) -> Select[Any]:
    """How many agent traces a tenant has, or how many of them fail by the facts of their scores."""
    if not query.failing:
        own = stored_rows.is_of(agent_traces, query.tenant)
        return select(func.count(agent_traces.c.row)).where(*own)
    made = score_procedures.c
    is_own = (made.tenant == query.tenant, made.scope == "trace", made.run == "")
    return (
        select(func.count(stored.c.subject.distinct()))
        .join(score_procedures, made.id == stored.c.procedure)
        .where(*is_own, made.source.is_(None), COUNTED)
        .where(or_(stored.c.passing == 0, made.status == "failed"))
    )


def pages(
    config: Config,
    read: Callable[[Connection, Place | None], Page[ItemT]],
    limit: int | None = None,
) -> Iterator[ItemT]:
    """All that `read` gives, page after page, at most `limit` items.

    A server may use the store meanwhile.

    Raises ConfigError where there is no store, RetryableError or PermanentError where it cannot be
    read.
    """
    count, place = 0, None
    with connections.used(connections.reader(config)) as engine:
        while limit is None or count < limit:
            with connections.snapshot(engine) as connection:
                page = read(connection, place)
            yield from page.items if limit is None else page.items[: limit - count]
            count, place = count + len(page.items), page.next
            if place is None:
                return


def _fields(kind: Kind, paths: str, within: str = "") -> Fields[Any]:
    """Fields that are called as what they read."""
    return {path: Field(kind, attrgetter(within + path)) for path in paths.split()}


SCORE_FIELDS: Final[Fields[Evaluation]] = {
    **_fields("text", "uid metric label reason session_id subject_id agent_name service_name rule"),
    **_fields("number", "value threshold usage.calls usage.cost_usd revision sampling"),
    **_fields("text", "evaluator.name evaluator.version evaluator.model evaluator.embedding"),
    **_fields("text", "evaluator.source evaluator.author"),
    "scope": Field("word", lambda x: x.scope, ("trace", "session")),
    "status": Field("word", lambda x: x.status, ("scored", "skipped", "failed")),
    "trace_id": Field("text", lambda x: x.target.trace_id),
    "span_id": Field("text", lambda x: x.target.span_id),
    "session_key": Field("text", lambda x: x.session_key or x.session_id),
    "evaluator.kind": Field("word", lambda x: x.evaluator.kind, ("LLM", "CODE", "HUMAN")),
    "error.type": Field(
        "text", lambda x: x.outcome.type if isinstance(x.outcome, Failure) else None
    ),
    "skip_cause": Field("text", lambda x: x.outcome.cause if isinstance(x.outcome, Skip) else None),
    "latency": Field("duration", lambda x: x.latency_s),
    "evaluated_at_ns": Field("time", lambda x: x.evaluated_at_ns),
}


def _named(scores: Sequence[Evaluation], metric: str) -> Evaluation | None:
    return next((x for x in scores if x.metric == metric), None)


def value_of(scores: Sequence[Evaluation], metric: str) -> float | None:
    """The value of the score of a metric; None where there is none."""
    found = _named(scores, metric)
    return None if found is None else found.value


def label_of(scores: Sequence[Evaluation], metric: str) -> str | None:
    """The label of the score of a metric; None where there is none."""
    found = _named(scores, metric)
    return None if found is None else found.label


def _attribute(found: "TraceScores", name: str) -> str | None:
    value = without_headers(found.trace.target.resource).get(name)
    if isinstance(value, bool):
        return str(value).lower()
    return None if value is None else str(value)


TRACE_FIELDS: Final[Fields["TraceScores"]] = {
    **_fields("text", "id session_id session_key agent_name service_name user_id", "trace."),
    **_fields("text", "user_input final_output", "trace."),
    **_fields("time", "started_ns ended_ns", "trace."),
    "latency": Field("duration", lambda x: (x.trace.ended_ns - x.trace.started_ns) / 1e9),
    "completeness": Field(
        "word", lambda x: x.trace.completeness, ("complete", "idle", "truncated", "partial")
    ),
    "outcome": Field("word", lambda x: x.trace.outcome, TURN_OUTCOMES),
    "input_tokens": Field("number", lambda x: x.trace.usage.input_tokens),
    "output_tokens": Field("number", lambda x: x.trace.usage.output_tokens),
    "tokens": Field("number", lambda x: stored_rows.tokens(x.trace)),
    "tool_calls": Field(
        "number", lambda x: None if x.trace.tool_calls is None else len(x.trace.tool_calls)
    ),
    "tool_errors": Field("number", lambda x: stored_rows.tool_errors(x.trace)),
    "model_calls": Field("number", lambda x: len(x.trace.model_calls)),
    "tags": Field("texts", lambda x: tags_of(x.trace)),
    "failing": Field("bool", lambda x: x.is_failing),
    "score": Field("number", lambda x, metric: value_of(x.scores, metric), is_map=True),
    "label": Field("text", lambda x, metric: label_of(x.scores, metric), is_map=True),
    "resource": Field("text", _attribute, is_map=True),
}
