"""Monitors, their ticks, and the scores read."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import chain
from typing import Any, Literal, NamedTuple, TypeAlias

from sqlalchemy import ColumnElement, delete, func, insert, select, update
from sqlalchemy.engine import Connection

from spanscore.model.score import Evaluation
from spanscore.store import records, stored_rows
from spanscore.store.runs import RunTables, is_of_run
from spanscore.store.schema import agent_traces, monitor_history, monitors, scores
from spanscore.store.stored_rows import chunks, is_of, key, subject_of

_LAST_NS = 2**63 - 1
_MAX_TICKS = 1000

MonitorState: TypeAlias = Literal["ACTIVE", "PAUSED"]
TickCause: TypeAlias = Literal["schedule", "catch_up", "manual"]

OPEN: tuple[str, ...] = ("queued", "running")
"""Outcomes of ticks whose run waits to be created, or has not ended."""


@dataclass(frozen=True, slots=True)
class StoredMonitor:
    """A monitor as it is kept; `spec` is JSON. Times after `due_from_ns` are due.

    - `until_row`: the last row of the traces that a run of it was about. `revision` rises with
      every change of the spec or the state. `is_configured`: the configuration has it, and no
      request changes it.
    - Of the last run: its id, `from_row`, after which its window began, and digests of what it
      measured by and, where a condition over scores decides that, of what it was about (`named`).
    - `findings`: what it knows of its metric, None before its first look; `digest` is of the
      settings that they follow from, `read_seq` the last score that was read for them.
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
    request_id: str | None = None
    is_configured: bool = False
    last_run: str | None = None
    from_row: int = 0
    measured: str = ""
    named: str = ""
    findings: dict[str, Any] | None = None
    digest: str = ""
    read_seq: int = 0


@dataclass(frozen=True, slots=True)
class Tick:
    """A tick as it is kept; `outcome` is one of few words.

    `read_seq` is the last score of its run that was read.
    """

    tenant: str
    monitor: str
    due_ns: int
    looked_ns: int
    outcome: str = ""
    scores: int = 0
    sessions: int = 0
    run: str | None = None
    request_id: str | None = None
    cause: TickCause = "schedule"
    reason: str | None = None
    ended_ns: int | None = None
    read_seq: int = 0

    def ended(self, outcome: str, now_ns: int, reason: str | None = None) -> "Tick":
        """The tick with its last outcome."""
        return replace(self, outcome=outcome, ended_ns=now_ns, reason=reason or self.reason)


class MonitorTables:
    """Reads and writes monitors and ticks; `runs` does evaluation runs, in the same transaction."""

    def __init__(self, connection: Connection) -> None:
        self.connection = connection
        self.runs = RunTables(connection)

    def create(self, monitor: StoredMonitor) -> None:
        """Keep a new monitor, in the place of one that is damaged."""
        this = _is(monitor.tenant, monitor.id)
        if not self.all(*this):
            self.connection.execute(delete(monitors).where(*this))
        self.connection.execute(insert(monitors).values(_row(monitor)))

    def change(self, monitor: StoredMonitor) -> None:
        """Write a monitor as it is now."""
        this = _is(monitor.tenant, monitor.id)
        self.connection.execute(update(monitors).where(*this).values(_row(monitor)))

    def delete(self, monitor: StoredMonitor) -> None:
        """Delete a monitor with its history."""
        self.connection.execute(delete(monitors).where(*_is(monitor.tenant, monitor.id)))
        self.connection.execute(delete(monitor_history).where(*_of(monitor.tenant, monitor.id)))

    def get(self, tenant: str, monitor: str) -> StoredMonitor | None:
        """The monitor with this id; None where the tenant has none."""
        return next(iter(self.all(*_is(tenant, monitor))), None)

    def of_request(self, tenant: str, request_id: str) -> StoredMonitor | None:
        """The monitor that was asked for under a request id; None where there is none."""
        this = (monitors.c.tenant == tenant, monitors.c.request_id == request_id)
        return next(iter(self.all(*this)), None)

    def count(self, tenant: str) -> int:
        """How many monitors of the API a tenant has."""
        of_api = (monitors.c.tenant == tenant, monitors.c.is_configured.is_(False))
        query = select(func.count()).select_from(monitors).where(*of_api)
        return self.connection.execute(query).scalar_one()

    def ticking(self, tick: Tick, revision: int) -> StoredMonitor | None:
        """The monitor of a tick; None where it is gone, was changed since it had this revision, or
        is paused and nobody asked for the tick.
        """
        stored = self.get(tick.tenant, tick.monitor)
        if stored is None or stored.revision != revision:
            return None
        return stored if stored.state == "ACTIVE" or tick.cause == "manual" else None

    def add_tick(self, tick: Tick) -> bool:
        """Keep a new tick, unless there is one of its time; returns whether it was made."""
        if self.tick(tick.tenant, tick.monitor, tick.due_ns) is not None:
            return False
        damaged = (*_ticks_of(tick.tenant, tick.monitor), monitor_history.c.at_ns == tick.due_ns)
        self.connection.execute(delete(monitor_history).where(*damaged))
        self.connection.execute(insert(monitor_history).values(_tick_row(tick)))
        self._forget_ticks_before(tick)
        return True

    def change_tick(self, tick: Tick) -> None:
        """Write a tick as it is now."""
        this = (*_ticks_of(tick.tenant, tick.monitor), monitor_history.c.at_ns == tick.due_ns)
        self.connection.execute(update(monitor_history).where(*this).values(_tick_row(tick)))

    def tick_of_request(self, tenant: str, monitor: str, request_id: str) -> Tick | None:
        """The tick that was asked for under a request id; None where there is none."""
        found = self._ticks(*_ticks_of(tenant, monitor), _is_of_request(request_id))
        return next(iter(found), None)

    def tick(self, tenant: str, monitor: str, due_ns: int) -> Tick | None:
        """The tick of a time; None where there is none."""
        found = self._ticks(*_ticks_of(tenant, monitor), monitor_history.c.at_ns == due_ns)
        return next(iter(found), None)

    def ticks(
        self, tenant: str, monitor: str, limit: int, before_ns: int | None = None
    ) -> list[Tick]:
        """At most `limit` ticks of a monitor that were due earlier than `before_ns`, the newest
        first.
        """
        is_before = monitor_history.c.at_ns < (_LAST_NS if before_ns is None else before_ns)
        return self._ticks(*_ticks_of(tenant, monitor), is_before, limit=limit)

    def last_tick_ns(self, tenant: str, monitor: str) -> int | None:
        """When the last tick that was due by a monitor's times was made; None where there is
        none.
        """
        found = self._ticks(*_ticks_of(tenant, monitor), _is_of_request(None), limit=1)
        return found[0].looked_ns if found else None

    def open_ticks(self) -> list[Tick]:
        """The ticks of all monitors whose run waits to be created or has not ended, in the order of
        their times.
        """
        return self._ticks(_IS_OPEN)[::-1]

    def open_ticks_of(self, tenant: str, monitor: str) -> list[Tick]:
        """Those of one monitor."""
        return [x for x in self.open_ticks() if (x.tenant, x.monitor) == (tenant, monitor)]

    def all(self, *wanted: ColumnElement[bool]) -> list[StoredMonitor]:
        """The monitors of all tenants, or those that meet these conditions."""
        query = select(monitors.c.record).where(*wanted).order_by(monitors.c.tenant, monitors.c.id)
        found = self.connection.execute(query).scalars()
        return [x for fields in found for x in records.made_of("monitor", StoredMonitor, fields)]

    def _ticks(self, *wanted: ColumnElement[bool], limit: int | None = None) -> list[Tick]:
        newest_first = monitor_history.c.at_ns.desc()
        query = select(monitor_history.c.record).where(*wanted).order_by(newest_first).limit(limit)
        found = self.connection.execute(query).scalars()
        return [x for fields in found for x in records.made_of("tick of a monitor", Tick, fields)]

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
        of_monitor, due = _ticks_of(new.tenant, new.monitor), monitor_history.c.at_ns
        newest = select(due).where(*of_monitor).order_by(due.desc()).offset(_MAX_TICKS).limit(1)
        last_ns = self.connection.execute(newest).scalar()
        if last_ns is not None:
            is_old = (due <= last_ns, due != new.due_ns, ~_IS_OPEN)
            self.connection.execute(delete(monitor_history).where(*of_monitor, *is_old))


_Conditions: TypeAlias = tuple[ColumnElement[bool], ...]

_SEARCHED = ("tenant", "id", "request_id", "is_configured")
_IS_OPEN = monitor_history.c.outcome.in_(OPEN)


def _is(tenant: str, monitor: str) -> _Conditions:
    return monitors.c.tenant == tenant, monitors.c.id == monitor


def _of(tenant: str, monitor: str) -> _Conditions:
    return monitor_history.c.tenant == tenant, monitor_history.c.monitor == monitor


def _ticks_of(tenant: str, monitor: str) -> _Conditions:
    return *_of(tenant, monitor), monitor_history.c.session == ""


def _is_of_request(request_id: str | None) -> ColumnElement[bool]:
    found: ColumnElement[str] = monitor_history.c.record["request_id"].as_string()
    return found == request_id


def _row(monitor: StoredMonitor) -> dict[str, Any]:
    record = asdict(monitor)
    return {x: record[x] for x in _SEARCHED} | {"record": record}


def _tick_row(tick: Tick) -> dict[str, Any]:
    row = {"tenant": tick.tenant, "monitor": tick.monitor, "session": "", "at_ns": tick.due_ns}
    return {**row, "outcome": tick.outcome, "record": asdict(tick)}


_READ_AT_ONCE = 500
_MAX_PAGES = 40  # of one look, so that a backlog holds up no other writer for long
_KEPT_NS = 7 * 86400 * 10**9
_OPEN_NS = 86400 * 10**9


NewAlert: TypeAlias = tuple[str, dict[str, Any]]
"""The receiver of an alert, and its record."""


class SettledSession(NamedTuple):
    """The scores of one session, or of a trace without one, which has had no new one for a
    while.
    """

    values: tuple[float, ...]
    chances: tuple[float, ...]


class Advanced(NamedTuple):
    """What a look gives: the findings to keep, a word for the history, and new alerts."""

    findings: dict[str, Any]
    outcome: str
    alerts: Sequence[NewAlert] = ()


@dataclass(frozen=True, slots=True)
class Look:
    """What a monitor of this revision does with scores.

    - It reads those of the metric and scope, of an evaluation `run`, or with "" those that are made
      as the traces come.
    - `value_of` takes a value on 0..1 from each; None where it leaves one out.
    - `advance` gets the findings so far, whether they follow from the same settings, and the
      sessions that have settled. `digest` is of these settings.
    """

    metric: str
    scope: str
    value_of: Callable[[Evaluation], float | None]
    digest: str
    advance: Callable[[dict[str, Any] | None, bool, Sequence[SettledSession]], Advanced]
    revision: int
    run: str = ""


class Read(NamedTuple):
    """How far the scores were read: after `seq`; whether these were all; and how many were taken
    in.
    """

    seq: int
    is_all: bool
    scores: int


_Given: TypeAlias = tuple[Evaluation, float | None]
"""A score, and the value that is taken from it."""

_Taken: TypeAlias = dict[str, tuple[float, float, int]]
"""By subject the value, the chance with which it was drawn, and when it was scored."""


class _Kept(NamedTuple):
    """A session as it is kept; none is open without a score."""

    session: str
    at_ns: int
    outcome: str
    record: _Taken


class MonitorScores:
    """Those of one monitor, by session, in a transaction.

    A session has settled where no score of it came for `settle_ns`, and a day after its first one.
    """

    def __init__(self, connection: Connection, monitor: StoredMonitor, settle_ns: int = 0) -> None:
        self._connection = connection
        self._key = {"tenant": monitor.tenant, "monitor": monitor.id}
        self._settle_ns = settle_ns
        self._own = (*_of(monitor.tenant, monitor.id), monitor_history.c.session != "")

    def read(self, look: Look, seq: int) -> Read:
        """Take in the scores after `seq`, at most some thousands."""
        last, count = last_seq(self._connection), 0
        of_metric = (scores.c.metric == look.metric, scores.c.scope == look.scope)
        query = (
            select(scores.c.number, scores.c.record)
            .where(*of_metric, *is_of_run(look.run), *is_of(scores, self._key["tenant"]))
            .order_by(scores.c.number)
            .limit(_READ_AT_ONCE)
        )
        for _ in range(_MAX_PAGES):
            rows = self._connection.execute(
                query.where(scores.c.number > seq, scores.c.number <= last)
            ).all()
            found = records.undamaged_evaluations([row.record for row in rows])
            count += self._take([(x, look.value_of(x)) for x in chain.from_iterable(found)])
            if len(rows) < _READ_AT_ONCE:
                return Read(last, is_all=True, scores=count)
            seq = rows[-1].number
        return Read(seq, is_all=False, scores=count)

    def settled(self, until_ns: int, now_ns: int) -> list[SettledSession]:
        """The sessions without a score since `until_ns`, in the order of their last scores; they
        are counted now.

        Those that were counted and have had no score for a week are forgotten.
        """
        row = monitor_history.c
        found = self._read(row.outcome == "open", row.at_ns <= until_ns)
        seen_ns = {x.session: max(at_ns for _, _, at_ns in x.record.values()) for x in found}
        found.sort(key=lambda x: (seen_ns[x.session], x.session))
        self._put([_Kept(*x, "counted", {}) for x in seen_ns.items()], list(seen_ns))
        is_old = (row.outcome == "counted", row.at_ns < now_ns - _KEPT_NS)
        self._connection.execute(delete(monitor_history).where(*self._own, *is_old))
        return [_settled(x.record) for x in found]

    def clear(self) -> None:
        """Forget all of them."""
        self._connection.execute(delete(monitor_history).where(*self._own))

    def _take(self, values: Iterable[_Given]) -> int:
        """Keep the values of scores, each in place of that of an earlier revision."""
        by_session = defaultdict[str, list[_Given]](list)
        for evaluation, value in values:
            by_session[_session_of(evaluation)].append((evaluation, value))
        before = {
            row.session: row
            for some in chunks(list(by_session))
            for row in self._read(monitor_history.c.session.in_(some))
        }
        after, count = list[_Kept](), 0
        for session, given in by_session.items():
            found = before.get(session) or _Kept(session, 0, "open", {})
            if found.outcome == "counted":
                # remembered as long as it goes on, or runs come back to it
                seen_ns = max(x.evaluated_at_ns for x, _ in given)
                after.append(found._replace(at_ns=max(found.at_ns, seen_ns)))
                continue
            count += sum(value is not None for _, value in given)
            if taken := _taken(found.record, given):
                after.append(_Kept(session, self._settles_ns(taken), "open", taken))
        self._put(after, list(by_session))
        return count

    def _settles_ns(self, taken: _Taken) -> int:
        """When the last score came, or where it goes on, so that it settles a day after its first
        one.
        """
        seen_ns = [at_ns for _, _, at_ns in taken.values()]
        return min(max(seen_ns), min(seen_ns) + _OPEN_NS - self._settle_ns)

    def _read(self, *wanted: ColumnElement[bool]) -> list[_Kept]:
        columns = (monitor_history.c[x] for x in _Kept._fields)
        rows = self._connection.execute(select(*columns).where(*self._own, *wanted))
        return [
            x for row in rows for x in records.made_of("session of a monitor", _kept, row._asdict())
        ]

    def _put(self, rows: Sequence[_Kept], before: Sequence[str]) -> None:
        """Write sessions in place of those that are there."""
        for some in chunks(before):
            this = (*self._own, monitor_history.c.session.in_(some))
            self._connection.execute(delete(monitor_history).where(*this))
        if rows:
            own = [x._asdict() | self._key for x in rows]
            self._connection.execute(insert(monitor_history), own)


def _kept(record: _Taken, **fields: Any) -> _Kept:
    taken = {x: (value, chance, at_ns) for x, (value, chance, at_ns) in record.items()}
    return _Kept(**fields, record=taken)


def _taken(before: _Taken, given: Iterable[_Given]) -> _Taken:
    """What is taken from the scores of a session, each in place of that of an earlier revision."""
    taken = dict(before)
    for evaluation, value in given:
        taken.pop(subject_of(evaluation), None)
        if value is not None:
            at_ns = evaluation.evaluated_at_ns
            taken[subject_of(evaluation)] = (value, evaluation.sampling, at_ns)
    return taken


def _settled(taken: _Taken) -> SettledSession:
    values, chances, _ = zip(*(x for _, x in sorted(taken.items())), strict=True)
    return SettledSession(values, chances)


def _session_of(evaluation: Evaluation) -> str:
    """The session of a score; a trace without one is one by itself."""
    if evaluation.session_key is None:
        return key(f"trace {subject_of(evaluation)}")
    return key(f"session {evaluation.session_key}")


def last_seq(connection: Connection) -> int:
    """The number of the score that was stored last; 0 where there is none."""
    last: int = connection.execute(select(func.coalesce(func.max(scores.c.number), 0))).scalar_one()
    return max(last, 0)
