"""Monitors' states, and alerts to deliver."""

from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, NamedTuple, TypeVar

from sqlalchemy import Delete, Update, delete, func, insert, select, update
from sqlalchemy.engine import Connection

from spanscore.store.database import Database
from spanscore.store.monitor_tables import (
    Look,
    MonitorScores,
    MonitorTables,
    NewAlert,
    SettledSession,
    StoredMonitor,
    Tick,
    last_seq,
)
from spanscore.store.schema import pending

ItemT = TypeVar("ItemT")

_ALL_NS = 2**63 - 1
_ARE_ALERTS = pending.c.kind == "alert"
_NOTICE = ("number", "tenant", "subject", "name", "record", "tries", "due_ns", "cause")


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

    def look(self, tick: Tick, settle_ns: int, look: Look) -> Tick | None:
        """Make a tick that looks at the scores which are made as the traces come; None where it was
        made, or its monitor has another revision than this, is paused or gone.

        Counted are the sessions without a score for `settle_ns`. A monitor that is new, or whose
        findings followed from another digest, begins with the scores that come after it.
        """
        with self._database.writing() as connection:
            tables = MonitorTables(connection)
            stored = tables.ticking(tick, look.revision)
            if stored is None or not tables.add_tick(tick):
                return None
            scores = MonitorScores(connection, stored, settle_ns)
            is_same = stored.digest == look.digest
            if not is_same:
                scores.clear()
            found = scores.read(look, stored.read_seq if is_same else last_seq(connection))
            sessions = scores.settled(tick.looked_ns - settle_ns, tick.looked_ns)
            stored = replace(stored, read_seq=found.seq)
            made = replace(tick, scores=found.scores)
            return _concluded(tables, stored, made, look, sessions, tick.looked_ns)

    def assess(self, tick: Tick, now_ns: int, look: Look, reason: str | None = None) -> Tick | None:
        """Look at the scores of a tick's run, which has ended; None where that was done, there are
        more to read, or the monitor has another revision than this.

        `reason` is why the run ended, for the history.
        """
        with self._database.writing() as connection:
            tables = MonitorTables(connection)
            stored = tables.get(tick.tenant, tick.monitor)
            made = tables.tick(tick.tenant, tick.monitor, tick.due_ns)
            if stored is None or stored.revision != look.revision:
                return None
            if made is None or made.outcome != "running":
                return None
            scores = MonitorScores(connection, stored)
            found = scores.read(look, made.read_seq)
            made = replace(made, scores=made.scores + found.scores, read_seq=found.seq)
            if not found.is_all:
                tables.change_tick(made)
                return None
            made = replace(made, reason=reason or made.reason)
            return _concluded(tables, stored, made, look, scores.settled(_ALL_NS, now_ns), now_ns)


def begin_anew(
    tables: MonitorTables,
    stored: StoredMonitor,
    now_ns: int,
    ends: Sequence[NewAlert] | None = None,
) -> StoredMonitor:
    """Forget the scores that a monitor has counted, and with `ends` its findings, of which these
    alerts are still to go; returns the monitor as it is to be kept.

    Without `ends` the next look ends its alert, and begins with the scores that come after it.
    """
    MonitorScores(tables.connection, stored).clear()
    if ends is None:
        return replace(stored, digest="")
    if stored.findings is not None:
        _replace_alerts(tables.connection, stored, ends, now_ns)
    return replace(stored, digest="", findings=None)


def last_read(connection: Connection) -> tuple[int, int]:
    """The last row of the traces and the last number of a score that a monitor has read; 0 where
    none has.
    """
    tables = MonitorTables(connection)
    stored = tables.all()
    of_ticks = [x.read_seq for x in tables.open_ticks()]
    rows, seqs = [x.until_row for x in stored], [x.read_seq for x in stored]
    return max([0, *rows]), max([0, *seqs, *of_ticks])


def _concluded(
    tables: MonitorTables,
    stored: StoredMonitor,
    tick: Tick,
    look: Look,
    sessions: Sequence[SettledSession],
    now_ns: int,
) -> Tick:
    """Keep what follows from these sessions; returns the tick with its outcome."""
    is_same = stored.digest == look.digest
    found = look.advance(stored.findings, is_same, sessions)
    tables.change(replace(stored, findings=found.findings, digest=look.digest))
    if stored.findings is None or is_same:
        note(tables.connection, stored, found.alerts, now_ns)
    else:
        _replace_alerts(tables.connection, stored, found.alerts, now_ns)
    made = replace(tick, sessions=len(sessions)).ended(found.outcome, now_ns)
    tables.change_tick(made)
    return made


def _replace_alerts(
    connection: Connection, stored: StoredMonitor, new: Sequence[NewAlert], now_ns: int
) -> None:
    """Send the ends of alerts in place of what waits, which is no longer true."""
    of_monitor = (_ARE_ALERTS, pending.c.subject == stored.id, pending.c.tenant == stored.tenant)
    connection.execute(delete(pending).where(*of_monitor))
    note(connection, stored, new, now_ns)


class Notice(NamedTuple):
    """An alert on its way; `is_superseded` where a later one of the same monitor waits for the same
    receiver.
    """

    number: int
    tenant: str
    monitor: str
    receiver: str
    record: dict[str, Any]
    tries: int
    due_ns: int
    cause: str
    is_superseded: bool = False

    @property
    def status(self) -> str:
        """`firing` or `resolved`."""
        return str(self.record["status"])

    @property
    def delivered(self) -> bool:
        """Whether it was sent, and is sent again while it lasts."""
        return self.cause == "sent"


class AlertNotices:
    """Methods block, and raise as those of `Store` do."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def due(self, now_ns: int) -> list[Notice]:
        """The first alert of each monitor and receiver, of those that are due.

        One that was sent is due at once where a later one waits behind it.
        """
        queues = defaultdict[tuple[str, str, str], list[Notice]](list)
        query = select(*(pending.c[x] for x in _NOTICE)).where(_ARE_ALERTS)
        with self._database.reading() as connection:
            for row in connection.execute(query.order_by(pending.c.number)):
                if isinstance(row.record, dict):
                    queues[row.tenant, row.subject, row.name].append(Notice(*row))
        return [
            first._replace(is_superseded=bool(later))
            for first, *later in queues.values()
            if first.due_ns <= now_ns or (later and first.delivered)
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
    connection: Connection, stored: StoredMonitor, alerts: Sequence[NewAlert], now_ns: int
) -> None:
    """Keep alerts of a monitor after those that are there."""
    last = select(func.coalesce(func.max(pending.c.number), 0)).where(_ARE_ALERTS)
    number: int = connection.execute(last).scalar_one()
    row = {"kind": "alert", "tenant": stored.tenant, "subject": stored.id, "cause": "new"}
    rows = [
        {**row, "number": number + place, "name": receiver, "record": record, "due_ns": now_ns}
        for place, (receiver, record) in enumerate(alerts, 1)
    ]
    if rows:
        connection.execute(insert(pending), rows)
