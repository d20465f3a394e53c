"""What monitors read and keep, each look in one transaction: after a crash it was made as a whole or not at all."""

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import and_, delete, func, insert, or_, select, update
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.engine import Connection, Row

from spanscore.model.score import Evaluation
from spanscore.store import records
from spanscore.store.database import Database
from spanscore.store.schema import alert_notices, evaluations, monitor_scores, monitor_states, monitor_ticks

_READ_AT_ONCE = 500
_KEPT_TICKS = 1000
_KEPT_NS = 7 * 86400 * 10**9
_OPEN_NS = 86400 * 10**9
_MAX_PAGES = 40  # of one look, so that a backlog holds up no other writer for long


@dataclass(frozen=True, slots=True)
class Wanted:
    """Which scores a monitor reads, and what it takes from each: a value on 0..1; None where it leaves one out."""

    metric: str
    scope: str
    value_of: Callable[[Evaluation], float | None]


@dataclass(frozen=True, slots=True)
class SettledSession:
    """The scores of one session, or of a trace without one, which has had no new one for a while."""

    values: tuple[float, ...]
    chances: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class Advanced:
    """What a look gives: the state to keep, a word for the history, (receiver, status, record) of each new alert."""

    state: dict[str, Any]
    outcome: str
    notices: Sequence[tuple[str, str, dict[str, Any]]] = ()


@dataclass(frozen=True, slots=True)
class Notice:
    """An alert on its way; `is_superseded` where a later one of the same monitor waits for the same receiver."""

    number: int
    monitor: str
    receiver: str
    status: str
    record: dict[str, Any]
    tries: int
    delivered: bool
    is_superseded: bool


class MonitorStore:
    """Belongs to one tenant; methods block, and raise as those of `Store` do."""

    def __init__(self, database: Database, tenant: str = "") -> None:
        self._database = database
        self._tenant = tenant

    def last_look_ns(self, monitor: str) -> int | None:
        """When the monitor last looked; None where it never did."""
        with self._database.reading() as connection:
            query = select(monitor_states.c.looked_ns).where(self._of(monitor_states, monitor))
            return connection.execute(query).scalar()

    def look(
        self,
        monitor: str,
        due_ns: int,
        now_ns: int,
        wanted: Wanted,
        settled_until_ns: int,
        digest: str,
        advance: Callable[[dict[str, Any] | None, Sequence[SettledSession]], Advanced],
    ) -> bool:
        """Make the look of `due_ns`, unless it was made; returns whether this call has made it.

        `advance` gets the kept state, None where there is none or it followed from another `digest`, and the sessions
        whose last score is older than `settled_until_ns`, in the order of these. A new monitor begins with the scores
        that come after it.
        """
        with self._database.writing() as connection:
            tick = {"tenant": self._tenant, "monitor": monitor, "due_ns": due_ns, "looked_ns": now_ns}
            if not _inserted(connection, tick | {"outcome": "", "scores": 0, "sessions": 0}):
                return False
            kept = connection.execute(select(monitor_states).where(self._of(monitor_states, monitor))).first()
            is_same = kept is not None and kept.digest == digest
            if kept is not None and not is_same:
                for table in (monitor_scores, alert_notices):
                    connection.execute(delete(table).where(self._of(table, monitor)))
            seq = kept.seq if kept is not None and is_same else _last_seq(connection)
            seq, scores = self._read(connection, monitor, wanted, seq)
            sessions = self._settled(connection, monitor, settled_until_ns, now_ns - _OPEN_NS)
            found = advance(json.loads(kept.record) if kept is not None and is_same else None, sessions)
            state = {"digest": digest, "seq": seq, "looked_ns": now_ns, "record": json.dumps(found.state)}
            self._keep(connection, monitor, state, kept is None)
            self._note(connection, monitor, found.notices, now_ns)
            outcome = {"outcome": found.outcome, "scores": scores, "sessions": len(sessions)}
            this = and_(self._of(monitor_ticks, monitor), monitor_ticks.c.due_ns == due_ns)
            connection.execute(update(monitor_ticks).where(this).values(**outcome))
            self._forget(connection, monitor, now_ns)
        return True

    def due(self, now_ns: int) -> list[Notice]:
        """The first alert of each monitor and receiver, of those that are due."""
        query = select(alert_notices).where(alert_notices.c.tenant == self._tenant).order_by(alert_notices.c.number)
        with self._database.reading() as connection:
            rows = connection.execute(query).all()
        queues: dict[tuple[str, str], list[Any]] = {}
        for row in rows:
            queues.setdefault((row.monitor, row.receiver), []).append(row)
        return [_notice(x[0], is_superseded=len(x) > 1) for x in queues.values() if _is_due(x, now_ns)]

    def settle(self, notice: Notice, due_ns: int | None) -> None:
        """An alert has been delivered: forget it, or have it be due again then."""
        with self._database.writing() as connection:
            this = alert_notices.c.number == notice.number
            if due_ns is None:
                connection.execute(delete(alert_notices).where(this))
            else:
                connection.execute(update(alert_notices).where(this).values(due_ns=due_ns, delivered=1, tries=0))

    def put_off(self, notice: Notice, due_ns: int) -> None:
        """An alert could not be delivered: try again then."""
        with self._database.writing() as connection:
            this = alert_notices.c.number == notice.number
            connection.execute(update(alert_notices).where(this).values(due_ns=due_ns, tries=notice.tries + 1))

    def _of(self, table: Any, monitor: str) -> Any:
        return and_(table.c.tenant == self._tenant, table.c.monitor == monitor)

    def _read(self, connection: Connection, monitor: str, wanted: Wanted, seq: int) -> tuple[int, int]:
        """Take in the scores after `seq`; the last number that was read, and how many scores there were."""
        last, count = _last_seq(connection), 0
        query = (
            select(evaluations.c.seq, evaluations.c.record)
            .where(evaluations.c.metric == wanted.metric, evaluations.c.scope == wanted.scope)
            .order_by(evaluations.c.seq)
            .limit(_READ_AT_ONCE)
        )
        for _ in range(_MAX_PAGES):
            rows = connection.execute(query.where(evaluations.c.seq > seq, evaluations.c.seq <= last)).all()
            for evaluation in records.decode_evaluations(row.record for row in rows):
                count += self._take(connection, monitor, evaluation, wanted.value_of(evaluation))
            if len(rows) < _READ_AT_ONCE:
                return last, count
            seq = rows[-1].seq
        return seq, count

    def _take(self, connection: Connection, monitor: str, evaluation: Evaluation, value: float | None) -> int:
        """Keep the value of a score, in place of that of an earlier revision."""
        subject, session = evaluation.subject_id, evaluation.session_key
        unit = f"trace {subject}"[:256] if session is None else f"session {session}"[:256]
        of_unit = and_(self._of(monitor_scores, monitor), monitor_scores.c.unit == unit)
        this = and_(of_unit, monitor_scores.c.subject == subject)
        counted = connection.execute(select(func.max(monitor_scores.c.counted)).where(of_unit)).scalar() or 0
        connection.execute(delete(monitor_scores).where(this, monitor_scores.c.counted == 0))
        if value is None or counted:
            return 0
        row = {"tenant": self._tenant, "monitor": monitor, "unit": unit, "subject": subject, "value": value}
        seen = {"chance": evaluation.sampling, "seen_ns": evaluation.evaluated_at_ns, "counted": 0}
        connection.execute(insert(monitor_scores).values(**row, **seen))
        return 1

    def _settled(
        self, connection: Connection, monitor: str, until_ns: int, began_until_ns: int
    ) -> list[SettledSession]:
        """The sessions that have settled or began long ago, in the order of their last scores; they are counted now."""
        last_ns = func.max(monitor_scores.c.seen_ns)
        open_ones = and_(self._of(monitor_scores, monitor), monitor_scores.c.counted == 0)
        query = select(monitor_scores.c.unit).where(open_ones).group_by(monitor_scores.c.unit)
        is_settled = or_(last_ns <= until_ns, func.min(monitor_scores.c.seen_ns) <= began_until_ns)
        units = connection.execute(query.having(is_settled).order_by(last_ns, monitor_scores.c.unit)).scalars()
        return [self._counted(connection, and_(open_ones, monitor_scores.c.unit == x)) for x in list(units)]

    def _counted(self, connection: Connection, this: Any) -> SettledSession:
        query = select(monitor_scores.c.value, monitor_scores.c.chance).where(this).order_by(monitor_scores.c.subject)
        rows = connection.execute(query).all()
        connection.execute(update(monitor_scores).where(this).values(counted=1))
        return SettledSession(tuple(x.value for x in rows), tuple(x.chance for x in rows))

    def _keep(self, connection: Connection, monitor: str, state: dict[str, Any], is_new: bool) -> None:
        if is_new:
            connection.execute(insert(monitor_states).values(tenant=self._tenant, monitor=monitor, **state))
        else:
            connection.execute(update(monitor_states).where(self._of(monitor_states, monitor)).values(**state))

    def _note(
        self, connection: Connection, monitor: str, notices: Sequence[tuple[str, str, dict[str, Any]]], now_ns: int
    ) -> None:
        number = connection.execute(select(func.coalesce(func.max(alert_notices.c.number), 0))).scalar_one()
        for place, (receiver, status, record) in enumerate(notices, 1):
            row = {"tenant": self._tenant, "monitor": monitor, "receiver": receiver, "status": status}
            more = {"record": json.dumps(record), "due_ns": now_ns, "tries": 0, "delivered": 0}
            connection.execute(insert(alert_notices).values(number=number + place, **row, **more))

    def _forget(self, connection: Connection, monitor: str, now_ns: int) -> None:
        old = and_(monitor_scores.c.counted == 1, monitor_scores.c.seen_ns < now_ns - _KEPT_NS)
        connection.execute(delete(monitor_scores).where(self._of(monitor_scores, monitor), old))
        newest = (
            select(monitor_ticks.c.due_ns)
            .where(self._of(monitor_ticks, monitor))
            .order_by(monitor_ticks.c.due_ns.desc())
            .offset(_KEPT_TICKS)
            .limit(1)
        )
        last_ns = connection.execute(newest).scalar()
        if last_ns is not None:
            too_old = monitor_ticks.c.due_ns <= last_ns
            connection.execute(delete(monitor_ticks).where(self._of(monitor_ticks, monitor), too_old))


def states(connection: Connection, tenant: str = "") -> dict[str, Row[Any]]:
    """What each monitor knows, by name."""
    rows = connection.execute(select(monitor_states).where(monitor_states.c.tenant == tenant))
    return {row.monitor: row for row in rows}


def history(connection: Connection, monitor: str, limit: int, tenant: str = "") -> Iterator[Row[Any]]:
    """The last looks of a monitor, the newest first."""
    of_monitor = and_(monitor_ticks.c.tenant == tenant, monitor_ticks.c.monitor == monitor)
    yield from connection.execute(
        select(monitor_ticks).where(of_monitor).order_by(monitor_ticks.c.due_ns.desc()).limit(limit)
    )


def _inserted(connection: Connection, tick: dict[str, Any]) -> bool:
    """Whether this transaction is the one that makes a look; another that has made it has left its row.

    Of two transactions that began before either has left it, PostgreSQL fails the second, which may try again.
    """
    this = and_(*(monitor_ticks.c[name] == tick[name] for name in ("tenant", "monitor", "due_ns")))
    if connection.execute(select(monitor_ticks.c.due_ns).where(this)).first() is not None:
        return False
    dialect = postgresql if connection.dialect.name == "postgresql" else sqlite
    connection.execute(dialect.insert(monitor_ticks).values(**tick).on_conflict_do_nothing())
    return True


def _last_seq(connection: Connection) -> int:
    last: int = connection.execute(select(func.coalesce(func.max(evaluations.c.seq), 0))).scalar_one()
    return last


def _notice(row: Any, *, is_superseded: bool) -> Notice:
    record = json.loads(row.record)
    return Notice(
        row.number, row.monitor, row.receiver, row.status, record, row.tries, bool(row.delivered), is_superseded
    )


def _is_due(queue: Sequence[Any], now_ns: int) -> bool:
    """Whether the first of a queue is to be sent now, or was sent and stands in the way of the next."""
    return bool(queue[0].due_ns <= now_ns or (queue[0].delivered and len(queue) > 1))
