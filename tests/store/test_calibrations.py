"""Calibrations are kept one a judge, and looking for them leaves no trace."""

import sqlite3

import pytest

from spanscore.errors import ConfigError
from spanscore.store import calibrations
from spanscore.store.config import Config
from spanscore.store.store import Store


@pytest.fixture
def config(tmp_path):
    return Config(url=f"sqlite:///{tmp_path / 'a store.db'}")


def test_what_is_kept_is_found_the_newest_first(config):
    calibrations.keep(config, {"a": {"n": 1}}, 1)
    calibrations.keep(config, {"b": {"n": 2}}, 2)
    assert calibrations.kept(config) == [("", {"n": 2}, "b"), ("", {"n": 1}, "a")]


def test_a_judge_has_one_calibration(config):
    calibrations.keep(config, {"a": {"n": 1}}, 1)
    calibrations.keep(config, {"a": {"n": 2}}, 2)
    assert calibrations.kept(config) == [("", {"n": 2}, "a")]


def read(store, tenant):
    with store._database.reading() as connection:
        return calibrations.read(connection, tenant)


@pytest.mark.slow
def test_a_tenants_own_calibration_of_a_judge_holds_for_that_tenant_alone(any_store):
    any_store.labels.keep("", {"a": {"of": "all"}, "b": {"of": "all"}}, 1)
    any_store.labels.keep("acme", {"a": {"of": "acme"}}, 2)
    any_store.labels.keep("blue", {"c": {"of": "blue"}}, 3)
    assert read(any_store, "acme") == [{"of": "acme"}, {"of": "all"}]
    assert read(any_store, "") == [{"of": "all"}] * 2


def test_looking_makes_no_store(config, tmp_path):
    assert calibrations.kept(config) == []
    assert list(tmp_path.iterdir()) == []


def test_looking_writes_nothing_into_a_file_that_is_no_store(config, tmp_path):
    with sqlite3.connect(tmp_path / "a store.db") as older:
        older.execute("CREATE TABLE scores (number INTEGER)")
    older.close()
    before = (tmp_path / "a store.db").read_bytes()
    with pytest.raises(ConfigError, match="without a known version"):
        calibrations.kept(config)
    assert (tmp_path / "a store.db").read_bytes() == before


def test_they_are_kept_beside_a_server_that_has_the_store_open(config):
    store = Store.open(config)
    calibrations.keep(config, {"a": {"n": 1}}, 1)
    assert calibrations.kept(config) == [("", {"n": 1}, "a")]
    store.close()


def test_retention_leaves_them(config):
    calibrations.keep(config, {"a": {"n": 1}}, 1)
    store = Store.open(config)
    store.prune(9 * 10**18)
    store.close()
    assert calibrations.kept(config) == [("", {"n": 1}, "a")]


@pytest.mark.parametrize("url", ["no url", "nodb://x"])
def test_a_url_that_is_none_is_refused(url):
    with pytest.raises(ConfigError, match=r"store\.url"):
        calibrations.kept(Config(url=url))
