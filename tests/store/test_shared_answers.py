"""Several servers keep a judge's answers in one PostgreSQL: what one has paid for, none pays for again."""

import logging
import threading

import pytest

from spanscore.errors import ConfigError
from spanscore.store.shared_answers import SharedAnswers

MIB = 2**20


@pytest.fixture
def url(postgresql_server):
    return postgresql_server.create()


@pytest.fixture
def opened(url):
    """Open one more server's cache of the same database."""
    caches = []

    def make(max_bytes=MIB, **options):
        caches.append(SharedAnswers(url, max_bytes, **options))
        return caches[-1]

    yield make
    for cache in caches:
        cache.close()


@pytest.mark.postgresql
def test_one_server_finds_what_another_one_kept(opened):
    one, other = opened(), opened()
    one.put_all({"a": "1", "b": "2"})

    assert other.get_all(["a", "b", "c"]) == {"a": "1", "b": "2"}


@pytest.mark.postgresql
def test_what_two_servers_keep_at_once_is_kept_once(opened):
    one, other = opened(), opened()
    one.put("a", "the first")
    other.put("a", "the second")

    assert (one.get("a"), other.get("a")) == ("the first", "the first")


@pytest.mark.postgresql
def test_servers_may_start_at_the_same_moment(opened, caplog):
    caches = [opened() for _ in range(6)]
    threads = [threading.Thread(target=cache.put, args=(str(x), "answer")) for x, cache in enumerate(caches)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert (len(caches[0].get_all([str(x) for x in range(6)])), caplog.records) == (6, [])


@pytest.mark.postgresql
def test_answers_that_were_not_used_for_longest_go_first(opened):
    days = iter(range(10_000))
    cache = opened(250 * 100, clock_ns=lambda: next(days) * 2 * 86400 * 10**9)
    for number in range(199):
        cache.put(f"{number:03}", "x" * 100)
    cache.get("000")
    cache.put_all({f"{number:03}": "x" * 100 for number in range(199, 401)})

    kept = cache.get_all([f"{number:03}" for number in range(401)])
    assert (len(kept), "000" in kept, "001" in kept, "400" in kept) == (225, True, False, True)


def test_a_database_that_is_away_costs_no_answer_and_is_named_without_its_password(caplog):
    cache = SharedAnswers("postgresql+psycopg://me:secret@127.0.0.1:1/answers", MIB)
    with caplog.at_level(logging.WARNING):
        cache.put("a", "1")
        found = cache.get("a")
    cache.close()

    assert (found, len(caplog.records), "judge.cache.url" in caplog.text, "secret" in caplog.text) == (
        None,
        1,
        True,
        False,
    )


@pytest.mark.parametrize("url", ["no url", "sqlite:///answers.db"])
def test_only_a_database_that_machines_can_share_is_taken(url):
    with pytest.raises(ConfigError, match=r"judge\.cache\.url"):
        SharedAnswers(url, MIB)
