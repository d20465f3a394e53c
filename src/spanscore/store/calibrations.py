"""Calibrations in the store, one for each judge and tenant; to read them makes no store where there
is none.
"""

import json
from collections.abc import Mapping
from typing import Any, NamedTuple

from sqlalchemy import delete, insert, select
from sqlalchemy.engine import Connection

from spanscore.store import connecting, transactions
from spanscore.store.config import Config
from spanscore.store.schema import calibrations


class Kept(NamedTuple):
    """The record of a calibration, and whose it is: "" is whoever runs the server."""

    tenant: str
    record: Any


def keep(config: Config, records: Mapping[str, Any], now_ns: int) -> None:
    """Keep the operator's calibrations by their keys, each in the place of an earlier one of the
    same judge.

    Raises ConfigError where the store cannot be opened, RetryableError or PermanentError where it
    cannot be written.
    """
    engine = connecting.connect(config)
    try:
        with transactions.transaction(engine) as connection:
            write(connection, "", records, now_ns)
    finally:
        engine.dispose()


def kept(config: Config) -> list[Kept]:
    """All calibrations, the newest first; none where there is no store, which is not made.

    Raises ConfigError where `config.url` is none, RetryableError or PermanentError where the store
    cannot be read.
    """
    engine = connecting.connect_reading(config)
    if engine is None:
        return []
    try:
        with transactions.snapshot(engine) as connection:
            query = select(calibrations.c.tenant, calibrations.c.record).order_by(
                calibrations.c.stored_ns.desc()
            )
            return [Kept(tenant, json.loads(text)) for tenant, text in connection.execute(query)]
    finally:
        engine.dispose()


def write(connection: Connection, tenant: str, records: Mapping[str, Any], now_ns: int) -> None:
    """Keep a tenant's calibrations by their keys, each in the place of an earlier one of the same
    judge.
    """
    table = calibrations.c
    for key, record in records.items():
        connection.execute(delete(calibrations).where(table.key == key, table.tenant == tenant))
        text = json.dumps(record, separators=(",", ":"))
        connection.execute(
            insert(calibrations).values(key=key, stored_ns=now_ns, record=text, tenant=tenant)
        )


def read(connection: Connection, tenant: str) -> list[Any]:
    """The records that hold for a tenant, the newest first: its own, and the operator's of judges
    without its own.
    """
    table = calibrations.c
    query = select(table.key, table.tenant, table.record).where(table.tenant.in_({"", tenant}))
    found = connection.execute(query.order_by(table.stored_ns.desc())).all()
    own = {row.key for row in found if row.tenant == tenant}
    return [json.loads(row.record) for row in found if row.tenant == tenant or row.key not in own]
