"""Closed traces to delivered scores.

Whoever uses it keeps the spans of the traces (a `Source`) and owns the event loop.
"""

import logging
import time
from collections.abc import Callable, Collection, Coroutine, Mapping, Sequence
from concurrent.futures import Executor
from typing import Any

from spanscore import dialects
from spanscore.assemble import assembler, fragments
from spanscore.assemble.assembler import Sessions, WorkQueue
from spanscore.calibration import Certificates, InputWatch
from spanscore.config import Settings
from spanscore.control.measurer import Measurers, RequestedModels
from spanscore.control.run_sources import Sources
from spanscore.control.runs import Runs
from spanscore.embed import open_embedder
from spanscore.evaluation import Engine, Overrides
from spanscore.evaluation.procedure import RuleJudge, rule_judges
from spanscore.export.port import Exporter, Sink
from spanscore.export.sender import Sender
from spanscore.judge import ModelJudge, open_judge, redactor
from spanscore.judge.budget import SharedPurse
from spanscore.judge.port import Ending, Judge
from spanscore.metrics.own import registered
from spanscore.model.options import duration_text
from spanscore.model.score import Evaluation
from spanscore.scoring import Scoring, SessionsFailedError, refuse_misplaced
from spanscore.serving.completion import Finishing, HoldsBack, Spans
from spanscore.serving.judge_retries import Rescoring, configured_metrics, open_trials
from spanscore.store import records
from spanscore.store.judges import JudgeLimits
from spanscore.store.locks import Leadership
from spanscore.store.store import Store
from spanscore.telemetry import Meter, declared
from spanscore.threads import Precedence, Turns, next_multiple
from spanscore.turn_scheduling import ReadJob, State, TurnScheduler
from spanscore.watches import ContentWatch
from spanscore.workers import (
    InProcesses,
    InThreads,
    JobReading,
    LoneTries,
    SessionsElsewhere,
    WorkerPool,
)
from spanscore.workers.answers import Evaluating, EvaluationSetup

_log = logging.getLogger(__name__)

_QUEUED = 1000
"""Cut traces that wait for a worker before no more are cut; they are small."""

_BATCH, _WORKERS = 256, 2
"""Traces that a worker reads, evaluates and commits together, and workers, where there is no judge:
few commits, and one batch is read while the other is committed.
"""

_BATCH_BYTES = 4 * 2**20
"""With so many bytes of encoded spans a batch is full, however few its traces are: once read they
take more.
"""

_JUDGED_BATCH, _JUDGED_WORKERS = 1, 32
"""The same with a judge: no trace waits for the answers about another."""

_SESSIONS = 32
"""Sessions that are evaluated and committed together, where there is no judge."""

_JUDGED_SESSIONS = 32
"""With a judge, sessions that are evaluated at once, each by itself."""

_BATCH_OF_PROCESS, _BATCHES_OF_PROCESS = 64, 4
"""The same with worker processes, batches for each: some are read, others evaluated and committed.

Small batches are shared out evenly.
"""

_ONE_BY_ONE = 64
"""Batches on which a worker process died whose traces, or sessions, are worked on one by one at
once: one that kills processes keeps its batch for minutes.
"""

_MAX_ROUNDS = 20
_TIDY_EVERY_S = 60.0
_LOOK_EVERY_S = 5.0

_TAKE_OVER_EVERY_S = 10.0
_GRACE_NS, _LONG_NS = 10 * 10**9, 300 * 10**9
"""How long another server gets to evaluate a session, and until nobody looks whether it has."""


class Processing:
    """Reads, evaluates, commits and sends. Belongs to one event loop."""

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
        precedence: Precedence | None = None,
        workers: WorkerPool | None = None,
        clock_ns: Callable[[], int] = time.time_ns,
    ) -> None:
        """`exporters` and `sinks` are by the names that `settings.export` gives them.

        `judge` answers in place of the configured models. `threads` read traces and wait for the
        store, in place of its own threads. `scored` is called with evaluations that were committed.
        Reading and scoring give way to requests by `precedence`. `workers` are processes that read
        traces.

        Raises ConfigError where something cannot be opened.
        """
        dialects.configure(settings.span_names)
        self.meter = meter
        self.store = store
        self.leadership = Leadership(store.lead, store.try_again, is_shared=store.is_shared)
        self._settings = settings
        self._requested = RequestedModels(settings)
        self._is_judged = judge is not None or any(x.models for x in settings.judges)
        self._spans = spans
        self._clock_ns = clock_ns
        self._content = ContentWatch(lambda silent: _log.warning("%s", silent))
        self._scheduler = TurnScheduler(
            settings.assemble, spans, self._content, attributes=settings.evaluation.span_attributes
        )
        turns = Turns()
        self.sender = Sender(
            settings.export,
            exporters,
            store,
            meter,
            sinks=sinks,
            by_tenant=settings.exports_tenants,
            lead=self.leadership,
            turns=turns,
            clock_ns=clock_ns,
        )
        limits = JudgeLimits.of(store.shared_url)
        self._judge = judge or open_judge(settings.judge, store, meter, limits=limits)
        self._embedder = open_embedder(settings.embedding, redact=redactor(settings.judge))
        self.judges_end = Ending()
        usual = RuleJudge(self._judge, settings.judge)
        of_rules = rule_judges(
            settings.evaluation.rules,
            usual,
            lambda config, beside: judge or open_judge(config, store, meter, beside, limits),
        )
        self._purses = _purses(usual, *of_rules.values())
        self._certificates = _certificates(settings, store)
        engine = Engine(
            settings.evaluation,
            self.judges_end.of(self._judge),
            self._embedder,
            judge_config=settings.judge,
            judges={
                name: x._replace(judge=self.judges_end.of(x.judge)) for name, x in of_rules.items()
            },
            certified=self._certificates,
            clock_ns=clock_ns,
            meter=meter,
        )
        self._trials = open_trials(settings, meter, self.judges_end, judge)
        self._tries_at_start = settings.judge.try_at_start and judge is None
        self._scoring = Scoring(
            engine,
            store,
            self.sender,
            meter,
            judge_failed=self._trials.doubt if self._trials else None,
            budget_window_ns=settings.judge.budget.window_ns
            if settings.evaluation.ask_again.enabled
            else None,
            scored=scored,
            threads=threads,
            turns=turns,
            clock_ns=clock_ns,
        )
        self._rescoring = Rescoring(
            settings.evaluation.ask_again,
            configured_metrics(settings),
            self._trials,
            self._scoring,
            store,
            meter,
            session_due=self._evaluate_again,
            clock_ns=clock_ns,
        )
        self._sessions = Sessions(settings.assemble)
        at_once = None if judge is not None else evaluation_setup(settings)
        evaluating = None
        if at_once is not None:
            evaluating = Evaluating(
                at_once,
                lambda keys, tenant: (store.stored_sessions(keys, tenant=tenant), ()),
                clock_ns,
            )
        in_threads = InThreads(
            self._scheduler,
            settings.assemble.session_scope,
            precedence=precedence,
            threads=threads,
            evaluating=evaluating,
            turns=turns,
        )
        self._workers = workers
        self._reading: JobReading = in_threads
        if evaluating is not None:
            self._scoring.elsewhere = SessionsElsewhere(in_threads, meter, LoneTries())
        if workers is not None:
            lone_tries = LoneTries(max(1, len(workers) // 2))  # other traces are read beside them
            self._reading = InProcesses(
                workers,
                self._scheduler,
                here=in_threads,
                noted=self._content.take,
                lone_tries=lone_tries,
            )
            if workers.scores_sessions:
                self._scoring.elsewhere = SessionsElsewhere(workers, meter, lone_tries)
        self._suspects: WorkQueue[ReadJob] = WorkQueue(_QUEUED)
        self._finishing = Finishing(
            self._scheduler,
            self._scoring,
            spans,
            self._sessions,
            meter,
            reading=self._reading,
            suspects=self._suspects,
            precedence=precedence,
            clock_ns=clock_ns,
        )
        self._cuts: WorkQueue[ReadJob] = WorkQueue(_QUEUED)
        self._quiet_sessions: WorkQueue[str] = WorkQueue(_QUEUED)
        self._again: set[str] = set()
        self._watch()

    def hold_back(self, holds_back: HoldsBack | None) -> None:
        """Have scores leave on the spans that are held back for them.

        To be called before the loops run.
        """
        self._finishing.holds_back = holds_back

    def loops(self) -> list[Coroutine[Any, Any, None]]:
        """All that has to run, for ever."""
        cutting = assembler.run(
            self._scheduler.cut,
            self._sessions,
            traces_out=self._cuts,
            sessions_out=self._quiet_sessions,
            clock_ns=self._clock_ns,
            every_s=self._next_cut_s,
        )
        batch, count = self._batches()
        workers = [
            self._cuts.run(
                batch,
                self._finishing.batch,
                size_bytes=lambda x: x.size_bytes,
                enough_bytes=_BATCH_BYTES,
            )
            for _ in range(count)
        ]
        if self._workers is not None:
            workers += [
                self._suspects.run(batch, self._finishing.one_by_one) for _ in range(_ONE_BY_ONE)
            ]
        size, count = self._session_batches()
        sessions = [self._quiet_sessions.run(size, self._finish_sessions) for _ in range(count)]
        trying = [self._trials.run(at_start=self._tries_at_start)] if self._trials else []
        only, asks = self.leadership.only, self._settings.evaluation.ask_again.enabled
        asking = [only(self._rescoring.run)] if asks else []
        own = [self._tidy(), only(self._look_for_undelivered), self.leadership.run()]
        own += map(_refresh, self._purses)
        if self._certificates is not None:
            own += (self._look_at_certificates(self._certificates), only(self._look_at_inputs))
        if self.store.is_shared:
            own.append(only(self._take_over_sessions))
        processes = [] if self._workers is None else [self._workers.run()]
        return [self.sender.run(), cutting, *processes, *workers, *sessions, *own, *trying, *asking]

    def _batches(self) -> tuple[int, int]:
        """How many traces are a batch at most, and how many batches are under way at once."""
        processes = 0 if self._workers is None else len(self._workers)
        for_processes = _BATCHES_OF_PROCESS * processes
        if self._is_judged:
            return _JUDGED_BATCH, max(_JUDGED_WORKERS, for_processes)
        return (_BATCH_OF_PROCESS, for_processes) if processes else (_BATCH, _WORKERS)

    def _session_batches(self) -> tuple[int, int]:
        """The same of sessions."""
        at_once = 1 if self._workers is None else _ONE_BY_ONE
        return (1, max(_JUDGED_SESSIONS, at_once)) if self._is_judged else (_SESSIONS, at_once)

    def open_runs(self) -> Runs:
        """The evaluation runs in the store, which give way to the traces that wait to be scored."""
        measurers = Measurers(
            self._settings,
            self._judge,
            self._embedder,
            self._clock_ns,
            certified=self._certificates,
        )
        return Runs(
            self._settings.evaluation.runs,
            measurers,
            self._scoring,
            self.store,
            sources=Sources(
                self._settings.evaluation.runs.sources,
                session_scope=self._settings.assemble.session_scope,
                attributes=self._settings.evaluation.span_attributes,
                stitch_off=self._settings.assemble.stitch_off,
            ),
            is_busy=lambda: len(self._cuts) > 0,
            leads=lambda: self.leadership.is_leader,
            clock_ns=self._clock_ns,
        )

    @property
    def judge_trouble(self) -> str | None:
        """What is wrong with the judge's models; None where they answer, or there are none."""
        return self._trials.trouble if self._trials else None

    def health(self) -> dict[str, Any]:
        """What there is to know beside the counters."""
        return {
            "workers": self._reading.health(),
            "judge": {x: state.to_json() for x, state in self._trials.states.items()}
            if self._trials
            else {},
            "open_traces": self._spans.assembler.open_traces,
            "open_sessions": len(self._sessions) + self._quiet_sessions.unfinished,
            "waiting_traces": self._waiting_traces,
            "waiting_parts": self._scheduler.waiting,
            "store": self.store.trouble or "ok",
            "leads": self.leadership.is_leader,
            "scores_to_export": self.sender.behind(),
            "scores_undelivered": self.sender.undelivered,
            "without_content": [str(x) for x in self._content.silent],
        }

    def why_not_stored(self, trace_id: str, *, tenant: str = "") -> str:
        """Why nothing is stored of an OTel trace, as far as this server knows; else ""."""
        config = self._settings.assemble
        state = self._scheduler.state(trace_id, tenant)
        if state is State.WAITING:
            most = duration_text(config.stitch_window)
            return f"it waits for other traces of its turn, at most {most} (assemble.stitch_window)"
        if state is not State.SCORED:
            return "it is being scored"
        key = fragments.with_tenant(bytes.fromhex(trace_id), tenant)
        return {
            "complete": "it is open: it is scored when it has been quiet for"
            f" {duration_text(config.complete_after)} (assemble.complete_after)",
            "idle": "it is open, and its root or a parent is missing: it is scored when it has been"
            f" quiet for {duration_text(config.idle_after)} (assemble.idle_after)",
            "unread": "none of its spans holds GenAI attributes",
            "cut": "it was read, and no span of it is known to be of an agent or a model"
            " (spanscore inspect --unread), or it was put aside (spanscore quarantine)",
        }.get(self._spans.assembler.state(key) or "", "")

    async def evaluate(
        self,
        *,
        tenant: str = "",
        trace_id: str | None = None,
        session_id: str | None = None,
        overrides: Overrides | None = None,
    ) -> list[Evaluation]:
        """Evaluate a stored trace or session once more, as its next revision; [] where it is not
        known.

        Raises InputError when `overrides` cannot be met.
        """
        changed = overrides or Overrides()
        self._requested.require(changed.model, "model")
        refuse_misplaced(changed, "trace" if session_id is None else "session")
        self._scoring.check(changed)
        if session_id is not None:
            keys = await self.patiently(self.store.session_keys, session_id, tenant=tenant)
            return await self._scoring.sessions(keys, changed, tenant=tenant)
        return await self._scoring.reevaluate(trace_id or "", changed, tenant=tenant)

    async def patiently(self, ask: Callable[..., Any], *arguments: Any, **options: Any) -> Any:
        """What the store answers, in a thread, however long it takes."""
        return await self._scoring.patiently(ask, *arguments, **options)

    def forget(self, rows: Collection[int]) -> None:
        """Drop what these rows of the journal contain of traces: they are read elsewhere."""
        self._scheduler.forget(rows)
        self._spans.assembler.forget(rows)

    async def take_up_sessions(self) -> None:
        """Wait for the sessions that were still open when the store was last used."""
        for session_id, last_ns in await self.patiently(self.store.open_sessions):
            self._sessions.push(session_id, last_ns)

    async def _take_over_sessions(self) -> None:
        """Evaluate the sessions that another server would have, had it not died."""
        idle_ns = self._settings.assemble.session_idle_after
        failed: dict[str, int] = {}
        while True:
            await next_multiple(_TAKE_OVER_EVERY_S)
            now_ns = self._clock_ns()
            left = await self.patiently(self.store.open_sessions, now_ns - 2 * idle_ns - _LONG_NS)
            late = {key: at for key, at in left if at < now_ns - idle_ns - _GRACE_NS}
            for key, last_ns in late.items():
                if failed.get(key) != last_ns:  # else it cannot be evaluated
                    self._sessions.push(key, last_ns)
            failed = late

    def _evaluate_again(self, session_key: str) -> None:
        """Evaluate a session that has not gone on."""
        self._again.add(session_key)
        self._sessions.push(session_key, self._clock_ns())

    async def settle_judge(self) -> None:
        """Wait until it is known whether a judge answers that left scores without an answer."""
        if self._trials is not None:
            await self._trials.settle()

    async def finish_queued(self) -> None:
        """Wait until everything that was cut is scored."""
        await self._join_traces()
        await self._quiet_sessions.join()

    async def finish_complete(self) -> None:
        """Wait until all is scored that would be complete if nothing more came."""
        await self._finish_by(self._settings.assemble.complete_after)

    async def finish_everything(self) -> None:
        """Wait until all is scored that is there, complete or not, and the sessions."""
        config = self._settings.assemble
        ahead_ns = max(config.complete_after, config.idle_after, config.stitch_window)
        await self._finish_by(ahead_ns)
        # a turn waits on while a trace that it is compared with is in work
        for _ in range(_MAX_ROUNDS):
            if not self._scheduler.waiting:
                break
            ahead_ns += config.complete_after
            await self._finish_by(ahead_ns)
        await self._quiet_sessions.fill(
            lambda: self._sessions.cut(self._clock_ns() + config.session_idle_after)
        )
        await self._quiet_sessions.join()

    def _next_cut_s(self) -> float:
        """Seconds until traces are cut next."""
        is_idle = not (self._spans.assembler.open_traces or self._scheduler.waiting)
        return assembler.interval_s(self._settings.assemble, is_idle=is_idle)

    async def _finish_by(self, ahead_ns: int) -> None:
        """Wait until all is scored that is complete by a time to come."""
        in_vain = 0
        # a cut waits while its trace is in work, so that the first look may find nothing
        while in_vain < 2:
            found = await self._cuts.fill(
                lambda: self._scheduler.cut(self._clock_ns() + ahead_ns + 1)
            )
            await self._join_traces()
            in_vain = 0 if found else in_vain + 1

    async def _join_traces(self) -> None:
        """Wait until all traces that were cut are scored, or put aside."""
        await self._cuts.join()
        await self._suspects.join()

    @property
    def _waiting_traces(self) -> int:
        return len(self._cuts) + len(self._suspects)

    def _watch(self) -> None:
        """Have the meter ask for what is not counted but is."""
        meter = self.meter
        meter.watch(declared.TRACES_WAITING, lambda: self._waiting_traces)
        meter.watch(declared.TRACES_WAITING_CAPACITY, lambda: _QUEUED)
        meter.watch(declared.TRACES_WAITING_PARTS, lambda: self._scheduler.waiting)
        meter.watch(declared.SESSIONS_OPEN, lambda: len(self._sessions))
        meter.watch(declared.AGENT_TRACES_WITHOUT_CONTENT, lambda: self._content.count)
        meter.watch(declared.STORE_SIZE, lambda: self.store.size_bytes)
        meter.watch(declared.STORE_DAMAGED_RECORDS, lambda: records.damaged.count)
        meter.watch(declared.STORE_UP, lambda: 0.0 if self.store.trouble else 1.0)

    async def _finish_sessions(self, ids: Sequence[str]) -> None:
        """Evaluate sessions; one that cannot be scored is evaluated once more when it goes on."""
        config, quiet_ns = self._settings.assemble, self._clock_ns()
        if (
            len(self._sessions) < config.max_open_sessions
        ):  # else they are cut before they are quiet
            quiet_ns -= config.session_idle_after
        mine, later = await self.patiently(
            self.store.claim_sessions, ids, quiet_ns, again=frozenset(self._again)
        )
        for session_id, last_ns in later.items():
            self._sessions.push(session_id, last_ns)
        self._again.difference_update(mine)
        try:
            await self._evaluate_sessions(mine)
        finally:
            await self.patiently(self.store.release_sessions, mine)

    async def _evaluate_sessions(self, ids: Sequence[str]) -> None:
        failed: Mapping[str, Exception] = {}
        try:
            await self._scoring.sessions(ids)
        except SessionsFailedError as error:
            failed = error.failed
        except Exception as error:  # noqa: BLE001 - as for traces
            failed = dict.fromkeys(ids, error)
        for session_id, cause in failed.items():
            message = "a session cannot be scored"
            _log.error(message, exc_info=cause, extra={"session_id": session_id})
        self.meter.add(declared.SESSIONS_EVALUATED, len(ids) - len(failed))

    async def _tidy(self) -> None:
        """Delete from the store what is past its retention, and from the journal what nothing
        needs.
        """
        while True:
            self._spans.tidy()
            if self.leadership.is_leader:
                await self._prune()
            await next_multiple(_TIDY_EVERY_S)

    async def _prune(self) -> None:
        try:
            deleted = await self._scoring.patiently(self.store.prune, self._clock_ns())
            self.meter.add(declared.STORE_PRUNED_TRACES, deleted)
        except Exception:  # noqa: BLE001 - a store that stays too large for a while must not stop the server
            _log.exception("the store cannot be held to its retention now")

    async def _look_at_certificates(self, certificates: Certificates) -> None:
        """Know which judges are certified, at most some seconds after it changed."""
        while True:
            await next_multiple(_LOOK_EVERY_S)
            await self.patiently(certificates.refresh)

    async def _look_at_inputs(self) -> None:
        """End the certificates whose judges' inputs have moved."""
        watch = InputWatch(self.store, self._settings.judge.certificate)
        while True:
            await self.patiently(watch.look, self._clock_ns())
            await next_multiple(_TIDY_EVERY_S)

    async def _look_for_undelivered(self) -> None:
        """Take up what somebody has requested to be sent once more."""
        while True:
            await self.sender.look()
            await next_multiple(_LOOK_EVERY_S)


def evaluation_setup(settings: Settings) -> EvaluationSetup | None:
    """What has whoever reads a trace evaluate it too; None where a judge, a model or metrics of
    one's own take part.
    """
    evaluation, embedding = settings.evaluation, settings.embedding
    is_judged = any(x.models for x in settings.judges)
    is_own = bool(evaluation.plugins or evaluation.criteria or evaluation.external_signals)
    is_own |= any(not registered().keys().isdisjoint(x.measured()) for x in evaluation.variants())
    if is_judged or is_own or embedding.chosen not in {None, "ngrams"}:
        return None
    return EvaluationSetup(evaluation, settings.judge, embedding, settings.store)


def _certificates(settings: Settings, store: Store) -> Certificates | None:
    """The certificates in the store; None where none is required."""
    if settings.judge.required is None:
        return None
    found = Certificates(settings.judge.required, store.labels.kept)
    found.refresh()
    return found


def _purses(*judges: RuleJudge) -> set[SharedPurse]:
    """From what judges' calls are paid that other servers' calls are paid from too."""
    found = (x.judge.purse for x in judges if isinstance(x.judge, ModelJudge))
    return {x for x in found if isinstance(x, SharedPurse)}


async def _refresh(purse: SharedPurse) -> None:
    """Know what other servers spend, and have them know what is spent here, also at the end."""
    try:
        while True:
            await purse.refresh()
            await next_multiple(_LOOK_EVERY_S)
    finally:
        await purse.refresh()
