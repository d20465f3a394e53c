"""A store of an older version is opened with all that is in it, whatever interrupts that."""

import hashlib
import json
import os
import sqlite3
import subprocess
import sys
from collections import Counter
from pathlib import Path
from types import SimpleNamespace

import pytest
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from sqlalchemy import Column, Integer, MetaData, Table, create_engine, inspect, select, text

from spanscore.errors import ConfigError
from spanscore.model.score import Annotation, Evaluator
from spanscore.model.trace import ModelCall, Target, ToolCall
from spanscore.store import (
    calibrations,
    connecting,
    external,
    facts,
    listing,
    migrating,
    records,
    schema,
    trace_measures,
    undelivered,
)
from spanscore.store.config import Config
from spanscore.store.locking import FileLock
from spanscore.store.runs import Progress
from spanscore.store.store import Store

pytestmark = pytest.mark.slow

OLDER = Path(__file__).with_name("older") / "store.sql"


@pytest.fixture
def config(database_url):
    return Config(url=database_url)


@pytest.fixture
def older(config):
    """A store as version 1 wrote it, with the traces and scores of `spanscore demo`; see
    older/make.py.
    """
    load(config.url)
    return config


def load(url):
    """Write the older store's rows into an empty database, whose tables version 1 would have
    made.
    """
    if url.startswith("sqlite"):
        with sqlite3.connect(url.removeprefix("sqlite:///")) as database:
            database.executescript(OLDER.read_text(encoding="utf-8"))
        database.close()
        return
    with sqlite3.connect(":memory:") as made:
        made.executescript(OLDER.read_text(encoding="utf-8"))
    [first] = [x for x in migrating.scripts().walk_revisions() if x.down_revision is None]
    engine = create_engine(url)
    with engine.begin() as connection:
        for table in first.module._tables.sorted_tables:
            table.create(connection)
            rows = made.execute(f"SELECT * FROM {table.name}").fetchall()  # noqa: S608 - a name of this project
            if rows:
                connection.execute(
                    table.insert(), [dict(zip(table.c.keys(), row, strict=True)) for row in rows]
                )
    made.close()
    engine.dispose()


@pytest.fixture
def written():
    """What the older store's file contains, as it was written."""
    with sqlite3.connect(":memory:") as database:
        database.executescript(OLDER.read_text(encoding="utf-8"))
    yield database
    database.close()


@pytest.fixture
def opened(older):
    store = Store.open(older, alone=True)
    yield store
    store.close()


def test_its_traces_are_found(opened, written):
    ids = [id_ for (id_,) in written.execute("SELECT id FROM agent_traces")]
    assert len(ids) == 4
    assert [opened.trace(x).id for x in ids] == ids


def test_its_traces_are_found_by_their_otel_traces(opened, written):
    pairs = written.execute("SELECT trace_id, agent_trace_id FROM otel_traces").fetchall()
    assert [opened.trace(trace_id).id for trace_id, _ in pairs] == [id_ for _, id_ in pairs]


def test_its_scores_are_in_the_outbox_under_their_numbers(opened, written):
    numbers = written.execute("SELECT seq, uid FROM evaluations ORDER BY seq").fetchall()
    assert [(seq, x.uid) for seq, x in opened.outbox(0, 1000)] == numbers


def test_its_sessions_are_found_with_their_scores(opened, written):
    ids = [id_ for (id_,) in written.execute("SELECT DISTINCT session_id FROM agent_traces")]
    found = opened.sessions(ids)
    assert Counter(len(x.session.traces) for x in found) == {2: 2}
    assert all(x.revision == 1 and len(x.scores) > 10 for x in found)


def test_its_sessions_that_were_evaluated_are_not_open(opened, written):
    own = "SELECT DISTINCT subject_id FROM evaluations WHERE scope = 'session'"
    evaluated = {key for (key,) in written.execute(own)}
    assert evaluated
    assert evaluated.isdisjoint(key for key, _ in opened.open_sessions())


def test_its_external_scores_are_found(opened, older, written):
    ids = {
        x for (x,) in written.execute("SELECT trace_id FROM external_scores WHERE scope = 'trace'")
    }
    assert [x.outcome.value for id_ in ids for x in opened.external_scores(trace_id=id_)] == [0.0]
    assert len(external.named(older, "helpful").scores) == 2


def test_its_traces_have_the_measures_that_would_be_written_with_them_now(opened):
    table = schema.agent_traces.c
    with opened._database.reading() as connection:
        kept = connection.execute(select(schema.trace_measures)).all()
        rows = connection.execute(select(table.row, table.record)).all()
    now = [trace_measures.row_of(records.decode_trace(x.record), x.row) for x in rows]
    assert sorted(kept) == sorted(now)


def test_its_newest_scores_have_facts(opened, written):
    query = "SELECT max(seq) FROM evaluations GROUP BY subject_id, scope, metric ORDER BY 1"
    newest = written.execute(query).fetchall()
    with opened._database.reading() as connection:
        scores = connection.execute(
            select(schema.score_facts).order_by(schema.score_facts.c.number)
        ).all()
        services = (
            connection.execute(select(schema.score_contexts.c.service).distinct()).scalars().all()
        )
    assert [x.number for x in scores] == [-2, -1, *(seq for (seq,) in newest)]
    assert set(services) == {"pydantic-ai", None}


def test_its_facts_are_those_that_would_be_written_with_the_scores_now(opened):
    tables = (
        schema.score_facts,
        schema.score_procedures,
        schema.score_contexts,
        schema.context_tools,
    )

    def rows():
        with opened._database.reading() as connection:
            return [sorted(connection.execute(select(table)).all(), key=repr) for table in tables]

    migrated = rows()
    with opened._database.writing() as connection:
        for table in tables:
            connection.execute(table.delete())
        while facts.fill(connection):
            pass
    assert rows() == migrated


def test_its_exporters_go_on_where_they_were(opened, older):
    assert (opened.cursor("otlp_json_file"), opened.cursor("otlp_grpc")) == (opened.last_seq, 2)
    assert [x.note.error for x in undelivered.kept(older)] == ["UNAVAILABLE"]


def test_what_nobody_answered_is_asked_again(opened):
    [found] = opened.unanswered(2 * 10**18, 10)
    assert (found.metric, found.cause) == ("task_completion", "no_key")


def test_its_judges_answers_and_calibrations_are_kept(opened, older):
    assert opened.get("a question and its model") == "its answer"
    assert calibrations.kept(older) == [("", {"metric": "task_completion", "n": 12})]


def test_it_takes_new_traces_and_scores(opened, make):
    last = opened.last_seq
    assert opened.commit([make.stored(make.trace())], [make.score(make.trace())]) == [last + 1]
    assert opened.trace(make.trace().id) == make.trace()


def test_a_store_without_tables_that_version_1_added_later_gets_them(config, older, sql, make):
    for name in ("external_scores", "calibrations", "undelivered", "unanswered", "session_keys"):
        sql(f"DROP TABLE {name}")
    store = Store.open(config)
    store.commit([make.stored(make.trace())], [])
    assert store.list_scores(listing.ScoreQuery(), 3).items
    store.close()


def shape(url):
    """Tables with their columns, keys and indexes, as the database has them."""
    engine = create_engine(url)
    found = inspect(engine)
    tables = {
        name: (
            [
                (x["name"], str(x["type"]), x["nullable"], x["default"])
                for x in found.get_columns(name)
            ],
            found.get_pk_constraint(name),
            sorted(map(str, found.get_unique_constraints(name))),
            sorted(
                (x["name"], x["column_names"], x["unique"], _where(x))
                for x in found.get_indexes(name)
            ),
        )
        for name in found.get_table_names()
    }
    engine.dispose()
    return tables


def _where(index):
    return str(index["dialect_options"].get("sqlite_where"))


def test_a_migrated_store_has_the_tables_of_a_new_one(older, tmp_path, request):
    Store.open(older).close()
    server = "postgresql" in older.url
    new = (
        request.getfixturevalue("postgresql_server").create()
        if server
        else f"sqlite:///{tmp_path}/new.db"
    )
    Store.open(Config(url=new)).close()
    assert shape(older.url) == shape(new)


def test_a_migrated_store_has_the_tables_that_the_code_declares(older):
    engine = connecting.connect(older)
    with engine.connect() as connection:
        assert compare_metadata(MigrationContext.configure(connection), schema.tables) == []
    engine.dispose()


def test_the_version_is_that_of_the_last_migration():
    assert migrating.scripts().get_current_head() == f"{schema.VERSION:04}"


def test_each_migration_has_its_number_in_its_files_name():
    found = [(x.revision, Path(x.path).name[1:5]) for x in migrating.scripts().walk_revisions()]
    assert [name for _, name in found] == [revision for revision, _ in found]


@pytest.mark.parametrize(
    "read",
    [calibrations.kept, lambda x: list(undelivered.kept(x)), lambda x: external.named(x, "a")],
)
def test_a_command_that_only_reads_an_older_store_says_what_to_do(older, read):
    with pytest.raises(
        ConfigError, match=r"version 1, this one reads version \d+\); run `spanscore migrate`"
    ):
        read(older)
    assert connecting.version(older) == 1


def test_an_older_store_that_a_server_uses_is_left_as_it_is(tmp_path):
    config = Config(url=f"sqlite:///{tmp_path}/spanscore.db")
    load(config.url)
    lock = FileLock(tmp_path / "spanscore.db", "store", "store.url")
    with pytest.raises(
        ConfigError, match=rf"while they are changed .*in use by .*process {os.getpid()}"
    ):
        Store.open(config)
    lock.close()
    assert connecting.version(config) == 1


def test_a_migration_that_fails_changes_nothing(older, monkeypatch):
    nowhere = Table("there_is_no_such_table", MetaData(), Column("version", Integer))
    monkeypatch.setattr(migrating, "versions", nowhere)
    with pytest.raises(ConfigError, match="there_is_no_such_table"):
        Store.open(older)
    assert connecting.version(older) == 1
    monkeypatch.undo()
    store = Store.open(older)
    assert store.last_seq == 46
    store.close()


def test_a_migration_that_was_killed_is_made_anew(older):
    """The process ends between the change of the tables and the commit of their version."""
    [child] = processes(1, "import os; migrating.update = lambda _table: os._exit(9)", older.url)
    assert child.wait() == 9
    assert connecting.version(older) == 1
    store = Store.open(older)
    assert (store.last_seq, connecting.version(older)) == (46, schema.VERSION)
    store.close()


def test_of_processes_that_start_at_once_one_changes_the_tables_and_none_breaks_them(older):
    found = [(x.wait(), x.stderr.read()) for x in processes(4, "", older.url)]
    assert 0 in [code for code, _ in found]
    assert all(code == 0 or "in use by another spanscore" in error for code, error in found)
    assert connecting.version(older) == schema.VERSION


def test_a_new_store_may_be_made_by_processes_that_start_at_once(config):
    assert [x.wait() for x in processes(4, "", config.url)] == [0] * 4


def test_a_fill_is_called_until_nothing_is_left_and_goes_on_after_a_kill(older, monkeypatch):
    parts = []

    def fill(_connection):
        parts.append(len(parts))
        if len(parts) == 2:
            raise KeyboardInterrupt
        return len(parts) < 4

    [first] = [x for x in migrating.scripts().walk_revisions() if x.down_revision is None]
    script = SimpleNamespace(
        revision="0002", module=SimpleNamespace(fill=fill, upgrade=first.module.upgrade)
    )
    scripts = migrating.scripts()
    monkeypatch.setattr(scripts, "iterate_revisions", lambda _upper, _lower: [script])
    monkeypatch.setattr(migrating, "scripts", lambda: scripts)
    with pytest.raises(KeyboardInterrupt):
        connecting.connect(older)
    assert connecting.version(older) == 1
    connecting.connect(older).dispose()
    assert (parts, connecting.version(older)) == ([0, 1, 2, 3], 2)


def test_alembic_is_imported_only_for_a_store_that_needs_it(tmp_path):
    code = (
        "import sys\n"
        "from spanscore.store.config import Config\n"
        "from spanscore.store.store import Store\n"
        f"config = Config(url='sqlite:///{tmp_path}/new.db')\n"
        "Store.open(config).close()\n"
        "Store.open(config).close()\n"
        "sys.exit('alembic' in sys.modules)\n"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def processes(count, first, url):
    """Processes that do `first` and open the store."""
    code = (
        "import sys\n"
        "from spanscore.store import migrating\n"
        "from spanscore.store.config import Config\n"
        "from spanscore.store.store import Store\n"
        f"{first}\n"
        "Store.open(Config(url=sys.argv[1])).close()\n"
    )
    command = [sys.executable, "-c", code, url]
    return [subprocess.Popen(command, stderr=subprocess.PIPE, text=True) for _ in range(count)]


def test_the_ids_of_a_run_are_kept_apart_from_its_spec(older):
    engine = create_engine(older.url)
    scripts = migrating.scripts()
    for script in reversed(list(scripts.iterate_revisions("0009", "base"))):
        migrating._apply(engine, scripts, script)
    spec = (
        '{"name": "nightly", "target": {"scope": "trace", "trace_ids": ["a", "b"], "session_ids":'
        " []}}"
    )
    row = {"id": "ab", "tenant": "", "state": "PAUSED", "created_ns": 1, "updated_ns": 1}
    with engine.begin() as connection:
        written = {**row, "spec": spec, "progress": Progress().to_json()}
        columns, values = ", ".join(written), ", ".join(f":{x}" for x in written)
        connection.execute(text(f"INSERT INTO runs ({columns}) VALUES ({values})"), written)  # noqa: S608 - of this test
    engine.dispose()
    store = Store.open(older)
    run, ids = store.read_runs(lambda x: (x.get("", "ab"), x.ids("ab")))
    store.close()

    assert json.loads(ids) == {"trace_ids": ["a", "b"]}
    assert json.loads(run.spec) == {
        "name": "nightly",
        "target": {"scope": "trace", "session_ids": []},
    }
    assert (run.progress.named, run.progress.asked) == (
        2,
        hashlib.sha256(spec.encode()).hexdigest(),
    )


def test_scores_that_an_older_version_placed_wrongly_count_with_the_turns_that_they_are_of(
    store, database_url, make
):
    one, other, third = (turn(make, n, x) for n, x in ((1, "a"), (1, "b"), (2, "c")))
    store.commit(
        [make.stored(x) for x in (one, other, third)], [make.score(x) for x in (one, other, third)]
    )
    store.put_external(
        [
            given(make, 1, f"{1:032x}", "b" * 16),
            given(make, 2, f"{2:032x}"),
            given(make, 3, f"{1:032x}"),
            given(make, 4, "", response_id="resp-b"),
            given(make, 5, "f" * 32, response_id="resp-c"),
            given(make, 6, "e" * 32),
        ]
    )
    tables = (schema.score_facts, schema.score_contexts, schema.context_tools)
    placed = [
        sorted(store.read(lambda x, table=table: x.execute(select(table)).all()), key=repr)
        for table in tables
    ]
    store.close()
    engine = create_engine(database_url)
    with engine.begin() as connection:
        connection.execute(
            text("UPDATE score_facts SET context = 7, cluster = 7, subject = 7 WHERE number < 0")
        )
        connection.execute(text("DROP TABLE scored_turns"))
        connection.execute(text("DROP TABLE configured_monitors"))
        connection.execute(text("DROP TABLE score_tags"))
        connection.execute(text("DROP TABLE evaluated_sessions"))
        connection.execute(text("DROP TABLE trace_measures"))
        connection.execute(text("ALTER TABLE score_facts DROP COLUMN tags"))
        for index in ("agent_traces_by_start", "agent_traces_by_tenant_started_ns"):
            connection.execute(text(f"DROP INDEX {index}"))
        connection.execute(text("UPDATE spanscore_schema SET version = 16"))
        connection.execute(text("UPDATE alembic_version SET version_num = '0016'"))
    engine.dispose()
    found = Store.open(Config(url=database_url))
    migrated = [
        sorted(found.read(lambda x, table=table: x.execute(select(table)).all()), key=repr)
        for table in tables
    ]
    found.close()
    assert migrated == placed


def turn(make, number, letter):
    call = ModelCall(letter * 16, f"model-{letter}", response_id=f"resp-{letter}")
    tools = (ToolCall("call", "find", span_id=letter * 16),)
    return make.trace(
        number,
        opening_span_id=letter * 16,
        model_calls=(call,),
        tool_calls=tools,
        session_id=letter,
    )


def given(make, number, trace_id, span_id="", response_id=None):
    return make.score(
        make.trace(),
        "helpful",
        subject_id=trace_id or response_id,
        outcome=Annotation(1.0, None),
        evaluator=Evaluator("HUMAN", "review", "1", source="human", author="ada"),
        evaluated_at_ns=number,
        received_uid=f"{number:016x}",
        session_id=None,
        target=Target(trace_id, span_id, 0, 0, response_id=response_id),
    )
