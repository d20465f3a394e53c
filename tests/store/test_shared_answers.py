"""Several servers keep a judge's answers in one PostgreSQL: what one has paid for, none pays for
again.
"""

import logging
import select
import socket
import threading

import pytest
from pydantic import ValidationError
from sqlalchemy import create_engine, text

from spanscore.errors import ConfigError
from spanscore.judge.config import CacheConfig
from spanscore.store.judge_answers import SharedAnswers

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
    one.put({"a": "1", "b": "2"})

    assert other.get(["a", "b", "c"]) == {"a": "1", "b": "2"}


@pytest.mark.postgresql
def test_what_two_servers_keep_at_once_is_kept_once(opened):
    one, other = opened(), opened()
    one.put({"a": "the first"})
    other.put({"a": "the second"})

    assert (one.get(["a"]), other.get(["a"])) == ({"a": "the first"}, {"a": "the first"})


@pytest.mark.postgresql
def test_servers_may_start_at_the_same_moment(opened, caplog):
    caches = [opened() for _ in range(6)]
    threads = [
        threading.Thread(target=cache.put, args=({str(x): "answer"},))
        for x, cache in enumerate(caches)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert (len(caches[0].get([str(x) for x in range(6)])), caplog.records) == (6, [])


@pytest.mark.postgresql
def test_answers_that_were_not_used_for_longest_go_first(opened):
    days = iter(range(10_000))
    cache = opened(250 * 100, clock_ns=lambda: next(days) * 2 * 86400 * 10**9)
    for number in range(199):
        cache.put({f"{number:03}": "x" * 100})
    cache.get(["000"])
    cache.put({f"{number:03}": "x" * 100 for number in range(199, 401)})

    kept = cache.get([f"{number:03}" for number in range(401)])
    assert (len(kept), "000" in kept, "001" in kept, "400" in kept) == (225, True, False, True)


def test_a_database_that_is_away_costs_no_answer_and_is_named_without_its_password(caplog):
    cache = SharedAnswers("postgresql+psycopg://me:secret@127.0.0.1:1/answers", MIB)
    with caplog.at_level(logging.WARNING):
        cache.put({"a": "1"})
        found = cache.get(["a"]).get("a")
    cache.close()

    assert (
        found,
        len(caplog.records),
        "judge.cache.url" in caplog.text,
        "secret" in caplog.text,
    ) == (
        None,
        1,
        True,
        False,
    )


class _SilentHost:
    """A host that takes connections and never answers on them; and a cache behind it, whose seconds
    a test moves.
    """

    def __init__(self):
        self._listening = socket.create_server(("127.0.0.1", 0))
        self._listening.settimeout(20)
        self.now_s = 0.0
        url = f"postgresql+psycopg://me@127.0.0.1:{self._listening.getsockname()[1]}/answers"
        self.cache = SharedAnswers(
            f"{url}?sslmode=disable&gssencmode=disable", MIB, clock_s=lambda: self.now_s
        )

    def taken(self):
        """The connection that the cache opens, once it has."""
        return self._listening.accept()[0]

    def was_asked(self):
        """Whether the cache has opened one more connection."""
        return bool(select.select([self._listening], [], [], 0)[0])

    def close(self):
        self._listening.close()
        self.cache.close()


@pytest.fixture
def silent():
    host = _SilentHost()
    yield host
    host.close()


def _failed(silent):
    """Have the cache connect and fail."""
    asking = threading.Thread(target=silent.cache.get, args=("a",))
    asking.start()
    silent.taken().close()
    asking.join()


def test_while_one_thread_waits_for_a_silent_host_the_others_do_not(silent):
    waiting = threading.Thread(target=silent.cache.get, args=("a",))
    waiting.start()
    connection = silent.taken()
    found = [silent.cache.get(["a"]) for _ in range(20)]
    silent.cache.put({"a": "1"})
    asked = silent.was_asked()
    connection.close()
    waiting.join()

    assert (found, asked) == ([{}] * 20, False)


def test_after_a_failure_the_database_is_not_asked_for_a_while(silent):
    _failed(silent)
    silent.now_s = 29.0
    found = silent.cache.get(["a"]).get("a")
    silent.cache.put({"a": "1"})

    assert (found, silent.was_asked()) == (None, False)


def test_after_the_pause_the_database_is_asked_again(silent, caplog):
    _failed(silent)
    silent.now_s = 61.0
    _failed(silent)

    assert len(caplog.records) == 2


@pytest.mark.postgresql
def test_a_text_that_the_database_cannot_take_is_not_kept_and_those_beside_it_are(opened):
    cache = opened()
    cache.put({"a": "1", "b": "half a character: \ud83d", "c": "\0"})

    assert cache.get(["a", "b", "c"]) == {"a": "1"}


@pytest.mark.postgresql
def test_a_key_that_is_no_text_finds_nothing(opened):
    cache = opened()
    cache.put({"a": "1"})

    assert (cache.get(["\ud83d"]), cache.get(["a"])) == ({}, {"a": "1"})


@pytest.mark.postgresql
def test_servers_that_keep_the_same_answers_in_different_orders_do_not_block_each_other(
    opened, caplog
):
    one, other = opened(), opened()
    keys = [f"{number:03}" for number in range(150)]
    one.get(["a"]), other.get(["a"])

    def keep(cache, order):
        for start in range(0, 10_000, 1000):
            cache.put({f"{start} {key}": "answer" for key in order})

    threads = [threading.Thread(target=keep, args=x) for x in ((one, keys), (other, keys[::-1]))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert caplog.records == []


@pytest.mark.postgresql
def test_answers_whose_use_another_server_is_noting_are_found_nonetheless(url, opened):
    days = iter((0, 2))
    cache = opened(clock_ns=lambda: next(days) * 86400 * 10**9)
    cache.put({"a": "1"})
    engine = create_engine(url)
    with engine.begin() as connection:
        connection.execute(text("UPDATE spanscore_judge_answers SET used_ns = 1 WHERE key = 'a'"))
        connection.execute(text("SELECT 1 FROM spanscore_judge_answers WHERE key = 'a' FOR UPDATE"))
        found = cache.get(["a"]).get("a")
    engine.dispose()

    assert found == "1"


@pytest.mark.parametrize("url", ["no url", "sqlite:///answers.db"])
def test_only_a_database_that_machines_can_share_is_taken(url):
    with pytest.raises(ConfigError, match=r"judge\.cache\.url"):
        SharedAnswers(url, MIB)


def test_the_configuration_names_another_database_before_a_server_starts():
    with pytest.raises(ValidationError, match="no PostgreSQL"):
        CacheConfig(url="sqlite:///answers.db")
