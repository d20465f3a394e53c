"""The only file that knows every stage: requests in, traces cut, read, evaluated and committed, scores out."""

import asyncio
import hashlib
import logging
import time
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from spanscore import dialects
from spanscore.assemble import loop
from spanscore.assemble.assembler import Cut
from spanscore.assemble.backlog import Backlog, Kept
from spanscore.assemble.sessions import Sessions
from spanscore.config import Settings
from spanscore.embed import open_embedder
from spanscore.errors import RetryableError
from spanscore.evaluate import Engine, Overrides
from spanscore.export.inline import Held, Passing
from spanscore.export.opening import open_exporters
from spanscore.export.sender import Sender
from spanscore.judge import open_judge, renderer
from spanscore.model.score import Evaluation
from spanscore.model.trace import AgentTrace, Session
from spanscore.otlp.signal import Signal
from spanscore.rebuild import rebuild
from spanscore.receive.server import Server
from spanscore.store import records
from spanscore.store.journal import Journal
from spanscore.store.store import Store, StoredTrace
from spanscore.telemetry import Counters

_log = logging.getLogger(__name__)

_QUEUED = 1000
"""Cut traces that wait for a worker; they are small, and what is behind them waits in the assembler."""

_BATCH = 32
"""Traces that a worker reads, evaluates and commits together: one commit for many, without a long wait for any."""

_WORKERS = 4
"""Batches at once: while a judge answers slowly, what needs no judge goes on."""

_TIDY_EVERY_S = 60.0
_RETRY_STORE_S = 1.0


@dataclass(frozen=True, slots=True)
class _Finished:
    """A cut trace with the agent traces in it that are new or have changed; `held` are its roots, in inline mode."""

    cut: Cut
    traces: tuple[StoredTrace, ...]
    held: tuple[Held, ...] = ()


class Pipeline:
    """The running server but for its control service: `receive.Intake` and `api.Backend`. Belongs to one event loop."""

    def __init__(self, settings: Settings, *, clock_ns: Callable[[], int] = time.time_ns) -> None:
        """Open journal, store and exporters. Raises ConfigError where one cannot be opened."""
        self.counters = Counters()
        self._settings = settings
        self._clock_ns = clock_ns
        self._backlog = Backlog(
            settings.assemble,
            Journal(settings.journal),
            self.counters,
            shows_genai=dialects.shows_genai,
            clock_ns=clock_ns,
        )
        self._store = Store.open(settings.store, clock_ns=clock_ns)
        self._engine = Engine(
            settings.evaluation,
            open_judge(settings.judge, self._store),
            open_embedder(settings.embedding),
            judge_plan=settings.judge.plan,
            clock_ns=clock_ns,
            render_transcript=renderer(settings.judge),
        )
        self._sender = Sender(
            settings.export, open_exporters(settings.export), self._store, self.counters, clock_ns=clock_ns
        )
        self._passing = (
            Passing(settings.inline, self._sender, left=self._backlog.passed_on, clock_ns=clock_ns)
            if settings.mode == "inline"
            else None
        )
        self._sessions = Sessions(settings.assemble)
        self._cuts: asyncio.Queue[Cut] = asyncio.Queue(_QUEUED)
        self._quiet_sessions: asyncio.Queue[str] = asyncio.Queue(_QUEUED)
        self.server = Server(settings.receive, self, self.counters)

    async def run(self, stopping: asyncio.Event, started: Callable[[], None] = lambda: None) -> None:
        """Serve until `stopping` is set; then stop receiving, finish what is under way within the bound, and close.

        `started` is called when all ports are bound. Raises ConfigError where one is taken.
        """
        self._recover()  # before there is anybody to keep waiting
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
            await asyncio.to_thread(self._backlog.close)
            self._store.close()

    async def accept(self, signal: Signal, body: bytes, request: Any) -> None:
        """Keep a request; when this returns it is in the journal. Raises RetryableError when it cannot be kept now."""
        self.counters.add(f"requests_{signal}")
        if signal == "metrics" and self._passing is None:
            return  # nothing is evaluated from metrics, and in branch mode the backend has them already
        if self._passing is not None:
            self._passing.require_room()
        kept = await self._backlog.add(signal, body, request)
        self._pass_on(kept)
        self._backlog.let_go(kept.row)

    async def quarantine(self, signal: Signal, body: bytes, reason: str) -> None:
        """Put aside a request that cannot be read. Raises RetryableError when it cannot be kept now."""
        self.counters.add("requests_quarantined")
        await self._backlog.quarantine(signal, body, reason)

    def health(self) -> dict[str, Any]:
        """What the health endpoint shows beside the counters."""
        return {
            "judge": self._settings.judge.model,
            "open_traces": self._backlog.assembler.open_traces,
            "open_sessions": len(self._sessions),
            "waiting_traces": self._cuts.qsize(),
            "held_roots": self._passing.held_roots if self._passing else 0,
            "journal_bytes": self._backlog.size_bytes,
            "scores_to_export": self._sender.behind(),
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
        overrides = overrides or Overrides()
        if session_id is not None:
            return await self._evaluate_sessions([session_id], overrides)
        trace = await asyncio.to_thread(self._store.trace, trace_id or "")
        if trace is None:
            return []
        known = await asyncio.to_thread(self._store.known, [trace.id])
        revision, digest = known[trace.id]
        stored = StoredTrace(trace, revision + 1, digest)
        evaluations = await self._evaluate_trace(stored, overrides)
        await self._commit([stored], evaluations)
        return evaluations

    def _loops(self) -> list[Coroutine[Any, Any, None]]:
        cutting = loop.run(
            self._backlog.assembler,
            self._sessions,
            traces_out=self._cuts,
            sessions_out=self._quiet_sessions,
            clock_ns=self._clock_ns,
            every_s=loop.interval_s(self._settings.assemble),
        )
        passing = [self._passing.run()] if self._passing else []
        workers = [self._work() for _ in range(_WORKERS)]
        return [self._sender.run(), cutting, *workers, self._work_on_sessions(), self._tidy(), *passing]

    def _recover(self) -> None:
        """Take up what the journal holds from before a restart, and the sessions that were still open."""
        for kept, passed_on in self._backlog.recover():
            if not passed_on:
                self._pass_on(kept)
            self._backlog.let_go(kept.row)
        for session_id, last_ns in self._store.open_sessions():
            self._sessions.push(session_id, last_ns)

    def _pass_on(self, kept: Kept) -> None:
        if self._passing is not None:
            self._backlog.hold(kept.row)
            is_agent = self._backlog.assembler.is_genai
            self._passing.pass_on(kept.signal, kept.row, kept.body, kept.message, is_agent=is_agent)

    async def _work(self) -> None:
        while True:
            cuts = [await self._cuts.get()]
            while len(cuts) < _BATCH and not self._cuts.empty():
                cuts.append(self._cuts.get_nowait())
            await self._finish(cuts)
            for _ in cuts:
                self._cuts.task_done()

    async def _finish(self, cuts: Sequence[Cut]) -> None:
        """Read, evaluate and commit what was cut; then let go of its requests."""
        rebuilt = await self._patiently(self._rebuild, cuts)
        finished = [self._with_held(x) for x in rebuilt] if self._passing else rebuilt
        evaluated = await asyncio.gather(*(self._evaluate(x) for x in finished))
        traces = [stored for x in finished for stored in x.traces]
        await self._commit(traces, [evaluation for evaluations in evaluated for evaluation in evaluations])
        if self._passing is not None:
            for done, evaluations in zip(finished, evaluated, strict=True):
                await self._passing.release(done.held, _by_span(evaluations or self._stored_scores(done)))
        now_ns = self._clock_ns()
        for stored in traces:
            if stored.trace.session_id is not None:
                self._sessions.push(stored.trace.session_id, now_ns)
        self._backlog.finish(cuts)
        self.counters.add("traces_finished", len(cuts))

    def _rebuild(self, cuts: Sequence[Cut]) -> list[_Finished]:
        """The agent traces in `cuts` that were not evaluated just so before. Runs in a thread."""
        found = [(cut, self._read(cut)) for cut in cuts]
        known = self._store.known([trace.id for _, traces in found for trace in traces])
        finished = []
        for cut, traces in found:
            stored = []
            for trace in traces:
                revision, digest = known.get(trace.id, (0, ""))
                now = _digest(trace)
                if now == digest:
                    self.counters.add("agent_traces_unchanged")
                else:
                    stored.append(StoredTrace(trace, revision + 1, now))
            finished.append(_Finished(cut, tuple(stored)))
        return finished

    def _read(self, cut: Cut) -> list[AgentTrace]:
        if not cut.genai:
            self.counters.add("traces_without_genai")
            return []
        try:
            spans, logs = self._backlog.load(cut)
            return rebuild(spans, logs, completeness=cut.completeness)
        except Exception:  # noqa: BLE001 - whatever crashes a reader would crash it again after every restart
            _log.exception("trace %s cannot be read; its requests are in quarantine", cut.trace_id.hex())
            self.counters.add("traces_quarantined")
            self._backlog.put_aside(cut, f"trace {cut.trace_id.hex()} crashed a reader")
            return []

    async def _evaluate(self, finished: _Finished) -> list[Evaluation]:
        evaluations: list[Evaluation] = []
        for stored in finished.traces:
            evaluations += await self._evaluate_trace(stored, None)
        waiting = {root.span_id for root in finished.held}
        return [replace(x, inline=True) if x.target.span_id in waiting else x for x in evaluations]

    async def _evaluate_trace(self, stored: StoredTrace, overrides: Overrides | None) -> list[Evaluation]:
        evaluations = await self._engine.evaluate_trace(stored.trace, overrides, revision=stored.revision)
        if stored.revision == 1:
            return evaluations
        return _superseding(
            evaluations, await self._patiently(partial(self._store.evaluations, trace_id=stored.trace.id))
        )

    def _stored_scores(self, finished: _Finished) -> list[Evaluation]:
        """The scores of roots held back again after a restart, whose trace was evaluated before it."""
        return self._store.evaluations(trace_id=finished.cut.trace_id.hex()) if finished.held else []

    def _with_held(self, finished: _Finished) -> _Finished:
        """From here on the trace's roots leave with their scores: none of them can become overdue any more."""
        assert self._passing is not None  # noqa: S101 - for the type checker: called in inline mode only
        return replace(finished, held=tuple(self._passing.take(finished.cut.trace_id)))

    async def _work_on_sessions(self) -> None:
        while True:
            ids = [await self._quiet_sessions.get()]
            while len(ids) < _BATCH and not self._quiet_sessions.empty():
                ids.append(self._quiet_sessions.get_nowait())
            await self._evaluate_sessions(ids, None)
            self.counters.add("sessions_evaluated", len(ids))
            for _ in ids:
                self._quiet_sessions.task_done()

    async def _evaluate_sessions(self, ids: Sequence[str], overrides: Overrides | None) -> list[Evaluation]:
        known = await self._patiently(self._load_sessions, ids)
        evaluations: list[Evaluation] = []
        for session, revision, before in known:
            signals: dict[str, dict[str, Evaluation]] = {}
            for evaluation in before:
                if evaluation.scope == "trace":
                    signals.setdefault(evaluation.subject_id, {})[evaluation.metric] = evaluation
            found = await self._engine.evaluate_session(session, signals, overrides, revision=revision)
            evaluations += found if revision == 1 else _superseding(found, before)
        await self._commit([], evaluations)
        return evaluations

    def _load_sessions(self, ids: Sequence[str]) -> list[tuple[Session, int, list[Evaluation]]]:
        """The sessions that are known, each with its next revision and its scores so far. Runs in a thread."""
        sessions = [session for session_id in ids if (session := self._store.session(session_id))]
        return [
            (
                session,
                1 + self._store.session_revision(session.session_id),
                self._store.evaluations(session_id=session.session_id),
            )
            for session in sessions
        ]

    async def _commit(self, traces: Sequence[StoredTrace], evaluations: Sequence[Evaluation]) -> None:
        """Keep traces and scores, then hand the scores to the exporters: never the other way round."""
        if not traces and not evaluations:
            return
        numbers = await self._patiently(self._store.commit, traces, evaluations)
        self._sender.offer(zip(numbers, evaluations, strict=True))
        self.counters.add("agent_traces", len(traces))
        for evaluation in evaluations:
            self.counters.add(f"evaluations_{evaluation.status}")

    async def _patiently(self, ask: Callable[..., Any], *arguments: Any) -> Any:
        """What the store answers in a thread, however long it takes: a full disk or a locked file may pass."""
        while True:
            try:
                return await asyncio.to_thread(ask, *arguments)
            except RetryableError as error:
                _log.error("waiting for the store: %s", error)
                await asyncio.sleep(_RETRY_STORE_S)

    async def _tidy(self) -> None:
        """Hold the store to its retention, and let the journal forget traces that no late span can reach."""
        while True:
            now_ns = self._clock_ns()
            deleted = await self._patiently(self._store.prune, now_ns)
            self.counters.add("store_records_pruned", deleted)
            self._backlog.tidy()
            await asyncio.sleep(_TIDY_EVERY_S)

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
            _log.warning("scores are still to be sent; they leave after the restart")


def _digest(trace: AgentTrace) -> str:
    """What tells whether a rebuilt trace says the same; how complete it was when it was cut does not count."""
    facts = records.encode(replace(trace, completeness="complete"))
    return hashlib.blake2b(facts.encode(), digest_size=16).hexdigest()


def _superseding(evaluations: Sequence[Evaluation], before: Sequence[Evaluation]) -> list[Evaluation]:
    """The evaluations, each with the uid of the one before it of the same subject and metric."""
    uids = {(x.subject_id, x.metric): x.uid for x in before}
    return [replace(x, supersedes=uids.get((x.subject_id, x.metric))) for x in evaluations]


def _by_span(evaluations: Sequence[Evaluation]) -> dict[str, list[Evaluation]]:
    found: dict[str, list[Evaluation]] = {}
    for evaluation in evaluations:
        found.setdefault(evaluation.target.span_id, []).append(evaluation)
    return found
