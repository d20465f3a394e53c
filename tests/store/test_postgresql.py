"""A lock on PostgreSQL goes with its connection, which may be cut while the server runs."""

import os
from concurrent.futures import ThreadPoolExecutor

import pytest
from sqlalchemy import create_engine, text

from spanscore.errors import ConfigError, RetryableError
from spanscore.store import locks
from spanscore.store.config import Config
from spanscore.store.lookup import SessionReader
from spanscore.store.store import Store

pytestmark = pytest.mark.postgresql


@pytest.fixture
def config(postgresql_server):
    return Config(url=postgresql_server.create())


@pytest.fixture
def serving(config):
    store = Store.open(config, alone=True)
    yield store
    store.close()


def test_a_second_server_on_the_same_database_is_refused_and_told_who_has_it(serving, config):
    with pytest.raises(
        ConfigError, match=rf"in use by another spanscore \(spanscore: process {os.getpid()} "
    ):
        Store.open(config, alone=True)


def test_a_database_that_was_closed_is_free_for_the_next_server(serving, config):
    serving.close()
    Store.open(config, alone=True).close()


def test_a_server_that_lost_its_connection_takes_the_database_again(
    serving, config, make, monkeypatch
):
    monkeypatch.setattr(locks, "_LOOK_EVERY_S", 0.0)
    cut_connections(serving, config)
    serving.commit([make.stored(make.trace())], [make.score(make.trace())])
    with pytest.raises(ConfigError, match="in use"):
        Store.open(config, alone=True)


def test_a_server_whose_database_was_taken_over_writes_nothing_until_it_has_it_back(
    serving, config, make, monkeypatch
):
    monkeypatch.setattr(locks, "_LOOK_EVERY_S", 0.0)
    cut_connections(serving, config)
    other = Store.open(config, alone=True)
    other.commit([], [make.score(make.trace())])
    with pytest.raises(RetryableError, match="another spanscore has taken the store over"):
        serving.commit([], [make.score(make.trace(2))])
    other.close()
    assert serving.commit([], [make.score(make.trace(2))]) == [2]


def test_a_database_that_crashed_has_lost_nothing_and_is_used_again(
    serving, postgresql_server, make, monkeypatch
):
    monkeypatch.setattr(locks, "_LOOK_EVERY_S", 0.0)
    serving.commit([make.stored(make.trace(1))], [make.score(make.trace(1))])
    postgresql_server.crash()
    with pytest.raises(RetryableError):
        serving.commit([make.stored(make.trace(2))], [make.score(make.trace(2))])
    postgresql_server.start()
    assert serving.commit([make.stored(make.trace(2))], [make.score(make.trace(2))]) == [2]
    assert [serving.trace(make.trace(n).id) for n in (1, 2)] == [make.trace(1), make.trace(2)]


def cut_connections(store, config):
    """End those of a store as the database does when it restarts."""
    store._database.engine.pool.dispose()
    with create_engine(config.url).connect() as admin:
        admin.execute(
            text(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name LIKE"
                " 'spanscore%'"
            )
        )


def test_sessions_are_not_waited_for_where_their_table_is_locked(serving, config):
    engine = create_engine(config.url)
    with ThreadPoolExecutor(1) as threads, engine.connect() as holder:
        holder.execute(text("LOCK TABLE agent_traces IN ACCESS EXCLUSIVE MODE"))
        reading = threads.submit(SessionReader(config).read, ["s"])
        try:
            with pytest.raises(RetryableError, match="statement timeout"):
                reading.result(60)
        finally:
            holder.rollback()
    engine.dispose()
