"""How the store reaches its database: one engine for SQLite and PostgreSQL, and errors sorted by what to do."""

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import quote

from sqlalchemy import create_engine, event
from sqlalchemy.engine import URL, Connection, Engine, make_url
from sqlalchemy.exc import ArgumentError, DBAPIError, InterfaceError, InternalError, OperationalError, SQLAlchemyError
from sqlalchemy.exc import TimeoutError as NoConnectionError
from sqlalchemy.pool import QueuePool

from spanscore import private_files
from spanscore.errors import ConfigError, PermanentError, RetryableError
from spanscore.store import schema
from spanscore.store.config import Config

MEMORY = "sqlite+pysqlite://"
"""The URL of a store in memory, for a process that keeps scores only as long as it lives."""

_WRITES = "spanscore_writes"
_PAGE_BYTES = 16384  # records are large: a tenth less CPU a commit than with 4096
DAMAGE = "store_damaged"
"""Why a RetryableError is raised where the file is damaged: it passes only once somebody has repaired it."""

_DAMAGED = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)
_REPAIR = "it is damaged: stop the server and run `spanscore repair` with its configuration"
_MAY_PASS = (OperationalError, InterfaceError, InternalError)


def connect(config: Config) -> Engine:
    """An engine for `config.url`, its tables created where there are none.

    Raises ConfigError where it cannot be opened, or a newer spanscore has written it.
    """
    url = _url(config)
    shown = url.render_as_string(hide_password=True)
    try:
        engine = _sqlite(url, config) if url.get_backend_name() == "sqlite" else _server(url)
        with transaction(engine) as connection:
            schema.prepare(connection, shown)
    except ModuleNotFoundError as error:
        raise ConfigError(f"store.url: {shown} needs the Python package {error.name}; install it") from error
    except (RetryableError, PermanentError, SQLAlchemyError, OSError) as error:
        raise ConfigError(f"store.url: {shown} cannot be opened ({error})") from error
    return engine


def connect_reading(config: Config) -> Engine | None:
    """An engine that writes nothing, not even tables; None where `config.url` is an SQLite file that is not there.

    Raises ConfigError where the URL is none, or its database has no driver here.
    """
    url = _url(config)
    shown = url.render_as_string(hide_password=True)
    try:
        if url.get_backend_name() != "sqlite":
            return _server(url)
    except ModuleNotFoundError as error:
        raise ConfigError(f"store.url: {shown} needs the Python package {error.name}; install it") from error
    except SQLAlchemyError as error:
        raise ConfigError(f"store.url: {shown} cannot be opened ({error})") from error
    if not url.database or not Path(url.database).is_file():
        return None
    return create_engine(f"sqlite:///file:{quote(url.database)}?mode=ro&uri=true")


def file_of(config: Config) -> Path | None:
    """The SQLite file that `config.url` names; None for another database. Raises ConfigError where it is no URL."""
    url = _url(config)
    return Path(url.database) if url.get_backend_name() == "sqlite" and url.database else None


def no_store(config: Config) -> ConfigError:
    """The error for a store that a command is to read, and that is not there."""
    shown = _url(config).render_as_string(hide_password=True)
    return ConfigError(f"store.url: {shown}: no store there; give the server's configuration by --config")


def _url(config: Config) -> URL:
    try:
        return make_url(config.url)
    except ArgumentError as error:
        raise ConfigError("store.url: not a database URL such as sqlite:///spanscore.db") from error


@contextmanager
def transaction(engine: Engine) -> Iterator[Connection]:
    """A transaction that writes. Raises RetryableError where the fault may pass, else PermanentError."""
    with _sorted_errors(), engine.execution_options(**{_WRITES: True}).begin() as connection:
        yield connection


@contextmanager
def snapshot(engine: Engine) -> Iterator[Connection]:
    """A transaction that only reads; it waits for no writer. Raises as `transaction` does."""
    with _sorted_errors(), engine.begin() as connection:
        yield connection


def is_damaged(error: BaseException | None) -> bool:
    """Whether SQLite says that a file is damaged, or no database at all."""
    return isinstance(error, sqlite3.DatabaseError) and getattr(error, "sqlite_errorcode", 0) & 0xFF in _DAMAGED


@contextmanager
def _sorted_errors() -> Iterator[None]:
    try:
        yield
    except NoConnectionError as error:
        raise RetryableError("the store cannot be used: all of its connections are in use") from error
    except DBAPIError as error:
        what = f"the store cannot be used: {error.orig}"
        if is_damaged(error.orig):
            raise RetryableError(f"{what}; {_REPAIR}", retry_after_s=30.0, why=DAMAGE) from error
        if "Could not decode to UTF-8" in str(error.orig):
            raise PermanentError("a record in the store is damaged: its text is not UTF-8") from error
        if error.connection_invalidated or isinstance(error, _MAY_PASS):  # locked, disk full, server gone
            raise RetryableError(what, retry_after_s=5.0) from error
        raise PermanentError(what) from error


def _server(url: URL) -> Engine:
    """PostgreSQL, where a transaction's statements would by default each see what was committed meanwhile."""
    return create_engine(url, isolation_level="REPEATABLE READ")


def _in_memory() -> Engine:
    """One connection, which is the database: threads take turns with it."""
    return create_engine(
        MEMORY, poolclass=QueuePool, pool_size=1, max_overflow=0, connect_args={"check_same_thread": False}
    )


def _in_file(url: URL) -> Engine:
    if not url.database or url.database == ":memory:":
        raise ConfigError("store.url: SQLite needs a file here: sqlite:///FILE (threads share no database in memory)")
    if not url.database.startswith("file:"):
        private_files.make(Path(url.database))
    return create_engine(url)


def _sqlite(url: URL, config: Config) -> Engine:
    engine = _in_memory() if config.url == MEMORY else _in_file(url)
    pragmas = (
        f"page_size = {_PAGE_BYTES}",
        "journal_mode = WAL",
        f"synchronous = {config.synchronous}",
        f"busy_timeout = {config.busy_timeout // 10**6}",
    )

    @event.listens_for(engine, "connect")
    def configure(connection: Any, _record: Any) -> None:
        connection.isolation_level = None  # the driver's own transactions begin too late to read and write as one
        for pragma in pragmas:
            connection.execute(f"PRAGMA {pragma}")

    @event.listens_for(engine, "begin")
    def begin(connection: Connection) -> None:
        # A writer takes the lock at once: one that has read before could not wait for it, it would fail.
        writes = connection.get_execution_options().get(_WRITES)
        connection.exec_driver_sql("BEGIN IMMEDIATE" if writes else "BEGIN")

    return engine
