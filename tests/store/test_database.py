"""A store belongs to one server, and goes on whatever becomes of its file."""

import errno
import os
import sqlite3
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
from sqlalchemy.exc import DatabaseError

from spanscore.errors import ConfigError, RetryableError
from spanscore.store import connections, database, pages, records, repair
from spanscore.store.config import Config
from spanscore.store.listing import ScoreQuery, TraceQuery
from spanscore.store.repair import fault_of
from spanscore.store.store import Store


@pytest.fixture
def config(tmp_path):
    return Config(url=f"sqlite:///{tmp_path}/spanscore.db", busy_timeout="1ms")


@pytest.fixture
def serving(config):
    store = Store.open(config, alone=True)
    yield store
    store.close()


def test_a_second_server_on_the_same_store_is_refused_and_told_who_has_it(serving, config):
    with pytest.raises(
        ConfigError, match=rf"in use by another spanscore \(process {os.getpid()} .*store\.url"
    ):
        Store.open(config, alone=True)


def test_a_store_beside_a_server_can_be_read(serving, config, make):
    serving.commit([make.stored(make.trace())], [])
    beside = Store.open(config)
    assert beside.trace(make.trace().id) == make.trace()
    beside.close()


def test_a_store_that_was_closed_is_free_for_the_next_server(serving, config):
    serving.close()
    Store.open(config, alone=True).close()


def test_a_closed_store_is_written_no_more(serving, config, make):
    serving.close()
    with pytest.raises(RetryableError, match="the store is closed"):
        serving.commit([make.stored(make.trace())], [])
    after = Store.open(config)
    assert after.trace(make.trace().id) is None
    after.close()


def test_closing_waits_for_the_transaction_under_way(serving, config, make):
    begun, closing = threading.Event(), threading.Event()

    def while_it_closes(_tables):
        begun.set()
        closing.wait(60)

    with ThreadPoolExecutor(2) as threads:
        committed = threads.submit(
            serving.commit, [make.stored(make.trace())], [], also=while_it_closes
        )
        begun.wait(60)
        closed = threads.submit(serving.close)
        with pytest.raises(ConfigError, match="in use by another spanscore"):
            Store.open(config, alone=True)
        closing.set()
        committed.result(60)
        closed.result(60)
    after = Store.open(config, alone=True)
    assert after.trace(make.trace().id) == make.trace()
    after.close()


def test_what_is_wrong_is_known_until_it_works_again(serving, tmp_path, make):
    other = sqlite3.connect(tmp_path / "spanscore.db", isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    with pytest.raises(RetryableError):
        serving.commit([make.stored(make.trace())], [])
    assert "locked" in serving.trouble
    other.close()
    serving.commit([make.stored(make.trace())], [])
    assert serving.trouble is None


def test_a_write_that_fails_is_not_forgotten_for_a_read_that_works(serving, tmp_path, make):
    other = sqlite3.connect(tmp_path / "spanscore.db", isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    with pytest.raises(RetryableError):
        serving.commit([make.stored(make.trace())], [])
    assert serving.trace("0" * 32) is None
    assert "locked" in serving.trouble
    other.close()


def test_a_store_whose_file_was_removed_goes_on_with_a_new_one(serving, tmp_path, make, caplog):
    serving.commit([make.stored(make.trace(1))], [make.score(make.trace(1))])
    for name in ("spanscore.db", "spanscore.db-wal", "spanscore.db-shm"):
        (tmp_path / name).unlink()
    assert serving.commit([make.stored(make.trace(2))], [make.score(make.trace(2))]) == [2]
    assert serving.trace(make.trace(2).id) == make.trace(2)
    assert "was removed or replaced" in caplog.text


def test_a_server_answers_from_a_damaged_store_and_repairs_it(serving, tmp_path, make, caplog):
    serving.commit([make.stored(make.trace(n)) for n in range(1, 200)], [])
    serving._database.engine.dispose()
    root = root_of(tmp_path, "agent_traces")
    with (tmp_path / "spanscore.db").open("r+b") as file:
        file.seek((root - 1) * 16_384)
        file.write(bytes(8))
    assert len(serving.list_traces(TraceQuery(), 200).items) == 199
    serving._database._examining.join()
    assert serving.trouble is None
    assert len(list(tmp_path.glob("spanscore.db.damaged-*Z"))) == 1
    assert "is repaired: no row is lost" in caplog.text
    serving.commit([make.stored(make.trace(200))], [])
    assert serving.trace(make.trace(200).id) == make.trace(200)


def root_of(tmp_path, name):
    with sqlite3.connect(tmp_path / "spanscore.db") as db:
        query = "SELECT rootpage FROM sqlite_master WHERE name = ?"
        (root,) = db.execute(query, (name,)).fetchone()
    db.close()
    return root


def test_the_store_of_another_server_is_answered_from_and_left_as_it_is(serving, config, make):
    serving.commit([make.stored(make.trace(n)) for n in range(1, 200)], [])
    beside = Store.open(config)
    file = connections.file_of(config)
    serving._database._log.empty(serving._database.engine)
    with file.open("r+b") as opened:
        opened.seek((root_of(file.parent, "agent_traces") - 1) * 16_384)
        opened.write(bytes(8))
    beside._database.engine.dispose()
    assert len(beside.list_traces(TraceQuery(), 200).items) == 199
    beside._database._examining.join()
    assert "spanscore repair" in beside.trouble
    assert not list(file.parent.glob("*.damaged-*"))
    beside.close()


def test_a_damaged_store_is_repaired_as_its_server_starts(config, make):
    store = Store.open(config)
    store.commit([make.stored(make.trace())], [])
    store.close()
    with connections.file_of(config).open("r+b") as file:
        file.write(bytes(100))
    store = Store.open(config, alone=True)
    assert store.trace(make.trace().id) == make.trace()
    store.close()


def test_a_disk_that_failed_at_reading_is_not_taken_for_a_damaged_file(
    serving, monkeypatch, caplog
):
    looks = iter([OSError(errno.EIO, "Input/output error"), None])
    monkeypatch.setattr(pages, "disk_error", lambda _: next(looks))
    monkeypatch.setattr(database, "_EXAMINE_EVERY_S", 0)
    begun = threading.Event()
    monkeypatch.setattr(repair, "fault_of", lambda file: begun.wait() and fault_of(file))
    error = sqlite3.DatabaseError("database disk image is malformed")
    error.sqlite_errorcode = sqlite3.SQLITE_CORRUPT
    failing = pytest.raises(RetryableError, match="the disk failed at reading it")
    with failing, serving._database.reading():
        raise DatabaseError("", None, error)
    examining = serving._database._examining
    begun.set()
    examining.join()
    assert serving.trouble is None
    assert "is sound" in caplog.text
    assert "repair" not in caplog.text


def set_a_byte_to_ff(tmp_path, table, number):
    """In the record of a row of an SQLite file."""
    damaged = "CAST(replace(record, 'shop', 'sho' || x'ff') AS TEXT)"
    with sqlite3.connect(tmp_path / "spanscore.db") as db:
        db.execute(f"UPDATE {table} SET record = {damaged} WHERE rowid = {number}")  # noqa: S608 - names of the schema
    db.close()


def test_a_byte_that_is_no_text_costs_one_trace_and_is_named(serving, tmp_path, make, caplog):
    traces = [make.trace(n, session_id="s") for n in range(3)]
    serving.commit([make.stored(x) for x in traces], [make.score(x) for x in traces])
    set_a_byte_to_ff(tmp_path, "agent_traces", 2)
    set_a_byte_to_ff(tmp_path, "scores", 3)
    met = records.damaged.count
    for _ in range(2):
        listed = serving.list_traces(TraceQuery(), 10).items
        assert [x.trace.id for x in listed] == [traces[2].id, traces[0].id]
        assert [x.subject_id for x in serving.list_scores(ScoreQuery(), 10).items] == [
            traces[1].id,
            traces[0].id,
        ]
        assert len(serving.sessions(["s"])[0].session.traces) == 2
    assert records.damaged.count == met + 2
    assert [x.getMessage().partition(": ")[2] for x in caplog.records] == [
        f"agent trace (trace_id {traces[1].trace_ids[0]}, session_id s)",
        f"score (trace_id {traces[2].trace_ids[0]}, session_id s, metric coherence)",
    ]


@pytest.mark.parametrize("record", ["{", b"\xff\xfe"])
def test_a_damaged_score_holds_up_no_other(serving, tmp_path, make, record):
    trace = make.trace()
    serving.commit([], [make.score(trace, name) for name in ("a", "b", "c")])
    with sqlite3.connect(tmp_path / "spanscore.db") as db:
        db.execute("UPDATE scores SET record = CAST(? AS TEXT) WHERE number = 2", (record,))
    db.close()
    assert [(seq, x.metric) for seq, x in serving.outbox(0, 10)] == [(1, "a"), (3, "c")]


def test_scores_behind_a_batch_of_damaged_ones_are_found(serving, tmp_path, make):
    serving.commit([], [make.score(make.trace(), name) for name in ("a", "b", "c")])
    with sqlite3.connect(tmp_path / "spanscore.db") as db:
        db.execute("UPDATE scores SET record = '{' WHERE number < 3")
    db.close()
    assert [seq for seq, _ in serving.outbox(0, 2)] == [3]


@pytest.mark.parametrize("url", ["file:{}/a.db?uri=true", "file:{}/a.db", "file::memory:?uri=true"])
@pytest.mark.parametrize("opened", [Store.open, connections.connect_reading, connections.file_of])
def test_an_uri_of_sqlites_is_refused_and_makes_no_file(tmp_path, monkeypatch, url, opened):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ConfigError, match=r"takes no URI \(file:"):
        opened(Config(url=f"sqlite:///{url.format(tmp_path)}"))
    assert list(tmp_path.iterdir()) == []
