"""Sessions are read by whoever does not write them: as the server would, within bounds."""

from contextlib import suppress
from pathlib import Path

import pytest

from spanscore.errors import RetryableError
from spanscore.store import lookup
from spanscore.store.config import Config
from spanscore.store.lookup import SessionReader, read_sessions
from spanscore.store.store import Store, StoredTrace

KEYS = ["a", "b", "c"]


@pytest.fixture
def config(database_url):
    return Config(url=database_url)


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


def test_a_commit_between_sizes_and_reading_is_not_seen(store, config, make_trace, monkeypatch):
    """Else more could be read than fits, and scores of what was not read."""

    def read(connection, keys, tenant):
        store.commit([StoredTrace(make_trace(9, session_id="a"), 1, "d")], [])
        return read_sessions(connection, keys, tenant)

    before = store.stored_sessions(KEYS, tenant=None)
    with monkeypatch.context() as patched:
        patched.setattr(lookup, "read_sessions", read)
        found, _ = SessionReader(config).read(KEYS)
    assert found == before
    assert store.stored_sessions(["a"], tenant=None).until_row == before.until_row + 1


@pytest.mark.skipif(not Path("/proc/self/fd").is_dir(), reason="needs /proc to see open files")
def test_no_file_stays_open_between_two_readings(tmp_path, make_trace):
    url = f"sqlite:///{tmp_path}/store.db"
    made = Store.open(Config(url=url))
    made.commit([StoredTrace(make_trace(1, session_id="a"), 1, "d")], [])
    made.close()  # while a process has locks on a file, SQLite closes none of its descriptors
    reader = SessionReader(Config(url=url))
    assert len(reader.read(KEYS)[0].traces) == 1
    assert open_files(tmp_path) == []


def open_files(folder):
    """The files below a folder that this process has open, each as often as it is."""
    found = []
    for link in Path("/proc/self/fd").iterdir():
        with suppress(OSError):
            found.append(str(link.readlink()))
    return sorted(x for x in found if x.startswith(f"{folder}/"))


def test_a_store_that_is_not_there_is_an_error(config):
    with pytest.raises(RetryableError):
        SessionReader(config).read(KEYS)
