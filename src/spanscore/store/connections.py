"""Connections to SQLite or PostgreSQL, with the store's tables."""

import os
import sqlite3
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, TypeVar
from urllib.parse import quote

from sqlalchemy import create_engine, event
from sqlalchemy.engine import URL, Connection, Engine, make_url
from sqlalchemy.exc import (
    ArgumentError,
    DBAPIError,
    InterfaceError,
    InternalError,
    OperationalError,
    SQLAlchemyError,
    TimeoutError as NoConnectionError,
)
from sqlalchemy.pool import NullPool, QueuePool

from spanscore import local_files
from spanscore.errors import ConfigError, InputError, PermanentError, RetryableError
from spanscore.store import pages, records, salvage, schema
from spanscore.store.config import Config

ItemT = TypeVar("ItemT")

MEMORY = "sqlite+pysqlite://"
"""The URL of a store in memory, for a process that keeps scores only as long as it lives."""

_LIMIT_S = 5
_LIMITS = {"connect_timeout": _LIMIT_S, "tcp_user_timeout": _LIMIT_S * 1000}
"""libpq's options: the second ends a connection in milliseconds whose other end has become
silent.
"""

_SERVER_LIMITS = {
    "connect_timeout": 10,
    "tcp_user_timeout": 15_000,
    "keepalives_idle": 10,
    "keepalives_interval": 5,
    "keepalives_count": 3,
}
"""The same of a server, which waits longer: a network that is cut is a connection that ended."""
_OF_SHARED = (
    f"SELECT set_config('statement_timeout', '{_LIMIT_S}s', true),"
    f" set_config('idle_in_transaction_session_timeout', '{_LIMIT_S}s', true)"
)
"""A host that dies in a transaction holds its locks no longer than that."""


def connect(config: Config) -> Engine:
    """An engine for `config.url`, its tables created where there are none.

    Raises ConfigError where the store cannot be opened, or has the tables of another version.
    """
    url = _url(config)
    shown = _shown(url)
    with _config_errors(shown):
        engine = _sqlite(url, config) if url.get_backend_name() == "sqlite" else _server(url)
        try:
            _create(engine, shown)
        except BaseException:
            engine.dispose()
            raise
    return engine


def reader(config: Config) -> Engine:
    """As `connect_reading`; raises ConfigError where there is no store too."""
    if (engine := connect_reading(config)) is None:
        raise no_store(config)
    return engine


@contextmanager
def used(engine: Engine) -> Iterator[Engine]:
    """Close all connections of an engine at the end."""
    try:
        yield engine
    finally:
        engine.dispose()


def connect_reading(config: Config, *, is_limited: bool = False) -> Engine | None:
    """An engine that writes nothing, not even tables; None where there is no store at `config.url`.

    `is_limited`: on PostgreSQL, neither connecting nor a statement takes longer than 5 s. Raises
    ConfigError where the URL is none, its database has no driver here, or the store has the tables
    of another version; RetryableError or PermanentError where it cannot be read.
    """
    if version(config, is_limited=is_limited) is None:
        return None
    return _reader(_url(config), is_limited=is_limited)


def version(config: Config, *, is_limited: bool = False) -> int | None:
    """The version of the tables at `config.url`; None where there is no store.

    Connects and raises as `connect_reading` does.
    """
    url = _url(config)
    engine = _reader(url, is_limited=is_limited)
    if engine is None:
        return None
    with used(engine), snapshot(engine) as connection:
        return schema.version_of(connection, _shown(url))


def file_of(config: Config) -> Path | None:
    """The SQLite file that `config.url` names; None for another database.

    Raises ConfigError where it is no URL.
    """
    url = _url(config)
    return Path(url.database) if url.get_backend_name() == "sqlite" and url.database else None


def shared(url: str) -> Engine:
    """An engine for what several servers on a store, which is open, write often and briefly.

    Neither connecting nor a statement takes longer than 5 s.
    """
    engine = create_engine(url, pool_pre_ping=True, pool_timeout=_LIMIT_S, connect_args=_LIMITS)
    return _beginning(engine, _OF_SHARED)


def _beginning(engine: Engine, statement: str) -> Engine:
    """Begin each transaction with a statement."""
    event.listen(engine, "begin", lambda connection: connection.exec_driver_sql(statement))
    return engine


def no_store(config: Config) -> ConfigError:
    """The error for a store that a command is to read, and that is not there."""
    shown = _shown(_url(config))
    return ConfigError(
        f"store.url: {shown}: no store there; give the server's configuration by --config"
    )


def _shown(url: URL) -> str:
    return url.render_as_string(hide_password=True)


def _url(config: Config) -> URL:
    try:
        url = make_url(config.url)
    except ArgumentError as error:
        raise ConfigError("store.url: not a database URL such as sqlite:///spanscore.db") from error
    if url.get_backend_name() == "sqlite" and (url.database or "").startswith("file:"):
        raise ConfigError(
            "store.url: SQLite needs the file's path, sqlite:///PATH, and takes no URI (file:...):"
            " the lock, and whoever reads beside the server, find the file by its path"
        )
    return url


def _reader(url: URL, *, is_limited: bool) -> Engine | None:
    with _config_errors(_shown(url)):
        if url.get_backend_name() != "sqlite":
            return _server(url, is_limited=is_limited)
        if not url.database or not Path(url.database).is_file():
            return None
        return _reader_of_file(url.database)


def _reader_of_file(file: str) -> Engine:
    """Opens the file for each transaction: another may be in its place by then, and one that stays
    open keeps its writer from tidying up when that closes it.
    """
    url = f"sqlite:///file:{quote(file)}?mode=ro&uri=true"
    engine = create_engine(url, poolclass=NullPool, **_reading_damage(file))

    @event.listens_for(engine, "connect")
    def configure(connection: Any, _record: Any) -> None:
        connection.isolation_level = None  # the driver begins none to read
        connection.text_factory = text

    return _beginning(engine, "BEGIN")


@contextmanager
def _config_errors(shown: str) -> Iterator[None]:
    try:
        yield
    except ModuleNotFoundError as error:
        raise ConfigError(
            f"store.url: {shown} needs the Python package {error.name}; install it"
        ) from error
    except (RetryableError, PermanentError, SQLAlchemyError, OSError) as error:
        raise ConfigError(f"store.url: {shown} cannot be opened ({error})") from error


def _create(engine: Engine, shown: str) -> None:
    """Make the tables where there are none."""
    with snapshot(engine) as connection:
        found = schema.version_of(connection, shown)
    if found is None:
        with transaction(engine) as connection:
            schema.create(connection, shown)


def _server(url: URL, *, is_limited: bool = False) -> Engine:
    """PostgreSQL, where a transaction's statements would by default each see what was committed
    meanwhile.

    `is_limited`: for a process that must not wait for a database that hangs.
    """
    limits = _LIMITS if is_limited else _SERVER_LIMITS
    engine = create_engine(url, isolation_level="REPEATABLE READ", connect_args=limits)
    # Not by the option `options` of the connection, which poolers such as PgBouncer refuse.
    limited = f"SET LOCAL statement_timeout = {_LIMIT_S * 1000}"
    return _beginning(engine, limited) if is_limited else engine


def text(content: bytes) -> str:
    r"""A text of SQLite's; what is not UTF-8 becomes `\xff`, which no JSON has, so that one damaged
    record is found when it is decoded, and the driver does not end the whole statement.
    """
    return content.decode("utf-8", "backslashreplace")


class _Cursor(sqlite3.Cursor):
    """A statement that reads and meets damage is answered from a copy of what can be read."""

    connection: "_Connection"
    _asked: tuple[str, Any] = ("", ())
    _instead: sqlite3.Cursor | None = None

    def execute(self, sql: str, values: Any = ()) -> "_Cursor":
        self._asked, self._given, self._instead = (sql, values), 0, None
        try:
            return super().execute(sql, values)
        except sqlite3.DatabaseError as error:
            self._ask_copy(error)
            return self

    @property
    def description(self) -> Any:
        return super().description if self._instead is None else self._instead.description

    def fetchone(self) -> Any:
        found = self._fetched(lambda cursor: cursor.fetchone())
        self._given += 1
        return found

    def fetchmany(self, size: int | None = 1) -> list[Any]:
        found: list[Any] = self._fetched(lambda cursor: cursor.fetchmany(size))
        self._given += len(found)
        return found

    def fetchall(self) -> list[Any]:
        return self._fetched(lambda cursor: cursor.fetchall())

    def _fetched(self, fetch: Callable[[Any], ItemT]) -> ItemT:
        if self._instead is None:
            try:
                return fetch(super())
            except sqlite3.DatabaseError as error:
                self._ask_copy(error)
        return fetch(self._instead)

    def _ask_copy(self, error: sqlite3.DatabaseError) -> None:
        """Ask the copy, and go on behind what was given already. Raises `error` where it cannot."""
        is_of_schema = "no such" in str(error)
        may_be = pages.is_damaged(error) or is_of_schema
        if not may_be or self.connection.is_writing or not self._asked[0].startswith(_READS):
            raise error
        self._instead = self.connection.copy(error).execute(*self._asked)
        if self._given:
            self._instead.fetchmany(self._given)


_READS = ("SELECT", "WITH", "PRAGMA main.", "PRAGMA user_version")


class _Connection(sqlite3.Connection):
    """A connection to the file at `path`."""

    path: Path
    is_writing = False

    def cursor(self, factory: Any = _Cursor) -> Any:
        return super().cursor(factory)

    def commit(self) -> None:
        """End a transaction; one that read a damaged page cannot be committed."""
        if self.is_writing:
            super().commit()
        else:
            super().rollback()

    def copy(self, error: sqlite3.DatabaseError) -> sqlite3.Connection:
        """A connection to the copy. Raises `error` where the disk does not read, or takes none."""
        if pages.disk_error(self.path) is not None:
            raise error
        try:
            copy = sqlite3.connect(salvage.copy_of(self.path, make_tables))
        except InputError as failed:
            raise error from failed
        copy.text_factory = text
        return copy


def _reading_damage(file: str) -> dict[str, Any]:
    """The arguments of an engine whose reading goes around what is damaged in a file."""
    factory = type("_Connection", (_Connection,), {"path": Path(file)})
    return {"connect_args": {"factory": factory}, "json_deserializer": records.or_text}


def make_tables(db: sqlite3.Connection) -> None:
    """Make the store's tables in a new file."""
    schema.make(db.execute)


def _in_memory() -> Engine:
    """One connection, which is the database: threads take turns with it."""
    return create_engine(
        MEMORY,
        poolclass=QueuePool,
        pool_size=1,
        max_overflow=0,
        connect_args={"check_same_thread": False},
    )


def _in_file(url: URL) -> Engine:
    if not url.database or url.database == ":memory:":
        raise ConfigError(
            "store.url: SQLite needs a file here: sqlite:///FILE (threads share no database in"
            " memory)"
        )
    local_files.make(Path(url.database))
    return create_engine(url, **_reading_damage(url.database))


def _sqlite(url: URL, config: Config) -> Engine:
    engine = _in_memory() if config.url == MEMORY else _in_file(url)
    pragmas = (
        f"page_size = {pages.PAGE_BYTES}",
        "journal_mode = WAL",
        f"synchronous = {config.synchronous}",
        f"busy_timeout = {config.busy_timeout // 10**6}",
    )

    @event.listens_for(engine, "connect")
    def configure(connection: Any, _record: Any) -> None:
        # the driver's own transactions begin too late to read and write as one
        connection.isolation_level = None
        connection.text_factory = text
        for pragma in pragmas:
            connection.execute(f"PRAGMA {pragma}")

    @event.listens_for(engine, "begin")
    def begin(connection: Connection) -> None:
        # A writer takes the lock at once: one that has read before could not wait for it, it would
        # fail.
        writes = connection.get_execution_options().get(WRITES)
        connection.exec_driver_sql("BEGIN IMMEDIATE" if writes else "BEGIN")
        driven = connection.connection.driver_connection
        if isinstance(driven, _Connection):
            driven.is_writing = bool(writes)

    return engine


DAMAGE: Final = "store_damaged"
"""Why a RetryableError is raised where SQLite reports damage: it passes only once somebody has
repaired the file, unless the disk failed at reading it.
"""

WRITES: Final = "spanscore_writes"
"""The execution option of a connection that is going to write."""

REPAIR = "it is damaged: stop the server and run `spanscore repair` with its configuration"
_DOUBT = (
    "the disk failed at reading it, or it is damaged: `spanscore doctor` with the server's"
    " configuration says which"
)
_MAX_THREADS = 4

_MAY_PASS = (OperationalError, InterfaceError, InternalError)


@contextmanager
def transaction(engine: Engine) -> Iterator[Connection]:
    """A transaction that writes.

    Raises RetryableError where the fault may pass, else PermanentError.
    """
    with _sorted_errors(), engine.execution_options(**{WRITES: True}).begin() as connection:
        yield connection


@contextmanager
def snapshot(engine: Engine) -> Iterator[Connection]:
    """A transaction that only reads; it waits for no writer. Raises as `transaction` does."""
    with _sorted_errors(), engine.begin() as connection:
        yield connection


def in_threads(
    connection: Connection, tasks: Sequence[Callable[[Connection], ItemT]]
) -> list[ItemT]:
    """What each of these reading tasks gives, worked on by as many threads as there are processors,
    up to four.

    The calling thread works with `connection`, and alone where the database has one connection;
    each other thread has a snapshot of its own. Raises as `transaction` does.
    """
    engine = connection.engine
    threads = min(_MAX_THREADS, os.cpu_count() or 1, len(tasks))
    if threads < 2 or engine.url.database in {None, "", ":memory:"}:
        return [task(connection) for task in tasks]

    waiting = deque(enumerate(tasks))
    found: dict[int, ItemT] = {}

    def work(own: Connection) -> None:
        while waiting:
            try:
                place, task = waiting.popleft()
            except IndexError:  # another thread took the last one
                return
            found[place] = task(own)

    def work_beside() -> None:
        with snapshot(engine) as own:
            work(own)

    with ThreadPoolExecutor(threads - 1) as workers:
        others = [workers.submit(work_beside) for _ in range(threads - 1)]
        work(connection)
        for other in others:
            other.result()
    return [found[place] for place in range(len(tasks))]


def is_full(error: BaseException | None) -> bool:
    """Whether SQLite reports that there is no room on the disk."""
    found = error.orig if isinstance(error, DBAPIError) else None
    return (
        isinstance(found, sqlite3.Error)
        and getattr(found, "sqlite_errorcode", 0) & 0xFF == sqlite3.SQLITE_FULL
    )


@contextmanager
def _sorted_errors() -> Iterator[None]:
    try:
        yield
    except NoConnectionError as error:
        raise RetryableError(
            "the store cannot be used: all of its connections are in use"
        ) from error
    except DBAPIError as error:
        what = f"the store cannot be used: {error.orig}"
        if pages.is_damaged(error.orig):
            is_certain = getattr(error.orig, "sqlite_errorcode", 0) == sqlite3.SQLITE_NOTADB
            what = f"{what}; {REPAIR if is_certain else _DOUBT}"
            raise RetryableError(what, retry_after_s=30.0, why=DAMAGE) from error
        # locked, disk full, server gone
        if error.connection_invalidated or isinstance(error, _MAY_PASS):
            raise RetryableError(what, retry_after_s=5.0) from error
        raise PermanentError(what) from error
