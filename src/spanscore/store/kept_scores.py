"""Rows of scores: those that spanscore measured, and those that others gave.

They are written with each commit, so as few as can be are looked up before: of traces that are new,
none.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias

from sqlalchemy import bindparam, delete, func, select, union_all, update
from sqlalchemy.engine import Connection

from spanscore.model.external import Turns
from spanscore.model.score import Annotation, Evaluation, Score
from spanscore.model.trace import AgentTrace
from spanscore.store import placement, records
from spanscore.store.placement import (
    Dimensions,
    Named,
    OfTrace,
    Scored,
    cluster,
    cluster_of,
    hashed,
    subject,
    text,
)
from spanscore.store.schema import COUNTED, GIVEN, NEWEST, marks, pending, scores as table
from spanscore.store.stored_rows import chunks, has_uid, key, matching, put_rows, read_scores

_UNKNOWN = OfTrace()
_VERDICTS = frozenset({"pass", "fail"})
_NO_VERDICT = (None, None, None)
_NAMES_NOTHING = (None, None, None, None)

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
    happened_ns: int
    context: int
    cluster: int
    subject: int
    tags: int | None


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
            own = cluster(score), subject(score), None
            return _OfSubject(score.tenant, _happened_ns(score), context, *own)
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
        return _OfSubject(score.tenant, happened_ns, context, of_session, alone, tags)


class _Added(NamedTuple):
    """A score that is new."""

    number: int
    score: Evaluation
    uid: str
    place: _Place


class _Rows:
    """Rows of scores that are written together, and what they have in common."""

    def __init__(self, now_ns: int) -> None:
        self.dimensions = Dimensions()
        self.size_bytes = 0
        self._rows: list[_Row] = []
        self._now_ns = now_ns

    def add(
        self, number: int, score: Evaluation, uid: str, names: _Row, of: _OfSubject, record: str
    ) -> None:
        """Add a score; `names` has its columns from `subject_id` to `current`."""
        size_bytes = records.size_bytes(record)
        self.size_bytes += size_bytes
        run = score.run or ""
        self._rows.append(
            (
                number,
                uid,
                score.scope,
                score.metric,
                score.revision,
                run,
                score.evaluated_at_ns,
                self._now_ns,
                size_bytes,
                *names,
                self.dimensions.procedure(score, of.tenant, run),
                *of,
                *_verdict(score),
                record,
            )
        )

    def write(self, connection: Connection) -> None:
        """Write them."""
        self.dimensions.write(connection)
        put_rows(connection, table, self._rows)


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
    removed: Named | None = None,
) -> Written:
    """Write the measured scores that are not there yet, with numbers from `after` + 1 on; they take
    the place of earlier revisions.

    `traces` are those of the same commit, of which none is kept; of others the context is known
    from their earlier scores. `removed` names agent traces that were put out; None where nobody has
    given scores.
    """
    subjects = {x: key(x) for x in {x.subject_id for x in scored}}
    identities = [(subjects[x.subject_id], x.uid) for x in scored]
    numbers, newest, contexts = _known(
        connection, list(subjects.values()), {x.revision for x in scored}
    )
    added, older = _added(identities, scored, numbers, newest, after)
    _set_current(connection, older, 0)
    committed = list(traces)
    about = {x.id: OfTrace.of(x) for x in committed}
    of_traces = {x.place[1] for x in added if x.place[0] == "trace"}
    unknown = of_traces - about.keys() - contexts.keys()
    about.update((x.id, OfTrace.of(x)) for x in placement.stored(connection, unknown))
    rows = _Rows(now_ns)
    of_subjects: dict[tuple[str, str], _OfSubject] = {}
    printed = records.encode_evaluations([x.score for x in added])
    for (number, score, uid, place), record in zip(added, printed, strict=True):
        scope, subject_id, _, _ = place
        of = of_subjects.get((scope, subject_id))
        if of is None:
            of = _of_subject(rows.dimensions, score, about, contexts)
            of_subjects[scope, subject_id] = of
        current = int(newest[place] == (score.revision, number))
        rows.add(number, score, uid, (subject_id, *_NAMES_NOTHING, current), of, record)
    rows.write(connection)
    if removed is not None:
        named = placement.names_of(connection, committed) | removed
        _place_given(connection, named, len(about) + len(removed.traces))
    return Written([numbers[x] for x in identities], [x.score for x in added], rows.size_bytes)


def _added(
    identities: Sequence[tuple[str, str]],
    scored: Sequence[Evaluation],
    numbers: dict[tuple[str, str], int],
    newest: dict[_Place, _Revision],
    after: int,
) -> tuple[list[_Added], list[int]]:
    """The scores that have no number yet, which they are given, and the numbers of stored ones
    whose place they take.
    """
    added: list[_Added] = []
    older: list[int] = []
    for (subject_id, uid), score in zip(identities, scored, strict=True):
        if (subject_id, uid) in numbers:
            continue
        number = after + 1 + len(added)
        numbers[subject_id, uid] = number
        place: _Place = (score.scope, subject_id, score.metric, score.run or "")
        added.append(_Added(number, score, uid, place))
        before = newest.get(place, (0, 0))
        if before[0] <= score.revision:
            newest[place] = score.revision, number
            older += [before[1]] if 0 < before[1] <= after else []
    return added, older


def put_given(
    connection: Connection, scores: Sequence[Evaluation], now_ns: int
) -> tuple[list[Evaluation], int]:
    """Write those scores that others gave which are not there yet; of each series the last given
    counts.

    Returns those that are new, and their bytes.
    """
    new = {x.uid: x for x in scores}
    for uids in chunks(list(new)):
        there = select(table.c.uid).where(*has_uid(connection, uids), GIVEN)
        deleted = select(marks.c.name).where(marks.c.kind == "deleted", marks.c.name.in_(uids))
        for uid in connection.execute(union_all(there, deleted)).scalars():
            new.pop(uid, None)
    if not new:
        return [], 0
    last = connection.execute(select(func.min(table.c.number))).scalar()
    numbered = [(min(last or 0, 0) - x, score) for x, score in enumerate(new.values(), 1)]
    counted = _counted_given(connection, numbered)
    rows, places = _Rows(now_ns), _Places(connection, new.values())
    for number, score in numbered:
        session, response = score.session_key, score.target.response_id
        names = (
            None,
            score.target.trace_id or None,
            None if session is None else key(session),
            None if response is None else key(response),
            _series(score),
            int(number in counted),
        )
        of = places.of(rows.dimensions, score)
        rows.add(number, score, score.uid, names, of, records.encode(score))
    rows.write(connection)
    return list(new.values()), rows.size_bytes


def _counted_given(connection: Connection, numbered: Sequence[_Numbered]) -> set[int]:
    """The numbers of those of these scores that count; they take the place of stored ones."""
    newest = _newest_given(numbered)
    query = select(table.c.number, table.c.evaluated_ns, table.c.series).where(COUNTED)
    older: list[int] = []
    for row in matching(connection, query, table.c.series, list(newest)):
        new = newest.get(row.series)
        if new is not None and row.evaluated_ns > new[1].evaluated_at_ns:
            del newest[row.series]
        else:
            older.append(row.number)
    _set_current(connection, older, 0)
    return {number for number, _ in newest.values()}


def renew_given(connection: Connection, score: Evaluation) -> None:
    """Have the last given count of the series of a score that was changed or deleted; `score` is
    what it was before.
    """
    query = select(table.c.number, table.c.record).where(table.c.series == _series(score))
    found = connection.execute(query.order_by(table.c.number.desc())).all()
    of_series = [(row.number, x) for row, x in read_scores(found)]
    _set_current(connection, [row.number for row in found], 0)
    for number, newest in _newest_given(of_series).values():
        dimensions = Dimensions()
        of = _Places(connection, [newest]).of(dimensions, newest)
        value, label, passing = _verdict(newest)
        figures = {
            "procedure": dimensions.procedure(newest, of.tenant, newest.run or ""),
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


def _known(
    connection: Connection, subjects: Sequence[str], revisions: Collection[int]
) -> tuple[dict[tuple[str, str], int], dict[_Place, _Revision], dict[str, _Context]]:
    """Of what is stored of subjects the numbers of scores, of these revisions and the newest; the
    newest of each place; and the contexts of traces. Mostly there is nothing.
    """
    numbers: dict[tuple[str, str], int] = {}
    newest: dict[_Place, _Revision] = {}
    contexts: dict[str, _Context] = {}
    for some in chunks(subjects):
        found = {"subjects": some, "revisions": sorted(revisions)}
        for number, uid, *place, revision, current, context, tags in connection.execute(
            _STORED, found
        ).all():
            scope, subject_id, metric, run = place
            numbers[subject_id, uid] = number
            if current:
                newest[scope, subject_id, metric, run] = revision, number
            if scope == "trace":
                contexts[subject_id] = context, tags
    return numbers, newest, contexts


def _set_current(connection: Connection, numbers: Sequence[int], current: int) -> None:
    for some in chunks(numbers):
        connection.execute(update(table).where(table.c.number.in_(some)).values(current=current))


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
    own = cluster(score), subject(score), tags
    return _OfSubject(score.tenant, _happened_ns(score), context, *own)


def _happened_ns(score: Evaluation) -> int:
    """When what was scored began; where that is not known, when it was scored."""
    return score.target.start_ns or score.evaluated_at_ns


def _verdict(score: Evaluation) -> tuple[float | None, str | None, int | None]:
    """A score's value, label, and 1 where it passes, 0 where it does not."""
    if not isinstance(score.outcome, Score | Annotation):
        return _NO_VERDICT
    label = score.label
    if label in _VERDICTS:
        return score.outcome.value, label, int(label == "pass")
    passed = score.passed
    return score.outcome.value, text(label), None if passed is None else int(passed)


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


def _newest_given(numbered: Iterable[_Numbered]) -> dict[str, _Numbered]:
    """The last given of each series; of one time the one that came last, as they are in order."""
    newest: dict[str, _Numbered] = {}
    for number, score in numbered:
        series = _series(score)
        if series not in newest or score.evaluated_at_ns >= newest[series][1].evaluated_at_ns:
            newest[series] = number, score
    return newest


def _series(score: Evaluation) -> str:
    """A digest of what a score says of which trace, span, answer or session, and of who gave it."""
    of, by = score.target, score.evaluator
    is_of = score.session_key if score.scope == "session" else of.trace_id
    given = (by.source, by.name, by.author, of.span_id, of.response_id)
    return f"{hashed(score.tenant, score.scope, is_of, score.metric, *given):016x}"


# Built once: to build and to recognise such a statement takes SQLAlchemy longer than the database
# to answer it.
_STORED = (
    select(
        *(table.c[x] for x in ("number", "uid", "scope", "subject_id", "metric", "run")),
        *(table.c[x] for x in ("revision", "current", "context", "tags")),
    )
    .where(table.c.subject_id.in_(bindparam("subjects", expanding=True)))
    .where(NEWEST | table.c.revision.in_(bindparam("revisions", expanding=True)))
    .order_by(table.c.number)
)
