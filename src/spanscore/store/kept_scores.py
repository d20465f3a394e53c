"""Rows of scores: those that spanscore measured, and those that others gave.

They are written with each commit, so as few as can be are looked up before: of traces that are new,
none.
"""

import hashlib
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias

from sqlalchemy import (
    ColumnElement,
    bindparam,
    case,
    delete,
    func,
    select,
    union_all,
    update,
)
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
from spanscore.store.schema import GIVEN, NEWEST, marks, pending
from spanscore.store.schema import scores as table
from spanscore.store.stored_rows import chunks, key, put_rows, subject_of

_UNKNOWN = OfTrace()
_VERDICTS = frozenset({"pass", "fail"})
_NO_VERDICT = (None, None, None)
_SIZE = list(table.c.keys()).index("size_bytes")

_Row: TypeAlias = tuple[Any, ...]
_Numbered: TypeAlias = tuple[int, Evaluation]
_Place: TypeAlias = tuple[str, str, str, str]
"""Scope, subject, metric and run: what there is one newest revision of."""

_Revision: TypeAlias = tuple[int, int]
"""A revision, and the number of the score; by that they are ordered."""

_Context: TypeAlias = tuple[int, int | None]
"""The ids of a context and of tags."""


class _OfSubject(NamedTuple):
    """What the scores of one trace or session have in common, and when it happened."""

    tenant: str
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
            own = (cluster(score), subject(score), None, _happened_ns(score))
            return _OfSubject(score.tenant, context, *own)
        scored = self._scored[turn.id]
        alone, session = (
            cluster_of(scored.tenant, "trace", key(turn.id)),
            turn.session_key or turn.session_id,
        )
        of_session = (
            alone if session is None else cluster_of(scored.tenant, "session", key(session))
        )
        context, tags = dimensions.context(scored), dimensions.tags(scored)
        happened_ns = self._started_ns.get(turn.id) or _happened_ns(score)
        return _OfSubject(score.tenant, context, of_session, alone, tags, happened_ns)


class _Added(NamedTuple):
    """A score that is new."""

    number: int
    score: Evaluation
    uid: str
    place: _Place


class Written(NamedTuple):
    """What became of scores: the number of each, those that are new, and the bytes of these."""

    numbers: list[int]
    new: list[Evaluation]
    size_bytes: int


def put(
    connection: Connection,
    scored: Sequence[Evaluation],
    traces: Iterable[AgentTrace],
    *,
    after: int,
    now_ns: int,
    new: Collection[str] = (),
    removed: Named = placement.NOTHING,
) -> Written:
    """Write the measured scores that are not there yet, with numbers from `after` + 1 on; they take
    the place of earlier revisions.

    `traces` are those of the same commit, of which none is kept; of others the context is known
    from their earlier scores. `new` are the ids of agent traces that have no scores yet, `removed`
    names those that were put out.
    """
    subjects = {x: key(x) for x in {x.subject_id for x in scored}}
    identities = [(subjects[x.subject_id], x.uid) for x in scored]
    numbers = _numbers(connection, identities)
    added, newest = _added(identities, scored, numbers, after)
    committed = list(traces)
    about = {x.id: OfTrace.of(x) for x in committed}
    contexts = _contexts_of(connection, newest, about, new)
    dimensions = Dimensions()
    of_subjects: dict[tuple[str, str], _OfSubject] = {}
    rows = []
    printed = records.encode_evaluations(x.score for x in added)
    for (number, score, uid, place), record in zip(added, printed, strict=True):
        of = of_subjects.get(place[:2])
        if of is None:
            of = of_subjects[place[:2]] = _of_subject(dimensions, score, about, contexts)
        current = int(newest[place] == (score.revision, number))
        named = (None, None, None, None, current)
        rows.append(_row(number, score, uid, place[1], named, of, dimensions, record, now_ns))
    dimensions.write(connection)
    put_rows(connection, table, rows)
    _place_given(
        connection,
        placement.names_of(connection, committed) | removed,
        len(about) + len(removed.traces),
    )
    return Written(
        [numbers[x] for x in identities], [x.score for x in added], sum(x[_SIZE] for x in rows)
    )


def _added(
    identities: Sequence[tuple[str, str]],
    scored: Sequence[Evaluation],
    numbers: dict[tuple[str, str], int],
    after: int,
) -> tuple[list[_Added], dict[_Place, _Revision]]:
    """The scores that have no number yet, which they are given, and the newest of each place."""
    added: list[_Added] = []
    newest: dict[_Place, _Revision] = {}
    for (subject_id, uid), score in zip(identities, scored, strict=True):
        if (subject_id, uid) in numbers:
            continue
        after += 1
        numbers[subject_id, uid] = after
        place: _Place = (score.scope, subject_id, score.metric, score.run or "")
        added.append(_Added(after, score, uid, place))
        newest[place] = max(newest.get(place, (0, 0)), (score.revision, after))
    return added, newest


def _contexts_of(
    connection: Connection,
    newest: dict[_Place, _Revision],
    about: dict[str, OfTrace],
    new: Collection[str],
) -> dict[str, _Context]:
    """The contexts of subjects that had scores before, of which earlier revisions count no more;
    `about` gains the stored traces that had none.
    """
    of_traces = {x for scope, x, _, _ in newest if scope == "trace"}
    of_sessions = {x for scope, x, _, _ in newest if scope == "session"}
    known = sorted(of_sessions | of_traces.difference(new))
    contexts = _contexts(connection, sorted(set(known).difference(about)))
    _supersede(connection, known, newest)
    unknown = of_traces - about.keys() - contexts.keys()
    about.update((x.id, OfTrace.of(x)) for x in placement.stored(connection, unknown))
    return contexts


def put_given(
    connection: Connection, scores: Sequence[Evaluation], now_ns: int
) -> tuple[list[Evaluation], int]:
    """Write those scores that others gave which are not there yet; of each series the last given
    counts.

    Returns those that are new, and their bytes.
    """
    new = {x.uid: x for x in scores}
    for uids in chunks(list(new)):
        there = select(table.c.uid).where(table.c.uid.in_(uids), GIVEN)
        deleted = select(marks.c.name).where(marks.c.kind == "deleted", marks.c.name.in_(uids))
        for uid in connection.execute(union_all(there, deleted)).scalars():
            new.pop(uid, None)
    if not new:
        return [], 0
    last = connection.execute(select(func.min(table.c.number))).scalar()
    numbered = [(min(last or 0, 0) - x, score) for x, score in enumerate(new.values(), 1)]
    counted = _counted_given(connection, numbered)
    dimensions, places, rows = Dimensions(), _Places(connection, new.values()), []
    for number, score in numbered:
        session = None if score.session_key is None else key(score.session_key)
        response = score.target.response_id
        named = (
            score.target.trace_id or None,
            session,
            None if response is None else key(response),
            _series(score),
            int(number in counted),
        )
        of, record = places.of(dimensions, score), records.encode(score)
        rows.append(_row(number, score, score.uid, None, named, of, dimensions, record, now_ns))
    dimensions.write(connection)
    put_rows(connection, table, rows)
    return list(new.values()), sum(x[_SIZE] for x in rows)


def _counted_given(connection: Connection, numbered: Sequence[_Numbered]) -> set[int]:
    """The numbers of those of these scores that count; they take the place of stored ones."""
    newest = _newest_given(numbered)
    for condition in _given_to(score for _, score in numbered):
        older: list[int] = []
        for stored in connection.execute(_GIVEN_PLACES.where(condition)):
            place = tuple(stored)[2:]
            if place not in newest:
                continue
            if stored.evaluated_ns > newest[place][1].evaluated_at_ns:
                del newest[place]
            else:
                older.append(stored.number)
        _set_current(connection, older, 0)
    return {number for number, _ in newest.values()}


def renew_given(connection: Connection, score: Evaluation) -> None:
    """Have the last given count of the series of a score that was changed or deleted; `score` is
    what it was before.
    """
    query = select(table.c.number, table.c.record).where(table.c.metric == score.metric)
    for condition in _given_to([score]):
        found = connection.execute(query.where(condition).order_by(table.c.number.desc())).all()
        of_series = [x for x in _decoded(found) if _given_place(x[1]) == _given_place(score)]
        _set_current(connection, [number for number, _ in of_series], 0)
        for number, newest in _newest_given(of_series).values():
            dimensions = Dimensions()
            of = _Places(connection, [newest]).of(dimensions, newest)
            value, label, passing = _verdict(newest)
            figures = {
                "procedure": dimensions.procedure(newest),
                "value": value,
                "label": label,
                "passing": passing,
            }
            dimensions.write(connection)
            connection.execute(
                update(table)
                .where(table.c.number == number)
                .values(current=1, **of._asdict(), **figures)
            )


def remove(connection: Connection, numbers: Sequence[int]) -> None:
    """Delete scores by their numbers, and that they were not delivered."""
    for some in chunks(numbers):
        of_scores = (pending.c.kind == "score", pending.c.number.in_(some))
        connection.execute(delete(pending).where(*of_scores))
        connection.execute(delete(table).where(table.c.number.in_(some)))


def set_aside(connection: Connection, ids: Sequence[str]) -> None:
    """Count the scores no more of agent traces that are part of another one by now."""
    for some in chunks(ids):
        of_traces = (table.c.subject_id.in_(some), table.c.scope == "trace", table.c.current == 1)
        connection.execute(update(table).where(*of_traces).values(current=-1))


def _numbers(
    connection: Connection, identities: Sequence[tuple[str, str]]
) -> dict[tuple[str, str], int]:
    """The numbers of those scores, by subject and uid, that are stored; mostly no subject has
    any.
    """
    scored: set[str] = set()
    for some in chunks(list({subject_id for subject_id, _ in identities})):
        scored.update(connection.execute(_SCORED_SUBJECTS, {"subjects": some}).scalars())
    numbers: dict[tuple[str, str], int] = {}
    for known in chunks([x for x in identities if x[0] in scored]):
        subjects, uids = zip(*known, strict=True)
        found = connection.execute(_STORED, {"subjects": tuple(set(subjects)), "uids": uids})
        numbers.update(((subject, uid), number) for subject, uid, number in found)
    return numbers


def _supersede(
    connection: Connection, subjects: Sequence[str], newest: dict[_Row, _Revision]
) -> None:
    """Have earlier revisions of scores of these subjects count no more; of what is stored in a
    later revision than `newest` has, that is put there.
    """
    metrics = sorted({metric for _, _, metric, _ in newest})
    for some in chunks(subjects):
        for names in chunks(metrics):
            older = []
            for revision, number, *parts in connection.execute(
                _PLACES, {"subjects": some, "metrics": names}
            ):
                place, stored = tuple(parts), (revision, number)
                if place not in newest:
                    continue
                if stored > newest[place]:
                    newest[place] = stored
                else:
                    older.append(number)
            _set_current(connection, older, 0)


def _set_current(connection: Connection, numbers: Sequence[int], current: int) -> None:
    for some in chunks(numbers):
        connection.execute(update(table).where(table.c.number.in_(some)).values(current=current))


def _contexts(connection: Connection, subjects: Sequence[str]) -> dict[str, _Context]:
    """The contexts and tags of those of these agent traces that have scores: those of the newest
    one.
    """
    found: dict[str, _Context] = {}
    for chunk in chunks(subjects):
        rows = connection.execute(_CONTEXTS, {"subjects": chunk})
        found.update((x[0], (x[1], x[2])) for x in rows)
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
    own = (cluster(score), subject(score), tags, _happened_ns(score))
    return _OfSubject(score.tenant, context, *own)


def _happened_ns(score: Evaluation) -> int:
    """When what was scored began; where that is not known, when it was scored."""
    return score.target.start_ns or score.evaluated_at_ns


def _row(
    number: int,
    score: Evaluation,
    uid: str,
    subject_id: str | None,
    named: _Row,
    of: _OfSubject,
    dimensions: Dimensions,
    record: str,
    now_ns: int,
) -> _Row:
    return (
        number,
        uid,
        score.scope,
        subject_id,
        score.metric,
        score.revision,
        score.run or "",
        of.tenant,
        score.evaluated_at_ns,
        now_ns,
        records.size_bytes(record),
        *named,
        dimensions.procedure(score),
        of.happened_ns,
        of.context,
        of.cluster,
        of.subject,
        *_verdict(score),
        of.tags,
        record,
    )


def _verdict(score: Evaluation) -> tuple[float | None, str | None, int | None]:
    """A score's value, label, and 1 where it passes, 0 where it does not."""
    if not isinstance(score.outcome, Score | Annotation):
        return _NO_VERDICT
    label = score.label
    passed = label == "pass" if label in _VERDICTS else score.passed
    return score.value, text(label), None if passed is None else int(passed)


def _place_given(connection: Connection, named: Named, changed: int) -> None:
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
        if place != tuple(getattr(row, x) for x in _OfSubject._fields):
            moved.append((row.number, place))
    dimensions.write(connection)
    for number, place in moved:
        connection.execute(update(table).where(table.c.number == number).values(place._asdict()))


def _given_to(given: Iterable[Evaluation]) -> Iterator[ColumnElement[bool]]:
    """The conditions that find what was given to the same traces, responses and sessions as these
    scores that others gave.
    """
    scores, of = list(given), table.c
    for some in chunks(sorted({x.target.trace_id for x in scores if x.target.trace_id})):
        yield of.trace_id.in_(some)
    for some in chunks(
        sorted({subject_of(x) for x in scores if x.target.response_id and not x.target.trace_id})
    ):
        yield of.trace_id.is_(None) & of.response_id.in_(some)
    for some in chunks(sorted({subject_of(x) for x in scores if x.scope == "session"})):
        yield of.session_key.in_(some)


def _newest_given(numbered: Iterable[_Numbered]) -> dict[_Row, _Numbered]:
    """The last given of each series; of one time the one that came last, as they are in order."""
    newest: dict[_Row, _Numbered] = {}
    for number, score in numbered:
        place = _given_place(score)
        before = newest.get(place)
        if before is None or score.evaluated_at_ns >= before[1].evaluated_at_ns:
            newest[place] = number, score
    return newest


def _decoded(rows: Sequence[Any]) -> Iterator[_Numbered]:
    for number, record in rows:
        for score in records.undamaged(records.decode_evaluation, record):
            yield number, score


def _given_place(score: Evaluation) -> _Row:
    """What there is one newest score of; `_GIVEN_PLACES` has the same of those that are stored."""
    session = key(score.session_key) if score.session_key else None
    of = session if score.scope == "session" else score.target.trace_id or None
    return score.tenant, score.scope, of, score.metric, _series(score)


def _series(score: Evaluation) -> str:
    """Who gave a score to which span, or to which answer of a model."""
    by = score.evaluator
    answer = () if score.target.response_id is None else (score.target.response_id,)
    facts = "\n".join((by.source or "", by.name, by.author or "", score.target.span_id, *answer))
    return hashlib.sha256(facts.encode("utf-8", "surrogatepass")).hexdigest()[:16]


# Built once: to build and to recognise such a statement takes SQLAlchemy longer than the database
# to answer it.
_OF_SUBJECTS = table.c.subject_id.in_(bindparam("subjects", expanding=True))
_SCORED_SUBJECTS = select(table.c.subject_id).where(_OF_SUBJECTS).distinct()
_STORED = select(table.c.subject_id, table.c.uid, table.c.number).where(
    _OF_SUBJECTS, table.c.uid.in_(bindparam("uids", expanding=True))
)
_PLACES = select(
    table.c.revision, table.c.number, table.c.scope, table.c.subject_id, table.c.metric, table.c.run
).where(_OF_SUBJECTS, table.c.metric.in_(bindparam("metrics", expanding=True)), NEWEST)
_LATEST = (
    select(func.max(table.c.number))
    .where(_OF_SUBJECTS, table.c.scope == "trace")
    .group_by(table.c.subject_id)
)
_CONTEXTS = select(table.c.subject_id, table.c.context, table.c.tags).where(
    table.c.number.in_(_LATEST)
)
_GIVEN_PLACES = select(
    table.c.number,
    table.c.evaluated_ns,
    table.c.tenant,
    table.c.scope,
    case((table.c.scope == "session", table.c.session_key), else_=table.c.trace_id),
    table.c.metric,
    table.c.series,
).where(GIVEN, table.c.current == 1)
