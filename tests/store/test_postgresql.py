"""The same store on PostgreSQL, where the environment names one and its driver is installed."""

import os

import pytest
from sqlalchemy import create_engine, make_url, text

from spanscore.errors import ConfigError, RetryableError
from spanscore.store import locking
from spanscore.store.config import Config
from spanscore.store.store import Store

URL = os.environ.get("SPANSCORE_TEST_POSTGRESQL_URL", "")


@pytest.fixture
def postgresql(clock):
    if not URL:
        pytest.skip("SPANSCORE_TEST_POSTGRESQL_URL names no database; it is emptied by this test")
    pytest.importorskip(make_url(URL).get_driver_name() or "psycopg")
    from spanscore.store.connecting import connect
    from spanscore.store.schema import tables

    engine = connect(Config(url=URL))
    tables.drop_all(engine)
    engine.dispose()
    store = Store.open(Config.model_validate({"url": URL, "retention": {"max_age": "1s"}}), clock_ns=clock)
    yield store
    store.close()


def test_the_store_works_on_postgresql(postgresql, make, clock):
    trace = make.trace(session_id="a\0b", user_input="nul \0, 100 %, :name")
    own = make.score(trace, scope="session", subject_id="a\0b", evaluated_at_ns=clock.now_ns + 1)
    assert postgresql.commit([make.stored(trace)], [make.score(trace), own]) == [1, 2]
    assert postgresql.commit([make.stored(trace, 2)], [make.score(trace)]) == [1]
    postgresql.set_cursor("otlp_grpc", 1)
    postgresql.put("key", "value")
    found = (
        postgresql.trace(trace.trace_ids[0]),
        postgresql.known([trace.id]),
        postgresql.sessions(["a\0b", "unknown"])[0].session.traces,
        [seq for seq, _ in postgresql.outbox(postgresql.cursor("otlp_grpc"), 10)],
        len(postgresql.evaluations(session_id="a\0b")),
        postgresql.open_sessions(),
        postgresql.sessions(["a\0b"])[0].revision,
        postgresql.get("key"),
        postgresql.prune(clock.now_ns + 2 * 10**9),
    )
    assert found == (trace, {trace.id: (2, "digest 2")}, (trace,), [2], 2, [], 1, "value", 1)


@pytest.fixture
def serving(postgresql):
    store = Store.open(Config(url=URL), alone=True)
    yield store
    store.close()


def test_a_second_server_on_the_same_database_is_refused_and_told_who_has_it(serving):
    with pytest.raises(ConfigError, match=rf"in use by another spanscore \(spanscore: process {os.getpid()} "):
        Store.open(Config(url=URL), alone=True)


def test_a_database_that_was_closed_is_free_for_the_next_server(serving):
    serving.close()
    Store.open(Config(url=URL), alone=True).close()


def test_a_server_that_lost_its_connection_takes_the_database_again(serving, make, monkeypatch):
    monkeypatch.setattr(locking, "_LOOK_EVERY_S", 0.0)
    cut_connections(serving)
    serving.commit([make.stored(make.trace())], [make.score(make.trace())])
    with pytest.raises(ConfigError, match="in use"):
        Store.open(Config(url=URL), alone=True)


def test_a_server_whose_database_was_taken_over_writes_nothing_until_it_has_it_back(serving, make, monkeypatch):
    monkeypatch.setattr(locking, "_LOOK_EVERY_S", 0.0)
    cut_connections(serving)
    other = Store.open(Config(url=URL), alone=True)
    other.commit([], [make.score(make.trace())])
    with pytest.raises(RetryableError, match="another spanscore has taken the store over"):
        serving.commit([], [make.score(make.trace(2))])
    other.close()
    assert serving.commit([], [make.score(make.trace(2))]) == [2]


def cut_connections(store):
    """End those of a store as the database does when it restarts."""
    store._database.engine.pool.dispose()
    with create_engine(URL).connect() as admin:
        admin.execute(
            text("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name LIKE 'spanscore%'")
        )
