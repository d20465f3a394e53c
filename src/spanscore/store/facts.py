"""Rows of the newest scores, for analytics.

They are written with each commit, so as few as can be are looked up before: of traces that are new,
none.
"""

import hashlib
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias

from sqlalchemy import ColumnElement, bindparam, case, delete, func, select, update
from sqlalchemy.engine import Connection

from spanscore.model.external import Turns
from spanscore.model.score import Annotation, Evaluation, Score
from spanscore.model.trace import AgentTrace
from spanscore.store import placement, records
from spanscore.store.dimensions import (
    Dimensions,
    OfTrace,
    Scored,
    cluster,
    cluster_of,
    subject,
    text,
)
from spanscore.store.placement import Named
from spanscore.store.schema import evaluations, external_scores, response_scores, score_facts
from spanscore.store.stored_rows import chunks, key, put_rows, subject_of

__all__ = ["forget", "forget_traces", "put", "put_external"]

_UNKNOWN = OfTrace()
_VERDICTS = frozenset({"pass", "fail"})
_NO_VERDICT = (None, None, None)

_Row: TypeAlias = tuple[Any, ...]
_Numbered: TypeAlias = tuple[int, Evaluation]
_Context: TypeAlias = tuple[int, int | None]
"""The ids of a context and of tags."""


class _OfSubject(NamedTuple):
    """What the scores of one trace or session have in common, and when it happened."""

    context: int
    cluster: int
    subject: int
    tags: int | None
    happened_ns: int


class _Places:
    """Where scores that others gave count: with the turn that each is of, or by themselves where
    that is none.
    """

    def __init__(self, connection: Connection, scores: Collection[Evaluation]) -> None:
        ids: set[str] = set()
        shared: set[tuple[str, str]] = set()
        given = [x for x in scores if x.scope == "trace"]
        for tenant in sorted({x.tenant for x in given}):
            found = placement.candidates(
                connection, [x for x in given if x.tenant == tenant], tenant
            )
            ids.update(found.ids)
            shared.update(found.shared)
        self._turns = Turns(shared=shared)
        self._scored: dict[str, Scored] = {}
        self._started_ns = placement.started_ns(connection, ids)
        for turn, scored in placement.read_and_keep(connection, ids):
            self._turns.add(turn)
            self._scored[turn.id] = scored

    def of(self, dimensions: Dimensions, score: Evaluation) -> _OfSubject:
        """That of a score."""
        turn = self._turns.turn_of(score)
        if turn is None:
            context = dimensions.context(Scored.by(score, _UNKNOWN))
            return _OfSubject(context, cluster(score), subject(score), None, _happened_ns(score))
        scored = self._scored[turn.id]
        alone, session = (
            cluster_of(scored.tenant, "trace", key(turn.id)),
            turn.session_key or turn.session_id,
        )
        of_session = (
            alone if session is None else cluster_of(scored.tenant, "session", key(session))
        )
        happened_ns = self._started_ns.get(turn.id) or _happened_ns(score)
        context, tags = dimensions.context(scored), dimensions.tags(scored)
        return _OfSubject(context, of_session, alone, tags, happened_ns)


def put(
    connection: Connection,
    scored: Sequence[_Numbered],
    traces: Iterable[AgentTrace],
    *,
    new: Collection[str] = (),
    removed: Named = placement.NOTHING,
) -> None:
    """Write the facts of scores with their outbox numbers, in the place of those of earlier
    revisions.

    `traces` are those of the same commit, of which none is kept; of others the context is known
    from their earlier scores. `new` are the ids of agent traces that have no scores yet, `removed`
    names those that were put out.
    """
    about: dict[str, OfTrace] = {}
    otel_traces: set[tuple[str, str]] = set()
    answered: list[str] = []
    for trace in traces:
        about[trace.id] = OfTrace.of(trace)
        otel_traces.update(placement.otel_traces_of(trace))
        if any(call.response_id for call in trace.model_calls):
            answered.append(trace.id)
    contexts: dict[str, _Context] = {}
    newest = {(x.scope, x.subject_id, x.metric, x.run): (number, x) for number, x in scored}
    known = sorted(
        {subject_of(x) for _, x in scored if x.scope == "session" or x.subject_id not in new}
    )
    if known:
        first = min(number for number, _ in scored)
        contexts.update(_contexts(connection, sorted(set(known).difference(about)), first))
        _forget_earlier(connection, known, {_place(x) for _, x in newest.values()})
    unknown = (
        {x.subject_id for _, x in scored if x.scope == "trace"} - about.keys() - contexts.keys()
    )
    about.update(
        (trace.id, OfTrace.of(trace)) for trace in placement.stored(connection, sorted(unknown))
    )
    dimensions = Dimensions()
    of_subjects = _of_subjects(dimensions, [x for _, x in newest.values()], about, contexts)
    rows = [_row(dimensions, number, x, of_subjects) for number, x in newest.values()]
    _write(connection, dimensions, rows)
    named = Named(frozenset(otel_traces), placement.scored_responses(connection, answered))
    _place_external(connection, named | removed, len(about) + len(removed.traces))


def _forget_earlier(
    connection: Connection, subjects: Sequence[str], places: Collection[_Row]
) -> None:
    """Delete the facts of earlier revisions of scores of these subjects; `places` are those of the
    new ones.
    """
    metrics = sorted({metric for _, _, metric, _ in places})
    for some in chunks(subjects):
        for names in chunks(metrics):
            found = connection.execute(_PLACES, {"subjects": some, "metrics": names}).all()
            _delete(connection, [number for number, *place in found if tuple(place) in places])


def _contexts(connection: Connection, subjects: Sequence[str], before: int) -> dict[str, _Context]:
    """The contexts and tags of those of these agent traces that have scores: those of the newest
    score with an outbox number below `before`.
    """
    found: dict[str, _Context] = {}
    for chunk in chunks(subjects):
        parameters = {"subjects": chunk, "before": before}
        found.update((x[0], (x[1], x[2])) for x in connection.execute(_CONTEXTS, parameters))
    return found


def put_external(connection: Connection, scored: Sequence[_Numbered]) -> None:
    """Write the facts of scores that others gave, by their rows in `external_scores`; of each
    series the last given.
    """
    newest: dict[_Row, _Numbered] = {}
    for row, score in scored:
        place = _external_place(score)
        before = newest.get(place)
        if before is None or score.evaluated_at_ns >= before[1].evaluated_at_ns:
            newest[place] = -row, score
    for condition in _given_to([score for _, score in scored]):
        older: list[int] = []
        for stored in connection.execute(_EXTERNAL_PLACES.where(condition)):
            place = tuple(stored)[2:]
            if place not in newest:
                continue
            if stored.evaluated_ns > newest[place][1].evaluated_at_ns:
                del newest[place]
            else:
                older.append(stored.number)
        _delete(connection, older)
    dimensions = Dimensions()
    places = _Places(connection, [x for _, x in newest.values()])
    _write(
        connection,
        dimensions,
        [_external_row(dimensions, number, x, places) for number, x in newest.values()],
    )


def renew_external(connection: Connection, row: int, score: Evaluation) -> None:
    """Write the facts again of the series in which a score that others gave was changed or deleted.

    `row` is that of the score in `external_scores`, `score` what it was before.
    """
    forget(connection, [-row])
    query = select(external_scores.c.row, external_scores.c.record).where(
        external_scores.c.metric == score.metric
    )
    for condition in _given_to([score]):
        found = connection.execute(query.where(condition).order_by(external_scores.c.row)).all()
        put_external(
            connection,
            [x for x in _decoded(found) if _external_place(x[1]) == _external_place(score)],
        )


def forget(connection: Connection, numbers: Sequence[int]) -> None:
    """Delete the facts of scores that were deleted, by their numbers."""
    _delete(connection, numbers)


def forget_traces(connection: Connection, ids: Sequence[str]) -> None:
    """Delete the facts of agent traces that are part of another one by now."""
    for some in chunks(ids):
        of_traces = select(evaluations.c.seq).where(
            evaluations.c.subject_id.in_(some), evaluations.c.scope == "trace"
        )
        connection.execute(delete(score_facts).where(score_facts.c.number.in_(of_traces)))


def _write(connection: Connection, dimensions: Dimensions, rows: list[_Row]) -> None:
    dimensions.write(connection)
    put_rows(connection, score_facts, rows)


def _of_subjects(
    dimensions: Dimensions,
    scores: Sequence[Evaluation],
    about: Mapping[str, OfTrace],
    contexts: Mapping[str, _Context],
) -> dict[tuple[str, str], _OfSubject]:
    """What the scores of each subject have in common, by scope and id, from the first score of
    it.
    """
    found: dict[tuple[str, str], _OfSubject] = {}
    for score in scores:
        if (score.scope, score.subject_id) not in found:
            found[score.scope, score.subject_id] = _of_subject(dimensions, score, about, contexts)
    return found


def _of_subject(
    dimensions: Dimensions,
    score: Evaluation,
    about: Mapping[str, OfTrace],
    contexts: Mapping[str, _Context],
) -> _OfSubject:
    of_trace = about.get(score.subject_id)
    known = None if of_trace else contexts.get(score.subject_id)
    if known is None:
        scored = Scored.by(score, of_trace or _UNKNOWN)
        known = dimensions.context(scored), dimensions.tags(scored)
    context, tags = known
    return _OfSubject(context, cluster(score), subject(score), tags, _happened_ns(score))


def _happened_ns(score: Evaluation) -> int:
    """When what was scored began; where that is not known, when it was scored."""
    return score.target.start_ns or score.evaluated_at_ns


def _row(
    dimensions: Dimensions,
    number: int,
    score: Evaluation,
    of_subjects: Mapping[tuple[str, str], _OfSubject],
) -> _Row:
    place = of_subjects[score.scope, score.subject_id]
    return _facts_of(dimensions, number, score, place, None)


def _external_row(dimensions: Dimensions, number: int, score: Evaluation, places: _Places) -> _Row:
    return _facts_of(dimensions, number, score, places.of(dimensions, score), _series(score))


def _facts_of(
    dimensions: Dimensions, number: int, score: Evaluation, place: _OfSubject, series: str | None
) -> _Row:
    *ids, tags, happened_ns = place
    found = (dimensions.procedure(score), happened_ns, number, *ids, *_verdict(score))
    return (*found, series, tags, score.evaluated_at_ns)


def _verdict(score: Evaluation) -> tuple[float | None, str | None, int | None]:
    """A score's value, label, and 1 where it passes, 0 where it does not."""
    if not isinstance(score.outcome, Score | Annotation):
        return _NO_VERDICT
    label = score.label
    passed = label == "pass" if label in _VERDICTS else score.passed
    return score.value, text(label), None if passed is None else int(passed)


def _place_external(connection: Connection, named: Named, changed: int) -> None:
    """Have what others gave count with the turns that it is of by now; `changed` agent traces were
    written or went.
    """
    given = placement.naming(connection, named, changed)
    if not given:
        return
    dimensions, places = Dimensions(), _Places(connection, [x for _, x in given])
    moved = []
    for row, score in given:
        place = places.of(dimensions, score)
        if place != (row.context, row.cluster, row.subject, row.tags, row.happened_ns):
            moved.append((row.row, place))
    dimensions.write(connection)
    for number, place in moved:
        is_of = score_facts.c.number == -number
        connection.execute(update(score_facts).where(is_of).values(place._asdict()))


def _given_to(scores: Iterable[Evaluation]) -> Iterator[ColumnElement[bool]]:
    """The conditions that find what was given to the same traces, responses and sessions as these
    external scores.
    """
    table, given = external_scores.c, list(scores)
    for some in chunks(sorted({x.target.trace_id for x in given if x.target.trace_id})):
        yield table.trace_id.in_(some)
    for some in chunks(
        sorted({subject_of(x) for x in given if x.target.response_id and not x.target.trace_id})
    ):
        rows = select(response_scores.c.row).where(response_scores.c.response_id.in_(some))
        yield table.trace_id.is_(None) & table.row.in_(rows)
    for some in chunks(sorted({subject_of(x) for x in given if x.scope == "session"})):
        yield table.session_key.in_(some)


def _decoded(rows: Sequence[Any]) -> Iterator[_Numbered]:
    for number, record in rows:
        for evaluation in records.undamaged(records.decode_evaluation, record):
            yield number, evaluation


def _delete(connection: Connection, numbers: Sequence[int]) -> None:
    for some in chunks(numbers):
        connection.execute(delete(score_facts).where(score_facts.c.number.in_(some)))


def _place(score: Evaluation) -> _Row:
    return score.scope, subject_of(score), score.metric, score.run or ""


def _external_place(score: Evaluation) -> _Row:
    """What there is one newest score of; `_EXTERNAL_PLACES` has the same of those that are
    stored.
    """
    session = key(score.session_key) if score.session_key else None
    of = session if score.scope == "session" else score.target.trace_id or None
    return score.tenant, score.scope, of, score.metric, _series(score)


def _series(score: Evaluation) -> str:
    """Who gave a score to which span, or to which answer of a model."""
    by = score.evaluator
    answer = () if score.target.response_id is None else (score.target.response_id,)
    facts = "\n".join((by.source or "", by.name, by.author or "", score.target.span_id, *answer))
    return hashlib.sha256(facts.encode("utf-8", "surrogatepass")).hexdigest()[:16]


# Built once, as in `writing`.
_PLACES = (
    select(
        score_facts.c.number,
        evaluations.c.scope,
        evaluations.c.subject_id,
        evaluations.c.metric,
        evaluations.c.run,
    )
    .join(evaluations, evaluations.c.seq == score_facts.c.number)
    .where(
        evaluations.c.subject_id.in_(bindparam("subjects", expanding=True)),
        evaluations.c.metric.in_(bindparam("metrics", expanding=True)),
    )
)
_NEWEST = (
    select(evaluations.c.subject_id, func.max(evaluations.c.seq).label("seq"))
    .where(
        evaluations.c.subject_id.in_(bindparam("subjects", expanding=True)),
        evaluations.c.scope == "trace",
        evaluations.c.seq < bindparam("before"),
    )
    .group_by(evaluations.c.subject_id)
    .subquery()
)
_CONTEXTS = select(_NEWEST.c.subject_id, score_facts.c.context, score_facts.c.tags).join(
    score_facts, score_facts.c.number == _NEWEST.c.seq
)
_EXTERNAL_PLACES = select(
    score_facts.c.number,
    score_facts.c.evaluated_ns,
    external_scores.c.tenant,
    external_scores.c.scope,
    case(
        (external_scores.c.scope == "session", external_scores.c.session_key),
        else_=external_scores.c.trace_id,
    ),
    external_scores.c.metric,
    score_facts.c.series,
).join(external_scores, score_facts.c.number == -external_scores.c.row)
