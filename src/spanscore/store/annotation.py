"""The annotation queue: leases items to annotators."""

import hashlib
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, Literal, NamedTuple, TypeAlias

from sqlalchemy import Row, delete, func, literal, select, update
from sqlalchemy.engine import Connection

from spanscore.model.external import HUMAN
from spanscore.model.score import Evaluation, ScopeKind, Score
from spanscore.store import external
from spanscore.store.database import Database
from spanscore.store.schema import (
    COUNTED,
    annotation_items,
    otel_traces,
    score_procedures,
    scores as stored,
)
from spanscore.store.stored_rows import chunks, is_of, matching, put_rows, scores_at, subject_of

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
    found = sorted(ranked(connection, queue, judge))
    yield from (x for x in found if after is None or x.place > after)


def _procedures(connection: Connection, queue: Queue, names: Sequence[str]) -> Sequence[Any]:
    """How what is scored under these names was scored."""
    table = score_procedures.c
    of_names = (table.tenant == queue.tenant, table.metric.in_(names), table.status == "scored")
    return connection.execute(select(score_procedures).where(*of_names)).all()


def _judge(connection: Connection, queue: Queue) -> _Judge | None:
    procedures = _procedures(connection, queue, [queue.metric])
    found = [x for x in procedures if x.source is None and not x.run]
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
    start, passed = _start(queue), -1 if after is None else after[0]
    for origin in (start, start - _SUBJECTS):  # up to the greatest hash, and from 0 on
        subject, last = max(origin + passed, -1), min(origin + _SUBJECTS, _SUBJECTS) - 1
        while subject < last and (rows := _in_hash_order(connection, judge, subject, last)):
            for subject, number in rows:
                yield Candidate((subject - origin, 0), number, ("drawn at random",))


def _in_hash_order(connection: Connection, judge: _Judge, after: int, last: int) -> Sequence[Any]:
    """(subject, number) of the first subjects past one hash up to another."""
    table = stored.c
    wanted = (COUNTED, table.procedure.in_(judge.procedures), table.passing.is_not(None))
    query = select(table.subject, func.max(table.number)).where(*wanted)
    query = query.where(table.subject > after, table.subject <= last).group_by(table.subject)
    return connection.execute(query.order_by(table.subject).limit(_CANDIDATES_AT_ONCE)).all()


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
    scores = scores_at(connection, [x.number for x in nearest])
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
    named = _procedures(connection, queue, [queue.metric, queue.label, *queue.against])
    others = {x.id: x for x in named if x.scope == judge.scope and x.id not in judge.procedures}
    verdicts: defaultdict[str, list[tuple[int, int]]] = defaultdict(list)
    for subject, procedure, passing in _other_verdicts(connection, queue, judge, list(others)):
        verdicts[subject].append((procedure, passing))
    table, labels = stored.c, dict[int, list[str]]()
    # not `COUNTED`: few are found by their subjects, and all by that index
    query = select(table.subject_id, table.number, table.passing).where(table.current > 0)
    of_judge = (table.metric == queue.metric, table.procedure.in_(judge.procedures))
    verdict = query.where(*of_judge, table.passing.is_not(None))
    for subject, number, passing in matching(connection, verdict, table.subject_id, verdicts):
        against = [(x, y) for x, y in verdicts[subject] if y != passing]
        if against:
            labels[number] = [_verdict(others[x], y) for x, y in against]
    newest = sorted(labels, reverse=True)[:MAX_RANKED]
    return [Candidate((_NEWEST - x, 0), x, tuple(dict.fromkeys(labels[x]))) for x in newest]


def _other_verdicts(
    connection: Connection, queue: Queue, judge: _Judge, others: Sequence[int]
) -> Iterator[tuple[str, int, int]]:
    """(subject, procedure, verdict) of the newest; what was given to an OTel trace is of its turn,
    where that has one.
    """
    table = stored.c
    is_of_session = judge.scope == "session"
    own = func.coalesce(table.subject_id, table.session_key) if is_of_session else table.subject_id
    query = select(own.label("subject"), table.trace_id, table.procedure, table.passing)
    query = query.where(COUNTED, table.procedure.in_(others), table.passing.is_not(None))
    newest = query.order_by(table.evaluated_ns.desc()).limit(_MAX_OTHERS)
    rows = connection.execute(newest).all() if others else []
    turns: defaultdict[str, list[str]] = defaultdict(list)
    of_tenant = is_of(otel_traces, queue.tenant)
    turn = select(otel_traces.c.trace_id, otel_traces.c.agent_trace_id).where(*of_tenant)
    trace_ids = {x.trace_id for x in rows if x.trace_id}
    for trace_id, id_ in matching(connection, turn, otel_traces.c.trace_id, trace_ids):
        turns[trace_id].append(id_)
    for row in rows:
        if row.subject is not None:
            yield row.subject, row.procedure, row.passing
        elif len(turns[row.trace_id]) == 1:
            yield turns[row.trace_id][0], row.procedure, row.passing


def _verdict(by: Any, passing: int) -> str:
    who = f"evaluation run {by.run}" if by.run else by.source or by.metric
    name = f" by {by.metric}" if by.source else ""
    return f"{who} says {'pass' if passing else 'fail'}{name}"


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


@dataclass(slots=True)
class _Subject:
    """What is known of a candidate: its trace or session, what the queue's author was `asked`, and
    by author the labels' uids.

    `is_settled`: it was noted that the author has nothing to label here; then `labels` is empty.
    `is_open`: the author is to label it.
    """

    candidate: Candidate
    scope: ScopeKind
    id: str
    asked: Any | None
    is_settled: bool
    labels: Mapping[str, str] = field(default_factory=dict)
    is_open: bool = False


class Annotation:
    """The store's queues for people who label. Every method may be called from any thread."""

    def __init__(self, database: Database, clock_ns: Callable[[], int]) -> None:
        self._database = database
        self._clock_ns = clock_ns

    def page(self, queue: Queue, limit: int, after: Place | None = None) -> Page:
        """At most `limit` items that the queue's author is to label; nothing is leased."""
        with self._database.reading() as connection:
            found = candidates(connection, queue, after)
            known = _known(connection, queue, found, self._clock_ns())
            wanted = list(islice((x.candidate for x in known if x.is_open), limit + 1))
            items = _items(connection, wanted[:limit])
        return Page(items, wanted[limit - 1].place if len(wanted) > limit else None)

    def lease(self, queue: Queue, count: int, duration_ns: int) -> list[Item]:
        """At most `count` items for the queue's author alone.

        One that is leased to them already, they get again.
        """
        now_ns = self._clock_ns()
        until_ns = now_ns + duration_ns
        for _ in range(_TRIES):  # others may have taken all that was free when it was looked for
            with self._database.reading() as connection:
                reached = _reached(connection, queue, count + _SPARE, now_ns)
            with self._database.writing() as connection:
                taken = _take(connection, queue, reached, count, now_ns, until_ns)
            if taken or not any(x.is_open for x in reached):
                break
        with self._database.reading() as connection:
            return _items(connection, taken, until_ns)

    def release(self, queue: Queue, scope: ScopeKind, subject_id: str, *, skip: bool) -> bool:
        """End a lease; with `skip` the author is not asked again. Returns whether there was one."""
        table = annotation_items.c
        of_subject = (table.scope == scope, table.subject_id == subject_id)
        lease = update(annotation_items).where(*_own(queue), *of_subject, table.state == "leased")
        values = {"until_ns": 0, **({"state": "skipped"} if skip else {})}
        with self._database.writing() as connection:
            return bool(connection.execute(lease.values(values)).rowcount)


def forget_label(connection: Connection, uid: str) -> None:
    """Have the items that a label settled be open again, since it was deleted."""
    reopened = {"state": "leased", "label_uid": None, "until_ns": 0}
    connection.execute(
        update(annotation_items).where(annotation_items.c.label_uid == uid).values(reopened)
    )


def prune(connection: Connection, before_ns: int) -> None:
    """Forget what people were asked before a time (Unix ns)."""
    connection.execute(delete(annotation_items).where(annotation_items.c.drawn_ns < before_ns))


def _items(connection: Connection, found: Sequence[Candidate], until_ns: int = 0) -> list[Item]:
    scores = scores_at(connection, [x.number for x in found])
    return [
        Item(scores[x.number], x.place, x.reasons, until_ns) for x in found if x.number in scores
    ]


def _own(queue: Queue) -> tuple[Any, ...]:
    table = annotation_items.c
    return (table.tenant == queue.tenant, table.label == queue.label, table.author == queue.author)


def _reached(connection: Connection, queue: Queue, wanted: int, now_ns: int) -> list[_Subject]:
    """The candidates in order up to the last that is wanted of those that are open."""
    reached: list[_Subject] = []
    for subject in _known(connection, queue, candidates(connection, queue), now_ns):
        reached.append(subject)
        wanted -= subject.is_open
        if not wanted:
            break
    return reached


def _known(
    connection: Connection, queue: Queue, found: Iterable[Candidate], now_ns: int
) -> Iterator[_Subject]:
    """What is known of candidates, in their order."""
    looked_at = islice(found, _MAX_LOOKED_AT)
    while some := list(islice(looked_at, _CHUNK)):
        yield from _subjects(connection, queue, some, now_ns)


def _subjects(
    connection: Connection, queue: Queue, some: Sequence[Candidate], now_ns: int
) -> list[_Subject]:
    table, items = stored.c, annotation_items.c
    numbers = table.number.in_([x.number for x in some])
    query = select(table.number, table.scope, table.subject_id).where(numbers)
    named = {row.number: row for row in connection.execute(query)}
    asked: defaultdict[str, dict[str, Row[Any]]] = defaultdict(dict)
    of_label = (items.tenant == queue.tenant, items.label == queue.label)
    of_subjects = items.subject_id.in_([x.subject_id for x in named.values()])
    for item in connection.execute(select(annotation_items).where(*of_label, of_subjects)):
        asked[item.subject_id][item.author] = item
    settled = {"labelled", "skipped"} | ({"passed"} if queue.labels_wanted == 1 else set())
    found: list[_Subject] = []
    for x in some:
        if x.number in named:
            row = named[x.number]
            own = asked[row.subject_id].get(queue.author)
            is_settled = own is not None and own.state in settled
            found.append(_Subject(x, row.scope, row.subject_id, own, is_settled))
    unsettled = [x for x in found if not x.is_settled]
    labels = _labels(connection, queue, unsettled)
    for subject in unsettled:
        requests = asked[subject.id].values()
        leased = {x.author for x in requests if x.state == "leased" and x.until_ns > now_ns}
        subject.labels = labels[subject.id]
        others = (subject.labels.keys() | leased) - {queue.author}
        is_free = len(others) < queue.labels_wanted
        subject.is_open = is_free and queue.author not in subject.labels
    return found


def _labels(
    connection: Connection, queue: Queue, subjects: Sequence[_Subject]
) -> defaultdict[str, dict[str, str]]:
    """The uids of what people gave under the queue's label, by subject and author."""
    ids, given = [x.id for x in subjects], list[Evaluation]()
    if subjects and subjects[0].scope == "trace":
        otel_ids = external.otel_ids(connection, ids)
        given = external.of_traces(
            connection, otel_ids, ids, queue.tenant, metric=queue.label
        ).scores
    elif subjects:
        given = external.of_sessions(connection, ids, queue.tenant)
    found: defaultdict[str, dict[str, str]] = defaultdict(dict)
    for score in given:
        if score.evaluator.source == HUMAN and score.metric == queue.label:
            found[subject_of(score)][score.evaluator.author or ""] = score.uid
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
    was_open = [x.candidate for x in reached if x.is_open]
    still_open = (x for x in _known(connection, queue, was_open, now_ns) if x.is_open)
    free = list(islice(still_open, count))
    # what comes before the last that is leased
    passed = [x for x in reached if not free or x.candidate.place < free[-1].candidate.place]
    rows = [_row(queue, x, now_ns, until_ns) for x in free]
    rows += [_row(queue, x, now_ns, 0) for x in passed if x.labels and not x.is_open]
    _replace(connection, queue, rows)
    if queue.strategy == "random":
        _note_sampled(connection, queue, [x.id for x in passed if x.is_settled])
    return [x.candidate for x in free]


def _replace(connection: Connection, queue: Queue, rows: list[tuple[Any, ...]]) -> None:
    for some in chunks([row[3] for row in rows]):
        before = (*_own(queue), annotation_items.c.subject_id.in_(some))
        connection.execute(delete(annotation_items).where(*before))
    put_rows(connection, annotation_items, rows)


def _note_sampled(connection: Connection, queue: Queue, ids: Sequence[str]) -> None:
    table = annotation_items.c
    for some in chunks(ids):
        own = (*_own(queue), table.subject_id.in_(some), table.at_random == 0)
        connection.execute(update(annotation_items).where(*own).values(at_random=1))


def _row(queue: Queue, subject: _Subject, now_ns: int, until_ns: int) -> tuple[Any, ...]:
    whose = (queue.tenant, queue.label, subject.scope, subject.id, queue.author)
    own, is_random, state, uid = subject.asked, queue.strategy == "random", "leased", None
    strategy, drawn_ns = (own.strategy, own.drawn_ns) if own else (queue.strategy, now_ns)
    if not until_ns:
        state = "labelled" if queue.author in subject.labels else "passed"
        uid = subject.labels.get(queue.author) or next(iter(subject.labels.values()))
    at_random = int(is_random or bool(own and own.at_random))
    return (*whose, strategy, at_random, state, uid, drawn_ns, until_ns)
