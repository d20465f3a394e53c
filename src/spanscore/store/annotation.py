"""Who labels what next: items are leased to one person at a time, and who has labelled an item is
not asked again.
"""

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any, NamedTuple

from sqlalchemy import delete, select, update
from sqlalchemy.engine import Connection

from spanscore.model.external import HUMAN
from spanscore.model.score import Evaluation, ScopeKind
from spanscore.store import external
from spanscore.store.annotation_candidates import Candidate, Place, Queue, by_number, candidates
from spanscore.store.database import Database
from spanscore.store.schema import annotation_items, evaluations
from spanscore.store.writing import chunks, put_rows, subject_of

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
    table = evaluations.c
    query = select(table.seq, table.scope, table.subject_id).where(
        table.seq.in_([x.number for x in some])
    )
    named = {row.seq: row for row in connection.execute(query)}
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
