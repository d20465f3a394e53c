"""Can the journal and the store be written, is there room, and does SQLite's WAL work where they
are.
"""

import errno
import os
import shutil
import sqlite3
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from sqlalchemy.engine import URL, make_url
from sqlalchemy.exc import ArgumentError

from spanscore.cli.checks.finding import Finding, cause_of, fail, ok, warn
from spanscore.config import Settings
from spanscore.errors import SpanscoreError
from spanscore.export.config import JsonFileConfig
from spanscore.model.quantity import size_text
from spanscore.store import connecting, repair

_LITTLE_BYTES = 64 * 2**20
_MIB = 2**20


def check(settings: Settings) -> Iterator[Finding]:
    """The journal, the store, and files that scores go to."""
    yield _sqlite("journal", "journal.path", settings.journal.path, settings.journal.max_bytes)
    try:
        url = make_url(settings.store.url)
    except ArgumentError as error:
        yield fail(
            "store", cause_of(error), "write store.url as sqlite:///FILE or postgresql+psycopg://…"
        )
    else:
        yield _store(settings, url)
    for name, exporter in settings.export.exporters.items():
        if isinstance(exporter, JsonFileConfig):
            yield _file(name, exporter.path)


def _store(settings: Settings, url: URL) -> Finding:
    if url.get_backend_name() == "sqlite":
        wanted = settings.store.retention.max_bytes or 0
        found = _sqlite("store", "store.url", Path(url.database or ""), wanted)
    else:
        found = ok("store", f"{url.render_as_string(hide_password=True)} answers")
    if found.status == "FAIL":
        return found
    try:
        connecting.version(settings.store)
    except (SpanscoreError, OSError) as error:
        return fail("store", cause_of(error), "start the database, or mend store.url")
    return found


def _sqlite(about: str, key: str, path: Path, max_bytes: int) -> Finding:
    folder = path.absolute().parent
    try:
        folder.mkdir(parents=True, exist_ok=True)
        mode = _written(folder)
    except (OSError, sqlite3.Error) as error:
        return fail(
            about, f"{folder} cannot be written: {cause_of(error)}", _fix(folder, key, error)
        )
    if path.exists() and not os.access(path, os.W_OK):
        return fail(about, f"{path} cannot be written", f"make it writable, or set another {key}")
    try:
        fault = repair.fault_of(path)
    except SpanscoreError as error:
        return fail(about, cause_of(error), f"see {key}")
    if fault is not None:
        return fail(
            about,
            f"{path} is damaged: {fault}",
            "stop the server and run `spanscore repair` with this --config",
        )
    if mode != "wal":
        no_wal = f"{folder}: SQLite's WAL does not work there (journal mode {mode})"
        return fail(
            about,
            no_wal,
            f"set {key} to a local disk: network file systems cannot share what WAL needs",
        )
    return _room(about, key, folder, path, max_bytes)


def _written(folder: Path) -> str:
    """Write a database there, as the journal is written, and remove it; returns the journal mode
    that it got.
    """
    with tempfile.TemporaryDirectory(prefix=".spanscore-doctor-", dir=folder) as name:
        db = sqlite3.connect(Path(name) / "probe.db")
        try:
            mode = str(db.execute("PRAGMA journal_mode = WAL").fetchone()[0])
            db.execute("PRAGMA synchronous = FULL")
            with db:
                db.execute("CREATE TABLE probe (body BLOB)")
                db.execute("INSERT INTO probe VALUES (zeroblob(65536))")
        finally:
            db.close()
    return mode


def _room(about: str, key: str, folder: Path, path: Path, max_bytes: int) -> Finding:
    free = shutil.disk_usage(folder).free
    left = max(0, max_bytes - (path.stat().st_size if path.exists() else 0))
    where = f"{path}: can be written, {_free(folder)}"
    if free < _LITTLE_BYTES:
        return fail(about, where, _fix(folder, key))
    if free < left:
        bound = "journal.max_bytes" if about == "journal" else "store.retention.max_bytes"
        fix = (
            f"make room, or set {bound} lower: it allows {size_text(max_bytes)}, and a full disk"
            " refuses requests"
        )
        return warn(about, where, fix)
    return ok(about, where)


def _file(name: str, path: Path) -> Finding:
    key = f"export.exporters.{name}.path"
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("ab") if path.exists() else tempfile.TemporaryFile(dir=path.parent):
            pass
    except OSError as error:
        return fail(name, f"{path}: {cause_of(error)}", _fix(path.parent, key, error))
    if shutil.disk_usage(path.parent).free < _LITTLE_BYTES:
        return fail(name, f"{path}: can be written, {_free(path.parent)}", _fix(path.parent, key))
    return ok(name, f"{path}: can be written")


def _free(folder: Path) -> str:
    return f"{shutil.disk_usage(folder).free // _MIB:,} MiB free"


def _fix(folder: Path, key: str, error: Exception | None = None) -> str:
    """What to do where nothing can be written to a folder; a full disk fails in many words."""
    is_forbidden = isinstance(error, OSError) and error.errno in (
        errno.EROFS,
        errno.EACCES,
        errno.EPERM,
    )
    with suppress(OSError):
        if not is_forbidden and shutil.disk_usage(folder).free < _LITTLE_BYTES:
            return f"make room on that disk ({_free(folder)}), or set another {key}"
    return f"make it writable, or set another {key}"
