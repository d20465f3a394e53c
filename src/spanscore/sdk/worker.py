"""The bounded queue from the application's threads into the thread in which its traces are
scored.
"""

import logging
import threading
import time
from collections import deque
from collections.abc import Collection
from typing import Any, Final

from spanscore.sdk.scoring_thread import Job, ScoringThread

_log = logging.getLogger(__name__)

QUEUE_SIZE: Final = 8192
"""Spans, and log records, that wait for the thread; what comes while it is full is dropped, and
counted.
"""

_TAKEN_AT_ONCE: Final = 500
_LOG_EVERY_S: Final = 60.0


class Worker:
    """Takes spans and log records from any thread without waiting, and scores them in its own.

    The thread starts with the first of them. After a fork the child has a worker without thread and
    with an empty queue: what the parent took in is the parent's to score.
    """

    def __init__(self, job: Job) -> None:
        self._job = job
        self._is_closed = False
        self._reset()

    def _reset(self) -> None:
        self._started: deque[Any] = deque(maxlen=QUEUE_SIZE)
        self._ended: deque[Any] = deque()
        self._logged: deque[Any] = deque()
        self._lost: deque[int] = deque(maxlen=QUEUE_SIZE)
        self._starting = threading.Lock()
        self._running: ScoringThread | None = None
        self.dropped = 0
        self._logged_s = 0.0

    def forked(self) -> None:
        """In the child of a fork: begin anew.

        What the parent had open is left as it is, and never closed here.
        """
        _of_parents.append(self._running)
        self._reset()

    @property
    def running(self) -> ScoringThread | None:
        """The thread's side; None before the first span."""
        return self._running

    def started(self, context: Any) -> None:
        """A span has begun."""
        self._started.append(context)

    def ended(self, span: Any) -> None:
        """A span has ended."""
        if self._is_closed:
            return
        if len(self._ended) >= QUEUE_SIZE:
            self._drop(span.context.trace_id)
            return
        self._ended.append(span)
        running = self._running
        if running is None:
            self.start()
        elif len(self._ended) == QUEUE_SIZE // 4:
            running.wake()

    def logged(self, record: Any) -> None:
        """A log record was emitted."""
        if self._is_closed:
            return
        if len(self._logged) >= QUEUE_SIZE:
            self._drop(record.log_record.trace_id)
            return
        self._logged.append(record)
        if self._running is None:
            self.start()

    def start(self) -> None:
        """Start the thread, if it does not run yet."""
        if self._is_closed:
            return
        with self._starting:
            if self._running is not None:
                return
            running = ScoringThread(self._job, self)
            try:
                running.thread.start()
            except RuntimeError:  # the interpreter is ending
                self.close()
                return
            self._running = running

    @property
    def own_threads(self) -> Collection[int]:
        """The ids of the thread, and of those that work for it."""
        running = self._running
        return running.own_threads if running is not None else ()

    def is_own_thread(self) -> bool:
        """Whether the caller is the thread, or one that works for it: what it emits is not the
        application's.
        """
        return threading.get_ident() in self.own_threads

    def flush(self, timeout_s: float, *, everything: bool = False) -> bool:
        """Wait until what is complete is scored, and its scores have left; False: not within the
        time.

        With `everything`, what is not complete and open sessions are scored as they are.
        """
        running = self._running
        if running is None or self.is_own_thread():
            return True
        deadline_s = time.monotonic() + timeout_s
        if not running.ready.wait(timeout_s) or running.loop is None:
            return False
        left_s = deadline_s - time.monotonic()
        return running.wait_for(running.flush(everything=everything, timeout_s=left_s), left_s)

    def shutdown(self, timeout_s: float) -> bool:
        """Score everything that is there, then end the thread. What comes after is dropped.

        Idempotent.
        """
        if self._is_closed:
            return True
        is_done = self.flush(timeout_s, everything=True)
        self.close()
        running = self._running
        if running is not None and not self.is_own_thread():
            running.stop()
            running.thread.join(1.0)
        self._give_up()
        return is_done

    def close(self) -> None:
        """Take in nothing more."""
        self._is_closed = True
        self.dropped += len(self._ended) + len(self._logged)
        self._ended.clear()
        self._logged.clear()
        if self._job.holds_back is not None:
            self._job.holds_back.close()

    def ended_early(self) -> None:
        """The thread has ended by itself: nothing is scored any more."""
        self.close()
        self._give_up()

    def _give_up(self) -> None:
        if self._job.holds_back is not None:
            self._job.holds_back.give_up()

    def take(self) -> tuple[list[Any], list[Any], list[Any], list[int]]:
        """Some of what waits: ended spans, log records, begun spans, and the traces of which
        something was dropped.
        """
        ended = _some(self._ended, _TAKEN_AT_ONCE)
        logged = _some(self._logged, _TAKEN_AT_ONCE)
        return ended, logged, _some(self._started, QUEUE_SIZE), _some(self._lost, QUEUE_SIZE)

    @property
    def is_closed(self) -> bool:
        """Whether nothing more is taken in."""
        return self._is_closed

    @property
    def is_empty(self) -> bool:
        """Whether nothing waits."""
        return not (self._ended or self._logged)

    def _drop(self, trace_id: int | None) -> None:
        self.dropped += 1
        if trace_id and not (self._lost and self._lost[-1] == trace_id):
            self._lost.append(trace_id)
        now_s = time.monotonic()
        if now_s - self._logged_s > _LOG_EVERY_S:
            self._logged_s = now_s
            _log.warning(
                "spans come faster than they can be taken in: those that do not fit are not scored"
            )


_of_parents: list[Any] = []
"""What a fork's parent had open, kept from being finalised in the child: its connections and locks
are the parent's.
"""


def _some(waiting: deque[Any], limit: int) -> list[Any]:
    """At most `limit` of what waits, which waits no more."""
    return [waiting.popleft() for _ in range(min(limit, len(waiting)))]
