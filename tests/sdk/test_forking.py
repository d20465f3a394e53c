"""Forks wait for what spanscore imports, and no longer."""

import functools
import importlib
import pkgutil
import subprocess
import sys
import threading

import pytest

from spanscore import assemble, dialects, evaluation, metrics, otlp, turns
from spanscore.config import Settings
from spanscore.sdk import forks, scoring_thread
from spanscore.sdk.in_process_settings import IN_MEMORY
from spanscore.sdk.thread_resources import open_store
from spanscore.store.config import Config
from spanscore.threads import cached_property


def test_a_fork_that_gives_up_waiting_leaves_no_other_fork_holding_the_lock(monkeypatch):
    no_fork = forks._NoFork()
    no_fork.before(())
    monkeypatch.setattr(forks, "_FORK_WAIT_S", 0)
    other = threading.Thread(target=no_fork.before, args=((),))
    other.start()
    other.join()
    no_fork.after()
    entered = threading.Event()

    def enter():
        with no_fork:
            entered.set()

    threading.Thread(target=enter, daemon=True).start()
    assert entered.wait(30)


def test_what_is_held_twice_by_a_thread_is_let_go_by_its_last_exit():
    no_fork = forks._NoFork()
    taken = []

    def take():
        taken.append(no_fork._lock.acquire(blocking=False))

    def take_in_a_thread():
        other = threading.Thread(target=take)
        other.start()
        other.join()

    with no_fork:
        with no_fork:
            pass
        take_in_a_thread()
    take_in_a_thread()
    assert taken == [False, True]


@pytest.fixture
def torn(monkeypatch):
    """What forbids forks, in the child of one that began while another thread held it."""
    no_fork = forks._NoFork()
    monkeypatch.setattr(forks, "_FORK_WAIT_S", 0)
    monkeypatch.setattr(scoring_thread, "no_fork", no_fork)
    holding, done = threading.Event(), threading.Event()

    def hold():
        with no_fork:
            holding.set()
            done.wait()

    holder = threading.Thread(target=hold)
    holder.start()
    holding.wait()
    no_fork.before(())
    done.set()
    holder.join()
    no_fork.after_in_child()
    return no_fork


def test_a_child_whose_fork_fell_into_the_use_of_the_store_opens_none(torn, caplog):
    worker = scoring_thread.Worker(scoring_thread.Job(Settings(), lambda _: {}))
    worker.start()
    assert (torn.is_torn, worker.running, worker.is_closed) == (True, None, True)
    assert "nothing is scored in it" in caplog.text


def test_no_fork_begins_while_the_store_is_used(tmp_path):
    for config in (IN_MEMORY, Config(url=f"sqlite:///{tmp_path}/store.db")):
        store = open_store(config)
        depths = [store.read(lambda _: forks.no_fork._depth)]
        with store._database.writing():
            depths.append(forks.no_fork._depth)
        store.close()
        assert (depths, forks.no_fork._depth) == ([1, 1], 0)


FORKING_WHILE_IMPORTED = """
import os, sys, threading
from spanscore.sdk import forks

forks._FORK_WAIT_S = 3600
waiting = threading.Thread(target=lambda: __import__("application"), daemon=True)

class Worker:
    @property
    def own_threads(self):
        return {waiting.ident}

    def forked(self):
        pass

forks.register_fork(Worker, print)
waiting.start()
while sys._current_frames()[waiting.ident].f_code.co_name != "acquire":
    pass
child = os.fork()
if not child:
    os._exit(0)
print(os.waitpid(child, 0)[1])
"""


def test_a_fork_does_not_wait_for_an_import_of_what_the_forking_thread_imports(tmp_path):
    (tmp_path / "application.py").write_text(FORKING_WHILE_IMPORTED)
    printed = subprocess.run(
        [sys.executable, "-c", "import application"],
        cwd=tmp_path,
        check=True,
        capture_output=True,
        text=True,
        timeout=60,
    ).stdout
    assert printed == "0\n"


@pytest.mark.parametrize("package", [assemble, dialects, evaluation, metrics, otlp, turns])
def test_what_the_scoring_thread_derives_once_takes_no_lock_that_a_fork_leaves_held(package):
    names = pkgutil.walk_packages(package.__path__, f"{package.__name__}.")
    modules = [importlib.import_module(x.name) for x in names]
    kinds = [x for module in modules for x in vars(module).values() if isinstance(x, type)]
    assert not [
        (kind, name)
        for kind in kinds
        for name, x in vars(kind).items()
        if isinstance(x, functools.cached_property)
    ]


def test_what_is_derived_once_is_derived_once():
    class Some:
        made = 0

        @cached_property
        def fact(self):
            """It is known."""
            self.made += 1
            return self.made

    some = Some()
    assert (some.fact, some.fact, Some.fact.__doc__) == (1, 1, "It is known.")
