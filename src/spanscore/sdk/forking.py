"""What a fork of the application's process means for the thread in it: the child begins anew."""

import os
import sys
import threading
from collections.abc import Callable
from typing import Final, Protocol

_FORK_WAIT_S: Final = 10.0


class Forked(Protocol):
    """What is called, in the child, after a fork."""

    def forked(self) -> None:
        """Begin anew."""


class _NoFork:
    """While it is held no fork begins: a child would have modules that are imported in half, and
    never the rest.

    A fork waits some seconds at most, since the import may itself wait for the forking thread.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.is_over_in_child = False

    def __enter__(self) -> None:
        self._lock.acquire()

    def __exit__(self, *_: object) -> None:
        self._lock.release()

    def before(self) -> None:
        """A fork is about to begin."""
        self._is_held = self._lock.acquire(timeout=_FORK_WAIT_S)

    def after(self) -> None:
        """A fork is over, here in the parent."""
        if self._is_held:
            self._lock.release()

    def after_in_child(self) -> None:
        """A fork is over, here in the child, which none of the parent's other threads is in."""
        self._lock = threading.Lock()
        self.is_over_in_child = True


no_fork = _NoFork()


def register_fork(worker: Callable[[], "Forked | None"], ending: Callable[[], object]) -> None:
    """Have the child of each fork begin anew; `ending` is called where it ends in a way that runs
    no exit handlers.
    """

    def in_child() -> None:
        no_fork.after_in_child()
        found = worker()
        if found is not None:
            found.forked()
        _end_with_celery(ending)

    if hasattr(os, "register_at_fork"):
        os.register_at_fork(
            before=no_fork.before, after_in_parent=no_fork.after, after_in_child=in_child
        )


def is_child() -> bool:
    """Whether this process was forked after `register_fork`: one of multiprocessing's runs no
    handlers of `atexit`.
    """
    return no_fork.is_over_in_child


def _end_with_celery(ending: Callable[[], object]) -> None:
    """Processes of Celery's pool end by `os._exit`: before that, there is only Celery's own
    signal.
    """
    signals = sys.modules.get("celery.signals")
    if signals is not None:
        signals.worker_process_shutdown.connect(
            lambda **_: ending(), weak=False, dispatch_uid="spanscore"
        )
