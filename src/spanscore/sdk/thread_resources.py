"""Threads, store and context of the scoring thread."""

import logging
import queue
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from typing import Any, ParamSpec, TypeVar

from opentelemetry import context, trace

from spanscore.errors import ConfigError
from spanscore.sdk.forks import no_fork
from spanscore.sdk.in_process_settings import IN_MEMORY
from spanscore.store.config import Config
from spanscore.store.connections import MEMORY
from spanscore.store.store import Store
from spanscore.telemetry import instrumentation_suppressed

P = ParamSpec("P")
T = TypeVar("T")


class DaemonThreads(ThreadPoolExecutor):
    """A fixed number of daemon threads, which take work also after the main thread has ended.

    The executor of the standard library refuses work from that moment on, which is when a short
    program's last traces are scored. It is one by type only, since asyncio takes no other as the
    default.
    """

    def __init__(
        self, count: int, name: str, around: Callable[[], AbstractContextManager[object]]
    ) -> None:
        """`around` is entered by each thread for as long as it lives."""
        super().__init__(count, name)
        self._jobs: queue.SimpleQueue[tuple[Future[Any], Callable[[], Any]] | None] = (
            queue.SimpleQueue()
        )
        self._around = around
        names = (f"{name}-{i}" for i in range(count))
        self._own = [threading.Thread(target=self._work, name=x, daemon=True) for x in names]
        for thread in self._own:
            thread.start()

    def submit(self, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> "Future[T]":
        """Have a thread call `fn`."""
        future: Future[T] = Future()
        self._jobs.put((future, partial(fn, *args, **kwargs)))
        return future

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Let the threads end when what they were given is done; waits for none of them."""
        del wait, cancel_futures
        for _ in self._own:
            self._jobs.put(None)
        self._own = []

    def _work(self) -> None:
        with self._around():
            while (job := self._jobs.get()) is not None:
                _do(*job)
                del job  # or what the last job held stays until the next one


def _do(future: "Future[Any]", call: Callable[[], Any]) -> None:
    if not future.set_running_or_notify_cancel():
        return
    try:
        future.set_result(call())
    except BaseException as error:  # noqa: BLE001 - it is raised where the result is waited for
        future.set_exception(error)


_log = logging.getLogger(__name__)


def open_store(config: Config) -> Store:
    """The store that is configured; where another process has its file, one in memory, and a
    warning. No fork begins while it is used.
    """
    if config.url == MEMORY:
        return Store.open(config, guard=no_fork)
    try:
        return Store.open(config, alone=True, guard=no_fork)
    except ConfigError as error:
        _log.warning("%s; scores of this process are kept in memory", error)
        return Store.open(IN_MEMORY, guard=no_fork)


_NOT_SAMPLED = trace.NonRecordingSpan(
    trace.SpanContext(1, 1, is_remote=False, trace_flags=trace.TraceFlags(0))
)
"""The parent of what is traced all the same: where the sampler follows the parent, it is
dropped.
"""


@contextmanager
def untraced() -> Iterator[None]:
    """Within this block, and in tasks and threads that copy its context, nothing is traced."""
    with instrumentation_suppressed():
        token = context.attach(trace.set_span_in_context(_NOT_SAMPLED))
        try:
            yield
        finally:
            context.detach(token)
