"""Restart of the scoring thread after a fork."""

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
    is_safe = True


class _NoFork:
    """While it is held, or one of our threads imports, no fork begins: a child would have modules
    that are imported in half, and never the rest, and locks within SQLite that nobody lets go.

    A fork waits some seconds at most, and not for an import that itself waits for one of the
    forking thread. A thread may hold it several times over.
    """

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._holder = self._depth = 0
        self._fork = _Fork()
        self.is_over_in_child = False
        self.is_torn = False
        """Whether this process was forked all the same: SQLite may wait for ever in it."""

    def __enter__(self) -> None:
        self._lock.acquire()
        self._holder = threading.get_ident()
        self._depth += 1

    def __exit__(self, *_: object) -> None:
        self._depth -= 1
        if not self._depth:
            self._holder = 0
        self._lock.release()

    def before(self, threads: Collection[int]) -> None:
        """A fork is about to begin; `threads` are the ids of ours."""
        until_s = time.monotonic() + _FORK_WAIT_S
        self._fork.has_lock = False
        while not (may_begin := self._may_begin(threads)) and time.monotonic() < until_s:
            time.sleep(_LOOK_EVERY_S)
        self._fork.is_safe = may_begin

    def after(self) -> None:
        """A fork is over, here in the parent."""
        if self._fork.has_lock:
            self._fork.has_lock = False
            self._holder = 0
            self._lock.release()

    def after_in_child(self) -> None:
        """A fork is over, here in the child, which none of the parent's other threads is in."""
        self.is_torn = self.is_torn or not self._fork.is_safe
        self._lock = threading.RLock()
        self._holder = self._depth = 0
        self._fork = _Fork()
        self.is_over_in_child = True

    def _may_begin(self, threads: Collection[int]) -> bool:
        if not self._fork.has_lock and self._lock.acquire(timeout=_LOOK_EVERY_S):
            self._fork.has_lock = True
            self._holder = threading.get_ident()
        return (self._fork.has_lock or _waits_for_us(self._holder)) and not _imports(threads)


no_fork = _NoFork()


def _imports(threads: Collection[int]) -> bool:
    """Whether one of these threads is within an import that can end before the calling thread
    goes on.
    """
    running = sys._current_frames()  # noqa: SLF001 - as faulthandler and profilers do
    ours = [(thread, frame) for thread, frame in running.items() if thread in threads]
    return any(not _waits_for_us(x) and _is_within_import(frame) for x, frame in ours)


def _waits_for_us(thread: int) -> bool:
    """Whether a thread is the calling one, or waits for a module that the calling one imports,
    itself or by way of other threads.
    """
    found = waited_for = {thread}
    while found:
        found = {owner for waiting in found for owner in _owners(waiting)} - waited_for
        waited_for = waited_for | found
    return threading.get_ident() in waited_for


def _owners(thread: int) -> list[int]:
    """The threads that import what a thread waits for; none where Python does not say."""
    blocking_on = getattr(sys.modules.get("_frozen_importlib"), "_blocking_on", {})
    locks = blocking_on.get(thread)  # one until Python 3.11, a list from 3.12
    owners = [getattr(x, "owner", None) for x in (locks if isinstance(locks, list) else [locks])]
    return [x for x in owners if x is not None]


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

    _end_with_celery(ending)  # a process of its pool may be the first to ask for scores
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
