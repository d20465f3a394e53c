"""What can still be read of a damaged file is in the new one, and what cannot is counted."""

import random
import sqlite3
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sqlalchemy import create_engine, insert, select

from spanscore.errors import ConfigError
from spanscore.model.headers import of_tenant, with_headers
from spanscore.model.trace import ModelCall, Target
from spanscore.store import ledger, salvage, schema
from spanscore.store.config import Config
from spanscore.store.journal import Config as JournalConfig
from spanscore.store.journal import Journal
from spanscore.store.listing import ScoreQuery
from spanscore.store.pages import Pages
from spanscore.store.store import Store, StoredTrace

pytestmark = pytest.mark.slow

COUNT = 200
PAGE = 16_384


@pytest.fixture
def file(tmp_path):
    return tmp_path / "spanscore.db"


@pytest.fixture
def config(file):
    return Config(url=f"sqlite:///{file}")


@pytest.fixture
def filled(config, make):
    """A store of 200 traces with a score each, some of them longer than a page; all is in the
    database itself.
    """
    store = Store.open(config)
    for number in range(1, COUNT + 1):
        trace = make.trace(
            number, session_id="s", user_input="long " * (8000 if number % 50 == 0 else 200)
        )
        store.commit([make.stored(trace)], [make.score(trace)])
    store.put("question", "answer")
    store.set_cursor("otlp_grpc", COUNT)
    store.close()
    return make


def overwrite(file, start, length, seed=1):
    with file.open("r+b") as opened:
        opened.seek(start)
        opened.write(random.Random(seed).randbytes(length))


def test_a_sound_file_has_no_fault(filled, file):
    assert salvage.fault_of(file) is None


@pytest.mark.parametrize("damage", ["header", "first page", "cut", "middle"])
def test_a_damaged_store_has_a_fault_and_is_usable_after_the_repair(filled, config, file, damage):
    size = file.stat().st_size
    if damage == "cut":
        with file.open("r+b") as opened:
            opened.truncate(size * 3 // 4 + 100)
    else:
        overwrite(
            file,
            *{"header": (0, 50), "first page": (0, PAGE), "middle": (size // 2, 3 * PAGE)}[damage],
        )
    assert salvage.fault_of(file) is not None
    result = salvage.store(config, file)
    assert salvage.fault_of(file) is None
    store = Store.open(config)
    scores = store.outbox(0, 1000)
    traces = [x for n in range(1, COUNT + 1) if (x := store.trace(f"{n:032x}")) is not None]
    store.close()
    assert (len(scores), len(traces)) == (result.saved["evaluations"], result.saved["agent_traces"])
    first = scores[0][0]  # what is missing before it may have been deleted at its age
    assert result.lost["evaluations"] == COUNT + 1 - first - len(scores)
    assert len(traces) > COUNT // 10  # the first pages are of tables that are empty


def test_without_its_first_page_a_store_loses_nothing(filled, config, file):
    overwrite(file, 0, PAGE)
    result = salvage.store(config, file)
    store = Store.open(config)
    facts = (
        store.cursor("otlp_grpc"),
        store.get("question"),
        len(store.sessions(["s"])[0].session.traces),
    )
    store.close()
    assert result.lost == {"evaluations": 0, "agent_traces": 0}
    assert facts == (COUNT, "answer", COUNT)


def test_what_others_gave_is_saved_too(filled, config, file):
    store = Store.open(config)
    trace = filled.trace(1)
    store.put_external([replace(filled.score(trace), received_uid="e" * 16)])
    store.close()
    overwrite(file, 0, PAGE)
    salvage.store(config, file)
    store = Store.open(config)
    found = store.external_scores(trace_id=trace.id)
    store.close()
    assert [x.uid for x in found] == ["e" * 16]


def test_an_entry_of_an_index_is_no_score_that_was_deleted(filled, config, file):
    overwrite(file, 0, PAGE)
    salvage.store(config, file)
    store = Store.open(config)
    with store._database.reading() as connection:
        found = connection.execute(select(schema.deleted_scores)).all()
    store.close()
    assert found == []


def test_a_deleted_score_stays_deleted(filled, config, file):
    store = Store.open(config)
    with store._database.writing() as connection:
        connection.execute(
            insert(schema.deleted_scores).values(uid="e" * 16, tenant="", deleted_ns=1)
        )
    store.close()
    overwrite(file, 0, PAGE)
    salvage.store(config, file)
    store = Store.open(config)
    with store._database.reading() as connection:
        [found] = connection.execute(select(schema.deleted_scores)).all()
    store.close()
    assert tuple(found) == ("e" * 16, "", 1)


def test_what_others_gave_to_a_response_is_of_its_turn_again(filled, config, file):
    store = Store.open(config)
    trace = replace(filled.trace(1), model_calls=(ModelCall("c" * 16, response_id="resp-1"),))
    store.commit([StoredTrace(trace, 2, "changed")], [])
    target = Target("", "", 0, 0, response_id="resp-1")
    store.put_external(
        [replace(filled.score(trace), target=target, subject_id="resp-1", received_uid="e" * 16)]
    )
    store.close()
    overwrite(file, 0, PAGE)
    salvage.store(config, file)
    store = Store.open(config)
    found = store.external_scores(trace_id=trace.id)
    store.close()
    assert [x.uid for x in found] == ["e" * 16]


def test_each_tenant_has_its_own_after_the_repair(filled, config, file):
    store = Store.open(config)
    targets = [
        replace(filled.trace(1).target, resource=with_headers({}, of_tenant(x)))
        for x in ("acme", "blue")
    ]
    traces = [filled.trace(1, target=x, session_id="s") for x in targets]
    store.commit([filled.stored(x) for x in traces], [filled.score(x) for x in traces])
    store.put_external([replace(filled.score(x), received_uid=f"{x.tenant:x<16}") for x in traces])
    store.close()
    overwrite(file, 0, PAGE)
    salvage.store(config, file)
    store = Store.open(config)
    found = [store.trace(filled.trace(1).trace_ids[0], tenant=x) for x in ("acme", "blue", "coral")]
    scores = [store.list_scores(ScoreQuery(tenant=x), 10).items for x in ("acme", "blue", "coral")]
    store.close()
    assert found == [*traces, None]
    assert [{x.tenant for x in some} for some in scores] == [{"acme"}, {"blue"}, set()]
    assert [len(x) for x in scores] == [2, 2, 0]


def test_every_table_of_the_store_is_saved_or_made_again():
    made_again = {"spanscore_schema", "otel_traces", "session_keys"}
    made_again |= {"model_responses", "response_scores", "scored_turns", "secrets"}
    made_again.add("trace_measures")
    made_again.add("evaluated_sessions")
    made_again |= {
        "score_facts",
        "score_procedures",
        "score_contexts",
        "context_tools",
        "score_tags",
    }
    assert set(schema.tables.tables) == made_again.union(salvage._STORE_TABLES)


MONITORING = {
    "monitor_states": ("", "quality", "digest", 7, 10, "{}"),
    "monitors": ("", "nightly", None, "ACTIVE", 1, 10, 11, 12, 13, "{}", "{}"),
    "configured_monitors": ("", "nightly", "ACTIVE", 1, 10, 11, 12, 13, "{}", "{}"),
    "monitor_ticks": ("", "quality", 10, 11, "counted", 2, 1, "ab", None, "{}"),
    "monitor_scores": ("", "quality", "session", "trace", 1.0, 0.25, 10, 0),
    "alert_notices": (1, "", "quality", "webhook", "firing", "{}", 10, 0, 0),
}


@pytest.mark.parametrize("name", MONITORING)
def test_what_monitors_know_is_there_after_a_repair(config, file, name):
    Store.open(config).close()
    table = schema.tables.tables[name]
    engine = create_engine(config.url)
    with engine.begin() as connection:
        connection.execute(insert(table).values(MONITORING[name]))
    overwrite(file, 0, PAGE)
    salvage.store(config, file)
    with engine.begin() as connection:
        assert connection.execute(select(table)).all() == [MONITORING[name]]
    engine.dispose()


def test_the_damaged_file_is_kept_as_it_was(filled, config, file):
    overwrite(file, 0, PAGE)
    damaged = file.read_bytes()
    assert salvage.store(config, file).aside.read_bytes() == damaged


def test_numbers_go_on_after_a_repair(filled, config, file, make):
    overwrite(file, 0, PAGE)
    salvage.store(config, file)
    store = Store.open(config)
    assert store.commit([], [make.score(make.trace(1), "another")]) == [COUNT + 1]
    store.close()


def test_nothing_of_nothing_is_saved(config, file):
    file.write_bytes(b"no database at all, but a text. " * 2000)
    result = salvage.store(config, file)
    assert (result.saved["agent_traces"], salvage.fault_of(file)) == (0, None)


@pytest.fixture
def journal_file(tmp_path):
    journal = Journal(JournalConfig(path=tmp_path / "journal.db"))
    rows = [
        journal.append("traces", f"request {n} ".encode() * 100, n).result() for n in range(COUNT)
    ]
    journal.delete(rows[:20]).result()
    journal.close_traces([(b"t" * 16, 5, 7)]).result()
    journal.quarantine("logs", b"\xff", "no protobuf", 1).result()
    journal.close()
    return tmp_path / "journal.db"


def test_a_damaged_journal_says_what_to_do_and_starts_after_the_repair(journal_file):
    overwrite(journal_file, 0, PAGE)
    with pytest.raises(ConfigError, match="spanscore repair"):
        Journal(JournalConfig(path=journal_file))
    result = salvage.journal(journal_file)
    journal = Journal(JournalConfig(path=journal_file))
    facts = (len(list(journal.replay())), journal.closed_traces(), journal.lost)
    journal.close()
    assert facts == (COUNT - 20, {b"t" * 16: (5, 7)}, {})
    assert (result.saved["requests"], result.saved["quarantine"], result.lost) == (
        COUNT - 20,
        1,
        {"requests": 0},
    )


def test_what_a_repaired_journal_lacks_is_counted_at_its_next_start(journal_file):
    overwrite(journal_file, 0, 12 * PAGE)
    result = salvage.journal(journal_file)
    journal = Journal(JournalConfig(path=journal_file))
    lost = journal.lost["missing"].count
    journal.close()
    assert 0 < lost == result.lost["requests"] < COUNT


def test_a_journal_without_a_ledger_is_saved_as_it_is(journal_file):
    ledger.beside(journal_file).unlink()
    overwrite(journal_file, 0, 100)
    result = salvage.journal(journal_file)
    assert result.saved["requests"] >= COUNT - 20
    assert "no ledger" in result.notes[0]


@settings(max_examples=50)
@given(
    st.binary(max_size=3000),
    st.binary(max_size=3000),
    st.sampled_from([b"", b"SQLite format 3\0\x02\x00"]),
)
def test_any_bytes_have_some_records_or_none(tmp_path_factory, main, log, header):
    folder = tmp_path_factory.mktemp("pages")
    (folder / "x.db").write_bytes(header + main)
    (folder / "x.db-wal").write_bytes(log)
    with Pages(folder / "x.db") as pages:
        assert len(list(pages.records())) >= 0
        assert len(list(pages.records_of_log())) >= 0


@settings(max_examples=30)
@given(
    st.lists(
        st.tuples(
            st.integers(-(2**63), 2**63 - 1), st.text(max_size=9000), st.binary(max_size=9000)
        ),
        max_size=8,
    )
)
def test_records_are_what_sqlite_wrote(tmp_path_factory, rows):
    rows = [
        (number, text.encode("utf-8", "replace").decode().replace("\0", ""), some)
        for number, text, some in rows
    ]
    file = tmp_path_factory.mktemp("pages") / "x.db"
    db = sqlite3.connect(file)
    db.execute("PRAGMA page_size = 512")
    db.execute("CREATE TABLE x (number INTEGER, text TEXT, some BLOB)")
    db.executemany("INSERT INTO x VALUES (?, ?, ?)", rows)
    db.commit()
    db.close()
    with Pages(file) as pages:
        found = [x.values for x in pages.records() if len(x.values) == 3]
    assert sorted(found) == sorted(rows)


def test_a_session_that_was_evaluated_is_not_open_after_the_repair(config, file, make, clock):
    store = Store.open(config, clock_ns=clock)
    for number, session in enumerate(("done", "open"), 1):
        store.commit([make.stored(make.trace(number, session_id=session))], [])
    own = {"scope": "session", "subject_id": "done", "evaluated_at_ns": clock.now_ns + 1}
    store.commit([], [make.score(make.trace(session_id="done"), **own)])
    store.close()
    overwrite(file, 0, 50)
    salvage.store(config, file)
    store = Store.open(config)
    assert [key for key, _ in store.open_sessions()] == ["open"]
    store.close()
