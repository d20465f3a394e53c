"""Evaluation runs in the store: targets, progress, and items."""

import json
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Final, Literal, NamedTuple, TypeAlias

from sqlalchemy import (
    ColumnElement,
    Select,
    delete,
    false,
    func,
    insert,
    literal_column,
    select,
    update,
)
from sqlalchemy.engine import Connection

from spanscore.model.score import Evaluation, JudgeUsage
from spanscore.model.trace import AgentTrace
from spanscore.store import kept_scores, lookup, ordering, records, stored_rows
from spanscore.store.ordering import Order
from spanscore.store.schema import agent_traces, otel_traces, run_items, runs, scores, session_keys
from spanscore.store.stored_rows import chunks, key, matching, put_rows

_ROWS_AT_ONCE = 20


class TracePlace(NamedTuple):
    """An agent trace, where it is in the order in which they are listed, and the size of its
    record.
    """

    place: str
    id: str
    size_bytes: int


class TargetReads:
    """Reads with the connection of a transaction."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def places(
        self,
        tenant: str,
        after: str,
        limit: int,
        *,
        stored_by_ns: int,
        rows: tuple[int, int] | None = None,
    ) -> list[TracePlace]:
        """At most `limit` of a tenant's agent traces in the order of their ids, past the id
        `after`; with `rows` in the order of their rows, above the first up to the second.

        Without `rows` those that were first stored later than `stored_by_ns` are left out.
        """
        table = agent_traces.c
        order, past = (table.id, (table.id > after,)) if rows is None else (table.row, ())
        query = select(order.label("place"), table.id, table.size_bytes)
        query = query.where(*past, *_within(tenant, stored_by_ns, rows)).order_by(order)
        found = self._connection.execute(query.limit(limit))
        return [TracePlace(str(x.place), x.id, x.size_bytes) for x in found]

    def traces(self, ids: Sequence[str]) -> dict[str, AgentTrace]:
        """The agent traces with these ids, in the same order; damaged ones are left out."""
        query = select(agent_traces.c.id, agent_traces.c.record)
        found = {
            row.id: x
            for row in matching(self._connection, query, agent_traces.c.id, ids)
            for x in records.undamaged(records.decode_trace, row.record)
        }
        return {x: found[x] for x in ids if x in found}

    def scores(self, tenant: str, ids: Sequence[str]) -> dict[str, list[Evaluation]]:
        """As `lookup.scores_of_traces`."""
        return lookup.scores_of_traces(self._connection, ids, tenant)

    def has_trace(
        self, tenant: str, session_key: str, is_wanted: Callable[[AgentTrace], bool]
    ) -> bool:
        """Whether `is_wanted` is true of one of a session's newest agent traces; damaged ones are
        left out.
        """
        ids = lookup.session_trace_ids(self._connection, [session_key], tenant)
        parts = (ids[n : n + _ROWS_AT_ONCE] for n in range(0, len(ids), _ROWS_AT_ONCE))
        return any(is_wanted(x) for some in parts for x in self.traces(some).values())

    def unknown_traces(self, tenant: str, ids: Sequence[str]) -> list[str]:
        """Those of `ids` that are neither of an agent trace nor of an OTel trace that a tenant
        has.
        """
        found: set[str] = set()
        for column in (agent_traces.c.id, otel_traces.c.trace_id):
            known = select(column).where(*stored_rows.is_of(column.table, tenant))
            found.update(x for (x,) in matching(self._connection, known, column, ids))
        return [x for x in ids if x not in found]

    def unknown_sessions(self, tenant: str, ids: Sequence[str]) -> list[str]:
        """Those of `ids` that are neither an id nor the key of a session that a tenant has."""
        keys = sorted({key(x) for x in ids})
        found = lookup.stored_sessions(self._connection, keys, tenant)
        scoped = select(session_keys.c.session_id).where(
            session_keys.c.session_key == agent_traces.c.session_id,
            *stored_rows.is_of(session_keys, tenant),
            *stored_rows.is_of(agent_traces, tenant),
        )
        named = matching(self._connection, scoped.distinct(), session_keys.c.session_id, keys)
        found.update(x for (x,) in named)
        return [x for x in ids if key(x) not in found]

    def turns(self, tenant: str, ids: Sequence[str]) -> list[str]:
        """The ids of a tenant's agent traces that ids of agent traces or of OTel traces stand
        for.
        """
        return [y for x in ids for y in lookup.turns(self._connection, x, tenant)]

    def sessions(self, tenant: str, ids: Sequence[str]) -> list[str]:
        """The keys of a tenant's sessions with these ids, one for each namespace; a key stands for
        its session.
        """
        found = (lookup.sessions_of(self._connection, key(x), tenant) for x in ids)
        return [y for keys in found for y in sorted(keys)]

    def turns_of_sessions(self, tenant: str, ids: Sequence[str]) -> list[str]:
        """The ids of the agent traces of a tenant's sessions with these ids."""
        keys = sorted(set(self.sessions(tenant, ids)))
        return sorted(lookup.session_trace_ids(self._connection, keys, tenant))

    def session_keys(
        self,
        tenant: str,
        after: str,
        limit: int,
        *,
        stored_by_ns: int,
        rows: tuple[int, int] | None = None,
    ) -> list[str]:
        """At most `limit` keys of a tenant's sessions, in their order: of those with an agent trace
        as of `places`.
        """
        column = agent_traces.c.session_id
        query = select(column).where(column > after, *_within(tenant, stored_by_ns, rows))
        query = query.group_by(column).order_by(column).limit(limit)
        return list(self._connection.execute(query).scalars())


def _within(
    tenant: str, stored_by_ns: int, rows: tuple[int, int] | None
) -> tuple[ColumnElement[bool], ...]:
    """A tenant's agent traces in these rows, or, without `rows`, those that were first stored then
    or earlier; of one that has changed since, that is assumed.
    """
    table, of_tenant = agent_traces.c, stored_rows.is_of(agent_traces, tenant)
    if rows is not None:
        return (*of_tenant, table.row > rows[0], table.row <= rows[1])
    return (*of_tenant, (table.stored_ns <= stored_by_ns) | (table.revision > 1))


RunState: TypeAlias = Literal[
    "PENDING", "RUNNING", "PAUSED", "SUCCEEDED", "FAILED", "CANCELLED", "DELETING", "ERASING"
]
"""`DELETING`: it is being deleted; `ERASING`: with its scores. Both are no longer shown."""
ItemState: TypeAlias = Literal["PENDING", "DONE", "FAILED", "GONE"]

ENDED: tuple[RunState, ...] = ("SUCCEEDED", "FAILED", "CANCELLED")
DELETE_STEP = 500
_MAX_CAUSES = 100
_OTHERS = "others"
_GOING: tuple[RunState, ...] = ("DELETING", "ERASING")
_NO_RUN: ColumnElement[str] = literal_column("''")
_IS_SHOWN = runs.c.state.not_in(_GOING)
_WITHOUT_IDS = [x for x in runs.c if x is not runs.c.ids]


@dataclass(frozen=True, slots=True)
class Tallied:
    """How many scores a run made; how many it did not, by metric and cause with a tab in
    between.
    """

    scored: int = 0
    skipped: Mapping[str, int] = field(default_factory=dict)
    failed: Mapping[str, int] = field(default_factory=dict)

    def __add__(self, other: "Tallied") -> "Tallied":
        return Tallied(
            self.scored + other.scored,
            _sum(self.skipped, other.skipped),
            _sum(self.failed, other.failed),
        )

    def __neg__(self) -> "Tallied":
        skipped, failed = (
            {cause: -n for cause, n in x.items()} for x in (self.skipped, self.failed)
        )
        return Tallied(-self.scored, skipped, failed)


class Booked(NamedTuple):
    """What a run has spent of its budget, with all that calls may cost which are under way or were
    given up.
    """

    tokens: int = 0
    usd: float = 0.0


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a run is. Times are Unix ns.

    `cursor` is where the listing of its items goes on, None when all are listed; `candidates` are
    the traces or sessions that the target named so far, `items` those that were drawn. `gone` are
    items that were no longer stored. `named` are the ids that the target names one by one. `reason`
    says why it stopped, where it did not come to its end. `asked` is the digest of the spec that
    the run was created with. `booked` is of its budget, as was last known.
    """

    cursor: str | None = ""
    named: int = 0
    candidates: int = 0
    items: int = 0
    done: int = 0
    failed: int = 0
    gone: int = 0
    scores: Tallied = Tallied()
    usage: JudgeUsage = field(default_factory=JudgeUsage)
    sampling: float = 1.0
    started_ns: int | None = None
    ended_ns: int | None = None
    reason: str | None = None
    asked: str | None = None
    rows: tuple[int, int] | None = None
    booked: Booked = field(default_factory=Booked)

    @property
    def spent(self) -> Booked:
        """What of the budget the run cannot spend any more."""
        usage, booked = self.usage, self.booked
        tokens = usage.input_tokens + usage.output_tokens
        return Booked(max(tokens, booked.tokens), max(usage.cost_usd or 0.0, booked.usd))

    @property
    def left(self) -> int:
        """Items that are still to be worked off."""
        return self.items - self.done - self.failed - self.gone

    @property
    def had_no_occasion(self) -> bool:
        """Whether a run at its end had nothing to score: no item, or none that its metrics apply
        to.
        """
        causes = {name.rpartition("\t")[2] for name in self.scores.skipped}
        is_at_end = self.cursor is None and not self.left and not self.failed
        return is_at_end and not self.scores.scored and causes <= {"not_applicable"}

    def to_json(self) -> str:
        """The text that `from_json` reads."""
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> "Progress":
        """The inverse of `to_json`."""
        data = json.loads(text)
        rows = None if data.get("rows") is None else tuple(data["rows"])
        booked = Booked(*data.get("booked", ()))
        scores, usage = Tallied(**data["scores"]), JudgeUsage(**data["usage"])
        read = {"scores": scores, "usage": usage, "rows": rows, "booked": booked}
        return cls(**{**data, **read})


@dataclass(frozen=True, slots=True)
class Run:
    """An evaluation run as it is kept; `spec` is JSON, without the ids that its target names."""

    id: str
    tenant: str
    state: RunState
    spec: str
    created_ns: int
    updated_ns: int
    progress: Progress = Progress()
    request_id: str | None = None

    @property
    def is_ended(self) -> bool:
        """Whether it goes on only where somebody asks for that."""
        return self.state in ENDED

    def noting(
        self, state: RunState | None = None, of: Collection[str] = (), **progress: Any
    ) -> "Run":
        """The run with its progress changed, and in a `state` where one is given; as it is where it
        is in none of the states `of`, if there are any.
        """
        if of and self.state not in of:
            return self
        changed = replace(self.progress, **progress)
        return replace(self, state=state or self.state, progress=changed)


class OpenRun(NamedTuple):
    """A run on which there is work to do."""

    id: str
    state: RunState
    tenant: str


class Item(NamedTuple):
    """A trace or session of a run; `error` is why it failed, None where it did not."""

    number: int
    subject_id: str
    tries: int
    state: ItemState = "PENDING"
    error: str | None = None


class Finished(NamedTuple):
    """What became of an item, and what it adds to the run's scores and to what the run has
    spent.
    """

    subject_id: str
    state: ItemState
    error: str | None
    scores: Tallied
    usage: JudgeUsage


ORDERS: Final = ("created_ns", "updated_ns")
"""What runs can be ordered by, one at a time."""

NEWEST_FIRST: Final = Order("created_ns", is_falling=True)


class Place(NamedTuple):
    """Where a page of runs ends."""

    created_ns: int
    id: str


class RunTables(TargetReads):
    """Reads and writes runs with the connections of a store's transactions, and reads what they
    evaluate.
    """

    def _first(self, *wanted: ColumnElement[bool]) -> Run | None:
        return next(self._runs(select(*_WITHOUT_IDS).where(*wanted)), None)

    def _runs(self, query: Select[Any]) -> Iterator[Run]:
        """Those whose records are damaged are left out."""
        for row in self._connection.execute(query).all():
            yield from records.made_of("evaluation run", _run, row._asdict())

    def of_request(self, tenant: str, request_id: str) -> Run | None:
        """The run that was asked for under a request id; None where there is none, or it is being
        deleted.
        """
        return self._first(runs.c.tenant == tenant, runs.c.request_id == request_id, _IS_SHOWN)

    def create(self, run: Run, ids: str = "") -> None:
        """Keep a new run, whose target names these ids.

        The request id of a run that is being deleted is free.
        """
        same = (runs.c.tenant == run.tenant, runs.c.request_id == run.request_id, ~_IS_SHOWN)
        self._connection.execute(update(runs).where(*same).values(request_id=None))
        row = {column.name: getattr(run, column.name) for column in _WITHOUT_IDS}
        row |= {"progress": run.progress.to_json(), "ids": ids}
        self._connection.execute(insert(runs).values(row))

    def get(self, tenant: str, run_id: str) -> Run | None:
        """The run with this id; None where this tenant has none."""
        return self._first(runs.c.id == run_id, runs.c.tenant == tenant, _IS_SHOWN)

    def ids(self, run_id: str) -> str:
        """The ids that a run's target names, in JSON; "" where it names none, or the run is
        gone.
        """
        named = select(runs.c.ids).where(runs.c.id == run_id)
        return self._connection.execute(named).scalar() or ""

    def page(
        self,
        tenant: str,
        limit: int,
        after: Place | None,
        states: Sequence[RunState] = (),
        order: Order = NEWEST_FIRST,
    ) -> list[Run]:
        """At most `limit` runs in an order by one of `ORDERS`."""
        keys = [runs.c[order.field], runs.c.id]
        query = select(*_WITHOUT_IDS).where(runs.c.tenant == tenant, _IS_SHOWN)
        if states:
            query = query.where(runs.c.state.in_(states))
        query = ordering.in_order(query, keys, after, is_falling=order.is_falling)
        return list(self._runs(query.limit(limit)))

    def count(self, tenant: str, states: Sequence[RunState]) -> int:
        """How many runs of a tenant are in one of these states."""
        wanted = (runs.c.tenant == tenant, runs.c.state.in_(states))
        return self._connection.execute(select(func.count(runs.c.id)).where(*wanted)).scalar_one()

    def unfinished(self) -> list[OpenRun]:
        """The runs of all tenants on which there is work to do, the oldest first."""
        table = runs.c
        query = select(table.id, table.state, table.tenant).order_by(table.created_ns)
        is_open = table.state.in_(("PENDING", "RUNNING", *_GOING))
        return [OpenRun(*row) for row in self._connection.execute(query.where(is_open))]

    def change(self, run_id: str, now_ns: int, edit: Callable[[Run], Run]) -> Run | None:
        """Write a run's state, spec and progress as `edit` gives them; returns it as it is then,
        None where it is gone.

        What `edit` is given is what is stored at that moment; what it raises changes nothing.
        """
        found = self._first(runs.c.id == run_id)
        if found is None:
            return None
        changed = replace(edit(found), updated_ns=now_ns)
        row = {"state": changed.state, "spec": changed.spec, "progress": changed.progress.to_json()}
        this = update(runs).where(runs.c.id == run_id)
        self._connection.execute(this.values(**row, updated_ns=now_ns))
        return changed

    def expire(self, *, before_ns: int | None, max_count: int | None, to: RunState) -> int:
        """Have runs be deleted that ended before a time, and of each tenant all but the newest;
        returns how many.
        """
        table = runs.c
        newest_first = (table.created_ns.desc(), table.id.desc())
        place = func.row_number().over(partition_by=table.tenant, order_by=newest_first)
        ended = select(table.id, table.updated_ns, place.label("place"))
        ended_runs = ended.where(table.state.in_(ENDED)).subquery().c
        is_old = false() if before_ns is None else ended_runs.updated_ns < before_ns
        is_beyond = false() if max_count is None else ended_runs.place > max_count
        doomed = table.id.in_(select(ended_runs.id).where(is_old | is_beyond))
        return self._connection.execute(update(runs).where(doomed).values(state=to)).rowcount

    def add_items(self, run: Run, subjects: Sequence[tuple[str, int]]) -> int:
        """Keep items, (subject id, draw) each, that are not there yet; returns how many are new."""
        new = dict(subjects)
        there = select(run_items.c.subject_id).where(run_items.c.run == run.id)
        for some in chunks(list(new)):
            known = there.where(run_items.c.subject_id.in_(some))
            for subject in self._connection.execute(known).scalars():
                del new[subject]
        first = self._next_number(run.id)
        rows = [
            (run.id, subject, number, run.tenant, "PENDING", 0, draw, None)
            for number, (subject, draw) in enumerate(new.items(), first)
        ]
        put_rows(self._connection, run_items, rows)
        return len(rows)

    def _next_number(self, run_id: str) -> int:
        """The number of the next item; while a run is listed, all of its items are pending."""
        pending = (run_items.c.run == run_id, run_items.c.state == "PENDING")
        last: int | None = self._connection.execute(
            select(func.max(run_items.c.number)).where(*pending)
        ).scalar()
        return 0 if last is None else last + 1

    def keep_lowest(self, run_id: str, count: int) -> int:
        """Delete all items but the `count` with the lowest draws; returns how many went."""
        of_run = run_items.c.run == run_id
        draws = select(run_items.c.draw).where(of_run).order_by(run_items.c.draw)
        last = draws.offset(count - 1).limit(1).scalar_subquery()
        above = delete(run_items).where(of_run, run_items.c.draw > last)
        return self._connection.execute(above).rowcount

    def items(self, run_id: str, state: ItemState, after: int, limit: int) -> list[Item]:
        """At most `limit` items of a state, with numbers above `after`, in their order."""
        table = run_items.c
        query = select(table.number, table.subject_id, table.tries, table.state, table.error)
        wanted = (table.run == run_id, table.state == state, table.number > after)
        found = self._connection.execute(query.where(*wanted).order_by(table.number).limit(limit))
        return [Item(*row) for row in found]

    def finish(
        self,
        run_id: str,
        found: Iterable[Finished],
        now_ns: int,
        booked: Callable[[], Booked | None] = lambda: None,
    ) -> None:
        """Note what became of items, and what of the run's budget is `booked` at this moment, so
        that of two transactions the later one writes the newer; nothing of a run that was deleted.
        """

        def finished(run: Run) -> Run:
            progress = run.progress
            for item in found:
                one = (run_items.c.run == run_id, run_items.c.subject_id == item.subject_id)
                pending = update(run_items).where(*one, run_items.c.state == "PENDING")
                changed = {"state": item.state, "error": item.error, "tries": run_items.c.tries + 1}
                if self._connection.execute(pending.values(**changed)).rowcount:
                    progress = _with(progress, item)
            return replace(run, progress=replace(progress, booked=booked() or progress.booked))

        self.change(run_id, now_ns, finished)

    def retry(self, run_id: str) -> int:
        """Have the items that failed be worked off again; returns how many they are."""
        failed = (run_items.c.run == run_id, run_items.c.state == "FAILED")
        pending = update(run_items).where(*failed).values(state="PENDING", error=None)
        return self._connection.execute(pending).rowcount

    def delete_step(self, run_id: str, *, with_scores: bool) -> tuple[bool, int]:
        """Delete some of a run; returns whether that was all, and how many bytes of scores went.

        The run itself goes last, so that what a kill leaves behind is found again.
        """
        if with_scores:
            of_run = select(scores.c.number, scores.c.size_bytes).where(*is_of_run(run_id))
            oldest = of_run.order_by(scores.c.number).limit(DELETE_STEP)
            if rows := self._connection.execute(oldest).all():
                kept_scores.remove(self._connection, [x.number for x in rows])
                return False, sum(x.size_bytes for x in rows)
        own = run_items.c.run == run_id
        some = select(run_items.c.subject_id).where(own).limit(DELETE_STEP)
        items = delete(run_items).where(own, run_items.c.subject_id.in_(some))
        if self._connection.execute(items).rowcount:
            return False, 0
        self._connection.execute(delete(runs).where(runs.c.id == run_id))
        return True, 0


def is_of_run(run_id: str) -> tuple[ColumnElement[bool], ...]:
    """The conditions that find the scores of a run; "" stands for those that were made as the
    traces came.

    That it is not "" is written out, since only then SQLite uses the index of the scores that are
    of a run.
    """
    if not run_id:
        return (scores.c.run == _NO_RUN,)
    return scores.c.run == run_id, scores.c.run != _NO_RUN


def _run(progress: str, **fields: Any) -> Run:
    return Run(**fields, progress=Progress.from_json(progress))


def _with(progress: Progress, found: Finished) -> Progress:
    counted = found.state.lower()
    return replace(
        progress,
        scores=progress.scores + found.scores,
        usage=progress.usage + found.usage,
        **{counted: getattr(progress, counted) + 1},
    )


def _sum(one: Mapping[str, int], other: Mapping[str, int]) -> dict[str, int]:
    """The counts of both together; past so many causes, which a metric of a user's own may invent,
    they are others.
    """
    counts = dict(one)
    for cause, count in other.items():
        name = cause if cause in counts or len(counts) < _MAX_CAUSES else _OTHERS
        counts[name] = counts.get(name, 0) + count
    return {cause: count for cause, count in counts.items() if count}
