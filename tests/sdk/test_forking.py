"""Forks wait for what spanscore imports, and no longer."""

import subprocess
import sys
import threading

from spanscore.sdk import forks


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
