"""Scores of recorded agent traces, as made."""

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable, Iterator, Sequence
from typing import Any, NamedTuple, TypeAlias

from spanscore.config import Settings
from spanscore.evaluation import Engine, Overrides
from spanscore.evaluation.rubric import require_on_scale
from spanscore.judge.port import Judge
from spanscore.model.score import Evaluation
from spanscore.model.trace import AgentTrace, Session
from spanscore.offline.selection import (
    measurable,
    metric_names,
    only_wanted,
    open_engine,
    require_providers,
)
from spanscore.offline.sessions import SessionTurns
from spanscore.offline.workers import ScoringInWorkers, TracesCall, WithEarlier
from spanscore.store import records

_AT_ONCE = 64
"""Traces, or sessions, under way.

More would wait for the judge's own limit, each with its transcript in memory.
"""

_OF_WORKER = 32
"""Traces, or sessions, that a worker process is given at once."""

_BUNDLES_EACH = 4
"""Where there are few sessions, each worker gets so many bundles of them, so that all end at about
the same time.
"""

_BUNDLE_BYTES = 2**20
"""Records of the sessions that a worker process is given at once, but for one that is larger."""

_MAX_BYTES_UNDER_WAY = 32 * 2**20
"""Records of the sessions under way, or pickled traces that worker processes are given: of large
ones there are fewer.

As objects they take several times as much.
"""


class Scored(NamedTuple):
    """A trace or session with its evaluations; `shown` is what a worker process made of them, to be
    printed.
    """

    subject: AgentTrace | Session
    evaluations: list[Evaluation]
    shown: Any = None


GivenTo: TypeAlias = Callable[[Session], Sequence[Evaluation]]


class _UnderWay(NamedTuple):
    """What is scored together, with the room that is free once its scores are given."""

    task: asyncio.Task[list[Scored]]
    size_bytes: int


class OfflineScoring:
    """Scores agent traces that come in batches, then their sessions. For one run."""

    def __init__(
        self, engine: Engine, wanted: Overrides, workers: ScoringInWorkers | None = None
    ) -> None:
        """`wanted` says what is given; what that rests on is measured too.

        `workers` score in place of `engine`, which then has to need no model; sessions in whose
        scores those of others have a part are scored here all the same.
        """
        self._engine = engine
        self._wanted = wanted
        self._measured = measurable(wanted, engine.config)
        self._turns = SessionTurns()
        self._external: GivenTo = lambda _session: ()
        self._workers = workers
        at_once = _AT_ONCE if workers is None else 2 * (workers.count + 1)
        self._under_way: asyncio.Queue[_UnderWay | None] = asyncio.Queue(at_once)
        self._tasks: set[asyncio.Task[list[Scored]]] = set()
        self._room = Room(_MAX_BYTES_UNDER_WAY)
        self._stopping = asyncio.Event()

    @classmethod
    def prepared(
        cls,
        settings: Settings,
        *,
        metrics: Iterable[str] | None = None,
        model: str | None = None,
        threshold: float | None = None,
        judge: Judge | None = None,
    ) -> "OfflineScoring":
        """A run by these settings; `metrics`, `model` and `threshold` hold in place of theirs, as
        in `Overrides`.

        `judge` answers in place of a model. Raises InputError where one of them names what there is
        not.
        """
        names = (
            None
            if metrics is None
            else tuple(x for name in metrics for x in metric_names(name, settings))
        )
        if threshold is not None:
            require_on_scale("threshold", threshold, names)
        wanted = Overrides(names, model, threshold)
        if judge is None:
            require_providers(settings, measurable(wanted, settings.evaluation))
        return cls(open_engine(settings, judge), wanted)

    @property
    def is_stopped(self) -> bool:
        """Whether `stop` was called."""
        return self._stopping.is_set()

    def stop(self) -> None:
        """End the run: what is finished is still given, what is under way is not."""
        self._stopping.set()

    async def run(
        self, batches: Iterable[Sequence[AgentTrace]], external: GivenTo = lambda _session: ()
    ) -> AsyncIterator[Scored]:
        """The traces with their scores, in their order, each as soon as it and all before it are
        scored; then sessions.

        `batches` are read in a thread, the next while the traces of the last are scored. Errors of
        `batches` are raised here. `external` says what others gave to a session and its traces,
        once all batches are read.
        """
        self._external = external
        launching = asyncio.create_task(self._launch(iter(batches)))
        stopping = asyncio.create_task(self._stopping.wait())
        try:
            while (next_ := await self._next(launching, stopping)) is not None:
                await asyncio.wait({next_.task, stopping}, return_when=asyncio.FIRST_COMPLETED)
                if not next_.task.done():
                    break
                for scored in next_.task.result():
                    yield self._only_wanted(scored)
                self._under_way.task_done()
                if next_.size_bytes:
                    self._room.leave(next_.size_bytes)
                if self.is_stopped:  # else all that needs no model would be finished first
                    break
            for finished in self._finished():
                yield self._only_wanted(finished)
        finally:
            await self._end([launching, stopping])

    async def _next(
        self, launching: asyncio.Task[None], stopping: asyncio.Task[Any]
    ) -> _UnderWay | None:
        """The next one; None where there is none any more."""
        getting = asyncio.create_task(self._under_way.get())
        await asyncio.wait({getting, launching, stopping}, return_when=asyncio.FIRST_COMPLETED)
        if launching.done() and not getting.done() and self._under_way.empty():
            launching.result()  # raises what went wrong, once all that was scored before is given
        if self.is_stopped and not getting.done():
            getting.cancel()
            return None
        return await getting

    async def _launch(self, batches: Iterator[Sequence[AgentTrace]]) -> None:
        """Start the scoring of traces as they come, and of sessions when all traces are scored."""
        workers, together = self._workers, 1 if self._workers is None else _OF_WORKER
        while (batch := await asyncio.to_thread(next, batches, None)) is not None:
            for first in range(0, len(batch), together):
                given = [(x, self._taken_in(x)) for x in batch[first : first + together]]
                if workers is None:
                    await self._start(0, self._traces, given)
                else:
                    call = workers.call(given)
                    await self._start(call.size_bytes, self._traces_elsewhere, given, call, workers)
        await self._under_way.join()
        if workers is None or self._engine.uses_external_scores:
            for key in self._turns.keys:
                await self._start(self._turns.size_bytes(key), self._session, key)
        else:
            for keys in self._bundles(workers.count):
                size_bytes = sum(map(self._turns.size_bytes, keys))
                await self._start(size_bytes, self._sessions_elsewhere, keys, workers)
        await self._under_way.put(None)

    def _bundles(self, workers: int) -> Iterator[list[str]]:
        """The keys of all sessions, of so many together that each worker gets several bundles."""
        most = max(1, min(_OF_WORKER, len(self._turns) // (workers * _BUNDLES_EACH)))
        bundle: list[str] = []
        bundle_bytes = 0
        for key in self._turns.keys:
            size_bytes = self._turns.size_bytes(key)
            if bundle and (len(bundle) == most or bundle_bytes + size_bytes > _BUNDLE_BYTES):
                yield bundle
                bundle, bundle_bytes = [], 0
            bundle.append(key)
            bundle_bytes += size_bytes
        if bundle:
            yield bundle

    def _taken_in(self, trace: AgentTrace) -> Sequence[AgentTrace]:
        """The turns of its session before a trace, which is now kept with them."""
        earlier = self._turns.before(trace) if self._engine.looks_back else ()
        self._turns.add(trace)
        return earlier

    async def _start(
        self,
        size_bytes: int,
        score: Callable[..., Coroutine[Any, Any, list[Scored]]],
        *arguments: Any,
    ) -> None:
        """Begin to score, once there is room."""
        if size_bytes:
            await self._room.enter(size_bytes)
        task = asyncio.create_task(score(*arguments))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        await self._under_way.put(_UnderWay(task, size_bytes))

    async def _traces(self, given: Sequence[WithEarlier]) -> list[Scored]:
        [(trace, earlier)] = given
        found = await self._engine.evaluate_trace(trace, self._measured, earlier=earlier)
        self._turns.keep(trace, records.encode_evaluations(found))
        return [Scored(trace, found)]

    async def _traces_elsewhere(
        self, given: Sequence[WithEarlier], call: TracesCall, workers: ScoringInWorkers
    ) -> list[Scored]:
        scores = await asyncio.wrap_future(workers.traces(call))
        for (trace, _), found in zip(given, scores, strict=True):
            self._turns.keep(trace, found.records)
        return [
            Scored(trace, x.evaluations, x.shown)
            for (trace, _), x in zip(given, scores, strict=True)
        ]

    async def _session(self, key: str) -> list[Scored]:
        session, signals = self._turns.session(key)
        external = self._external(session)
        found = await self._engine.evaluate_session(
            session, signals, self._wanted, external=external
        )
        return [Scored(session, found)]

    async def _sessions_elsewhere(
        self, keys: Sequence[str], workers: ScoringInWorkers
    ) -> list[Scored]:
        scores = await asyncio.wrap_future(workers.sessions([self._turns.stored(x) for x in keys]))
        return [Scored(session, found.evaluations, found.shown) for session, found in scores]

    def _only_wanted(self, scored: Scored) -> Scored:
        return scored._replace(evaluations=only_wanted(self._wanted, scored.evaluations))

    def _finished(self) -> Iterator[Scored]:
        """What is scored but was not given yet."""
        while not self._under_way.empty():
            found = self._under_way.get_nowait()
            if found is not None and _has_result(found.task):
                yield from found.task.result()

    async def _end(self, tasks: Sequence[asyncio.Task[Any]]) -> None:
        """Cancel these and all that is under way; nobody asks for their results any more."""
        ending = {*tasks, *self._tasks}
        try:
            for task in ending:
                task.cancel()
            await asyncio.gather(*ending, return_exceptions=True)
            for _ in self._finished():  # a task whose error nobody reads is logged by asyncio
                pass
        finally:
            self._turns.close()


def _has_result(task: asyncio.Task[Any]) -> bool:
    return task.done() and not task.cancelled() and task.exception() is None


class Room:
    """Lets in what fits beside what is inside, in the order of asking; what is larger than the room
    enters alone.
    """

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self._inside_bytes = 0
        self._count = 0
        self._has_left = asyncio.Event()

    async def enter(self, size_bytes: int) -> None:
        """Wait until there is room. For one caller at a time."""
        while self._count and self._inside_bytes + size_bytes > self._max_bytes:
            self._has_left.clear()
            await self._has_left.wait()
        self._count += 1
        self._inside_bytes += size_bytes

    def leave(self, size_bytes: int) -> None:
        """Make room for others."""
        self._count -= 1
        self._inside_bytes -= size_bytes
        self._has_left.set()
