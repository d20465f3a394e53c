"""Scores and agent traces, page by page."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any, Final, Generic, NamedTuple, TypeVar

from sqlalchemy import ColumnElement, Row, Select, func, or_, select, tuple_
from sqlalchemy.engine import Connection

from spanscore.filters import Field, Fields, Filter
from spanscore.model.headers import without_headers
from spanscore.model.score import Evaluation, Failure, Skip
from spanscore.model.trace import TURN_OUTCOMES, AgentTrace, tags_of
from spanscore.store import connections, lookup, ordering, records, stored_rows
from spanscore.store.config import Config
from spanscore.store.ordering import Order
from spanscore.store.schema import COUNTED, NEWEST, agent_traces, score_procedures
from spanscore.store.schema import scores as stored
from spanscore.store.stored_rows import key

MAX_PAGE = 1000
TRACE_ORDERS: Final = ("stored_ns", "started_ns", *stored_rows.ORDERS)
"""What agent traces can be ordered by, one at a time."""

NEWEST_FIRST: Final = Order("stored_ns", is_falling=True)

_OURS = "spanscore"
_CHUNK = 200
_MAX_LOOKED_AT = 20_000
"""Records that are decoded for one page at most: a page may have fewer than were asked for, and
others after it.
"""
_MAX_READ = 100_000
"""Records whose text is looked through for one page at most."""
_TEXTS_OF_TRACES = frozenset(
    {"user_input", "final_output", "agent_name", "service_name", "user_id"}
)
"""Fields of `fields.TRACE_FIELDS` that are texts of the record."""

ItemT = TypeVar("ItemT")


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
    gave it. `filter` is of `fields.SCORE_FIELDS`. `oldest_first`: first what was stored first.
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
    oldest_first: bool = False
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


class Place(NamedTuple):
    """Where a page ends: the numbers of the records after which the next one begins.

    `traces`: of sessions in the order of how many traces they have, that of the last one.
    `value`: what the last trace is ordered by, in another order than that of storing.
    """

    row: int
    external_row: int = 0
    traces: int = 0
    value: int = 0


_NEWEST = Place(2**63 - 1, 2**63 - 1)
_OLDEST = Place(-1, -1)


@dataclass(frozen=True, slots=True)
class Page(Generic[ItemT]):
    """Some of what is wanted, newest first, and where the next page begins; None after the last.

    `total`: how many there are on all pages, where that is known.
    """

    items: list[ItemT]
    next: Place | None
    total: int | None = None


def scores(
    connection: Connection, query: ScoreQuery, limit: int, after: Place | None = None
) -> Page[Evaluation]:
    """At most `limit` scores, of each measured one only the newest revision; those that others gave
    among them.
    """
    place = after or (_OLDEST if query.oldest_first else _NEWEST)
    streams = {}
    wanted = [
        stored.c.run == query.run,
        *_metric_wanted(query.metric),
        *_filtered(query),
        *_text_wanted(query),
    ]
    if query.source in {None, _OURS}:
        measured = [NEWEST, *([_IS_FAILING] if query.failing else []), *wanted]
        streams["row"] = _in_order(connection, query, place.row, measured)
    if query.source != _OURS and not query.run:
        streams["external_row"] = _given_in_order(connection, query, place.external_row, wanted)
    items: list[Evaluation] = []
    for looked_at, (stream, row) in enumerate(_merged(streams, query), start=1):
        place = place._replace(**{stream: row.number})
        items += [x for x in _decoded(row) if query.wants(x)]
        if len(items) == limit or looked_at == _MAX_LOOKED_AT:
            return Page(items, place)
    return Page(items, None)


def traces(
    connection: Connection, query: TraceQuery, limit: int, after: Place | None = None
) -> Page[TraceScores]:
    """At most `limit` agent traces, in the order that is asked for; the first page has their
    number, unless there are conditions.
    """
    page = _traces(connection, query, limit, after)
    if after is not None or query.has_conditions:
        return page
    total: int = connection.execute(_number_of(query)).scalar_one()
    return replace(page, total=total)


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


def _traces(
    connection: Connection, query: TraceQuery, limit: int, after: Place | None
) -> Page[TraceScores]:
    sessions: list[str] | None = None
    if query.session_id is not None:
        sessions = lookup.session_keys(connection, key(query.session_id), query.tenant)
    read_rows = _by_measure if query.order.field in stored_rows.ORDERS else _by_time
    rows = read_rows(connection, query, after, sessions)
    may_meet = records.test_of(query.filter.node if query.filter else None, _TEXTS_OF_TRACES)
    items: list[TraceScores] = []
    read = looked_at = 0
    while chunk := list(islice(rows, min(limit, _CHUNK) if may_meet is None else _CHUNK)):
        some = [row for row in chunk if may_meet is None or may_meet(row.record)]
        places = {row.number: Place(row.number, value=row.value) for row in chunk}
        for number, found in _with_scores(connection, some, query.tenant):
            items += [found] if query.wants(found) else []
            if len(items) == limit:
                return Page(items, places[number])
        read += len(chunk)
        looked_at += len(some)
        if looked_at >= _MAX_LOOKED_AT or read >= _MAX_READ:
            return Page(items, places[chunk[-1].number])
    return Page(items, None)


def turns_of(connection: Connection, trace_id: str, tenant: str = "") -> list[TraceScores]:
    """The agent traces that the id of an agent trace or an OTel trace stands for."""
    table = agent_traces.c
    found = select(table.row.label("number"), table.started_ns.label("value"), table.record)
    ids = lookup.turns(connection, trace_id, tenant)
    rows = connection.execute(found.where(table.id.in_(ids)).order_by(table.row)).all()
    listed = [_Listed(row.number, row.value, row.record) for row in rows]
    return [turn for _, turn in _with_scores(connection, listed, tenant)]


class _Listed(NamedTuple):
    """The record of an agent trace, its number, and what it is ordered by."""

    number: int
    value: int
    record: str


def _by_time(
    connection: Connection, query: TraceQuery, after: Place | None, sessions: Sequence[str] | None
) -> Iterator[_Listed]:
    """The agent traces after a place, of some sessions or of any, as they were stored or started;
    read some at a time.
    """
    field, is_falling = query.order
    is_by_row = field == "stored_ns"
    table = agent_traces.c
    columns: list[ColumnElement[int]]
    columns = [table.row] if is_by_row else [table.started_ns, table.row]
    wanted = [*stored_rows.is_of(agent_traces, query.tenant)]
    if query.since_ns is not None:
        first = stored_rows.first_stored_at(connection, query.since_ns)
        wanted.append((table.row if is_by_row else _unindexed(table.row)) >= first)
    if sessions is not None:
        wanted.append(table.session_id.in_(sessions))
        if len(sessions) > 1 or not is_by_row:  # the index of one session has its rows in order
            columns = [_unindexed(x) for x in columns]
    found = select(table.row.label("number"), table.started_ns.label("value"), table.record)
    for rows in _walked(connection, found.where(*wanted), columns, after, is_falling=is_falling):
        yield from (_Listed(row.number, row.value, row.record) for row in rows)


def _by_measure(
    connection: Connection, query: TraceQuery, after: Place | None, sessions: Sequence[str] | None
) -> Iterator[_Listed]:
    """As `_by_time`, in the order of one of `stored_rows.ORDERS`: records are read of those
    alone that come next.
    """
    field, is_falling = query.order
    table = agent_traces.c
    value = stored_rows.ordered(field, is_falling=is_falling)
    found = select(table.row.label("number"), value.label("value"))
    found = found.where(*stored_rows.is_of(agent_traces, query.tenant))
    if query.since_ns is not None:
        found = found.where(table.row >= stored_rows.first_stored_at(connection, query.since_ns))
    if sessions is not None:
        of_these = select(agent_traces.c.row).where(agent_traces.c.session_id.in_(sessions))
        found = found.where(table.row.in_(of_these))
    stored = select(agent_traces.c.row, agent_traces.c.record)
    for rows in _walked(connection, found, [value, table.row], after, is_falling=is_falling):
        numbers = [row.number for row in rows]
        there = connection.execute(stored.where(agent_traces.c.row.in_(numbers)))
        texts = {row.row: row.record for row in there}
        yield from (
            _Listed(row.number, row.value, texts[row.number]) for row in rows if row.number in texts
        )


def _walked(
    connection: Connection,
    found: Select[Any],
    columns: Sequence[ColumnElement[int]],
    after: Place | None,
    *,
    is_falling: bool,
) -> Iterator[Sequence[Row[Any]]]:
    """What is found after a place in the order of `columns`, the last of which is the number; some
    rows at a time.
    """
    found = found.order_by(*(x.desc() if is_falling else x for x in columns)).limit(_CHUNK)
    place = None if after is None else (after.value, after.row)[-len(columns) :]
    while True:
        key_, rest = tuple_(*columns), found
        if place is not None:
            rest = found.where(key_ < place if is_falling else key_ > place)
        rows = connection.execute(rest).all()
        if not rows:
            return
        yield rows
        place = (rows[-1].value, rows[-1].number)[-len(columns) :]


def _unindexed(column: ColumnElement[int]) -> ColumnElement[int]:
    """The values of a column, for a condition or order for which the database is to use no index:
    SQLite would prefer it to a better one.
    """
    return column + 0


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
    engine = connections.connect_reading(config)
    if engine is None:
        raise connections.no_store(config)
    count, place = 0, None
    try:
        while limit is None or count < limit:
            with connections.snapshot(engine) as connection:
                page = read(connection, place)
            yield from page.items if limit is None else page.items[: limit - count]
            count, place = count + len(page.items), page.next
            if place is None:
                return
    finally:
        engine.dispose()


class _Stored(NamedTuple):
    number: int
    stored_ns: int
    record: str


def _in_order(
    connection: Connection, wanted: ScoreQuery, place: int, conditions: Sequence[Any]
) -> Iterator[_Stored]:
    """What spanscore measured and was stored since, with numbers past `place`; read some at a
    time.
    """
    if not wanted.oldest_first:
        return _walked_scores(connection, wanted, (0, place), conditions, is_rising=False)
    if wanted.since_ns is not None:
        first = stored_rows.first_stored_at(connection, wanted.since_ns, stored)
        place = max(place, first - 1)
    return _walked_scores(connection, wanted, (max(place, 0), None), conditions, is_rising=True)


def _given_in_order(
    connection: Connection, wanted: ScoreQuery, place: int, conditions: Sequence[Any]
) -> Iterator[_Stored]:
    """As `_in_order`, of what others gave: its numbers fall, and places have them without the
    sign.
    """
    is_rising = not wanted.oldest_first
    within = (-place, 0) if is_rising else (None, min(-place, 0))
    for row in _walked_scores(connection, wanted, within, conditions, is_rising=is_rising):
        yield row._replace(number=-row.number)


def _walked_scores(
    connection: Connection,
    wanted: ScoreQuery,
    within: tuple[int | None, int | None],
    conditions: Sequence[Any],
    *,
    is_rising: bool,
) -> Iterator[_Stored]:
    """The scores whose numbers are between two, of which a database is told one lower and one upper
    bound at most: of two it may use the wrong one.
    """
    number, (low, high) = stored.c.number, within
    query = select(*(stored.c[x] for x in _Stored._fields)).limit(_CHUNK)
    query = query.where(*conditions, *stored_rows.is_of(stored, wanted.tenant))
    if wanted.oldest_first and wanted.since_ns is not None:
        query = query.where(stored.c.stored_ns >= wanted.since_ns)  # also where a clock went back
    query = query.order_by(number if is_rising else number.desc())
    while True:
        bounds = [
            *([] if low is None else [number > low]),
            *([] if high is None else [number < high]),
        ]
        found = connection.execute(query.where(*bounds)).all()
        for row in found:
            if wanted.since_ns is not None and row.stored_ns < wanted.since_ns:
                return
            yield _Stored(*row)
        if not found:
            return
        low, high = (found[-1].number, high) if is_rising else (low, found[-1].number)


def _merged(
    streams: Mapping[str, Iterator[_Stored]], query: ScoreQuery
) -> Iterator[tuple[str, _Stored]]:
    """The rows of all streams by the time at which they were stored, each with the name of its
    stream.
    """
    first = min if query.oldest_first else max
    heads = {name: next(rows, None) for name, rows in streams.items()}
    while waiting := {name: row for name, row in heads.items() if row is not None}:
        name = first(waiting, key=lambda x: waiting[x].stored_ns)
        yield name, waiting[name]
        heads[name] = next(streams[name], None)


def _with_scores(
    connection: Connection, rows: Sequence[_Listed], tenant: str
) -> Iterator[tuple[int, TraceScores]]:
    """The agent traces of these rows, each with its number and scores; one whose record is damaged
    is left out.
    """
    found = [
        (row.number, trace)
        for row in rows
        for trace in records.undamaged(records.decode_trace, row.record)
    ]
    by_trace: dict[str, list[Evaluation]] = {trace.id: [] for _, trace in found}
    for row in lookup.newest_scores(connection, list(by_trace), [], tenant):
        by_trace[row.subject_id] += _decoded(row)
    return ((number, TraceScores(trace, by_trace[trace.id])) for number, trace in found)


_IS_FAILING = or_(
    stored.c.passing == 0,
    stored.c.procedure.in_(
        select(score_procedures.c.id).where(score_procedures.c.status == "failed")
    ),
)
"""That a score does not pass, or could not be measured: its record need not be decoded to know
that.
"""

_COLUMNS = {
    "uid": stored.c.uid,
    "scope": stored.c.scope,
    "metric": stored.c.metric,
    "revision": stored.c.revision,
    "evaluated_at_ns": stored.c.evaluated_ns,
}


def _filtered(query: ScoreQuery) -> list[Any]:
    """What of the query's filter the database can check."""
    found = ordering.condition(query.filter.node if query.filter else None, SCORE_FIELDS, _COLUMNS)
    return [] if found is None else [found]


def _text_wanted(query: ScoreQuery) -> list[Any]:
    """What the records of wanted scores contain as text, so that the others need not be decoded."""
    found = []
    if query.service is not None:
        found += _contains(query.service, "service_name")
    if query.trace_id is not None:
        found += _contains(query.trace_id, "trace_id", "subject_id")
    if query.session_id is not None:
        found += _contains(query.session_id, "session_id", "session_key")
    if query.source not in {None, _OURS}:
        found += _contains(str(query.source), "source")
    return found


def _contains(value: str, *keys: str) -> list[Any]:
    """That a record has the value under one of the keys; no condition where JSON has several ways
    to write it.
    """
    if not (value.isascii() and value.isprintable()) or set(value) & set('"\\/'):
        return []
    record = stored.c.record
    return [or_(*(record.contains(f'"{key}":"{value}"', autoescape=True) for key in keys))]


def _metric_wanted(name: str | None) -> list[Any]:
    column = stored.c.metric
    return (
        []
        if name is None
        else [or_(column == name, column.startswith(f"{name}.", autoescape=True))]
    )


def _decoded(row: Row[Any] | _Stored) -> list[Evaluation]:
    """The score of a row; none where it is damaged."""
    return records.undamaged(records.decode_evaluation, row.record)


_KINDS: Final = ("LLM", "CODE", "HUMAN")


SCORE_FIELDS: Final[Fields[Evaluation]] = {
    "uid": Field("text", lambda x: x.uid),
    "scope": Field("word", lambda x: x.scope, ("trace", "session")),
    "status": Field("word", lambda x: x.status, ("scored", "skipped", "failed")),
    "metric": Field("text", lambda x: x.metric),
    "value": Field("number", lambda x: x.value),
    "label": Field("text", lambda x: x.label),
    "threshold": Field("number", lambda x: x.threshold),
    "reason": Field("text", lambda x: x.reason),
    "trace_id": Field("text", lambda x: x.target.trace_id),
    "span_id": Field("text", lambda x: x.target.span_id),
    "session_id": Field("text", lambda x: x.session_id),
    "session_key": Field("text", lambda x: x.session_key or x.session_id),
    "subject_id": Field("text", lambda x: x.subject_id),
    "agent_name": Field("text", lambda x: x.agent_name),
    "service_name": Field("text", lambda x: x.service_name),
    "evaluator.kind": Field("word", lambda x: x.evaluator.kind, _KINDS),
    "evaluator.name": Field("text", lambda x: x.evaluator.name),
    "evaluator.version": Field("text", lambda x: x.evaluator.version),
    "evaluator.model": Field("text", lambda x: x.evaluator.model),
    "evaluator.embedding": Field("text", lambda x: x.evaluator.embedding),
    "evaluator.source": Field("text", lambda x: x.evaluator.source),
    "evaluator.author": Field("text", lambda x: x.evaluator.author),
    "usage.calls": Field("number", lambda x: x.usage.calls),
    "usage.cost_usd": Field("number", lambda x: x.usage.cost_usd),
    "error.type": Field(
        "text", lambda x: x.outcome.type if isinstance(x.outcome, Failure) else None
    ),
    "skip_cause": Field("text", lambda x: x.outcome.cause if isinstance(x.outcome, Skip) else None),
    "revision": Field("number", lambda x: x.revision),
    "rule": Field("text", lambda x: x.rule),
    "sampling": Field("number", lambda x: x.sampling),
    "latency": Field("duration", lambda x: x.latency_s),
    "evaluated_at_ns": Field("time", lambda x: x.evaluated_at_ns),
}


def _of_trace(read: Callable[[AgentTrace], Any]) -> Callable[["TraceScores"], Any]:
    return lambda found: read(found.trace)


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
    "id": Field("text", _of_trace(lambda x: x.id)),
    "session_id": Field("text", _of_trace(lambda x: x.session_id)),
    "session_key": Field("text", _of_trace(lambda x: x.session_key)),
    "agent_name": Field("text", _of_trace(lambda x: x.agent_name)),
    "service_name": Field("text", _of_trace(lambda x: x.service_name)),
    "user_id": Field("text", _of_trace(lambda x: x.user_id)),
    "user_input": Field("text", _of_trace(lambda x: x.user_input)),
    "final_output": Field("text", _of_trace(lambda x: x.final_output)),
    "started_ns": Field("time", _of_trace(lambda x: x.started_ns)),
    "ended_ns": Field("time", _of_trace(lambda x: x.ended_ns)),
    "latency": Field("duration", _of_trace(lambda x: (x.ended_ns - x.started_ns) / 1e9)),
    "completeness": Field(
        "word", _of_trace(lambda x: x.completeness), ("complete", "idle", "truncated", "partial")
    ),
    "outcome": Field("word", _of_trace(lambda x: x.outcome), TURN_OUTCOMES),
    "input_tokens": Field("number", _of_trace(lambda x: x.usage.input_tokens)),
    "output_tokens": Field("number", _of_trace(lambda x: x.usage.output_tokens)),
    "tokens": Field("number", _of_trace(stored_rows.tokens)),
    "tool_calls": Field(
        "number", _of_trace(lambda x: None if x.tool_calls is None else len(x.tool_calls))
    ),
    "tool_errors": Field("number", _of_trace(stored_rows.tool_errors)),
    "model_calls": Field("number", _of_trace(lambda x: len(x.model_calls))),
    "tags": Field("texts", _of_trace(tags_of)),
    "failing": Field("bool", lambda x: x.is_failing),
    "score": Field("number", lambda x, metric: value_of(x.scores, metric), is_map=True),
    "label": Field("text", lambda x, metric: label_of(x.scores, metric), is_map=True),
    "resource": Field("text", _attribute, is_map=True),
}
