"""Monitors' states, and alerts to deliver."""

from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeAlias, TypeVar

from sqlalchemy import Delete, Update, delete, func, insert, select, update
from sqlalchemy.engine import Connection, Row

from spanscore.store.database import Database
from spanscore.store.monitor_tables import (
    MonitorScores,
    MonitorTables,
    SettledSession,
    StoredMonitor,
    Tick,
    Wanted,
    last_seq,
)
from spanscore.store.schema import pending

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
            stored = tables.ticking(tick, revision)
            if stored is None or not tables.add_tick(tick):
                return None
            settle_ns = tick.looked_ns - settled_until_ns
            scores = MonitorScores(connection, tick.tenant, tick.monitor, settle_ns)
            if stored.digest == digest:
                found = scores.read(wanted, stored.read_seq)
            else:
                scores.clear()
                found = scores.read(wanted, last_seq(connection))
            sessions = scores.settled(settled_until_ns)
            made = replace(tick, scores=found.scores, sessions=len(sessions))
            outcome = _advance(tables, stored, digest, found.seq, advance, sessions, tick.looked_ns)
            scores.forget(tick.looked_ns)
            made = made.ended(outcome, tick.looked_ns)
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
            stored = tables.get(tick.tenant, tick.monitor)
            made = tables.tick(tick.tenant, tick.monitor, tick.due_ns)
            if stored is None or stored.revision != revision:
                return None
            if made is None or made.outcome != "running":
                return None
            scores = MonitorScores(connection, tick.tenant, tick.monitor)
            found = scores.read(wanted, made.read_seq)
            made = replace(made, scores=made.scores + found.scores, read_seq=found.seq)
            if not found.is_all:
                tables.change_tick(made)
                return None
            sessions = scores.settled(_ALL_NS)
            outcome = _advance(tables, stored, digest, 0, advance, sessions, now_ns)
            scores.forget(now_ns)
            made = replace(made, sessions=len(sessions)).ended(outcome, now_ns, reason)
            tables.change_tick(made)
        return made


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
    MonitorScores(tables.connection, stored.tenant, stored.id).clear()
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


def _advance(
    tables: MonitorTables,
    stored: StoredMonitor,
    digest: str,
    read_seq: int,
    advance: Advance,
    sessions: Sequence[SettledSession],
    now_ns: int,
) -> str:
    """Keep the findings after these sessions, and the alerts that follow; returns a word for the
    history.
    """
    is_same = stored.digest == digest
    former = None if stored.findings is None else Former(stored.findings, is_same)
    found = advance(former, sessions)
    tables.change(replace(stored, findings=found.state, digest=digest, read_seq=read_seq))
    if former is None or is_same:
        note(tables.connection, stored.tenant, stored.id, found.notices, now_ns)
    else:
        _replace_alerts(tables.connection, stored, found.notices, now_ns)
    return found.outcome


def _replace_alerts(
    connection: Connection, stored: StoredMonitor, new: Sequence[NewAlert], now_ns: int
) -> None:
    """Send the ends of alerts in place of what waits, which is no longer true."""
    of_monitor = (_ARE_ALERTS, pending.c.subject == stored.id, pending.c.tenant == stored.tenant)
    connection.execute(delete(pending).where(*of_monitor))
    note(connection, stored.tenant, stored.id, new, now_ns)


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
