"""The thread that scores an application's traces."""

import asyncio
import logging
import threading
import time
import weakref
from collections import OrderedDict, deque
from collections.abc import Callable, Collection, Coroutine, Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from spanscore.sdk.forks import no_fork
from spanscore.sdk.otel_spans import to_log_record, to_span

if TYPE_CHECKING:
    from spanscore.config import Settings
    from spanscore.judge.port import Judge
    from spanscore.model.score import Evaluation
    from spanscore.model.span import LogRecord, Span
    from spanscore.sdk.gathered import Ended, Gathered
    from spanscore.sdk.scoring_exporter import Board
    from spanscore.serving.processing import Processing
    from spanscore.store.store import Store

_log = logging.getLogger(__name__)

_LOOK_EVERY_S: Final = 0.05
_FOLLOW_EVERY_S: Final = 1.0
_THREADS: Final = 4

_LEFT_S, _LEFT_SHARE = 2.0, 0.25
"""How long before the end of its time, and for which share of that at most, a process that ends
waits no longer for judges: so that the scores that are there can leave.
"""


@dataclass(frozen=True)
class Job:
    """What the thread is to do.

    `opened` gives the exporters by name, where the loop runs; `holds_back` holds spans for their
    scores, if anybody does. `scored` is called with what was scored, `follow` about every second.
    """

    settings: "Settings"
    opened: "Callable[[Settings], Mapping[str, Any]]"
    judge: "Judge | None" = None
    holds_back: "Board | None" = None
    scored: "Callable[[Sequence[Evaluation]], None] | None" = None
    follow: Callable[[], None] = lambda: None


class ScoringThread:
    """Takes in what waits in a queue, and scores it."""

    def __init__(self, job: Job, queue: "Worker") -> None:
        self._job = job
        self._queue = queue
        self.thread = threading.Thread(target=self._run, name="spanscore", daemon=True)
        self.ready = threading.Event()
        self.loop: asyncio.AbstractEventLoop | None = None
        self.own_threads: set[int] = set()
        self.processing: Processing | None = None
        self._gathered: Gathered | None = None
        self._wake = asyncio.Event()
        self._stopping = asyncio.Event()
        self._keeping: set[asyncio.Future[Any]] = set()
        self._untraced: Callable[[], AbstractContextManager[None]]
        self._open_spans = OpenSpans()

    def wake(self) -> None:
        """Have the thread look into the queue now."""
        self._call(self._wake.set)

    def stop(self) -> None:
        """End the thread."""
        self._call(self._stopping.set)

    def wait_for(self, work: Coroutine[Any, Any, bool], timeout_s: float) -> bool:
        """The result of work in the loop; False: not within the time."""
        if self.loop is None or not self.thread.is_alive():
            work.close()
            return False
        try:
            future: Future[bool] = asyncio.run_coroutine_threadsafe(work, self.loop)
        except RuntimeError:  # it has been closed meanwhile
            work.close()
            return False
        try:
            return future.result(max(0.0, timeout_s) + 1.0)  # it ends by itself at the time
        except Exception:  # noqa: BLE001 - also where another thread has ended it: the application goes on
            _log.debug("the flush did not come to its end", exc_info=True)
            future.cancel()
            return False

    async def flush(self, *, everything: bool, timeout_s: float) -> bool:
        """See `Worker.flush`."""
        processing = self.processing
        if processing is None:
            return False
        deadline_s = time.monotonic() + timeout_s
        try:
            async with asyncio.timeout(timeout_s):
                while not self._queue.is_empty:
                    self._take_in()
                    await asyncio.sleep(0)
                await asyncio.gather(*self._keeping, return_exceptions=True)
                if everything:
                    await _finish(processing, deadline_s - time.monotonic())
                else:
                    await processing.finish_complete()
        except TimeoutError:
            return False
        has_left = await processing.sender.drain(deadline_s - time.monotonic())
        return has_left and not processing.judges_end.unanswered

    def _call(self, what: Callable[[], object]) -> None:
        if self.loop is not None:
            try:
                self.loop.call_soon_threadsafe(what)
            except RuntimeError:  # it has been closed meanwhile
                return

    def _run(self) -> None:
        with no_fork:
            from spanscore.sdk.thread_resources import untraced  # noqa: PLC0415 - not on the application's thread
        self._untraced = untraced
        with self._own_thread():
            try:
                asyncio.run(self._main())
            except Exception:  # noqa: BLE001 - the application goes on without scores
                _log.exception(
                    "spanscore cannot score in this process; nothing is scored from here on"
                )
                self._queue.ended_early()
            finally:
                self.ready.set()

    @contextmanager
    def _own_thread(self) -> Iterator[None]:
        """In this thread nothing is traced, whichever instrumentation the application has."""
        self.own_threads.add(threading.get_ident())
        with self._untraced():
            yield

    async def _main(self) -> None:
        with no_fork:
            self._open()
        self.loop = asyncio.get_running_loop()
        self.ready.set()
        if self._queue.is_closed:  # while all was loaded
            self._stopping.set()
        processing = self.processing
        assert processing is not None  # noqa: S101 - opened above
        try:
            async with asyncio.TaskGroup() as tasks:
                work = (*processing.loops(), self._intake(), self._following())
                loops = list(map(tasks.create_task, work))
                await processing.take_up_sessions()
                await self._stopping.wait()
                for task in loops:
                    task.cancel()
        finally:
            await processing.sender.stop()
            self._close(processing.store)

    def _close(self, store: "Store") -> None:
        """Let go of the store; of one in memory when nobody can ask for its scores any more."""
        if store.is_in_memory:
            weakref.finalize(self, store.close).atexit = False
        else:
            store.close()

    def _open(self) -> None:
        from spanscore.lazy_imports import load_litellm  # noqa: PLC0415 - likewise
        from spanscore.sdk.gathered import Gathered  # noqa: PLC0415 - likewise
        from spanscore.sdk.thread_resources import DaemonThreads, open_store  # noqa: PLC0415 - likewise
        from spanscore.serving.processing import Processing  # noqa: PLC0415 - all that follows is loaded here, in the thread
        from spanscore.telemetry import Meter  # noqa: PLC0415 - likewise

        threads = DaemonThreads(_THREADS, "spanscore", self._own_thread)
        asyncio.get_running_loop().set_default_executor(threads)
        job, meter = self._job, Meter()
        self._gathered = Gathered(job.settings.assemble, meter)
        self.processing = Processing(
            job.settings,
            self._gathered,
            meter,
            store=open_store(job.settings.store),
            exporters=job.opened(job.settings),
            judge=job.judge,
            scored=job.scored,
            threads=threads,
        )
        self.processing.hold_back(job.holds_back)
        _load_reading()
        if _calls_models(job):
            with suppress(Exception):  # whoever asks a model first says what is wrong with it
                load_litellm()

    async def _intake(self) -> None:
        """Take in what waits, for ever."""
        while True:
            self._wake.clear()
            while not self._queue.is_empty:
                self._take_in()
                await asyncio.sleep(0)
            try:
                async with asyncio.timeout(_LOOK_EVERY_S):
                    await self._wake.wait()
            except TimeoutError:
                continue

    async def _following(self) -> None:
        while True:
            self._job.follow()
            if self._job.holds_back is not None:
                await asyncio.to_thread(self._job.holds_back.look)
            await asyncio.sleep(_FOLLOW_EVERY_S)

    def _take_in(self) -> None:
        gathered = self._gathered
        if gathered is None:
            return
        # in this order: no span is seen to end before it begins
        ended, logged, started, lost = self._queue.take()
        for context in started:
            self._open_spans.begun(f"{context.trace_id:032x}", f"{context.span_id:016x}")
        for trace_id in lost:
            gathered.refuse(f"{trace_id:032x}")
            # whose end was dropped would stay open for ever
            self._open_spans.forget(f"{trace_id:032x}")
        read = [x for span in ended if (x := self._read(span)) is not None]
        if self._job.holds_back is not None:
            for one in read:
                self._job.holds_back.ended(one)
        logs = [x for record in logged if (x := _guarded(to_log_record, record)) is not None]
        self._keep_scores_of_others([x.span for x in read], logs)
        gathered.add(read, logs, time.time_ns(), self._open_spans.of_trace)

    def _keep_scores_of_others(self, spans: Sequence["Span"], logs: Sequence["LogRecord"]) -> None:
        """Put scores that people and other evaluators gave into the store, beside ours."""
        from spanscore.received_scores import read_external  # noqa: PLC0415 - loaded long ago
        from spanscore.sdk.gathered import may_hold_scores  # noqa: PLC0415 - likewise

        found = list(filter(may_hold_scores, spans)), list(filter(may_hold_scores, logs))
        if not any(found) or self.processing is None:
            return
        scope = self._job.settings.assemble.session_scope
        scores = _guarded(lambda both: read_external(*both, session_scope=scope), found)
        if scores:
            put = self.processing.store.put_external
            keeping = asyncio.ensure_future(self.processing.patiently(put, scores))
            self._keeping.add(keeping)
            keeping.add_done_callback(self._kept)

    def _kept(self, keeping: "asyncio.Future[Any]") -> None:
        self._keeping.discard(keeping)
        if not keeping.cancelled() and (error := keeping.exception()) is not None:
            _log.error("scores that others gave cannot be stored: %s", error)

    def _read(self, span: Any) -> "Ended | None":
        from spanscore.sdk.gathered import Ended  # noqa: PLC0415 - loaded long ago

        read = _guarded(to_span, span)
        if read is None:
            return None
        self._open_spans.ended(read.trace_id, read.span_id)
        is_remote = bool(getattr(span.parent, "is_remote", False))
        return Ended(read, is_local_root=not read.parent_span_id or is_remote)


async def _finish(processing: "Processing", within_s: float) -> None:
    """Score everything that is there, without what judges have not answered shortly before the
    time.
    """
    waiting_s = within_s - min(_LEFT_S, within_s * _LEFT_SHARE)
    ending = asyncio.get_running_loop().call_later(waiting_s, processing.judges_end.begin)
    try:
        await processing.finish_everything()
        await processing.settle_judge()
    finally:
        ending.cancel()


def _load_reading() -> None:
    """Import what reads spans: what is imported with the first span may fall together with a
    fork.
    """
    from spanscore import dialects, turns  # noqa: PLC0415 - loaded in the thread
    from spanscore.turns.stitch.stitcher import all_reasons  # noqa: PLC0415 - likewise

    for package in (dialects, turns):
        for name in package.__all__:
            getattr(package, name)
    dialects.all_dialects()
    all_reasons()


def _guarded(read: Callable[[Any], Any], item: Any) -> Any:
    """What `read` gives; None where an item is nothing that it can read."""
    try:
        return read(item)
    except Exception:  # noqa: BLE001 - one odd span must not stop the thread
        _log.debug("a span or log record cannot be read and is left out", exc_info=True)
        return None


def _calls_models(job: Job) -> bool:
    asked = (x.models and x.recorded_answers is None for x in job.settings.judges)
    needs_judge = job.judge is None and any(asked)
    return needs_judge or job.settings.embedding.chosen == "litellm"


_MAX_TRACES: Final = 100_000
"""Traces with open spans that are remembered; past it the oldest are forgotten."""


class OpenSpans:
    """The ids of open spans by trace, in hex."""

    def __init__(self) -> None:
        self._by_trace: OrderedDict[str, set[str]] = OrderedDict()

    def begun(self, trace_id: str, span_id: str) -> None:
        """A span has begun."""
        self._by_trace.setdefault(trace_id, set()).add(span_id)
        if len(self._by_trace) > _MAX_TRACES:
            self._by_trace.popitem(last=False)

    def ended(self, trace_id: str, span_id: str) -> None:
        """A span has ended."""
        open_spans = self._by_trace.get(trace_id)
        if open_spans is not None:
            open_spans.discard(span_id)
            if not open_spans:
                del self._by_trace[trace_id]

    def forget(self, trace_id: str) -> None:
        """Of this trace it is no longer known which spans are open."""
        self._by_trace.pop(trace_id, None)

    def of_trace(self, trace_id: str) -> Collection[str]:
        """The open spans of a trace."""
        return self._by_trace.get(trace_id, ())


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
        self.is_closed = False
        """Whether nothing more is taken in."""

        self._reset()

    def _reset(self) -> None:
        self._started: deque[Any] = deque(maxlen=QUEUE_SIZE)
        self._ended: deque[Any] = deque()
        self._logged: deque[Any] = deque()
        self._lost: deque[int] = deque(maxlen=QUEUE_SIZE)
        self._starting = threading.Lock()
        self.running: ScoringThread | None = None
        """The thread's side; None before the first span."""

        self.dropped = 0
        self._logged_s = 0.0

    def forked(self) -> None:
        """In the child of a fork: begin anew.

        What the parent had open is left as it is, and never closed here.
        """
        _of_parents.append(self.running)
        self._reset()

    def started(self, context: Any) -> None:
        """A span has begun."""
        self._started.append(context)

    def ended(self, span: Any) -> None:
        """A span has ended."""
        self._put(self._ended, span, span.context.trace_id)

    def logged(self, record: Any) -> None:
        """A log record was emitted."""
        self._put(self._logged, record, record.log_record.trace_id)

    def _put(self, waiting: deque[Any], item: Any, trace_id: int | None) -> None:
        if self.is_closed:
            return
        if len(waiting) >= QUEUE_SIZE:
            self._drop(trace_id)
            return
        waiting.append(item)
        running = self.running
        if running is None:
            self.start()
        elif len(waiting) == QUEUE_SIZE // 4:
            running.wake()

    def start(self) -> None:
        """Start the thread, if it does not run yet; never where a fork was torn."""
        if self.is_closed:
            return
        if no_fork.is_torn:
            _log.warning(
                "this process was forked while spanscore used its store in another thread: nothing"
                " is scored in it"
            )
            self.close()
            return
        with self._starting:
            if self.running is not None:
                return
            running = ScoringThread(self._job, self)
            try:
                running.thread.start()
            except RuntimeError:  # the interpreter is ending
                self.close()
                return
            self.running = running

    @property
    def own_threads(self) -> Collection[int]:
        """The ids of the thread, and of those that work for it."""
        running = self.running
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
        running = self.running
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
        if self.is_closed:
            return True
        is_done = self.flush(timeout_s, everything=True)
        self.close()
        running = self.running
        if running is not None and not self.is_own_thread():
            running.stop()
            running.thread.join(1.0)
        self._give_up()
        return is_done

    def close(self) -> None:
        """Take in nothing more."""
        self.is_closed = True
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
