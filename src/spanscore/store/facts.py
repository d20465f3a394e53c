"""The narrow rows that analytics reads: one for the newest score of each subject and metric, without its texts.

They are written with each commit, so as few as can be are looked up before: of traces that are new, none.
"""

import hashlib
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any, NamedTuple, TypeAlias

from sqlalchemy import ColumnElement, Dialect, bindparam, delete, func, or_, select, update
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.engine import Connection

from spanscore.model.score import Evaluation
from spanscore.model.trace import AgentTrace
from spanscore.store import records
from spanscore.store.schema import (
    agent_traces,
    evaluations,
    external_scores,
    response_scores,
    score_facts,
    subject_facts,
)
from spanscore.store.writing import NO_TEXT, chunks, key, put_rows, subject_of

_ENVIRONMENTS: tuple[str, ...] = ("deployment.environment.name", "deployment.environment")
_MAX_TEXT_CHARS = 256
_BATCH = 500
_HIGHEST = 2**63 - 1
_DAMAGED_RECORD = (ValueError, LookupError, TypeError)
_LIVE = ""
_NONE = 0  # is no number of a score
_SUBJECT: tuple[str, ...] = tuple(subject_facts.c.keys())
_SUBJECT_KEY: tuple[str, ...] = tuple(subject_facts.primary_key.columns.keys())

_Row: TypeAlias = tuple[Any, ...]
_Numbered: TypeAlias = tuple[int, Evaluation]


class TraceFacts(NamedTuple):
    """What is known of an agent trace beside its scores: its first model, and all of its tokens."""

    model: str | None = None
    input_tokens: int | None = None
    output_tokens: int | None = None

    @classmethod
    def of(cls, trace: AgentTrace) -> "TraceFacts":
        """Those of a trace."""
        model = next((x.model for x in trace.model_calls if x.model), None)
        return cls(_text(model), trace.usage.input_tokens, trace.usage.output_tokens)


_UNKNOWN = TraceFacts()


def put(
    connection: Connection, scored: Sequence[_Numbered], traces: Iterable[AgentTrace], *, new: Collection[str] = ()
) -> None:
    """Write the facts of scores with their outbox numbers, in the place of those of earlier revisions.

    `traces` are those of the same commit; of others the facts that are there already stay. `new` are the ids of agent
    traces that have no scores yet.
    """
    about = {trace.id: TraceFacts.of(trace) for trace in traces}
    known = {subject_of(x) for _, x in scored if x.scope == "session" or x.subject_id not in new}
    for some in chunks(sorted(known)):
        of_subjects = _PLACES.where(evaluations.c.subject_id.in_(some))
        _replace(connection, connection.execute(of_subjects).all(), scored)
        for row in connection.execute(_ABOUT_TRACES, {"subjects": some}):
            about.setdefault(row.subject_id, TraceFacts(row.model, row.input_tokens, row.output_tokens))
    _write(connection, scored, about)


def put_external(connection: Connection, scored: Sequence[_Numbered]) -> None:
    """Write the facts of scores that others gave, by their rows in `external_scores`; of each series the last given."""
    newest: dict[_Row, _Numbered] = {}
    for row, score in scored:
        before = newest.get(_place(score))
        if before is None or score.evaluated_at_ns >= before[1].evaluated_at_ns:
            newest[_place(score)] = -row, score
    for condition in _given_to([x for _, x in scored]):
        found = connection.execute(_EXTERNAL_PLACES.where(condition)).all()
        later = {_key(x) for x in found if (y := newest.get(_key(x))) and x.evaluated_ns > y[1].evaluated_at_ns}
        newest = {place: x for place, x in newest.items() if place not in later}
        _replace(connection, found, list(newest.values()))
    _write(connection, list(newest.values()), {}, is_external=True)


def renew_external(connection: Connection, row: int, score: Evaluation) -> None:
    """Write the facts again of the series in which a score that others gave was changed or deleted.

    `row` is that of the score in `external_scores`, `score` what it was before.
    """
    forget(connection, [-row])
    query = select(external_scores.c.row, external_scores.c.record).where(external_scores.c.metric == score.metric)
    for condition in _given_to([score]):
        found = connection.execute(query.where(condition).order_by(external_scores.c.row)).all()
        put_external(connection, [x for x in _decoded(found) if _place(x[1]) == _place(score)])


def forget(connection: Connection, numbers: Sequence[int]) -> None:
    """Delete the facts of scores that were deleted, by their numbers, and of what has no other score."""
    subject = subject_facts.c
    for some in chunks(numbers):
        connection.execute(delete(score_facts).where(score_facts.c.number.in_(some)))
        connection.execute(update(subject_facts).where(subject.last_number.in_(some)).values(last_number=_LAST_LEFT))
    connection.execute(delete(subject_facts).where(subject.last_number == _NONE))


def forget_traces(connection: Connection, ids: Sequence[str]) -> None:
    """Delete the facts of agent traces that are part of another one by now."""
    for some in chunks(ids):
        of_traces = select(evaluations.c.seq).where(evaluations.c.subject_id.in_(some), evaluations.c.scope == "trace")
        connection.execute(delete(score_facts).where(score_facts.c.number.in_(of_traces)))
        is_one = (subject_facts.c.subject_id.in_(some), subject_facts.c.scope == "trace")
        connection.execute(delete(subject_facts).where(*is_one))


def fill(connection: Connection) -> bool:
    """Write the facts of some scores that have none yet, those stored first; False: all have.

    Scores whose records are damaged have none.
    """
    last = connection.execute(select(func.coalesce(func.max(score_facts.c.number), 0))).scalar_one()
    query = select(evaluations.c.seq, evaluations.c.record)
    for rows in _batches(connection, query, evaluations.c.seq, max(last, 0)):
        if scored := list(_decoded(rows)):
            traces = _stored(connection, [x.subject_id for _, x in scored if x.scope == "trace"])
            put(connection, scored, traces)
            return True
    lowest = select(func.coalesce(func.min(score_facts.c.number), 0))
    last = connection.execute(lowest).scalar_one()
    query = select(external_scores.c.row, external_scores.c.record)
    for rows in _batches(connection, query, external_scores.c.row, max(-last, 0)):
        put_external(connection, list(_decoded(rows)))
        if connection.execute(lowest).scalar_one() < last:  # else all were given before those that are there
            return True
    return False


def _given_to(scores: Iterable[Evaluation]) -> Iterator[ColumnElement[bool]]:
    """The conditions that find what was given to the same traces, responses and sessions as these external scores."""
    table, given = external_scores.c, list(scores)
    for some in chunks(sorted({x.target.trace_id for x in given if x.target.trace_id})):
        yield table.trace_id.in_(some)
    for some in chunks(sorted({subject_of(x) for x in given if x.target.response_id and not x.target.trace_id})):
        rows = select(response_scores.c.row).where(response_scores.c.response_id.in_(some))
        yield table.trace_id.is_(None) & table.row.in_(rows)
    for some in chunks(sorted({subject_of(x) for x in given if x.scope == "session"})):
        yield table.session_key.in_(some)


def _batches(connection: Connection, query: Any, number: Any, after: int) -> Iterator[Sequence[Any]]:
    while rows := connection.execute(query.where(number > after).order_by(number).limit(_BATCH)).all():
        yield rows
        after = rows[-1][0]


def _decoded(rows: Sequence[Any]) -> Iterator[_Numbered]:
    for number, record in rows:
        try:
            [evaluation] = records.decode_evaluations([record])
        except _DAMAGED_RECORD:
            continue
        yield number, evaluation


def _stored(connection: Connection, ids: Sequence[str]) -> Iterator[AgentTrace]:
    query = select(agent_traces.c.record)
    for some in chunks(sorted(set(ids))):
        for record in connection.execute(query.where(agent_traces.c.id.in_(some))).scalars():
            try:
                yield records.decode_trace(record)
            except _DAMAGED_RECORD:
                continue


def _replace(connection: Connection, found: Iterable[Any], scored: Sequence[_Numbered]) -> None:
    """Delete those of the facts that were found whose place a score takes."""
    places = {_place(x) for _, x in scored}
    doomed = [x.number for x in found if _key(x) in places]
    for some in chunks(doomed):
        connection.execute(delete(score_facts).where(score_facts.c.number.in_(some)))


def _place(score: Evaluation) -> _Row:
    return score.scope, subject_of(score), score.tenant, score.metric, _series(score)


def _key(row: Any) -> _Row:
    return row.scope, row.subject_id, row.tenant, row.metric, row.series


def _write(
    connection: Connection, scored: Sequence[_Numbered], about: Mapping[str, TraceFacts], *, is_external: bool = False
) -> None:
    """Write scores, and what they are of; an external score knows less of that than what is there already."""
    newest = {_place(x): (number, x) for number, x in scored}
    rows = [_score_row(number, x, place) for place, (number, x) in newest.items()]
    put_rows(connection, score_facts, rows)
    last = {place[: len(_SUBJECT_KEY)]: x for place, x in newest.items()}
    subjects = [_subject_row(number, x, about.get(x.subject_id, _UNKNOWN)) for number, x in last.values()]
    if not subjects:
        return
    statement = _subject_statement(connection.dialect, replaces=not is_external)
    if connection.dialect.positional:
        connection.exec_driver_sql(statement, subjects)
    else:
        connection.exec_driver_sql(statement, [dict(zip(_SUBJECT, row, strict=True)) for row in subjects])


def _score_row(number: int, score: Evaluation, place: _Row) -> _Row:
    scope, subject, tenant, metric, series = place
    evaluator, label = score.evaluator, score.label
    passed = label == "pass" if label in {"pass", "fail"} else score.passed
    return (
        number,
        tenant,
        scope,
        subject,
        metric,
        series,
        _text(evaluator.source),
        evaluator.kind,
        _text(evaluator.model),
        _text(score.rule),
        score.status,
        score.value,
        _text(label),
        None if passed is None else int(passed),
        score.sampling,
        score.evaluated_at_ns,
    )


def _subject_row(number: int, score: Evaluation, about: TraceFacts) -> _Row:
    target, session = score.target, score.session_key or score.session_id
    is_timed = score.scope == "trace" and target.end_ns
    return (
        score.scope,
        subject_of(score),
        number,
        score.tenant,
        None if session is None else key(session),
        _text(score.service_name),
        _text(score.agent_name),
        _environment(target.resource),
        about.model,
        _number(target.start_ns or None),
        _number(max(0, target.end_ns - target.start_ns)) if is_timed else None,
        _number(about.input_tokens),
        _number(about.output_tokens),
    )


def _series(score: Evaluation) -> str:
    by = score.evaluator
    if by.source is None:
        return score.run or _LIVE
    answer = () if score.target.response_id is None else (score.target.response_id,)
    facts = "\n".join((by.source, by.name, by.author or "", score.target.span_id, *answer))
    return hashlib.sha256(facts.encode("utf-8", "surrogatepass")).hexdigest()[:16]


def _environment(resource: Mapping[str, Any]) -> str | None:
    return next((_text(str(resource[x])) for x in _ENVIRONMENTS if resource.get(x) not in (None, "")), None)


def _text(value: str | None) -> str | None:
    """`value` as every database takes it, at most 256 characters."""
    if value is None or (len(value) <= _MAX_TEXT_CHARS and value.isascii() and "\0" not in value):
        return value
    return NO_TEXT.sub("", value)[:_MAX_TEXT_CHARS]


def _number(value: int | None) -> int | None:
    """`value` as a column can hold it: sums of what senders state may be larger."""
    return None if value is None else max(-_HIGHEST, min(value, _HIGHEST))


@lru_cache(maxsize=8)
def _subject_statement(dialect: Dialect, *, replaces: bool) -> str:
    insert = postgresql.insert(subject_facts) if dialect.name == "postgresql" else sqlite.insert(subject_facts)
    kept = {name: insert.excluded[name] for name in _SUBJECT if name not in _SUBJECT_KEY}
    replacing = insert.on_conflict_do_update(index_elements=_SUBJECT_KEY, set_=kept)
    statement = replacing if replaces else insert.on_conflict_do_nothing(index_elements=_SUBJECT_KEY)
    return str(statement.compile(dialect=dialect, column_keys=list(_SUBJECT)))


# Built once, as in `writing`.
_PLACE = tuple(score_facts.c[x] for x in ("number", "scope", "subject_id", "tenant", "metric", "series"))
_PLACES = select(*_PLACE).join(evaluations, evaluations.c.seq == score_facts.c.number)
_EXTERNAL_PLACES = select(*_PLACE, score_facts.c.evaluated_ns).join(
    external_scores, score_facts.c.number == -external_scores.c.row
)
_ABOUT_TRACES = select(
    subject_facts.c.subject_id, subject_facts.c.model, subject_facts.c.input_tokens, subject_facts.c.output_tokens
).where(subject_facts.c.scope == "trace", subject_facts.c.subject_id.in_(bindparam("subjects", expanding=True)))
# The highest number of a subject's facts, found by way of the tables that have an index of the subject.
_LAST_MEASURED = (
    select(func.max(score_facts.c.number))
    .join(evaluations, evaluations.c.seq == score_facts.c.number)
    .where(evaluations.c.subject_id == subject_facts.c.subject_id, evaluations.c.scope == subject_facts.c.scope)
)
_LAST_GIVEN = (
    select(func.max(score_facts.c.number))
    .join(external_scores, score_facts.c.number == -external_scores.c.row)
    .where(
        external_scores.c.scope == subject_facts.c.scope,
        score_facts.c.tenant == subject_facts.c.tenant,
        score_facts.c.subject_id == subject_facts.c.subject_id,
        or_(
            external_scores.c.trace_id == subject_facts.c.subject_id,
            external_scores.c.session_key == subject_facts.c.subject_id,
            external_scores.c.row.in_(
                select(response_scores.c.row).where(response_scores.c.response_id == subject_facts.c.subject_id)
            ),
        ),
    )
)
_LAST_LEFT = func.coalesce(_LAST_MEASURED.scalar_subquery(), _LAST_GIVEN.scalar_subquery(), _NONE)
