"""Faults of SQLite files, and damaged ones written anew."""

import sqlite3
from collections.abc import Callable, Collection, Mapping
from contextlib import closing, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from sqlalchemy import select

from spanscore.errors import InputError, PermanentError, RetryableError
from spanscore.store import connections, ledger, pages, records, recovery, salvage, schema
from spanscore.store.config import Config
from spanscore.store.salvage import Copied

_LOGS: Final = ("-wal", "-shm")


def fault_of(file: Path) -> str | None:
    """What SQLite's integrity check finds in a file; None where it is sound, empty, or not there.

    Raises InputError where it cannot be read for another reason.
    """
    if not file.exists():
        return None
    log = file.with_name(f"{file.name}-wal")
    if (failed := pages.disk_error(file)) is not None:
        raise InputError(f"{file}: cannot be read ({failed}): see to the disk")
    # Closed again, SQLite would remove a log of which it read only a part; where there is none,
    # what it makes stays.
    mode = "ro" if log.exists() and log.stat().st_size else "rw"
    try:
        with closing(sqlite3.connect(f"{file.absolute().as_uri()}?mode={mode}", uri=True)) as db:
            db.text_factory = connections.text
            (found,) = db.execute("PRAGMA integrity_check(1)").fetchone()
            is_whole = schema.is_whole(db.execute)
    except sqlite3.DatabaseError as error:
        if pages.is_damaged(error):
            return str(error)
        raise InputError(f"{file}: cannot be read ({error})") from error
    if found == "ok" and is_whole is False:
        return schema.BROKEN
    return None if found == "ok" else str(found).splitlines()[-1]


def damaged_records(config: Config) -> list[str]:
    """What the damaged records of traces and scores in an SQLite store are, by `records.name_of`.

    Raises ConfigError, RetryableError or PermanentError where the store cannot be read.
    """
    found: list[str] = []
    engine = connections.connect_reading(config) if connections.file_of(config) else None
    if engine is None:
        return found
    with connections.snapshot(engine) as connection:
        for record in (schema.agent_traces.c.record, schema.scores.c.record):
            texts = connection.execute(select(record)).yield_per(500).scalars()
            found += [records.name_of(x) for x in texts if not records.is_whole(x)]
    return found


def journal(file: Path) -> tuple[list[Copied], Path]:
    """Repair a journal. Its ledger, which stays, has the requests that it must contain."""
    expected = ledger.read(ledger.beside(file))
    is_known = expected.is_there and not expected.damaged
    return _repair(file, recovery.prepare, {"requests": expected.entries} if is_known else {})


def store(config: Config) -> tuple[list[Copied], Path]:
    """Repair an SQLite store. Raises ConfigError where its tables are of another version."""
    with suppress(RetryableError, PermanentError):
        connections.version(config)
    return _repair(connections.file_of(config) or Path(), connections.make_tables, {})


def _repair(
    file: Path, create: Callable[[sqlite3.Connection], object], known: Mapping[str, Collection[int]]
) -> tuple[list[Copied], Path]:
    """Write a damaged file anew; returns what became of each table, and where the damaged file is.

    Raises as `salvage.save`; then the damaged one has stayed in its place.
    """
    aside = file.with_name(f"{file.name}.damaged-{datetime.now(UTC):%Y%m%dT%H%M%SZ}")
    made = file.with_name(f"{file.name}.repaired")
    copied = salvage.save(file, made, create, known)
    # The damaged files first: the new one is never read with the old one's log.
    for suffix in (*_LOGS, ""):
        with suppress(FileNotFoundError):
            file.with_name(f"{file.name}{suffix}").replace(aside.with_name(f"{aside.name}{suffix}"))
    made.replace(file)
    return copied, aside
