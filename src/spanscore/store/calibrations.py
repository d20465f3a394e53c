"""Calibrations in the store, one row a judge; to read them makes no store where there is none."""

import json
from typing import Any

from sqlalchemy import delete, insert, select
from sqlalchemy.engine import Connection

from spanscore.store import connecting, transactions
from spanscore.store.config import Config
from spanscore.store.schema import calibrations


def keep(config: Config, records: dict[str, dict[str, Any]], now_ns: int) -> None:
    """Keep calibrations by their keys, each in the place of an earlier one of the same judge.

    Raises ConfigError where the store cannot be opened, RetryableError or PermanentError where it cannot be written.
    """
    engine = connecting.connect(config)
    try:
        with transactions.transaction(engine) as connection:
            for key, record in records.items():
                connection.execute(delete(calibrations).where(calibrations.c.key == key))
                text = json.dumps(record, separators=(",", ":"))
                connection.execute(insert(calibrations).values(key=key, stored_ns=now_ns, record=text))
    finally:
        engine.dispose()


def kept(config: Config) -> list[Any]:
    """The records of all calibrations, the newest first; none where there is no store, which is not made.

    Raises ConfigError where `config.url` is none, RetryableError or PermanentError where the store cannot be read.
    """
    engine = connecting.connect_reading(config)
    if engine is None:
        return []
    try:
        with transactions.snapshot(engine) as connection:
            return read(connection)
    finally:
        engine.dispose()


def read(connection: Connection) -> list[Any]:
    """The records of all calibrations, the newest first."""
    found = connection.execute(select(calibrations.c.record).order_by(calibrations.c.stored_ns.desc()))
    return [json.loads(text) for text in found.scalars()]
