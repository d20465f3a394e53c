"""Sessions are read by whoever does not write them: as the server would, within bounds."""

import pytest

from spanscore.errors import RetryableError
from spanscore.store.config import Config
from spanscore.store.session_reader import SessionReader
from spanscore.store.store import Store, StoredTrace

KEYS = ["a", "b", "c"]


@pytest.fixture
def config(tmp_path):
    return Config(url=f"sqlite:///{tmp_path}/store.db")


@pytest.fixture
def store(config, make_trace):
    """A store with a trace in each of three sessions."""
    made = Store.open(config)
    traces = [make_trace(number, session_id=key) for number, key in enumerate(KEYS, 1)]
    made.commit([StoredTrace(x, 1, "d") for x in traces], [])
    yield made
    made.close()


def test_what_is_read_is_what_the_store_gives(store, config):
    found, rest = SessionReader(config).read(KEYS)
    assert found.decoded() == store.stored_sessions(KEYS, tenant=None).decoded()
    assert [x.session.id for x in found.decoded()] == KEYS
    assert rest == ()


def test_sessions_that_are_too_much_for_once_are_read_another_time(store, config):
    reader = SessionReader(config, most_bytes=1)
    found, rest = reader.read(KEYS)
    assert [x.session.id for x in found.decoded()] == ["a"]
    assert rest == ("b", "c")


def test_what_is_committed_later_is_read(store, config, make_trace):
    reader = SessionReader(config)
    reader.read(KEYS)
    store.commit([StoredTrace(make_trace(9, session_id="d"), 1, "d")], [])
    assert len(reader.read(["d"])[0].traces) == 1


def test_no_tenant_is_given_the_sessions_of_another(store, config):
    assert SessionReader(config).read(KEYS, "other")[0].traces == []


def test_no_file_stays_open_between_two_readings(store, config):
    reader = SessionReader(config)
    reader.read(KEYS)
    assert reader._engine.pool.status() == "NullPool"


def test_a_store_that_is_not_there_is_an_error(config):
    with pytest.raises(RetryableError):
        SessionReader(config).read(KEYS)
