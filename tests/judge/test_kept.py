"""Answers are kept between runs in a file that is private, bounded and safe with several processes
at once.
"""

import logging
import os
import sqlite3
import stat
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from spanscore.judge.cache import FileCache, default_path

DAY_NS = 86400 * 10**9


@pytest.fixture
def path(tmp_path):
    return tmp_path / "cache" / "answers.db"


def test_an_answer_is_there_for_the_next_run(path):
    FileCache(path, 10**6).put({"k": "answer"})

    assert FileCache(path, 10**6).get(["k"]) == {"k": "answer"}


def test_what_was_never_kept_is_not_there(path):
    assert FileCache(path, 10**6).get(["k"]) == {}


def test_a_later_answer_takes_the_place_of_an_earlier_one(path):
    cache = FileCache(path, 10**6)
    cache.put({"k": "one"})
    cache.put({"k": "two"})

    assert cache.get(["k"]) == {"k": "two"}


def test_no_file_is_made_before_it_is_needed(path):
    FileCache(path, 10**6)

    assert not path.exists()


@pytest.mark.skipif(os.name != "posix", reason="modes are POSIX")
def test_only_its_owner_can_read_the_file(path):
    FileCache(path, 10**6).put({"k": "answer"})

    modes = {stat.S_IMODE(x.stat().st_mode) for x in path.parent.iterdir()}
    assert (modes, stat.S_IMODE(path.parent.stat().st_mode)) == ({0o600}, 0o700)


@pytest.mark.skipif(os.name != "posix", reason="modes are POSIX")
def test_a_file_that_others_could_read_is_made_private(path):
    FileCache(path, 10**6).put({"k": "answer"})
    path.chmod(0o644)
    FileCache(path, 10**6).get(["k"])

    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_what_was_not_used_for_longest_goes_first(path):
    now_ns = 0

    def clock():
        return now_ns

    cache = FileCache(path, 1000, clock)
    for number in range(4):
        now_ns = number * 10 * DAY_NS
        cache.put({f"k{number}": "x" * 200})
    now_ns = 40 * DAY_NS
    cache.get(["k0"])
    now_ns = 41 * DAY_NS
    cache.put({"k4": "x" * 250})

    assert set(cache.get([f"k{number}" for number in range(5)])) == {"k0", "k2", "k3", "k4"}


def test_the_file_does_not_grow_beyond_its_bound(path):
    cache = FileCache(path, 10_000)
    for number in range(500):
        cache.put({f"k{number}": "x" * 100})

    with sqlite3.connect(path) as connection:
        assert (
            connection.execute("SELECT sum(length(key) + length(value)) FROM answers").fetchone()[0]
            <= 10_000
        )


@pytest.mark.parametrize(
    "damage", [b"no database at all, but long enough to be read as a header" * 20]
)
def test_a_damaged_file_is_named_once_and_loses_no_score(path, damage, caplog):
    path.parent.mkdir()
    path.write_bytes(damage)
    cache = FileCache(path, 10**6)
    cache.put({"k": "answer"})

    assert cache.get(["k"]) == {}
    assert sum(str(path) in x.message for x in caplog.records) == 1


def test_a_folder_that_cannot_be_made_loses_no_score(tmp_path, caplog):
    caplog.set_level(logging.WARNING)
    (tmp_path / "file").write_text("")
    cache = FileCache(tmp_path / "file" / "answers.db", 10**6)
    cache.put({"k": "answer"})

    assert (cache.get(["k"]), "judge.cache.path" in caplog.text) == ({}, True)


def test_threads_share_it(path):
    cache = FileCache(path, 10**6)
    threads = [
        threading.Thread(target=cache.put, args=({f"k{number}": str(number)},))
        for number in range(20)
    ]
    for each in threads:
        each.start()
    for each in threads:
        each.join()

    given = {f"k{number}": str(number) for number in range(20)}
    assert cache.get(list(given)) == given


WRITER = """
import sys
from pathlib import Path
from spanscore.judge.cache import FileCache
cache = FileCache(Path(sys.argv[1]), 10**6)
for number in range(100):
    cache.put({f"{sys.argv[2]}-{number}": "answer"})
"""


@pytest.mark.slow
def test_processes_share_it(path):
    running = [subprocess.Popen([sys.executable, "-c", WRITER, str(path), name]) for name in "abc"]
    assert [each.wait(60) for each in running] == [0, 0, 0]

    cache = FileCache(path, 10**6)
    assert len(cache.get([f"{name}-{number}" for name in "abc" for number in range(100)])) == 300


@pytest.mark.parametrize(
    ("environ", "platform", "expected"),
    [
        ({"XDG_CACHE_HOME": "/xdg"}, "linux", Path("/xdg/spanscore/answers.db")),
        ({"XDG_CACHE_HOME": "/xdg"}, "darwin", Path("/xdg/spanscore/answers.db")),
        ({}, "linux", Path.home() / ".cache/spanscore/answers.db"),
        ({"XDG_CACHE_HOME": "relative"}, "linux", Path.home() / ".cache/spanscore/answers.db"),
        ({}, "darwin", Path.home() / "Library/Caches/spanscore/answers.db"),
        ({"LOCALAPPDATA": "/local"}, "win32", Path("/local/spanscore/Cache/answers.db")),
    ],
)
def test_the_file_is_in_the_users_cache_folder(environ, platform, expected):
    assert default_path(environ, platform) == expected
