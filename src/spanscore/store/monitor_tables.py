"""Monitors, their ticks, and the scores read."""

import json
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field, replace
from itertools import chain
from typing import Any, Literal, TypeAlias

from sqlalchemy import Table, and_, delete, func, insert, or_, select, update
from sqlalchemy.engine import Connection, Row

from spanscore.model.score import Evaluation
from spanscore.store import records, stored_rows
from spanscore.store.runs import RunTables, is_of_run
from spanscore.store.schema import (
    agent_traces,
    configured_monitors,
    monitor_scores,
    monitor_ticks,
    monitors,
    scores,
)
from spanscore.store.stored_rows import chunks, insertion_unless_there, is_of, key, subject_of

_MAX_TICKS = 1000

MonitorState: TypeAlias = Literal["ACTIVE", "PAUSED"]
TickCause: TypeAlias = Literal["schedule", "catch_up", "manual"]

OPEN: tuple[str, ...] = ("queued", "running")
"""Outcomes of ticks whose run waits to be created, or has not ended."""


@dataclass(frozen=True, slots=True)
class MonitorProgress:
    """What a monitor has to know of its last run.

    Its id, the row of the traces after which its window began, and digests of what it measured by
    and, where a condition over scores decides that, of what it was about.
    """

    run: str | None = None
    from_row: int = 0
    measured: str = ""
    named: str = ""


@dataclass(frozen=True, slots=True)
class StoredMonitor:
    """A monitor as it is kept; `spec` is JSON. Times after `due_from_ns` are due.

    `until_row` is the last row of the traces that a run of it was about. `revision` rises with
    every change of the spec or the state. `is_configured`: the configuration has it, and no request
    changes it.
    """

    tenant: str
    id: str
    state: MonitorState
    spec: str
    created_ns: int
    updated_ns: int
    due_from_ns: int
    until_row: int
    revision: int = 1
    progress: MonitorProgress = MonitorProgress()
    request_id: str | None = None
    is_configured: bool = False


@dataclass(frozen=True, slots=True)
class TickFacts:
    """What is known of a tick beside its columns.

    `read_seq` is the last score of its run that was read.
    """

    cause: TickCause = "schedule"
    reason: str | None = None
    ended_ns: int | None = None
    read_seq: int = 0


@dataclass(frozen=True, slots=True)
class Tick:
    """A tick as it is kept; `outcome` is one of few words."""

    tenant: str
    monitor: str
    due_ns: int
    looked_ns: int
    outcome: str = ""
    scores: int = 0
    sessions: int = 0
    run: str | None = None
    request_id: str | None = None
    facts: TickFacts = field(default_factory=TickFacts)

    def ended(self, outcome: str, now_ns: int, reason: str | None = None) -> "Tick":
        """The tick with its last outcome."""
        facts = replace(self.facts, ended_ns=now_ns, reason=reason or self.facts.reason)
        return replace(self, outcome=outcome, facts=facts)


class MonitorTables:
    """Reads and writes monitors and ticks; `runs` does evaluation runs, in the same transaction."""

    def __init__(self, connection: Connection) -> None:
        self.connection = connection
        self.runs = RunTables(connection)

    def create(self, monitor: StoredMonitor) -> None:
        """Keep a new monitor."""
        self.connection.execute(insert(_table(monitor)).values(**_row(monitor)))

    def change(self, monitor: StoredMonitor) -> None:
        """Write a monitor as it is now."""
        table = _table(monitor)
        this = _is(table, monitor.tenant, monitor.id)
        self.connection.execute(update(table).where(this).values(**_row(monitor)))

    def delete(self, monitor: StoredMonitor) -> None:
        """Delete a monitor and its ticks."""
        table = _table(monitor)
        self.connection.execute(delete(table).where(_is(table, monitor.tenant, monitor.id)))
        self.connection.execute(delete(monitor_ticks).where(_of(monitor.tenant, monitor.id)))

    def get(self, tenant: str, monitor: str) -> StoredMonitor | None:
        """The monitor with this id; None where the tenant has none."""
        for table in (configured_monitors, monitors):
            found = self.connection.execute(
                select(table).where(_is(table, tenant, monitor))
            ).first()
            if found is not None:
                return _monitor(found, is_configured=table is configured_monitors)
        return None

    def is_of_api(self, tenant: str, monitor: str) -> bool:
        """Whether a tenant has a monitor with this id that was created through the API."""
        query = select(monitors.c.id).where(_is(monitors, tenant, monitor))
        return self.connection.execute(query).first() is not None

    def of_request(self, tenant: str, request_id: str) -> StoredMonitor | None:
        """The monitor that was asked for under a request id; None where there is none."""
        this = and_(monitors.c.tenant == tenant, monitors.c.request_id == request_id)
        found = self.connection.execute(select(monitors).where(this)).first()
        return None if found is None else _monitor(found, is_configured=False)

    def count(self, tenant: str) -> int:
        """How many monitors of the API a tenant has."""
        query = select(func.count()).select_from(monitors).where(monitors.c.tenant == tenant)
        return self.connection.execute(query).scalar_one()

    def all(self) -> list[StoredMonitor]:
        """The monitors of all tenants, first those of the configuration."""
        query = select(monitors).order_by(monitors.c.tenant, monitors.c.id)
        of_api = [_monitor(row, is_configured=False) for row in self.connection.execute(query)]
        return [*self.configured(), *of_api]

    def configured(self) -> list[StoredMonitor]:
        """The monitors of the configuration, of all tenants."""
        table = configured_monitors
        query = select(table).order_by(table.c.tenant, table.c.id)
        return [_monitor(row, is_configured=True) for row in self.connection.execute(query)]

    def may_tick(self, tick: Tick, revision: int) -> bool:
        """Whether the monitor of a tick is there, was not changed since it had this revision, and
        is not paused where nobody asked for the tick.
        """
        stored = self.get(tick.tenant, tick.monitor)
        if stored is None or stored.revision != revision:
            return False
        return stored.state == "ACTIVE" or tick.facts.cause == "manual"

    def is_at(self, tenant: str, monitor: str, revision: int) -> bool:
        """Whether a monitor is there, and was not changed since it had this revision."""
        stored = self.get(tenant, monitor)
        return stored is not None and stored.revision == revision

    def add_tick(self, tick: Tick) -> bool:
        """Keep a new tick, unless there is one of its time; returns whether this transaction is the
        one that makes it.

        Of two transactions that began before either has left it, PostgreSQL fails the second, which
        may try again.
        """
        this = and_(_of(tick.tenant, tick.monitor), monitor_ticks.c.due_ns == tick.due_ns)
        if self.connection.execute(select(monitor_ticks.c.due_ns).where(this)).first() is not None:
            return False
        insertion = insertion_unless_there(monitor_ticks, self.connection.dialect)
        self.connection.execute(insertion.values(**_tick_row(tick)))
        self._forget_ticks_before(tick)
        return True

    def change_tick(self, tick: Tick) -> None:
        """Write a tick as it is now."""
        this = and_(_of(tick.tenant, tick.monitor), monitor_ticks.c.due_ns == tick.due_ns)
        self.connection.execute(update(monitor_ticks).where(this).values(**_tick_row(tick)))

    def tick_of_request(self, tenant: str, monitor: str, request_id: str) -> Tick | None:
        """The tick that was asked for under a request id; None where there is none."""
        this = and_(_of(tenant, monitor), monitor_ticks.c.request_id == request_id)
        found = self.connection.execute(select(monitor_ticks).where(this)).first()
        return None if found is None else _tick(found)

    def tick(self, tenant: str, monitor: str, due_ns: int) -> Tick | None:
        """The tick of a time; None where there is none."""
        this = and_(_of(tenant, monitor), monitor_ticks.c.due_ns == due_ns)
        found = self.connection.execute(select(monitor_ticks).where(this)).first()
        return None if found is None else _tick(found)

    def ticks(
        self, tenant: str, monitor: str, limit: int, before_ns: int | None = None
    ) -> list[Tick]:
        """At most `limit` ticks of a monitor that were due earlier than `before_ns`, the newest
        first.
        """
        query = (
            select(monitor_ticks)
            .where(_of(tenant, monitor))
            .order_by(monitor_ticks.c.due_ns.desc())
        )
        if before_ns is not None:
            query = query.where(monitor_ticks.c.due_ns < before_ns)
        return [_tick(row) for row in self.connection.execute(query.limit(limit))]

    def last_tick_ns(self, tenant: str, monitor: str) -> int | None:
        """When the last tick that was due by a monitor's times was made; None where there is
        none.
        """
        query = select(func.max(monitor_ticks.c.looked_ns)).where(_of(tenant, monitor))
        return self.connection.execute(query.where(monitor_ticks.c.request_id.is_(None))).scalar()

    def open_ticks(self) -> list[Tick]:
        """The ticks of all monitors whose run waits to be created or has not ended, in the order of
        their times.
        """
        query = select(monitor_ticks).where(monitor_ticks.c.outcome.in_(OPEN))
        return [
            _tick(row) for row in self.connection.execute(query.order_by(monitor_ticks.c.due_ns))
        ]

    def open_ticks_of(self, tenant: str, monitor: str) -> list[Tick]:
        """Those of one monitor."""
        query = select(monitor_ticks).where(_of(tenant, monitor), monitor_ticks.c.outcome.in_(OPEN))
        return [
            _tick(row) for row in self.connection.execute(query.order_by(monitor_ticks.c.due_ns))
        ]

    @property
    def last_row(self) -> int:
        """The row of the trace that was stored last; 0 where there is none."""
        last: int = self.connection.execute(
            select(func.coalesce(func.max(agent_traces.c.row), 0))
        ).scalar_one()
        return last

    def row_before(self, time_ns: int) -> int:
        """The row of the last trace that was stored before a time; 0 where there is none."""
        return max(0, stored_rows.first_stored_at(self.connection, time_ns) - 1)

    def has_newer(
        self, tenant: str, subjects: Sequence[str], row: int, *, are_sessions: bool
    ) -> bool:
        """Whether a trace among these, or of these sessions, was stored or changed after a row."""
        column = agent_traces.c.session_id if are_sessions else agent_traces.c.id
        newer = (
            select(agent_traces.c.row)
            .where(*is_of(agent_traces, tenant), agent_traces.c.row > row)
            .limit(1)
        )
        return any(
            self.connection.execute(newer.where(column.in_(x))).first() is not None
            for x in chunks(subjects)
        )

    def _forget_ticks_before(self, new: Tick) -> None:
        """Hold the history to its bound; what is open stays, and `new`, also where a clock has made
        others later.
        """
        of_monitor, due = _of(new.tenant, new.monitor), monitor_ticks.c.due_ns
        newest = select(due).where(of_monitor).order_by(due.desc()).offset(_MAX_TICKS).limit(1)
        last_ns = self.connection.execute(newest).scalar()
        if last_ns is not None:
            is_old = and_(due <= last_ns, due != new.due_ns, monitor_ticks.c.outcome.not_in(OPEN))
            self.connection.execute(delete(monitor_ticks).where(of_monitor, is_old))


def _is(table: Any, tenant: str, monitor: str) -> Any:
    return and_(table.c.tenant == tenant, table.c.id == monitor)


def _of(tenant: str, monitor: str) -> Any:
    return and_(monitor_ticks.c.tenant == tenant, monitor_ticks.c.monitor == monitor)


def _table(monitor: StoredMonitor) -> Table:
    return configured_monitors if monitor.is_configured else monitors


def _row(monitor: StoredMonitor) -> dict[str, Any]:
    row = {column.name: getattr(monitor, column.name) for column in _table(monitor).c}
    return {**row, "progress": json.dumps(asdict(monitor.progress))}


def _monitor(row: Row[Any], *, is_configured: bool) -> StoredMonitor:
    progress = MonitorProgress(**json.loads(row.progress))
    return StoredMonitor(**{**row._asdict(), "progress": progress, "is_configured": is_configured})


def _tick_row(tick: Tick) -> dict[str, Any]:
    row = {column.name: getattr(tick, column.name) for column in monitor_ticks.c}
    return {**row, "facts": json.dumps(asdict(tick.facts))}


def _tick(row: Row[Any]) -> Tick:
    facts = TickFacts() if row.facts is None else TickFacts(**json.loads(row.facts))
    return Tick(**{**row._asdict(), "facts": facts})


_READ_AT_ONCE = 500
_MAX_PAGES = 40  # of one look, so that a backlog holds up no other writer for long
_KEPT_NS = 7 * 86400 * 10**9
_OPEN_NS = 86400 * 10**9


@dataclass(frozen=True, slots=True)
class Wanted:
    """Which scores a monitor reads, and what it takes from each: a value on 0..1; None where it
    leaves one out.

    `run`: those of an evaluation run; "": those that are made as the traces come.
    """

    metric: str
    scope: str
    value_of: Callable[[Evaluation], float | None]
    run: str = ""


@dataclass(frozen=True, slots=True)
class SettledSession:
    """The scores of one session, or of a trace without one, which has had no new one for a
    while.
    """

    values: tuple[float, ...]
    chances: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class Read:
    """How far the scores were read: after `seq`; whether these were all; and how many were taken
    in.
    """

    seq: int
    is_all: bool
    scores: int


class MonitorScores:
    """Those of one monitor, in a transaction."""

    def __init__(self, connection: Connection, tenant: str, monitor: str) -> None:
        self._connection = connection
        self._tenant = tenant
        self._key = {"tenant": tenant, "monitor": monitor}
        self._own = and_(monitor_scores.c.tenant == tenant, monitor_scores.c.monitor == monitor)

    def read(self, wanted: Wanted, seq: int) -> Read:
        """Take in the scores after `seq`, at most some thousands."""
        last, count = last_seq(self._connection), 0
        of_metric = (scores.c.metric == wanted.metric, scores.c.scope == wanted.scope)
        query = (
            select(scores.c.number, scores.c.record)
            .where(*of_metric, *is_of_run(wanted.run), *is_of(scores, self._tenant))
            .order_by(scores.c.number)
            .limit(_READ_AT_ONCE)
        )
        for _ in range(_MAX_PAGES):
            rows = self._connection.execute(
                query.where(scores.c.number > seq, scores.c.number <= last)
            ).all()
            found = records.undamaged_evaluations([row.record for row in rows])
            for evaluation in chain.from_iterable(found):
                count += self._take(evaluation, wanted.value_of(evaluation))
            if len(rows) < _READ_AT_ONCE:
                return Read(last, is_all=True, scores=count)
            seq = rows[-1].number
        return Read(seq, is_all=False, scores=count)

    def settled(self, until_ns: int, now_ns: int) -> list[SettledSession]:
        """The sessions that have settled, in the order of their last scores; they are counted now.

        These are those without a score since `until_ns`, and those that began a day ago.
        """
        last_ns = func.max(monitor_scores.c.seen_ns)
        open_ones = and_(self._own, monitor_scores.c.counted == 0)
        query = select(monitor_scores.c.unit).where(open_ones).group_by(monitor_scores.c.unit)
        is_settled = or_(
            last_ns <= until_ns, func.min(monitor_scores.c.seen_ns) <= now_ns - _OPEN_NS
        )
        units = self._connection.execute(
            query.having(is_settled).order_by(last_ns, monitor_scores.c.unit)
        ).scalars()
        return [self._counted(and_(open_ones, monitor_scores.c.unit == x)) for x in list(units)]

    def forget(self, now_ns: int) -> None:
        """Forget the sessions that were counted and have had no score for a week."""
        old = and_(monitor_scores.c.counted == 1, monitor_scores.c.seen_ns < now_ns - _KEPT_NS)
        self._connection.execute(delete(monitor_scores).where(self._own, old))

    def clear(self) -> None:
        """Forget all of them."""
        self._connection.execute(delete(monitor_scores).where(self._own))

    def _take(self, evaluation: Evaluation, value: float | None) -> int:
        """Keep the value of a score, in place of that of an earlier revision."""
        subject, session = subject_of(evaluation), evaluation.session_key
        unit = key(f"trace {subject}" if session is None else f"session {session}")
        of_unit = and_(self._own, monitor_scores.c.unit == unit)
        this = and_(of_unit, monitor_scores.c.subject == subject)
        counted = (
            self._connection.execute(
                select(func.max(monitor_scores.c.counted)).where(of_unit)
            ).scalar()
            or 0
        )
        self._connection.execute(delete(monitor_scores).where(this, monitor_scores.c.counted == 0))
        seen_ns = evaluation.evaluated_at_ns
        if counted:  # it is remembered as long as it goes on, or runs come back to it
            is_earlier = and_(of_unit, monitor_scores.c.seen_ns < seen_ns)
            self._connection.execute(
                update(monitor_scores).where(is_earlier).values(seen_ns=seen_ns)
            )
        if value is None or counted:
            return 0
        row = {**self._key, "unit": unit, "subject": subject, "value": value}
        seen = {"chance": evaluation.sampling, "seen_ns": seen_ns, "counted": 0}
        self._connection.execute(insert(monitor_scores).values(**row, **seen))
        return 1

    def _counted(self, this: Any) -> SettledSession:
        query = (
            select(monitor_scores.c.value, monitor_scores.c.chance)
            .where(this)
            .order_by(monitor_scores.c.subject)
        )
        rows = self._connection.execute(query).all()
        self._connection.execute(update(monitor_scores).where(this).values(counted=1))
        return SettledSession(tuple(x.value for x in rows), tuple(x.chance for x in rows))


def last_seq(connection: Connection) -> int:
    """The number of the score that was stored last; 0 where there is none."""
    last: int = connection.execute(select(func.coalesce(func.max(scores.c.number), 0))).scalar_one()
    return max(last, 0)
