"""`spanscore migrate` changes the tables of an older store, and says what it did."""

import pytest
import yaml

from spanscore.cli.main import main
from spanscore.store import connecting, schema
from spanscore.store.config import Config
from spanscore.store.locking import FileLock
from spanscore.store.store import Store


@pytest.fixture
def store(tmp_path):
    return Config(url=f"sqlite:///{tmp_path}/store.db")


@pytest.fixture
def migrate(store, tmp_path):
    """`migrate()`: the exit code of the command with a configuration of that store."""
    path = tmp_path / "config.yaml"
    path.write_text(yaml.safe_dump({"store": {"url": store.url}}))
    return lambda: main(["migrate", "-c", str(path)])


@pytest.fixture
def older(store):
    """That store as version 1 had left it."""
    engine = connecting.connect(store)
    with connecting.transaction(engine) as connection:
        schema.tables.drop_all(connection)
        schema.versions.create(connection)
        connection.execute(schema.versions.insert().values(version=1))
    engine.dispose()


def test_an_older_store_is_changed_to_this_version(migrate, older, store, capsys):
    assert migrate() == 0
    assert capsys.readouterr().out == f"store: tables changed from version 1 to {schema.VERSION}\n"
    assert connecting.version(store) == schema.VERSION


def test_a_store_of_this_version_is_left_as_it_is(migrate, store, capsys):
    Store.open(store).close()
    assert migrate() == 0
    assert "left as they are" in capsys.readouterr().out


def test_where_there_is_no_store_none_is_made(migrate, tmp_path, capsys):
    assert migrate() == 0
    assert "is not there" in capsys.readouterr().out
    assert [x.name for x in tmp_path.iterdir()] == ["config.yaml"]


def test_a_store_that_another_process_uses_is_left_as_it_is(
    migrate, older, store, tmp_path, capsys
):
    lock = FileLock(tmp_path / "store.db", "store", "store.url")
    assert migrate() == 2
    assert "nobody else may use while they are changed" in capsys.readouterr().err
    assert connecting.version(store) == 1
    lock.close()
