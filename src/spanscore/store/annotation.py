"""The annotation queue: leases items to annotators."""

import hashlib
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any, Literal, NamedTuple, TypeAlias

from sqlalchemy import delete, func, literal, select, update
from sqlalchemy.engine import Connection

from spanscore.model.external import HUMAN
from spanscore.model.score import Evaluation, ScopeKind, Score
from spanscore.store import external, records
from spanscore.store.database import Database
from spanscore.store.schema import (
    COUNTED,
    annotation_items,
    otel_traces,
    score_procedures,
)
from spanscore.store.schema import scores as stored
from spanscore.store.stored_rows import chunks, is_of, put_rows, subject_of

Strategy: TypeAlias = Literal["random", "uncertain", "disagreeing"]
Place: TypeAlias = tuple[int, int]

MAX_RANKED = 1000
"""Candidates that are put in order of doubt or of contradiction."""

_MAX_OTHERS = 20_000
"""Verdicts of others, the newest, that are compared with the judge's."""

_CANDIDATES_AT_ONCE = 200
_SUBJECTS = 2**63
_PARTS = 10**9
_NEWEST = 2**62


@dataclass(frozen=True, slots=True, kw_only=True)
class Queue:
    """What a person is asked to label: what a judge scored by `metric`, in the order of a strategy.

    Labels are the human scores named `label`. `seed` decides the random order. `threshold` is in
    place of the judge's own. `against` are further metrics, and names of scores that others gave,
    that may contradict the judge. `labels_wanted` is how many people are to label each item.
    """

    tenant: str
    metric: str
    label: str
    author: str
    strategy: Strategy
    scope: ScopeKind | None = None
    seed: int = 0
    threshold: float | None = None
    against: tuple[str, ...] = ()
    labels_wanted: int = 1


class Candidate(NamedTuple):
    """A judge's score, by its outbox number, at its place in the order, and the `reasons` for which
    it is there.
    """

    place: Place
    number: int
    reasons: tuple[str, ...]


class _Judge(NamedTuple):
    """The procedures by which the judge's scores were made as traces passed, all of one scope."""

    scope: ScopeKind
    procedures: Mapping[int, Any]


def candidates(
    connection: Connection, queue: Queue, after: Place | None = None
) -> Iterator[Candidate]:
    """All candidates past a place, in the queue's order."""
    judge = _judge(connection, queue)
    if judge is None:
        return
    if queue.strategy == "random":
        yield from _random(connection, queue, judge, after)
        return
    ranked = _uncertain if queue.strategy == "uncertain" else _disagreeing
    for candidate in sorted(ranked(connection, queue, judge)):
        if after is None or candidate.place > after:
            yield candidate


def scope_of(connection: Connection, queue: Queue) -> ScopeKind | None:
    """Whether the judge scores traces or sessions; None where it has scored nothing."""
    judge = _judge(connection, queue)
    return None if judge is None else judge.scope


def _judge(connection: Connection, queue: Queue) -> _Judge | None:
    table = score_procedures.c
    made_as_traces_passed = (table.metric == queue.metric, table.source.is_(None), table.run == "")
    query = select(score_procedures).where(
        table.tenant == queue.tenant, *made_as_traces_passed, table.status == "scored"
    )
    found = connection.execute(query).all()
    scopes = {x.scope for x in found}
    scope = queue.scope or ("trace" if "trace" in scopes else "session")
    of_scope = {x.id: x for x in found if x.scope == scope}
    return _Judge(scope, of_scope) if of_scope else None


def _random(
    connection: Connection, queue: Queue, judge: _Judge, after: Place | None
) -> Iterator[Candidate]:
    """In the order of a hash of their subjects, from a place on that the seed decides.

    So what was labelled up to any moment is a simple random sample, and what is scored meanwhile
    has its place in it.
    """
    start = _start(queue)
    position = start - 1 if after is None else (start + after[0]) % _SUBJECTS
    is_first_lap = after is None or position >= start
    laps: list[tuple[int, int]] = [(position, _SUBJECTS)] if is_first_lap else []
    laps.append((-1 if is_first_lap else position, start))
    for begin, end in laps:
        while rows := connection.execute(_in_hash_order(judge, begin, end)).all():
            for row in rows:
                yield Candidate(
                    ((row.subject - start) % _SUBJECTS, 0), row.number, ("drawn at random",)
                )
            begin = rows[-1].subject  # noqa: PLW2901 - where this lap goes on


def _in_hash_order(judge: _Judge, after: int, end: int) -> Any:
    scores = stored.c
    wanted = (
        COUNTED,
        scores.procedure.in_(judge.procedures),
        scores.passing.is_not(None),
        scores.subject > after,
    )
    before = () if end == _SUBJECTS else (scores.subject < end,)
    query = select(scores.subject, func.max(scores.number).label("number")).where(*wanted, *before)
    return query.group_by(scores.subject).order_by(scores.subject).limit(_CANDIDATES_AT_ONCE)


def _start(queue: Queue) -> int:
    seed = f"{queue.seed}\n{queue.metric}".encode("utf-8", "surrogatepass")
    return int.from_bytes(hashlib.sha256(seed).digest()[:8]) >> 1


def _uncertain(connection: Connection, queue: Queue, judge: _Judge) -> list[Candidate]:
    """Nearest to the threshold first; a score whose samples lie on both sides of it, or of a
    cascade, before these.
    """
    own, made = stored.c, score_procedures.c
    threshold = made.threshold if queue.threshold is None else literal(queue.threshold)
    width = func.coalesce(made.high - made.low, 1.0)
    distance = (func.abs(own.value - threshold) / width).label("distance")
    query = (
        select(own.number, distance, threshold.label("threshold"), width.label("width"))
        .join(score_procedures, made.id == own.procedure)
        .where(COUNTED, own.procedure.in_(judge.procedures))
        .where(own.value.is_not(None), threshold.is_not(None))
        .order_by(distance, own.number)
        .limit(MAX_RANKED)
    )
    nearest = connection.execute(query).all()
    scores = by_number(connection, [x.number for x in nearest])
    return [_doubt(x, scores[x.number]) for x in nearest if x.number in scores]


def _doubt(row: Any, score: Evaluation) -> Candidate:
    how_far = f"{row.distance * row.width:.3g} from the threshold {row.threshold:g}"
    reasons = [f"the judge's score {score.value:g} is {how_far}"]
    metadata = score.outcome.metadata if isinstance(score.outcome, Score) else {}
    distance, samples, cascade = row.distance, metadata.get("samples"), metadata.get("cascade")
    values = samples.get("values") if isinstance(samples, Mapping) else None
    if values and len(values) > 1:
        distance = max(0.0, distance - (max(values) - min(values)) / 2 / row.width)
        reasons.append(f"its {len(values)} samples lie between {min(values):g} and {max(values):g}")
    if isinstance(cascade, Mapping) and cascade.get("escalated"):
        distance = 0.0
        reasons.append("the first model was unsure, so a better one was asked")
    return Candidate(
        (min(round(distance * _PARTS), _NEWEST), row.number), row.number, tuple(reasons)
    )


def _disagreeing(connection: Connection, queue: Queue, judge: _Judge) -> list[Candidate]:
    """Those whose verdict another one contradicts: of an evaluation run, of others, or of further
    metrics.
    """
    labels: defaultdict[int, list[str]] = defaultdict(list)
    others = _other_procedures(connection, queue, judge)
    direct = {id_: x for id_, x in others.items() if x.source is None or x.scope == "session"}
    for row in _contradicted(connection, judge, list(direct)):
        labels[row.number].append(_verdict(direct[row.procedure], row.other))
    given = {id_: x for id_, x in others.items() if id_ not in direct}
    if judge.scope == "trace" and given:
        for number, procedure, passing in _contradicted_by_given(
            connection, queue, judge, list(given)
        ):
            labels[number].append(_verdict(given[procedure], passing))
    newest = sorted(labels, reverse=True)[:MAX_RANKED]
    return [Candidate((_NEWEST - x, 0), x, tuple(dict.fromkeys(labels[x]))) for x in newest]


def _other_procedures(connection: Connection, queue: Queue, judge: _Judge) -> dict[int, Any]:
    table = score_procedures.c
    named = table.metric.in_([queue.metric, queue.label, *queue.against])
    query = select(score_procedures).where(
        table.tenant == queue.tenant, named, table.status == "scored"
    )
    found = connection.execute(query.where(table.scope == judge.scope)).all()
    return {x.id: x for x in found if x.id not in judge.procedures}


def _contradicted(connection: Connection, judge: _Judge, others: Sequence[int]) -> Sequence[Any]:
    """(number, procedure, other): the judge's scores whose subjects have another verdict by other
    procedures.
    """
    scores = stored.c
    newest = select(scores.subject, scores.procedure, scores.passing)
    newest = newest.where(COUNTED, scores.procedure.in_(others), scores.passing.is_not(None))
    other = newest.order_by(scores.evaluated_ns.desc()).limit(_MAX_OTHERS).subquery()
    query = (
        select(scores.number, other.c.procedure, other.c.passing.label("other"))
        .join(other, other.c.subject == scores.subject)
        .where(COUNTED, scores.procedure.in_(judge.procedures), scores.passing != other.c.passing)
        .order_by(scores.number.desc())
        .limit(MAX_RANKED)
    )
    return connection.execute(query).all() if others else []


def _contradicted_by_given(
    connection: Connection, queue: Queue, judge: _Judge, given: Sequence[int]
) -> Iterator[tuple[int, int, int]]:
    """(number, procedure, verdict) of what others gave to OTel traces that are one turn each."""
    scores = stored.c
    query = select(scores.trace_id, scores.procedure, scores.passing)
    query = query.where(COUNTED, scores.procedure.in_(given), scores.passing.is_not(None))
    given_labels: defaultdict[str, list[Any]] = defaultdict(list)
    for row in connection.execute(query.order_by(scores.evaluated_ns.desc()).limit(_MAX_OTHERS)):
        given_labels[row.trace_id].append(row)
    for some in chunks([x for x in given_labels if x]):
        turns = _single_turns(connection, queue.tenant, some)
        for subject, number, passing in _verdicts_of(connection, queue, judge, list(turns)):
            for row in given_labels[turns[subject]]:
                if row.passing != passing:
                    yield number, row.procedure, row.passing


def _single_turns(connection: Connection, tenant: str, trace_ids: Sequence[str]) -> dict[str, str]:
    """By agent trace id the OTel trace, where that has no other agent trace."""
    table, of_trace = otel_traces.c, defaultdict[str, list[str]](list)
    query = select(table.trace_id, table.agent_trace_id).where(table.trace_id.in_(trace_ids))
    for row in connection.execute(query.where(*is_of(otel_traces, tenant))):
        of_trace[row.trace_id].append(row.agent_trace_id)
    return {ids[0]: trace_id for trace_id, ids in of_trace.items() if len(ids) == 1}


def _verdicts_of(
    connection: Connection, queue: Queue, judge: _Judge, subjects: Sequence[str]
) -> Iterator[tuple[str, int, int]]:
    """(subject, number, verdict) of the judge's newest scores of these agent traces."""
    table = stored.c
    query = (
        select(table.subject_id, table.number, table.passing)
        .where(table.subject_id.in_(subjects), table.current == 1)
        .where(table.scope == judge.scope, table.metric == queue.metric)
        .where(table.procedure.in_(judge.procedures), table.passing.is_not(None))
    )
    for row in connection.execute(query):
        yield row.subject_id, row.number, row.passing


def _verdict(by: Any, passing: int) -> str:
    who = f"evaluation run {by.run}" if by.run else by.source or by.metric
    name = f" by {by.metric}" if by.source else ""
    return f"{who} says {'pass' if passing else 'fail'}{name}"


def by_number(connection: Connection, numbers: Sequence[int]) -> dict[int, Evaluation]:
    """The scores with these outbox numbers; those whose records are damaged are left out."""
    found: dict[int, Evaluation] = {}
    for some in chunks(numbers):
        query = select(stored.c.number, stored.c.record).where(stored.c.number.in_(some))
        for row in connection.execute(query):
            found.update(
                (row.number, x) for x in records.undamaged(records.decode_evaluation, row.record)
            )
    return found


_CHUNK = 100
_MAX_LOOKED_AT = 20_000
"""Candidates that are looked at for one page or lease at most."""

_SPARE = 20
_TRIES = 3


@dataclass(frozen=True, slots=True)
class Item:
    """A trace or session to label: the judge's score of it, why it comes now, and until when it is
    leased (Unix ns).
    """

    score: Evaluation
    place: Place
    reasons: tuple[str, ...]
    until_ns: int = 0


class Page(NamedTuple):
    """Some items, and the place after which the next ones come; None after the last."""

    items: list[Item]
    next: Place | None


@dataclass(frozen=True, slots=True)
class _Subject:
    """What is known of a candidate: its trace or session, who was asked to label that, and by
    author the labels' uids.

    `labels` is empty where it is settled without them.
    """

    candidate: Candidate
    scope: ScopeKind
    id: str
    requests: Sequence[Any]
    labels: Mapping[str, str]

    def own(self, queue: Queue) -> Any | None:
        """What the queue's author was asked."""
        return next((x for x in self.requests if x.author == queue.author), None)

    def is_settled(self, queue: Queue) -> bool:
        """Whether it was noted that the author has nothing to label here."""
        own = self.own(queue)
        settled = {"labelled", "skipped"} | ({"passed"} if queue.labels_wanted == 1 else set())
        return own is not None and own.state in settled

    def is_open(self, queue: Queue, now_ns: int) -> bool:
        """Whether the queue's author is to label it."""
        if self.is_settled(queue) or queue.author in self.labels:
            return False
        leased = {x.author for x in self.requests if x.state == "leased" and x.until_ns > now_ns}
        return len((self.labels.keys() | leased) - {queue.author}) < queue.labels_wanted


class Annotation:
    """The store's queues for people who label. Every method may be called from any thread."""

    def __init__(self, database: Database, clock_ns: Callable[[], int]) -> None:
        self._database = database
        self._clock_ns = clock_ns

    def page(self, queue: Queue, limit: int, after: Place | None = None) -> Page:
        """At most `limit` items that the queue's author is to label; nothing is leased."""
        now_ns = self._clock_ns()
        with self._database.reading() as connection:
            wanted = (x for x in _subjects(connection, queue, after) if x.is_open(queue, now_ns))
            found = list(islice(wanted, limit + 1))
            scores = by_number(connection, [x.candidate.number for x in found[:limit]])
        items = [_item(x.candidate, scores) for x in found[:limit] if x.candidate.number in scores]
        return Page(items, found[limit - 1].candidate.place if len(found) > limit else None)

    def lease(self, queue: Queue, count: int, duration_ns: int) -> list[Item]:
        """At most `count` items for the queue's author alone.

        One that is leased to them already, they get again.
        """
        now_ns = self._clock_ns()
        for _ in range(_TRIES):  # others may have taken all that was free when it was looked for
            with self._database.reading() as connection:
                reached, scores = _reached(connection, queue, count + _SPARE, now_ns)
            with self._database.writing() as connection:
                taken = _take(connection, queue, reached, count, now_ns, now_ns + duration_ns)
            if taken or not any(x.is_open(queue, now_ns) for x in reached):
                break
        return [_item(x, scores, now_ns + duration_ns) for x in taken if x.number in scores]

    def release(self, queue: Queue, scope: ScopeKind, subject_id: str, *, skip: bool) -> bool:
        """End a lease; with `skip` the author is not asked again. Returns whether there was one."""
        table = annotation_items.c
        wanted = (
            *_own(queue),
            table.scope == scope,
            table.subject_id == subject_id,
            table.state == "leased",
        )
        values = {"until_ns": 0, **({"state": "skipped"} if skip else {})}
        with self._database.writing() as connection:
            return bool(
                connection.execute(update(annotation_items).where(*wanted).values(values)).rowcount
            )


def forget_label(connection: Connection, uid: str) -> None:
    """Have the items that a label settled be open again, since it was deleted."""
    reopened = {"state": "leased", "label_uid": None, "until_ns": 0}
    connection.execute(
        update(annotation_items).where(annotation_items.c.label_uid == uid).values(reopened)
    )


def prune(connection: Connection, before_ns: int) -> None:
    """Forget what people were asked before a time (Unix ns)."""
    connection.execute(delete(annotation_items).where(annotation_items.c.drawn_ns < before_ns))


def labels_of(
    connection: Connection, tenant: str, name: str, scope: ScopeKind, subjects: Sequence[str]
) -> dict[str, dict[str, Evaluation]]:
    """What people gave to traces or sessions under a name, by subject and author."""
    if scope == "trace":
        otel_ids = external.otel_ids(connection, subjects)
        given = external.of_traces(connection, otel_ids, subjects, tenant, metric=name).scores
    else:
        given = [x for x in external.of_sessions(connection, subjects, tenant) if x.metric == name]
    found: defaultdict[str, dict[str, Evaluation]] = defaultdict(dict)
    for score in given:
        if score.evaluator.source == HUMAN:
            found[subject_of(score)][score.evaluator.author or ""] = score
    return found


def _item(candidate: Candidate, scores: Mapping[int, Evaluation], until_ns: int = 0) -> Item:
    return Item(scores[candidate.number], candidate.place, candidate.reasons, until_ns)


def _own(queue: Queue) -> tuple[Any, ...]:
    table = annotation_items.c
    return (table.tenant == queue.tenant, table.label == queue.label, table.author == queue.author)


def _reached(
    connection: Connection, queue: Queue, wanted: int, now_ns: int
) -> tuple[list[_Subject], dict[int, Evaluation]]:
    """The candidates in order up to the last that is wanted; and the judge's scores of those that
    are open.
    """
    reached, is_open = [], []
    for subject in _subjects(connection, queue, None):
        reached.append(subject)
        if subject.is_open(queue, now_ns):
            is_open.append(subject.candidate.number)
        if len(is_open) == wanted:
            break
    return reached, by_number(connection, is_open)


def _subjects(connection: Connection, queue: Queue, after: Place | None) -> Iterator[_Subject]:
    """The candidates in order, with what is known of each."""
    found = islice(candidates(connection, queue, after), _MAX_LOOKED_AT)
    while some := list(islice(found, _CHUNK)):
        yield from _known(connection, queue, some)


def _known(connection: Connection, queue: Queue, some: Sequence[Candidate]) -> list[_Subject]:
    table = stored.c
    query = select(table.number, table.scope, table.subject_id).where(
        table.number.in_([x.number for x in some])
    )
    named = {row.number: row for row in connection.execute(query)}
    requests = _labels_of(connection, queue, [x.subject_id for x in named.values()])
    rows = [(x, named[x.number]) for x in some if x.number in named]
    found = [
        _Subject(x, row.scope, row.subject_id, requests.get(row.subject_id, ()), {})
        for x, row in rows
    ]
    unsettled = [x for x in found if not x.is_settled(queue)]
    if not unsettled:
        return found
    scope: ScopeKind = unsettled[0].scope
    labels = labels_of(connection, queue.tenant, queue.label, scope, [x.id for x in unsettled])
    uids = {subject: {author: x.uid for author, x in of.items()} for subject, of in labels.items()}
    return [_Subject(x.candidate, x.scope, x.id, x.requests, uids.get(x.id, {})) for x in found]


def _labels_of(
    connection: Connection, queue: Queue, subjects: Sequence[str]
) -> dict[str, list[Any]]:
    table, found = annotation_items.c, defaultdict[str, list[Any]](list)
    of_label = select(annotation_items).where(
        table.tenant == queue.tenant, table.label == queue.label
    )
    for some in chunks(subjects):
        for row in connection.execute(of_label.where(table.subject_id.in_(some))):
            found[row.subject_id].append(row)
    return found


def _take(
    connection: Connection,
    queue: Queue,
    reached: Sequence[_Subject],
    count: int,
    now_ns: int,
    until_ns: int,
) -> list[Candidate]:
    """Lease what nobody has taken meanwhile; and note what is settled, which in random order is of
    the sample too.
    """
    free = _still_open(connection, queue, reached, now_ns)[:count]
    passed = reached  # what comes before the last that is leased
    if free:
        last = free[-1].candidate.place
        passed = [subject for subject in reached if subject.candidate.place < last]
    settled = [
        subject for subject in passed if subject.labels and not subject.is_open(queue, now_ns)
    ]
    rows = [_row(queue, subject, now_ns, until_ns) for subject in free]
    rows += [_row(queue, subject, now_ns, 0) for subject in settled]
    _put(connection, queue, rows)
    if queue.strategy == "random":
        known = [subject.id for subject in passed if subject.is_settled(queue)]
        _note_as_random(connection, queue, known)
    return [subject.candidate for subject in free]


def _still_open(
    connection: Connection, queue: Queue, reached: Sequence[_Subject], now_ns: int
) -> list[_Subject]:
    """Those of the subjects that were open when they were looked for, and are now."""
    was_open = [subject.candidate for subject in reached if subject.is_open(queue, now_ns)]
    found: list[_Subject] = []
    for start in range(0, len(was_open), _CHUNK):
        current = _known(connection, queue, was_open[start : start + _CHUNK])
        found += [subject for subject in current if subject.is_open(queue, now_ns)]
    return found


def _note_as_random(connection: Connection, queue: Queue, subject_ids: Sequence[str]) -> None:
    """Note that these subjects came up in random order too."""
    table = annotation_items.c
    for some in chunks(subject_ids):
        own = (*_own(queue), table.subject_id.in_(some), table.at_random == 0)
        connection.execute(update(annotation_items).where(*own).values(at_random=1))


def _row(queue: Queue, subject: _Subject, now_ns: int, until_ns: int) -> tuple[Any, ...]:
    own, is_random = subject.own(queue), queue.strategy == "random"
    label_uid = (
        None
        if until_ns
        else subject.labels.get(queue.author) or next(iter(subject.labels.values()))
    )
    state = "leased" if until_ns else "labelled" if queue.author in subject.labels else "passed"
    return (
        queue.tenant,
        queue.label,
        subject.scope,
        subject.id,
        queue.author,
        own.strategy if own else queue.strategy,
        int(is_random or bool(own and own.at_random)),
        state,
        label_uid,
        own.drawn_ns if own else now_ns,
        until_ns,
    )


def _put(connection: Connection, queue: Queue, rows: list[tuple[Any, ...]]) -> None:
    for some in chunks([row[3] for row in rows]):
        connection.execute(
            delete(annotation_items).where(*_own(queue), annotation_items.c.subject_id.in_(some))
        )
    put_rows(connection, annotation_items, rows)
