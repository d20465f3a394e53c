"""The only file that knows every stage: requests in, traces cut, read and scored, scores out."""

import asyncio
import logging
import time
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass, replace
from typing import Any

from spanscore import dialects
from spanscore.assemble import loop
from spanscore.assemble.backlog import Backlog
from spanscore.assemble.sessions import Sessions
from spanscore.assemble.units import Units
from spanscore.config import Settings
from spanscore.content import ContentWatch
from spanscore.embed import open_embedder
from spanscore.evaluate import Engine, Overrides
from spanscore.export.holding import Held
from spanscore.export.inline import Passing
from spanscore.export.opening import open_exporters, open_sinks
from spanscore.export.reporting import open_reportings
from spanscore.export.sender import Sender
from spanscore.judge import open_judge, redactor
from spanscore.model.headers import Headers
from spanscore.model.score import Evaluation
from spanscore.model.session_scope import in_scope
from spanscore.model.span import Resource
from spanscore.model.trace import AgentTrace
from spanscore.otlp import decode
from spanscore.otlp.signal import Signal
from spanscore.reading import Read, Reader, Work
from spanscore.receive.auth import open_authenticators
from spanscore.receive.server import Server
from spanscore.rescoring import Rescoring, asked_by, open_trials
from spanscore.scoring import Scoring, refuse_misplaced
from spanscore.store.journal import Journal
from spanscore.store.store import Store, StoredTrace
from spanscore.telemetry import Meter, declared, process, resource

_log = logging.getLogger(__name__)

_QUEUED = 1000
"""Cut traces that wait for a worker; they are small, and what is behind them waits in the assembler."""

_BATCH, _WORKERS = 32, 4
"""Traces that a worker reads, evaluates and commits together, and workers, where no judge is asked: few commits."""

_JUDGED_BATCH, _JUDGED_WORKERS = 1, 32
"""The same with a judge: no trace waits for the answers about another."""

_TIDY_EVERY_S = 60.0
_LOOK_EVERY_S = 5.0


@dataclass(frozen=True, slots=True)
class _Finished:
    """Traces that were read, the agent traces in them that are new or have changed, and their scores.

    `gone` are the ids of agent traces that traces gave by themselves, before they were known to be parts of one turn.
    """

    read: Read
    traces: Sequence[StoredTrace]
    gone: Sequence[str] = ()
    evaluations: Sequence[Evaluation] = ()
    held: Sequence[Held] = ()


class Pipeline:
    """The running server but for its control service: `receive.Intake` and `api.Backend`. Belongs to one event loop."""

    def __init__(self, settings: Settings, *, clock_ns: Callable[[], int] = time.time_ns) -> None:
        """Open journal, store and exporters. Raises ConfigError where one cannot be opened."""
        self.meter = Meter(clock_ns)
        self.authenticators = open_authenticators(settings.extensions)
        self._settings = settings
        self._clock_ns = clock_ns
        self._backlog = Backlog(
            settings.assemble,
            Journal(settings.journal),
            self.meter,
            shows_genai=dialects.shows_genai,
            units=Units(dialects.UNIT_SCOPES, dialects.unit_of, dialects.goes_on),
            clock_ns=clock_ns,
        )
        self._content = ContentWatch(lambda silent: _log.warning("%s", silent))
        self._reader = Reader(settings.assemble, self._backlog, self._content)
        self._store = Store.open(settings.store, clock_ns=clock_ns, alone=True)
        self._sender = Sender(
            settings.export,
            open_exporters(settings.export, self.authenticators),
            self._store,
            self.meter,
            sinks=open_sinks(settings.export),
            clock_ns=clock_ns,
        )
        engine = Engine(
            settings.evaluation,
            open_judge(settings.judge, self._store, self.meter),
            open_embedder(settings.embedding, redact=redactor(settings.judge)),
            judge_config=settings.judge,
            clock_ns=clock_ns,
        )
        self._trials = open_trials(settings, self.meter)
        self._scoring = Scoring(
            engine,
            self._store,
            self._sender,
            self.meter,
            judge_failed=self._trials.doubt if self._trials else None,
            budget_window_ns=settings.judge.budget.window_ns if settings.evaluation.ask_again.enabled else None,
            clock_ns=clock_ns,
        )
        self._rescoring = Rescoring(
            settings.evaluation.ask_again,
            asked_by(settings),
            self._trials,
            self._scoring,
            self._store,
            self.meter,
            session_due=lambda session_id: self._sessions.push(session_id, clock_ns()),
            clock_ns=clock_ns,
        )
        self._passing = (
            Passing(
                settings.inline, self._sender, self._backlog, is_agent=_is_agent, clock_ns=clock_ns, meter=self.meter
            )
            if settings.mode == "inline"
            else None
        )
        self._sessions = Sessions(settings.assemble)
        self._cuts: asyncio.Queue[Work] = asyncio.Queue(_QUEUED)
        self._quiet_sessions: asyncio.Queue[str] = asyncio.Queue(_QUEUED)
        self._taking: set[asyncio.Task[None]] = set()
        told = settings.telemetry
        who = resource.attributes(told.resource)
        self._reportings = open_reportings(told.metrics.periodic, self.meter, who)
        self.server = Server(
            settings.receive,
            self,
            self.meter,
            tokens=self.authenticators,
            headers=settings.headers_kept,
            resource=who,
            scraped=told.metrics.scraped,
        )
        self._watch()

    async def run(self, stopping: asyncio.Event, started: Callable[[], None] = lambda: None) -> None:
        """Serve until `stopping` is set; then stop receiving, finish what is under way within the bound, and close.

        `started` is called when all ports are bound. Raises ConfigError where one is taken.
        """
        await self._recover()  # before there is anybody to keep waiting
        try:
            await self.server.start()
            async with asyncio.TaskGroup() as tasks:
                running = [tasks.create_task(work) for work in self._loops()]
                started()
                await stopping.wait()
                await self._drain()
                for task in running:
                    task.cancel()
        finally:
            await self.server.stop(0.0)
            await self._sender.stop()
            await asyncio.gather(*(x.close() for x in self._reportings))
            await asyncio.to_thread(self._backlog.close)
            self._store.close()

    async def accept(self, signal: Signal, body: bytes, request: Any, headers: Headers = ()) -> None:
        """Keep a request; when this returns it is in the journal. Raises RetryableError when it cannot be kept now."""
        if signal == "metrics" and self._passing is None:
            return  # nothing is evaluated from metrics, and in branch mode the backend has them already
        if self._passing is not None:
            self._passing.require_room()
        taking = asyncio.create_task(self._take_in(signal, body, request, headers))
        self._taking.add(taking)
        taking.add_done_callback(self._taken)
        await asyncio.shield(taking)  # a sender that goes away meanwhile must not leave a row that nobody knows of

    def _taken(self, taking: asyncio.Task[None]) -> None:
        """A request was kept or not; where its sender has gone away, nobody else asks what went wrong."""
        self._taking.discard(taking)
        if not taking.cancelled():
            taking.exception()

    async def quarantine(self, signal: Signal, body: bytes, reason: str) -> None:
        """Put aside a request that cannot be read. Raises RetryableError when it cannot be kept now."""
        await self._backlog.quarantine(signal, body, reason)

    @property
    def trouble(self) -> str | None:
        """See `receive.Intake.trouble`."""
        return self._backlog.trouble

    @property
    def notice(self) -> str | None:
        """See `receive.Intake.notice`."""
        judge = self._trials.trouble if self._trials else None
        store = self._store.trouble
        waiting = f"nothing is scored or sent, requests wait in the journal: {store}" if store else None
        return "; ".join(x for x in (waiting, self._backlog.notice, judge, self._sender.notice) if x) or None

    def health(self) -> dict[str, Any]:
        """What the health endpoint shows beside the counters."""
        return {
            "judge": {x: state.to_json() for x, state in self._trials.states.items()} if self._trials else {},
            "open_traces": self._backlog.assembler.open_traces,
            "open_sessions": len(self._sessions),
            "waiting_traces": self._cuts.qsize(),
            "waiting_parts": self._reader.waiting,
            "held_roots": self._passing.held_roots if self._passing else 0,
            "journal": self._backlog.trouble or self._backlog.notice or "ok",
            "journal_bytes": self._backlog.size_bytes,
            "store": self._store.trouble or "ok",
            "scores_to_export": self._sender.behind(),
            "scores_undelivered": self._sender.undelivered,
            "without_content": [str(x) for x in self._content.silent],
        }

    def trace(self, trace_id: str) -> AgentTrace | None:
        """The rebuilt trace with this agent trace id, or of this OTel trace; None where there is none."""
        return self._store.trace(trace_id)

    def evaluations(self, *, trace_id: str | None = None, session_id: str | None = None) -> list[Evaluation]:
        """The newest scores of a trace, or of a session and its traces."""
        return self._store.evaluations(trace_id=trace_id, session_id=session_id)

    async def evaluate(
        self, *, trace_id: str | None = None, session_id: str | None = None, overrides: Overrides | None = None
    ) -> list[Evaluation]:
        """Evaluate a stored trace or session again, as its next revision; [] where it is not known.

        Raises InputError when `overrides` cannot be met.
        """
        asked = overrides or Overrides()
        refuse_misplaced(asked, "trace" if session_id is None else "session")
        if session_id is not None:
            keys = await self._scoring.patiently(self._store.session_keys, session_id)
            return await self._scoring.sessions(keys, asked)
        return await self._scoring.again(trace_id or "", asked)

    async def _take_in(self, signal: Signal, body: bytes, request: Any, headers: Headers) -> None:
        kept = await self._backlog.add(signal, body, request, headers)
        if self._passing is not None:
            self._passing.pass_on(kept)
        self._backlog.let_go(kept.row)

    async def _recover(self) -> None:
        """Take up what the journal holds from before a restart, and the sessions that were still open."""
        for kept, leaving in self._backlog.recover():
            if self._passing is not None:
                self._passing.pass_on(kept, leaving)
            self._backlog.let_go(kept.row)
        if self._passing is not None:
            await self._release_scored(self._passing)
        for session_id, last_ns in await self._scoring.patiently(self._store.open_sessions):
            self._sessions.push(session_id, last_ns)

    async def _release_scored(self, passing: Passing) -> None:
        """Send on what was scored before a restart: these scores leave on the span, and in no other form."""
        for trace_id in passing.held_traces():
            found = await self._scoring.patiently(self._store.evaluations, trace_id=trace_id.hex())
            scores = [x for x in found if x.inline]
            passing.release(passing.take(trace_id, {x.target.span_id for x in scores}), scores)

    def _loops(self) -> list[Coroutine[Any, Any, None]]:
        cutting = loop.run(
            self._reader.cut,
            self._sessions,
            traces_out=self._cuts,
            sessions_out=self._quiet_sessions,
            clock_ns=self._clock_ns,
            every_s=loop.interval_s(self._settings.assemble),
        )
        passing = [self._passing.run()] if self._passing else []
        is_quick = not self._settings.judge.models
        batch, count = (_BATCH, _WORKERS) if is_quick else (_JUDGED_BATCH, _JUDGED_WORKERS)
        workers = [loop.batches(self._cuts, batch, self._finish_all) for _ in range(count)]
        sessions = loop.batches(self._quiet_sessions, _BATCH, self._finish_sessions)
        reporting = [x.run() for x in self._reportings]
        trying = [self._trials.run()] if self._trials and self._settings.judge.try_at_start else []
        asking = [self._rescoring.run()] if self._settings.evaluation.ask_again.enabled else []
        own = [self._tidy(), self._look_for_undelivered()]
        return [self._sender.run(), cutting, *workers, sessions, *own, *passing, *reporting, *trying, *asking]

    def _watch(self) -> None:
        """Have the meter ask for what is not counted but is."""
        meter = self.meter
        meter.watch(declared.TRACES_WAITING, self._cuts.qsize)
        meter.watch(declared.TRACES_WAITING_CAPACITY, lambda: _QUEUED)
        meter.watch(declared.TRACES_WAITING_PARTS, lambda: self._reader.waiting)
        meter.watch(declared.SESSIONS_OPEN, lambda: len(self._sessions))
        meter.watch(declared.AGENT_TRACES_WITHOUT_CONTENT, lambda: self._content.count)
        meter.watch(declared.STORE_SIZE, lambda: self._store.size_bytes)
        meter.watch(declared.STORE_UP, lambda: 0.0 if self._store.trouble else 1.0)
        if (passing := self._passing) is not None:
            meter.watch(declared.INLINE_HELD_ROOTS, lambda: passing.held_roots)
        process.watch(meter, self._clock_ns)

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
        for one in finished:
            if self._passing is not None:
                self._release_roots(self._passing, one)
        if self._passing is None:
            self._forget(*(x.read.work for x in finished))
        self.meter.add(declared.TRACES_FINISHED, sum(len(x.read.work.cuts) for x in finished))
        self.meter.observe(declared.EVALUATIONS_DURATION, time.monotonic() - started_s)

    def _forget(self, *works: Work) -> None:
        """These traces were dealt with; what held them is let go, unless late spans may still need it."""
        cuts = [cut for work in works for cut in work.cuts]
        self._backlog.finish(cuts, parts=[cut for cut in cuts if self._reader.is_part(cut)])

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
            self._backlog.put_aside(cut, f"trace {trace_id} cannot be scored: {type(error).__name__}")

    async def _evaluated(self, finished: _Finished) -> _Finished:
        evaluations: list[Evaluation] = []
        for stored in finished.traces:
            evaluations += await self._scoring.evaluate(stored)
        return replace(finished, evaluations=evaluations)

    def _with_held(self, finished: _Finished) -> _Finished:
        """In inline mode, the traces' roots that are still held back: from here on they leave with their scores."""
        if self._passing is None:
            return finished
        held = [root for cut in finished.read.work.cuts for root in self._passing.take(cut.trace_id)]
        waiting = {root.span_id for root in held}
        placed = [replace(x, inline=True) if x.target.span_id in waiting else x for x in finished.evaluations]
        return replace(finished, evaluations=placed, held=held)

    def _release_roots(self, passing: Passing, finished: _Finished) -> None:
        """Send held spans on with their scores; until they are delivered, the journal keeps what they were in."""
        passing.release(finished.held, finished.evaluations, left=lambda: self._forget(finished.read.work))

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
            self._backlog.tidy()
            try:
                deleted = await self._scoring.patiently(self._store.prune, self._clock_ns())
                self.meter.add(declared.STORE_PRUNED_TRACES, deleted)
            except Exception:  # noqa: BLE001 - a store that stays too large for a while must not stop the server
                _log.exception("the store cannot be held to its retention now")
            await asyncio.sleep(_TIDY_EVERY_S)

    async def _look_for_undelivered(self) -> None:
        """Take up what somebody has asked to be sent again."""
        while True:
            await self._sender.look()
            await asyncio.sleep(_LOOK_EVERY_S)

    async def _drain(self) -> None:
        """Stop receiving, then finish what was cut and send what was scored, all within the configured bound."""
        deadline_s = time.monotonic() + self._settings.shutdown_timeout / 1e9
        await self.server.stop(self._settings.shutdown_timeout / 1e9 / 4)
        try:
            async with asyncio.timeout(max(0.0, deadline_s - time.monotonic())):
                await self._cuts.join()
                await self._quiet_sessions.join()
        except TimeoutError:
            _log.warning("traces are still being evaluated; they are taken up again after the restart")
        if not await self._sender.drain(max(0.0, deadline_s - time.monotonic())):
            left = ", ".join(f"{count} by {name}" for name, count in self._sender.behind().items() if count)
            _log.warning("not all has left, the rest does after the restart: %s", left or "requests that pass through")


def _is_agent(span: Any, scope: Any) -> bool:
    """Whether a span is an agent's, as its dialect reads it."""
    reading = dialects.read([decode.span(span, Resource(), decode.scope(scope))])
    return any(step.kind == "agent" for step in reading.steps)
