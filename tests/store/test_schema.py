"""A store begins with the tables of this version, and one of another version is refused."""

import sqlite3
import subprocess
import sys

import pytest
from sqlalchemy import create_engine, inspect

from spanscore.errors import ConfigError
from spanscore.store import calibrations, connections, external, pending, schema
from spanscore.store.config import Config
from spanscore.store.store import Store

OPENINGS = {
    "server": lambda x: Store.open(x, alone=True),
    "calibrations": calibrations.kept,
    "undelivered": lambda x: list(pending.undelivered(x)),
    "external scores": lambda x: external.named(x, "a"),
}


@pytest.fixture
def config(database_url):
    return Config(url=database_url)


@pytest.fixture
def tables(database_url):
    engine = create_engine(database_url)
    yield lambda: set(inspect(engine).get_table_names())
    engine.dispose()


def set_version(config, sql, version):
    if config.url.startswith("sqlite"):
        sql(f"PRAGMA user_version = {version}")
        sql("DROP TABLE names")  # with all tables of this version it would be taken for damaged
    else:
        sql("UPDATE marks SET number = :version WHERE kind = 'version'", version=version)


def test_a_new_store_has_all_tables_and_their_version(config, tables):
    assert connections.connect(config).dispose() is None
    assert tables() == set(schema.tables.tables)
    assert connections.version(config) == schema.VERSION == 1


@pytest.mark.parametrize("found", [23, 2])
@pytest.mark.parametrize("opening", OPENINGS)
def test_a_store_of_another_version_is_refused_and_left_as_it_is(
    config, sql, tables, found, opening
):
    Store.open(config).close()
    set_version(config, sql, found)
    before = tables()
    with pytest.raises(ConfigError, match=rf"of version {found}, .*reads version 1: .*store\.url"):
        OPENINGS[opening](config)
    assert tables() == before


@pytest.mark.parametrize(
    "change",
    [
        "DROP TABLE marks",
        "DELETE FROM marks",
        # an unreleased store of version 1 had no such table
        "ALTER TABLE scores RENAME TO evaluations",
    ],
)
@pytest.mark.parametrize("opening", OPENINGS)
def test_a_store_without_a_known_version_is_refused_in_one_line(
    config, sql, tables, change, opening
):
    Store.open(config).close()
    if config.url.startswith("sqlite"):
        set_version(config, sql, 0)
    sql(change)
    before = tables()
    with pytest.raises(ConfigError, match="without a known version") as caught:
        OPENINGS[opening](config)
    assert "\n" not in str(caught.value)
    assert tables() == before


@pytest.mark.parametrize(
    "change", ["PRAGMA user_version = 3", "DROP TABLE marks", "ALTER TABLE scores RENAME TO scorer"]
)
def test_a_damaged_version_or_name_of_a_table_is_not_taken_for_another_version(tmp_path, change):
    config = Config(url=f"sqlite:///{tmp_path}/spanscore.db")
    Store.open(config).close()
    with sqlite3.connect(tmp_path / "spanscore.db") as db:
        db.execute(change)
    db.close()
    store = Store.open(config, alone=True)
    assert store.trace("0" * 32) is None
    store.close()


def test_tables_of_others_are_no_store(config, sql):
    sql("CREATE TABLE customers (id INTEGER)")
    Store.open(config).close()
    assert connections.version(config) == schema.VERSION


@pytest.mark.slow
def test_a_new_store_may_be_made_by_processes_that_start_at_once(config):
    code = (
        "import sys\n"
        "from spanscore.store.config import Config\n"
        "from spanscore.store.store import Store\n"
        "Store.open(Config(url=sys.argv[1])).close()\n"
    )
    children = [subprocess.Popen([sys.executable, "-c", code, config.url]) for _ in range(4)]
    assert [x.wait() for x in children] == [0] * 4
