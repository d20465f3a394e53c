"""From traces that were cut to scores that leave: what the server and an agent's own process have in common.

Whoever uses it holds the spans of the traces (a `Source`) and owns the event loop.
"""

import asyncio
import logging
import time
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, replace
from typing import Any, Protocol

from spanscore.assemble import loop
from spanscore.assemble.assembler import Cut
from spanscore.assemble.sessions import Sessions
from spanscore.assemble.work_queue import WorkQueue
from spanscore.config import Settings
from spanscore.content import ContentWatch
from spanscore.embed import open_embedder
from spanscore.evaluation import Engine, Overrides
from spanscore.export.port import Exporter
from spanscore.export.sender import Sender
from spanscore.export.sink import Sink
from spanscore.judge import open_judge, redactor
from spanscore.judge.port import Judge
from spanscore.model.score import Evaluation
from spanscore.model.session_scope import in_scope
from spanscore.reading import Read, Reader, Source, Work
from spanscore.rescoring import Rescoring, asked_by, open_trials
from spanscore.scoring import Scoring, refuse_misplaced
from spanscore.store.store import Store, StoredTrace
from spanscore.telemetry import Meter, declared

_log = logging.getLogger(__name__)

_QUEUED = 1000
"""Cut traces that wait for a worker before no more are cut; they are small."""

_BATCH, _WORKERS = 32, 4
"""Traces that a worker reads, evaluates and commits together, and workers, where no judge is asked: few commits."""

_JUDGED_BATCH, _JUDGED_WORKERS = 1, 32
"""The same with a judge: no trace waits for the answers about another."""

_MAX_ROUNDS = 20
_TIDY_EVERY_S = 60.0
_LOOK_EVERY_S = 5.0


class Spans(Source, Protocol):
    """Who holds the spans of traces that were cut."""

    def finish(self, cuts: Sequence[Cut], *, parts: Sequence[Cut] = ()) -> None:
        """These traces were dealt with; `parts` of them may yet be parts of turns with others."""
        ...

    def put_aside(self, cut: Cut, reason: str) -> None:
        """A trace cannot be scored. Called from any thread."""
        ...

    def tidy(self) -> None:
        """Forget what nothing needs any more."""
        ...


class HeldSpan(Protocol):
    """A span that waits for its scores."""

    @property
    def span_id(self) -> str: ...  # noqa: D102 # told by the class


class HoldsBack(Protocol):
    """Who holds evaluated spans back, so that their scores leave as attributes on them."""

    def take(self, trace_id: bytes, /) -> Sequence[Any]:
        """The `HeldSpan`s of a trace, which are held no more; the caller must `release` them."""
        ...

    def release(self, held: Sequence[Any], evaluations: Iterable[Evaluation], left: Callable[[], None], /) -> None:
        """Send held spans on, each with its own of `evaluations`; `left` is called when all are delivered."""
        ...


@dataclass(frozen=True, slots=True)
class _Finished:
    """Traces that were read, the agent traces in them that are new or have changed, and their scores.

    `gone` are the ids of agent traces that traces gave by themselves, before they were known to be parts of one turn.
    """

    read: Read
    traces: Sequence[StoredTrace]
    gone: Sequence[str] = ()
    evaluations: Sequence[Evaluation] = ()
    held: Sequence[HeldSpan] = ()


class Processing:
    """Reads, evaluates, commits and sends. Belongs to one event loop.

    `holds_back` may be set before the loops run.
    """

    def __init__(
        self,
        settings: Settings,
        spans: Spans,
        meter: Meter,
        *,
        store: Store,
        exporters: Mapping[str, Exporter],
        sinks: Mapping[str, Sink] | None = None,
        judge: Judge | None = None,
        scored: Callable[[Sequence[Evaluation]], None] | None = None,
        threads: Executor | None = None,
        clock_ns: Callable[[], int] = time.time_ns,
    ) -> None:
        """`exporters` and `sinks` are by the names that `settings.export` gives them.

        `judge` answers in place of the configured models, `threads` wait for the store in place of its own, and
        `scored` is called with evaluations that were committed. Raises ConfigError where something cannot be opened.
        """
        self.meter = meter
        self.store = store
        self.holds_back: HoldsBack | None = None
        self._settings = settings
        self._spans = spans
        self._clock_ns = clock_ns
        self._content = ContentWatch(lambda silent: _log.warning("%s", silent))
        self._reader = Reader(settings.assemble, spans, self._content)
        self.sender = Sender(settings.export, exporters, store, meter, sinks=sinks, clock_ns=clock_ns)
        engine = Engine(
            settings.evaluation,
            judge or open_judge(settings.judge, store, meter),
            open_embedder(settings.embedding, redact=redactor(settings.judge)),
            judge_config=settings.judge,
            clock_ns=clock_ns,
        )
        self._trials = open_trials(settings, meter) if judge is None else None
        self._scoring = Scoring(
            engine,
            store,
            self.sender,
            meter,
            judge_failed=self._trials.doubt if self._trials else None,
            budget_window_ns=settings.judge.budget.window_ns if settings.evaluation.ask_again.enabled else None,
            scored=scored,
            threads=threads,
            clock_ns=clock_ns,
        )
        self._rescoring = Rescoring(
            settings.evaluation.ask_again,
            asked_by(settings),
            self._trials,
            self._scoring,
            store,
            meter,
            session_due=lambda session_id: self._sessions.push(session_id, clock_ns()),
            clock_ns=clock_ns,
        )
        self._sessions = Sessions(settings.assemble)
        self._cuts: WorkQueue[Work] = WorkQueue(_QUEUED)
        self._quiet_sessions: WorkQueue[str] = WorkQueue(_QUEUED)
        self._watch()

    def loops(self) -> list[Coroutine[Any, Any, None]]:
        """All that has to run, for ever."""
        cutting = loop.run(
            self._reader.cut,
            self._sessions,
            traces_out=self._cuts,
            sessions_out=self._quiet_sessions,
            clock_ns=self._clock_ns,
            every_s=loop.interval_s(self._settings.assemble),
        )
        is_quick = not self._settings.judge.models
        batch, count = (_BATCH, _WORKERS) if is_quick else (_JUDGED_BATCH, _JUDGED_WORKERS)
        workers = [self._cuts.run(batch, self._finish_all) for _ in range(count)]
        sessions = self._quiet_sessions.run(_BATCH, self._finish_sessions)
        trying = [self._trials.run()] if self._trials and self._settings.judge.try_at_start else []
        asking = [self._rescoring.run()] if self._settings.evaluation.ask_again.enabled else []
        own = [self._tidy(), self._look_for_undelivered()]
        return [self.sender.run(), cutting, *workers, sessions, *own, *trying, *asking]

    @property
    def judge_trouble(self) -> str | None:
        """What is wrong with the judge's models; None where they answer, or there are none."""
        return self._trials.trouble if self._trials else None

    def health(self) -> dict[str, Any]:
        """What there is to know beside the counters."""
        return {
            "judge": {x: state.to_json() for x, state in self._trials.states.items()} if self._trials else {},
            "open_traces": self._spans.assembler.open_traces,
            "open_sessions": len(self._sessions),
            "waiting_traces": len(self._cuts),
            "waiting_parts": self._reader.waiting,
            "store": self.store.trouble or "ok",
            "scores_to_export": self.sender.behind(),
            "scores_undelivered": self.sender.undelivered,
            "without_content": [str(x) for x in self._content.silent],
        }

    async def evaluate(
        self, *, trace_id: str | None = None, session_id: str | None = None, overrides: Overrides | None = None
    ) -> list[Evaluation]:
        """Evaluate a stored trace or session again, as its next revision; [] where it is not known.

        Raises InputError when `overrides` cannot be met.
        """
        asked = overrides or Overrides()
        refuse_misplaced(asked, "trace" if session_id is None else "session")
        if session_id is not None:
            keys = await self.patiently(self.store.session_keys, session_id)
            return await self._scoring.sessions(keys, asked)
        return await self._scoring.again(trace_id or "", asked)

    async def patiently(self, ask: Callable[..., Any], *arguments: Any, **options: Any) -> Any:
        """What the store answers, in a thread, however long it takes."""
        return await self._scoring.patiently(ask, *arguments, **options)

    async def take_up_sessions(self) -> None:
        """Wait for the sessions that were still open when the store was last used."""
        for session_id, last_ns in await self.patiently(self.store.open_sessions):
            self._sessions.push(session_id, last_ns)

    async def finish_queued(self) -> None:
        """Wait until everything that was cut is scored."""
        await self._cuts.join()
        await self._quiet_sessions.join()

    async def finish_complete(self) -> None:
        """Wait until all is scored that would be complete if nothing more came."""
        await self._finish_by(self._settings.assemble.complete_after)

    async def finish_everything(self) -> None:
        """Wait until all is scored that is there, complete or not, and the sessions."""
        config = self._settings.assemble
        ahead_ns = max(config.complete_after, config.idle_after, config.stitch_window)
        await self._finish_by(ahead_ns)
        for _ in range(_MAX_ROUNDS):  # a turn waits on while a trace that it is compared with is in work
            if not self._reader.waiting:
                break
            ahead_ns += config.complete_after
            await self._finish_by(ahead_ns)
        await self._quiet_sessions.fill(lambda: self._sessions.cut(self._clock_ns() + config.session_idle_after))
        await self._quiet_sessions.join()

    async def _finish_by(self, ahead_ns: int) -> None:
        """Wait until all is scored that is complete by a time to come."""
        found = 1
        while found:
            found = await self._cuts.fill(lambda: self._reader.cut(self._clock_ns() + ahead_ns + 1))
            await self._cuts.join()

    def _watch(self) -> None:
        """Have the meter ask for what is not counted but is."""
        meter = self.meter
        meter.watch(declared.TRACES_WAITING, lambda: len(self._cuts))
        meter.watch(declared.TRACES_WAITING_CAPACITY, lambda: _QUEUED)
        meter.watch(declared.TRACES_WAITING_PARTS, lambda: self._reader.waiting)
        meter.watch(declared.SESSIONS_OPEN, lambda: len(self._sessions))
        meter.watch(declared.AGENT_TRACES_WITHOUT_CONTENT, lambda: self._content.count)
        meter.watch(declared.STORE_SIZE, lambda: self.store.size_bytes)
        meter.watch(declared.STORE_UP, lambda: 0.0 if self.store.trouble else 1.0)

    async def _finish_all(self, works: Sequence[Work]) -> None:
        """Finish a batch; where that fails, each by itself, and what fails by itself is put aside."""
        try:
            await self._finish(works)
        except Exception as error:  # noqa: BLE001 - one trace must not stop the server, nor stop it again at every start
            if len(works) > 1:
                for work in works:
                    await self._finish_all([work])
                return
            self._give_up(works[0], error)
            self._reader.finished(works[0], self._clock_ns())
            self._forget(works[0])
            self.meter.add(declared.TRACES_FINISHED, len(works[0].cuts))

    async def _finish(self, works: Sequence[Work]) -> None:
        """Read, evaluate and commit what was cut, but for what waits; then let go of its requests."""
        started_s = time.monotonic()
        rebuilt = await self._scoring.patiently(self._rebuild, works)
        now_ns = self._clock_ns()
        rebuilt = [x for x in rebuilt if not self._reader.keeps(x.read, now_ns)]
        finished = [self._with_held(x) for x in await asyncio.gather(*map(self._evaluated, rebuilt))]
        traces = [stored for x in finished for stored in x.traces]
        gone = [id_ for x in finished for id_ in x.gone]
        await self._scoring.commit(traces, [evaluation for x in finished for evaluation in x.evaluations], gone=gone)
        now_ns = self._clock_ns()
        for one in finished:
            self._reader.finished(one.read.work, now_ns)
        for stored in traces:
            if stored.trace.session_key is not None:
                self._sessions.push(stored.trace.session_key, now_ns)
        if self.holds_back is None:
            self._forget(*(x.read.work for x in finished))
        else:
            for one in finished:
                self._release_held(self.holds_back, one)
        self.meter.add(declared.TRACES_FINISHED, sum(len(x.read.work.cuts) for x in finished))
        self.meter.observe(declared.EVALUATIONS_DURATION, time.monotonic() - started_s)

    def _forget(self, *works: Work) -> None:
        """These traces were dealt with; what held them is let go, unless late spans may still need it."""
        cuts = [cut for work in works for cut in work.cuts]
        self._spans.finish(cuts, parts=[cut for cut in cuts if self._reader.is_part(cut)])

    def _rebuild(self, works: Sequence[Work]) -> list[_Finished]:
        """The agent traces in what was cut that were not evaluated just so before. Runs in a thread."""
        found = [self._read(work) for work in works]
        new = {x.trace.id: x for x in self._scoring.new([trace for read in found for trace in read.traces])}
        return [
            _Finished(x, [new[y.id] for y in x.traces if y.id in new], self._scoring.left_over(x.work.cuts, x.traces))
            for x in found
        ]

    def _read(self, work: Work) -> Read:
        if not any(cut.genai for cut in work.cuts):
            self.meter.add(declared.TRACES_WITHOUT_GENAI)
            return Read(work)
        try:
            read = self._reader.read(work)
            return replace(read, traces=in_scope(read.traces, self._settings.assemble.session_scope))
        except Exception as error:  # noqa: BLE001 - what crashes a reader would crash it again after every restart
            self._give_up(work, error)
            return Read(work)

    def _give_up(self, work: Work, error: Exception) -> None:
        for cut in work.cuts:
            trace_id = cut.trace_id.hex()
            told = "a trace cannot be scored; its requests are put aside"
            _log.error(told, exc_info=error, extra={"trace_id": trace_id})
            self.meter.add(declared.TRACES_QUARANTINED)
            self._spans.put_aside(cut, f"trace {trace_id} cannot be scored: {type(error).__name__}")

    async def _evaluated(self, finished: _Finished) -> _Finished:
        evaluations: list[Evaluation] = []
        for stored in finished.traces:
            evaluations += await self._scoring.evaluate(stored)
        return replace(finished, evaluations=evaluations)

    def _with_held(self, finished: _Finished) -> _Finished:
        """With the traces' spans that are still held back: from here on they leave with their scores."""
        if self.holds_back is None:
            return finished
        held = [span for cut in finished.read.work.cuts for span in self.holds_back.take(cut.trace_id)]
        waiting = {span.span_id for span in held}
        placed = [replace(x, inline=True) if x.target.span_id in waiting else x for x in finished.evaluations]
        return replace(finished, evaluations=placed, held=held)

    def _release_held(self, holds_back: HoldsBack, finished: _Finished) -> None:
        """Send held spans on with their scores; until they are delivered, what they came in is kept."""
        holds_back.release(finished.held, finished.evaluations, lambda: self._forget(finished.read.work))

    async def _finish_sessions(self, ids: Sequence[str]) -> None:
        try:
            await self._scoring.sessions(ids)
        except Exception:  # noqa: BLE001 - as for traces; a session that goes on is evaluated again
            told = "%d sessions cannot be scored, this one among them"
            _log.exception(told, len(ids), extra={"session_id": ids[0]})
        self.meter.add(declared.SESSIONS_EVALUATED, len(ids))

    async def _tidy(self) -> None:
        """Hold the store to its retention, and the journal to what is still needed."""
        while True:
            self._spans.tidy()
            try:
                deleted = await self._scoring.patiently(self.store.prune, self._clock_ns())
                self.meter.add(declared.STORE_PRUNED_TRACES, deleted)
            except Exception:  # noqa: BLE001 - a store that stays too large for a while must not stop the server
                _log.exception("the store cannot be held to its retention now")
            await asyncio.sleep(_TIDY_EVERY_S)

    async def _look_for_undelivered(self) -> None:
        """Take up what somebody has asked to be sent again."""
        while True:
            await self.sender.look()
            await asyncio.sleep(_LOOK_EVERY_S)
