"""What a fork of the application's process means for the thread in it: the child begins anew."""

import os
import sys
import threading
import time
from collections.abc import Callable, Collection
from types import FrameType
from typing import Final, Protocol

_FORK_WAIT_S: Final = 10.0
_LOOK_EVERY_S: Final = 0.001
_IMPORTING: Final = "<frozen importlib._bootstrap>"


class Forked(Protocol):
    """What is called, in the child, after a fork."""

    @property
    def own_threads(self) -> Collection[int]:
        """The ids of the threads in which it works."""

    def forked(self) -> None:
        """Begin anew."""


class _Fork(threading.local):
    """A fork that this thread makes."""

    has_lock = False


class _NoFork:
    """While it is held, or one of our threads imports, no fork begins: a child would have modules
    that are imported in half, and never the rest.

    A fork waits some seconds at most, since the import may itself wait for the forking thread.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._fork = _Fork()
        self.is_over_in_child = False

    def __enter__(self) -> None:
        self._lock.acquire()

    def __exit__(self, *_: object) -> None:
        self._lock.release()

    def before(self, threads: Collection[int]) -> None:
        """A fork is about to begin; `threads` are the ids of ours."""
        until_s = time.monotonic() + _FORK_WAIT_S
        self._fork.has_lock = self._lock.acquire(timeout=_FORK_WAIT_S)
        while _imports(threads) and time.monotonic() < until_s:
            time.sleep(_LOOK_EVERY_S)

    def after(self) -> None:
        """A fork is over, here in the parent."""
        if self._fork.has_lock:
            self._fork.has_lock = False
            self._lock.release()

    def after_in_child(self) -> None:
        """A fork is over, here in the child, which none of the parent's other threads is in."""
        self._lock = threading.Lock()
        self._fork = _Fork()
        self.is_over_in_child = True


no_fork = _NoFork()


def _imports(threads: Collection[int]) -> bool:
    """Whether one of these threads, other than the calling one, is within an import."""
    running = sys._current_frames()  # noqa: SLF001 - as faulthandler and profilers do
    return any(
        _is_within_import(frame)
        for thread, frame in running.items()
        if thread in threads and thread != threading.get_ident()
    )


def _is_within_import(frame: FrameType | None) -> bool:
    while frame is not None and frame.f_code.co_filename != _IMPORTING:
        frame = frame.f_back
    return frame is not None


def register_fork(worker: Callable[[], "Forked | None"], ending: Callable[[], object]) -> None:
    """Have the child of each fork begin anew; `ending` is called where it ends in a way that runs
    no exit handlers.
    """

    def before() -> None:
        found = worker()
        no_fork.before(found.own_threads if found is not None else ())

    def in_child() -> None:
        no_fork.after_in_child()
        found = worker()
        if found is not None:
            found.forked()
        _end_with_celery(ending)

    if hasattr(os, "register_at_fork"):
        os.register_at_fork(before=before, after_in_parent=no_fork.after, after_in_child=in_child)


def is_child() -> bool:
    """Whether this process was forked after `register_fork`, or is one of multiprocessing's, which
    mostly run no handlers of `atexit`.
    """
    processes = sys.modules.get("multiprocessing.process")
    is_of_multiprocessing = processes is not None and processes.parent_process() is not None
    return no_fork.is_over_in_child or is_of_multiprocessing


def _end_with_celery(ending: Callable[[], object]) -> None:
    """Processes of Celery's pool end by `os._exit`: before that, there is only Celery's own
    signal.
    """
    signals = sys.modules.get("celery.signals")
    if signals is not None:
        signals.worker_process_shutdown.connect(
            lambda **_: ending(), weak=False, dispatch_uid="spanscore"
        )
