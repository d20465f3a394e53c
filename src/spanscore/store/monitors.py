"""Monitors' states, and alerts to deliver."""

import json
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeAlias, TypeVar

from sqlalchemy import Delete, Update, and_, delete, func, insert, select, update
from sqlalchemy.engine import Connection, Row

from spanscore.store.database import Database
from spanscore.store.monitor_tables import (
    MonitorScores,
    MonitorTables,
    SettledSession,
    Tick,
    Wanted,
    last_seq,
)
from spanscore.store.schema import monitor_states, pending

ItemT = TypeVar("ItemT")

_ALL_NS = 2**63 - 1
_ARE_ALERTS = pending.c.kind == "alert"

NewAlert: TypeAlias = tuple[str, dict[str, Any]]
"""The receiver of an alert, and its record."""


@dataclass(frozen=True, slots=True)
class Advanced:
    """What a look gives: the state to keep, a word for the history, and new alerts."""

    state: dict[str, Any]
    outcome: str
    notices: Sequence[NewAlert] = ()


@dataclass(frozen=True, slots=True)
class Former:
    """The kept state of a monitor; `is_same` where it follows from the present settings."""

    state: dict[str, Any]
    is_same: bool


Advance = Callable[[Former | None, Sequence[SettledSession]], Advanced]
"""From the kept state, None where there is none, and sessions that have settled, what is to be
kept.
"""


class MonitorStore:
    """Methods block, and raise as those of `Store` do."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self.notices = AlertNotices(database)

    @property
    def is_shared(self) -> bool:
        """Whether several servers may write to it at once."""
        return self._database.locks is not None

    def read(self, ask: Callable[[MonitorTables], ItemT]) -> ItemT:
        """What `ask` gives of the monitors and their ticks, as of one moment."""
        with self._database.reading() as connection:
            return ask(MonitorTables(connection))

    def write(self, change: Callable[[MonitorTables], ItemT]) -> ItemT:
        """What `change` gives, once all that it wrote is committed."""
        with self._database.writing() as connection:
            return change(MonitorTables(connection))

    def look(
        self,
        tick: Tick,
        wanted: Wanted,
        settled_until_ns: int,
        digest: str,
        advance: Advance,
        revision: int,
    ) -> Tick | None:
        """Make a tick that looks at the scores which are made as the traces come; None where it was
        made, or its monitor has another `revision` than this, is paused or gone.

        `advance` gets the kept state and the sessions whose last score is older than
        `settled_until_ns`, in the order of these. A monitor that is new, or whose kept state
        followed from another `digest`, begins with the scores that come after it.
        """
        with self._database.writing() as connection:
            tables = MonitorTables(connection)
            if not tables.may_tick(tick, revision) or not tables.add_tick(tick):
                return None
            former_state = _state_of(connection, tick)
            is_same = former_state is not None and former_state.digest == digest
            seq = former_state.seq if former_state is not None and is_same else last_seq(connection)
            scores = MonitorScores(connection, tick.tenant, tick.monitor)
            if not is_same:
                scores.clear()
            found = scores.read(wanted, seq)
            sessions = scores.settled(settled_until_ns, tick.looked_ns)
            outcome = _advance(connection, tick, digest, found.seq, advance, sessions)
            scores.forget(tick.looked_ns)
            made = replace(tick, scores=found.scores, sessions=len(sessions)).ended(
                outcome, tick.looked_ns
            )
            tables.change_tick(made)
        return made

    def assess(
        self,
        tick: Tick,
        now_ns: int,
        wanted: Wanted,
        digest: str,
        advance: Advance,
        revision: int,
        reason: str | None = None,
    ) -> Tick | None:
        """Look at the scores of a tick's run, which has ended; None where that was done, there are
        more to read, or the monitor has another `revision` than this.

        `reason` is why the run ended, for the history.
        """
        with self._database.writing() as connection:
            tables = MonitorTables(connection)
            open_tick = tables.tick(tick.tenant, tick.monitor, tick.due_ns)
            if open_tick is None or open_tick.outcome != "running":
                return None
            if not tables.is_at(tick.tenant, tick.monitor, revision):
                return None
            scores = MonitorScores(connection, tick.tenant, tick.monitor)
            found = scores.read(wanted, open_tick.facts.read_seq)
            facts = replace(open_tick.facts, read_seq=found.seq)
            open_tick = replace(open_tick, scores=open_tick.scores + found.scores, facts=facts)
            if not found.is_all:
                tables.change_tick(open_tick)
                return None
            sessions = scores.settled(_ALL_NS, now_ns)
            outcome = _advance(
                connection, replace(tick, looked_ns=now_ns), digest, 0, advance, sessions
            )
            scores.forget(now_ns)
            made = replace(open_tick, sessions=len(sessions)).ended(outcome, now_ns, reason)
            tables.change_tick(made)
        return made


def begin_anew(
    tables: MonitorTables,
    tenant: str,
    monitor: str,
    now_ns: int,
    end: Callable[[dict[str, Any]], Advanced] | None = None,
) -> None:
    """Forget the scores that a monitor has counted, and with `end` its state, which gives the
    alerts still to go.

    Without `end` the next look ends its alert, and begins with the scores that come after it.
    """
    connection = tables.connection
    MonitorScores(connection, tenant, monitor).clear()
    if end is None:
        outdated = update(monitor_states).where(_of(monitor_states, tenant, monitor))
        connection.execute(outdated.values(digest=""))
        return
    state = connection.execute(
        select(monitor_states).where(_of(monitor_states, tenant, monitor))
    ).first()
    if state is not None:
        _replace_notices(connection, tenant, monitor, end(json.loads(state.record)).notices, now_ns)
    connection.execute(delete(monitor_states).where(_of(monitor_states, tenant, monitor)))


def state_of(connection: Connection, tenant: str, monitor: str) -> dict[str, Any] | None:
    """What one monitor knows; None before its first look."""
    query = select(monitor_states.c.record).where(_of(monitor_states, tenant, monitor))
    record = connection.execute(query).scalar()
    return None if record is None else json.loads(record)


def last_read_seq(connection: Connection) -> int:
    """The highest number of a score up to which a monitor has read; 0 where none has."""
    of_states: int = connection.execute(
        select(func.coalesce(func.max(monitor_states.c.seq), 0))
    ).scalar_one()
    return max([of_states, *(x.facts.read_seq for x in MonitorTables(connection).open_ticks())])


def _of(table: Any, tenant: str, monitor: str) -> Any:
    return and_(table.c.tenant == tenant, table.c.monitor == monitor)


def _state_of(connection: Connection, tick: Tick) -> Row[Any] | None:
    this = _of(monitor_states, tick.tenant, tick.monitor)
    return connection.execute(select(monitor_states).where(this)).first()


def _advance(
    connection: Connection,
    tick: Tick,
    digest: str,
    seq: int,
    advance: Advance,
    sessions: Sequence[SettledSession],
) -> str:
    """Keep the state after these sessions, and the alerts that follow; returns a word for the
    history.
    """
    former_state = _state_of(connection, tick)
    former = (
        None
        if former_state is None
        else Former(json.loads(former_state.record), former_state.digest == digest)
    )
    found = advance(former, sessions)
    state = {
        "digest": digest,
        "seq": seq,
        "looked_ns": tick.looked_ns,
        "record": json.dumps(found.state),
    }
    if former_state is None:
        row = {"tenant": tick.tenant, "monitor": tick.monitor, **state}
        connection.execute(insert(monitor_states).values(**row))
    else:
        connection.execute(
            update(monitor_states)
            .where(_of(monitor_states, tick.tenant, tick.monitor))
            .values(**state)
        )
    if former is not None and not former.is_same:
        _replace_notices(connection, tick.tenant, tick.monitor, found.notices, tick.looked_ns)
    else:
        note(connection, tick.tenant, tick.monitor, found.notices, tick.looked_ns)
    return found.outcome


def _replace_notices(
    connection: Connection,
    tenant: str,
    monitor: str,
    new: Sequence[NewAlert],
    now_ns: int,
) -> None:
    """Send the ends of alerts in place of what waits, which is no longer true."""
    of_monitor = (_ARE_ALERTS, pending.c.subject == monitor, pending.c.tenant == tenant)
    connection.execute(delete(pending).where(*of_monitor))
    note(connection, tenant, monitor, new, now_ns)


@dataclass(frozen=True, slots=True)
class Notice:
    """An alert on its way; `is_superseded` where a later one of the same monitor waits for the same
    receiver.
    """

    number: int
    tenant: str
    monitor: str
    receiver: str
    status: str
    record: dict[str, Any]
    tries: int
    delivered: bool
    is_superseded: bool


class AlertNotices:
    """Methods block, and raise as those of `Store` do."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def due(self, now_ns: int) -> list[Notice]:
        """The first alert of each monitor and receiver, of those that are due.

        One that was sent is due at once where a later one waits behind it.
        """
        query = select(pending).where(_ARE_ALERTS).order_by(pending.c.number)
        queues = defaultdict[tuple[str, str, str], list[Row[Any]]](list)
        with self._database.reading() as connection:
            for row in connection.execute(query):
                queues[row.tenant, row.subject, row.name].append(row)
        return [
            _notice(first, is_superseded=bool(later))
            for first, *later in queues.values()
            if first.due_ns <= now_ns or (later and first.cause == "sent")
        ]

    def settle(self, notice: Notice, due_ns: int | None) -> None:
        """An alert has been delivered: forget it, or have it be due again then."""
        again = update(pending).values(due_ns=due_ns, cause="sent", tries=0)
        self._write(notice, delete(pending) if due_ns is None else again)

    def put_off(self, notice: Notice, due_ns: int) -> None:
        """An alert could not be delivered: try again then."""
        self._write(notice, update(pending).values(due_ns=due_ns, tries=notice.tries + 1))

    def _write(self, notice: Notice, statement: Delete | Update) -> None:
        with self._database.writing() as connection:
            connection.execute(statement.where(_ARE_ALERTS, pending.c.number == notice.number))


def note(
    connection: Connection, tenant: str, monitor: str, alerts: Sequence[NewAlert], now_ns: int
) -> None:
    """Keep alerts after those that are there."""
    last = select(func.coalesce(func.max(pending.c.number), 0)).where(_ARE_ALERTS)
    number: int = connection.execute(last).scalar_one()
    row = {"kind": "alert", "tenant": tenant, "subject": monitor, "cause": "new", "due_ns": now_ns}
    rows = [
        {**row, "number": number + place, "name": receiver, "record": record}
        for place, (receiver, record) in enumerate(alerts, 1)
    ]
    if rows:
        connection.execute(insert(pending), rows)


def _notice(row: Row[Any], *, is_superseded: bool) -> Notice:
    return Notice(
        row.number,
        row.tenant,
        row.subject,
        row.name,
        row.record["status"],
        row.record,
        row.tries,
        row.cause == "sent",
        is_superseded,
    )
