"""Alerts of monitors on their way to their receivers, those of all tenants."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import delete, func, insert, select, update
from sqlalchemy.engine import Connection

from spanscore.store.database import Database
from spanscore.store.schema import alert_notices


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
        """The first alert of each monitor and receiver, of those that are due."""
        with self._database.reading() as connection:
            rows = connection.execute(select(alert_notices).order_by(alert_notices.c.number)).all()
        queues: dict[tuple[str, str, str], list[Any]] = {}
        for row in rows:
            queues.setdefault((row.tenant, row.monitor, row.receiver), []).append(row)
        return [
            _notice(x[0], is_superseded=len(x) > 1) for x in queues.values() if _is_due(x, now_ns)
        ]

    def settle(self, notice: Notice, due_ns: int | None) -> None:
        """An alert has been delivered: forget it, or have it be due again then."""
        with self._database.writing() as connection:
            this = alert_notices.c.number == notice.number
            if due_ns is None:
                connection.execute(delete(alert_notices).where(this))
            else:
                connection.execute(
                    update(alert_notices).where(this).values(due_ns=due_ns, delivered=1, tries=0)
                )

    def put_off(self, notice: Notice, due_ns: int) -> None:
        """An alert could not be delivered: try again then."""
        with self._database.writing() as connection:
            this = alert_notices.c.number == notice.number
            connection.execute(
                update(alert_notices).where(this).values(due_ns=due_ns, tries=notice.tries + 1)
            )


def note(
    connection: Connection,
    tenant: str,
    monitor: str,
    notices: Sequence[tuple[str, str, dict[str, Any]]],
    now_ns: int,
) -> None:
    """Keep alerts, (receiver, status, record) each, after those that are there."""
    number = connection.execute(
        select(func.coalesce(func.max(alert_notices.c.number), 0))
    ).scalar_one()
    for place, (receiver, status, record) in enumerate(notices, 1):
        row = {"tenant": tenant, "monitor": monitor, "receiver": receiver, "status": status}
        more = {"record": json.dumps(record), "due_ns": now_ns, "tries": 0, "delivered": 0}
        connection.execute(insert(alert_notices).values(number=number + place, **row, **more))


def _notice(row: Any, *, is_superseded: bool) -> Notice:
    return Notice(
        row.number,
        row.tenant,
        row.monitor,
        row.receiver,
        row.status,
        json.loads(row.record),
        row.tries,
        bool(row.delivered),
        is_superseded,
    )


def _is_due(queue: Sequence[Any], now_ns: int) -> bool:
    """Whether the first of a queue is to be sent now, or was sent and stands in the way of the
    next.
    """
    return bool(queue[0].due_ns <= now_ns or (queue[0].delivered and len(queue) > 1))
