"""Scores of recorded agent traces, given as soon as they are made."""

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable, Iterator, Sequence
from typing import Any, NamedTuple, TypeAlias

from spanscore.config import Settings
from spanscore.evaluation import Engine, Overrides
from spanscore.judge.port import Judge
from spanscore.model.score import Evaluation
from spanscore.model.trace import AgentTrace, Session
from spanscore.offline.room import Room
from spanscore.offline.selection import measurable, metric_names, open_engine, require_on_scale, require_providers
from spanscore.offline.sessions import SessionTurns, Signals

_AT_ONCE = 64
"""Traces, or sessions, under way. More would wait for the judge's own limit, each with its transcript in memory."""

_MAX_SESSION_BYTES = 32 * 2**20
"""Records of the sessions under way: of large ones there are fewer. As objects they take several times as much."""


class Scored(NamedTuple):
    """A trace or session with its evaluations."""

    subject: AgentTrace | Session
    evaluations: list[Evaluation]


GivenTo: TypeAlias = Callable[[Session], Sequence[Evaluation]]


class _UnderWay(NamedTuple):
    """What is being scored; of a session with the room that it takes until its scores are given."""

    task: asyncio.Task[Scored]
    size_bytes: int = 0


class OfflineScoring:
    """Scores agent traces that come in batches, then their sessions. For one run."""

    def __init__(self, engine: Engine, wanted: Overrides) -> None:
        """`wanted` says what is given; what that rests on is measured too."""
        self._engine = engine
        self._wanted = wanted
        self._measured = measurable(wanted)
        self._turns = SessionTurns()
        self._external: GivenTo = lambda _session: ()
        self._under_way: asyncio.Queue[_UnderWay | None] = asyncio.Queue(_AT_ONCE)
        self._tasks: set[asyncio.Task[Scored]] = set()
        self._room = Room(_MAX_SESSION_BYTES)
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
        """A run by these settings; `metrics`, `model` and `threshold` hold in place of theirs, as in `Overrides`.

        `judge` answers in place of a model. Raises InputError where one of them names what there is not.
        """
        names = None if metrics is None else tuple(x for name in metrics for x in metric_names(name, settings))
        if threshold is not None:
            require_on_scale(f"threshold {threshold:g}", threshold, names)
        wanted = Overrides(names, model, threshold)
        if judge is None:
            require_providers(settings, measurable(wanted))
        return cls(open_engine(settings, judge), wanted)

    @property
    def is_stopped(self) -> bool:
        """Whether `stop` was called."""
        return self._stopping.is_set()

    def stop(self) -> None:
        """End the run: what is finished is still given, what is under way is not."""
        self._stopping.set()

    async def run(
        self,
        batches: Iterable[Sequence[AgentTrace]],
        external: GivenTo = lambda _session: (),
    ) -> AsyncIterator[Scored]:
        """The traces with their scores, in their order, each as soon as it and all before it are scored; then sessions.

        `batches` are read in a thread, the next while the traces of the last are scored. Errors of `batches` are
        raised here. `external` says what others gave to a session and its traces, once all batches are read.
        """
        self._external = external
        launching = asyncio.create_task(self._launch(iter(batches)))
        stopping = asyncio.create_task(self._stopping.wait())
        try:
            while (next_ := await self._next(launching, stopping)) is not None:
                await asyncio.wait({next_.task, stopping}, return_when=asyncio.FIRST_COMPLETED)
                if not next_.task.done():
                    break
                yield self._only_wanted(next_.task.result())
                self._under_way.task_done()
                if next_.size_bytes:
                    self._room.leave(next_.size_bytes)
            for finished in self._finished():
                yield self._only_wanted(finished)
        finally:
            await self._end([launching, stopping])

    async def _next(self, launching: asyncio.Task[None], stopping: asyncio.Task[Any]) -> _UnderWay | None:
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
        while (batch := await asyncio.to_thread(next, batches, None)) is not None:
            for trace in batch:
                earlier = self._turns.before(trace) if self._engine.looks_back else ()
                self._turns.add(trace)
                await self._start(self._trace(trace, earlier))
        await self._under_way.join()
        for key in self._turns.keys:
            size_bytes = self._turns.size_bytes(key)
            await self._room.enter(size_bytes)
            await self._start(self._session(*self._turns.session(key)), size_bytes)
        await self._under_way.put(None)

    async def _start(self, scoring: Coroutine[Any, Any, Scored], size_bytes: int = 0) -> None:
        task = asyncio.create_task(scoring)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        await self._under_way.put(_UnderWay(task, size_bytes))

    async def _trace(self, trace: AgentTrace, earlier: Sequence[AgentTrace]) -> Scored:
        found = await self._engine.evaluate_trace(trace, self._measured, earlier=earlier)
        self._turns.score(trace, found)
        return Scored(trace, found)

    async def _session(self, session: Session, signals: Signals) -> Scored:
        external = self._external(session)
        return Scored(session, await self._engine.evaluate_session(session, signals, self._wanted, external=external))

    def _only_wanted(self, scored: Scored) -> Scored:
        names = self._wanted.metrics
        return Scored(scored.subject, [x for x in scored.evaluations if names is None or x.metric in names])

    def _finished(self) -> Iterator[Scored]:
        """What is scored but was not given yet."""
        while not self._under_way.empty():
            found = self._under_way.get_nowait()
            if found is not None and _has_result(found.task):
                yield found.task.result()

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
