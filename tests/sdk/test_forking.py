"""Forks wait for what spanscore imports, and no longer."""

import threading

from spanscore.sdk import forking


def test_a_fork_that_gives_up_waiting_leaves_no_other_fork_holding_the_lock(monkeypatch):
    no_fork = forking._NoFork()
    no_fork.before(())
    monkeypatch.setattr(forking, "_FORK_WAIT_S", 0)
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
