"""SQLite's write-ahead log is kept short, so that reading never fills a small disk."""

from contextlib import ExitStack

import pytest

from spanscore.store import database
from spanscore.store.config import Config
from spanscore.store.store import Store

LIMIT = 256 * 1024


@pytest.fixture
def store(tmp_path, monkeypatch):
    monkeypatch.setattr(database, "MAX_BYTES", LIMIT)
    monkeypatch.setattr(database, "_STEP_BYTES", LIMIT)
    monkeypatch.setattr(database, "_WAIT_MS", 1)
    opened = Store.open(Config(url=f"sqlite:///{tmp_path}/store.db"))
    yield opened
    opened.close()


def fill(store, make, count, start=1):
    for number in range(start, start + count):
        store.commit([make.stored(make.trace(number, user_input="x" * 50_000))], [])


def log_bytes(tmp_path):
    return (tmp_path / "store.db-wal").stat().st_size


def reading(store):
    """Somebody who reads, and therefore needs the log."""
    stack = ExitStack()
    connection = stack.enter_context(store._database.reading())
    connection.exec_driver_sql("SELECT count(*) FROM agent_traces")
    return stack


def test_the_log_stays_short_while_much_is_written(store, make, tmp_path):
    fill(store, make, 40)
    assert log_bytes(tmp_path) < 2 * LIMIT


def test_the_log_is_emptied_once_nobody_reads_what_is_in_it(store, make, tmp_path):
    with reading(store):
        fill(store, make, 40)
        grown_bytes = log_bytes(tmp_path)
    fill(store, make, 40, start=100)

    assert grown_bytes > 4 * LIMIT
    assert log_bytes(tmp_path) < 2 * LIMIT


def test_commits_go_on_while_somebody_reads(store, make):
    with reading(store):
        fill(store, make, 40)
    assert store.trace(make.trace(40).id) is not None
