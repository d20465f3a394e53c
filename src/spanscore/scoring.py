"""Agent traces to committed scores."""

import asyncio
import logging
import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping, Sequence
from concurrent.futures import Executor, ThreadPoolExecutor
from contextlib import asynccontextmanager, suppress
from contextvars import copy_context
from functools import partial
from types import MappingProxyType
from typing import Any, Protocol
from weakref import WeakValueDictionary

from spanscore import metrics
from spanscore.assemble.assembler import Cut
from spanscore.errors import ConflictError, InputError, PermanentError, RetryableError
from spanscore.evaluation import MAX_EARLIER_BYTES, MAX_EARLIER_TURNS, Engine, Overrides, outcomes
from spanscore.evaluation.engine import (
    BatchScores,
    FirstScores,
    SessionScores,
    digest_of,
    session_scores,
    trace_scores,
)
from spanscore.evaluation.outcomes import parted, placed
from spanscore.evaluation.rubric import is_rubric
from spanscore.export.sender import Sender
from spanscore.model.score import Evaluation, Failure, Skip
from spanscore.model.span import changed
from spanscore.model.trace import AgentTrace, Session
from spanscore.store import records, stored_rows
from spanscore.store.lookup import SessionRecord
from spanscore.store.runs import RunTables
from spanscore.store.store import Missing, Store, StoredTrace
from spanscore.telemetry import Complaints, Meter, about, declared
from spanscore.threads import Turns

_log = logging.getLogger(__name__)

FIRST_WAIT_NS = 5 * 60 * 10**9
"""How long to wait before what got no answer is asked for again, doubled for each time in vain."""

_RETRY_STORE_S, _LONGEST_RETRY_S = 1.0, 15.0
_STORE_THREADS = 8
"""Those that may wait for the store at once: when it hangs, there are still threads that decode
what is received.
"""

_NO_STORE = "scoring waits for the store"


class ScoresSessions(Protocol):
    """Evaluates sessions as the engine of a `Scoring` would, but elsewhere."""

    def session_scores(
        self, keys: Sequence[str], tenant: str | None = None
    ) -> AsyncIterator[BatchScores]:
        """The scores of each stored session, as its next revision, mostly of all at once: those
        that take long come last.
        """
        ...


class SessionsFailedError(Exception):
    """Some sessions cannot be scored: `failed` contains the error of each, by the session's key."""

    def __init__(self, failed: Mapping[str, Exception]) -> None:
        super().__init__(f"{len(failed)} sessions cannot be scored")
        self.failed = failed


class Scoring:
    """Evaluates traces and sessions as their next revisions.

    Belongs to one event loop, but for `new`.

    Whatever waits for the store waits as long as it takes: a full disk or a locked file may pass.
    """

    def __init__(
        self,
        engine: Engine,
        store: Store,
        sender: Sender,
        meter: Meter,
        *,
        judge_failed: Callable[[], None] | None = None,
        budget_window_ns: int | None = None,
        scored: Callable[[Sequence[Evaluation]], None] | None = None,
        threads: Executor | None = None,
        turns: Turns | None = None,
        clock_ns: Callable[[], int] = time.time_ns,
        sleep: Callable[[float], Awaitable[object]] = asyncio.sleep,
    ) -> None:
        """`judge_failed` is called when a score is missing since the judge gave no answer.

        What is missing is kept, to be asked for again, where `budget_window_ns` says how long the
        judge's budget lasts. `scored` is called with evaluations that were committed; it must not
        raise. `threads` wait for the store, each when it is its turn by `turns`.
        """
        self.elsewhere: ScoresSessions | None = None
        """Who evaluates sessions in place of the engine; may be set before the first."""
        self._judge_failed = judge_failed
        self._budget_window_ns = budget_window_ns
        self._scored = scored
        self._clock_ns = clock_ns
        self._engine = engine
        self._store = store
        self._sender = sender
        self._meter = meter
        self._complaints = Complaints(clock_ns)
        self._sleep = sleep
        self._turns = turns or Turns()
        self._threads = threads or ThreadPoolExecutor(_STORE_THREADS, thread_name_prefix="store")
        self._revising: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()
        self._uncommitted: WeakValueDictionary[str, StoredTrace] = WeakValueDictionary()

    def new(
        self, traces: Sequence[AgentTrace], first: Mapping[str, FirstScores] = MappingProxyType({})
    ) -> list[StoredTrace]:
        """Those of `traces` that were not evaluated just so before, each as its next revision.

        `first` has what was made of some of them already, by their ids. Blocks.
        """
        known = self._store.known([trace.id for trace in traces])
        found = []
        for trace in traces:
            revision, digest = known.get(trace.id, (0, ""))
            made = first.get(trace.id)
            record = records.encode(trace) if made is None else made.record
            now = digest_of(trace, record) if made is None else made.digest
            if now == digest:
                self._meter.add(declared.AGENT_TRACES_UNCHANGED)
            else:
                found.append(StoredTrace(trace, revision + 1, now, record))
        return found

    def begin(self, traces: Iterable[StoredTrace]) -> None:
        """These traces are evaluated now: they are turns before others until they are in the
        store.
        """
        self._uncommitted.update((x.trace.id, x) for x in traces)

    async def evaluate_new(
        self, stored: StoredTrace, first: FirstScores | None
    ) -> Sequence[Evaluation]:
        """As `evaluate`, of a trace of which `first` was made already, or None."""
        if first is None or stored.revision > 1:
            return await self.evaluate(stored)
        for labels in first.decisions:
            self._meter.add(declared.RULES_DECISIONS, **labels)
        return first.evaluations

    async def evaluate(
        self, stored: StoredTrace, overrides: Overrides | None = None
    ) -> list[Evaluation]:
        """The scores of a trace; nothing is committed yet."""
        earlier = await self._turns_before(stored.trace)
        before: list[Evaluation] = []
        if stored.revision > 1:
            before = await self.patiently(
                self._store.evaluations, trace_id=stored.trace.id, tenant=stored.trace.tenant
            )
        return await trace_scores(
            self._engine,
            stored.trace,
            overrides,
            revision=stored.revision,
            earlier=earlier,
            before=before,
        )

    async def _turns_before(self, trace: AgentTrace) -> list[AgentTrace]:
        """The turns of the session before this one: those in the store, and those that are on their
        way into it.
        """
        if trace.session_id is None or not self._engine.looks_back:
            return []
        stored = await self.patiently(
            self._store.turns_before, trace, limit=MAX_EARLIER_TURNS, max_bytes=MAX_EARLIER_BYTES
        )
        known = {x.id: x for x in stored}
        known |= {
            x.trace.id: x.trace for x in self._uncommitted.values() if _is_before(x.trace, trace)
        }
        return sorted(known.values(), key=lambda x: x.started_ns)[-MAX_EARLIER_TURNS:]

    def left_over(self, cuts: Sequence[Cut], traces: Sequence[AgentTrace]) -> list[str]:
        """The ids of agent traces that were kept of these cuts before they were all there. Blocks.

        `traces` are what they give now: another outermost span, or another beginning of the turn,
        is another id. Part of an OTel trace may be read by itself (a session of Gemini CLI's): of
        one cut, only those count whose dialect it gives once more.
        """
        if not traces or (len(cuts) == 1 and not cuts[0].reopened):
            return []
        # for a session these are not the cut's id
        of_traces = {x for trace in traces for x in trace.trace_ids}
        trace_ids = {*of_traces, *(x.trace_id for x in cuts)}
        lost = self._store.left_over(trace_ids, {x.id for x in traces}, tenant=cuts[0].tenant)
        if len(cuts) > 1:
            return lost
        dialects = {x for trace in traces for x in trace.dialects}
        stored = ((id_, self._store.trace(id_, tenant=None)) for id_ in lost)
        return [
            id_
            for id_, trace in stored
            if trace is not None and not dialects.isdisjoint(trace.dialects)
        ]

    async def commit(
        self,
        traces: Sequence[StoredTrace],
        evaluations: Sequence[Evaluation],
        *,
        left_over: Sequence[str] = (),
        in_vain: Sequence[Evaluation] = (),
        evaluated: Mapping[str, int] = MappingProxyType({}),
        also: Callable[[RunTables], None] | None = None,
    ) -> None:
        """Keep traces and scores, then hand the scores to the exporters: never the other way round.

        `in_vain` got no answer, as those before them: that is kept, and they are not. `evaluated`
        and `also` are as of `Store.commit`.
        """
        if not (traces or evaluations or left_over or in_vain or evaluated or also):
            return
        missing = self._missing([*evaluations, *in_vain])
        numbers = await self.patiently(
            self._store.commit,
            traces,
            evaluations,
            gone=left_over,
            missing=missing,
            evaluated=evaluated,
            also=also,
        )
        self._sender.offer(zip(numbers, evaluations, strict=True))
        if self._scored is not None:
            self._scored(evaluations)
        self._meter.add(declared.AGENT_TRACES, len(traces))
        live = [x for x in evaluations if x.run is None]
        _count(live, self._meter)
        unscored = (*live, *(x for x in in_vain if x.run is None))
        if self._judge_failed is not None and any(
            outcomes.cause_of(x) == "judge" for x in unscored
        ):
            self._judge_failed()

    def _missing(self, evaluations: Sequence[Evaluation]) -> list[Missing]:
        if self._budget_window_ns is None:
            return []
        now_ns = self._clock_ns()
        found: list[Missing] = []
        for x in evaluations:
            cause = outcomes.cause_of(x)
            if x.run is not None or cause is None:
                continue
            wait = (FIRST_WAIT_NS, True)
            if cause == "budget":  # until its next window begins
                wait = (self._budget_window_ns - now_ns % self._budget_window_ns, False)
            found.append(Missing(x.scope, x.subject_id, x.metric, cause, *wait))
        return found

    async def sessions(
        self, ids: Sequence[str], overrides: Overrides | None = None, *, tenant: str | None = None
    ) -> list[Evaluation]:
        """Evaluate sessions as their next revisions; those that are not known, or not this
        tenant's, give nothing.

        Raises SessionsFailedError where some cannot be scored, after the others were committed.
        With `overrides`, the first error ends all.
        """
        evaluations: list[Evaluation] = []
        failed: dict[str, Exception] = {}
        keys = list(dict.fromkeys(map(stored_rows.key, ids)))
        # one that is being evaluated, which may take minutes, keeps no other waiting
        under_way = [[key] for key in keys if self._is_revised(key)]
        for some in ([key for key in keys if not self._is_revised(key)], *under_way):
            async with self._alone(some) as let_go:
                async for batch in self._session_scores(some, overrides, tenant):
                    evaluations += await self._commit_sessions(batch)
                    failed |= batch.failed
                    let_go(batch.keys)
        if failed:
            raise SessionsFailedError(failed)
        return evaluations

    async def _commit_sessions(self, batch: BatchScores) -> list[Evaluation]:
        """Commit the scores of sessions; gives those that are new.

        A session that another server has evaluated meanwhile is left as it is.
        """
        for scored in batch.scores:
            self._complain_of_no_signals((*scored.news, *scored.in_vain))
        try:
            return await self._commit_together(batch.scores)
        except ConflictError:
            news: list[Evaluation] = []
            for scored in batch.scores:
                with suppress(ConflictError):
                    news += await self._commit_together([scored])
            return news

    async def _commit_together(self, scores: Sequence[SessionScores]) -> list[Evaluation]:
        news = [x for scored in scores for x in scored.news]
        in_vain = [x for scored in scores for x in scored.in_vain]
        evaluated = {stored_rows.key(x.session_key): x.until_row for x in scores if x.until_row}
        await self.commit([], news, in_vain=in_vain, evaluated=evaluated)
        return news

    async def _session_scores(
        self, keys: Sequence[str], overrides: Overrides | None, tenant: str | None
    ) -> AsyncIterator[BatchScores]:
        """The scores of stored sessions; what nobody asked for is evaluated elsewhere, where that
        can be.
        """
        if self.elsewhere is None or overrides is not None:
            yield await self._with_servers(BatchScores(keys, for_server=keys), overrides, tenant)
            return
        async for batch in self.elsewhere.session_scores(keys, tenant):
            yield await self._with_servers(batch, None, tenant)

    async def _with_servers(
        self, batch: BatchScores, overrides: Overrides | None, tenant: str | None
    ) -> BatchScores:
        """With the scores of the sessions that only the server can evaluate."""
        for found in await self._stored(batch, overrides, tenant):
            try:
                external = await self._external_scores(found.session)
                scores = await session_scores(self._engine, found, overrides, external=external)
                batch.scores.append(scores)
            except Exception as error:
                if overrides is not None:
                    raise
                batch.failed[found.session.id] = error
        return batch

    async def _stored(
        self, batch: BatchScores, overrides: Overrides | None, tenant: str | None
    ) -> list[SessionRecord]:
        """The sessions that only the server can evaluate; those that cannot be read have failed."""
        found: list[SessionRecord] = []
        waiting = [batch.for_server] if batch.for_server else []
        while waiting:
            keys = waiting.pop()
            try:
                stored = await self.patiently(self._store.stored_sessions, keys, tenant=tenant)
            except PermanentError as error:
                if overrides is not None:
                    raise
                if len(keys) == 1:
                    batch.failed[keys[0]] = error
                else:  # the text of one session may be unreadable
                    waiting = [[key] for key in reversed(keys)]
            else:
                found += await asyncio.to_thread(self._turns.run, stored.decoded)
        return found

    def check(self, overrides: Overrides) -> None:
        """Raise InputError where a run that changes so much cannot be met."""
        self._engine.selection(overrides)

    async def _external_scores(self, session: Session) -> list[Evaluation]:
        if not self._engine.uses_external_scores:
            return []
        found: list[Evaluation] = await self.patiently(
            self._store.external_scores, session_key=session.id, tenant=session.tenant
        )
        return found

    def _complain_of_no_signals(self, evaluations: Sequence[Evaluation]) -> None:
        for evaluation in evaluations:
            if isinstance(evaluation.outcome, Skip) and evaluation.outcome.cause == "no_signals":
                complaint = f"session {evaluation.session_id!r}: {evaluation.reason}"
                with about(session_id=evaluation.session_id, tenant=evaluation.tenant):
                    self._complaints.complain(f"{evaluation.metric} has no score", complaint)

    async def reevaluate(
        self, trace_id: str, overrides: Overrides, *, tenant: str = ""
    ) -> list[Evaluation]:
        """Evaluate a stored trace as its next revision; [] where a tenant has none under the id."""
        trace = await self.patiently(self._store.trace, trace_id, tenant=tenant)
        if trace is None:
            return []
        if trace.session_id is not None and any(map(is_rubric, overrides.metrics or ())):
            raise InputError(
                f"the rubric runs with the session of this trace: give its id, {trace.session_id!r}"
            )
        async with self._alone([trace.id]):
            known = await self.patiently(self._store.known, [trace.id])
            if trace.id not in known:
                return []
            revision, digest = known[trace.id]
            stored = StoredTrace(trace, revision + 1, digest)
            evaluations = await self.evaluate(stored, overrides)
            await self.commit([stored], evaluations)
        return evaluations

    async def complete(self, trace_id: str, names: Sequence[str]) -> list[Evaluation] | None:
        """Evaluate metrics of a stored trace that got no answer; gives those that have come out
        now.

        They are the trace's next revision. None where the trace is not known.
        """
        async with self._alone([trace_id]):
            trace = await self.patiently(self._store.trace, trace_id, tenant=None)
            known = await self.patiently(self._store.known, [trace_id])
            if trace is None or trace.id not in known:
                return None
            revision, digest = known[trace.id]
            before = await self.patiently(
                self._store.evaluations, trace_id=trace.id, tenant=trace.tenant
            )
            stored = StoredTrace(trace, revision + 1, digest)
            found = _drawn_as(before, await self.evaluate(stored, Overrides(tuple(names))))
            # it has grown, and was evaluated anew
            if await self.patiently(self._store.known, [trace_id]) != known:
                return []
            new, in_vain = parted(found, before)
            new = placed(new, before, self._engine.ranking, "trace")
            await self.commit([stored] if new else [], new, in_vain=in_vain)
        return new

    async def patiently(self, ask: Callable[..., Any], *arguments: Any, **options: Any) -> Any:
        """What the store answers, in a thread, however long it takes."""
        wait_s, call = (
            _RETRY_STORE_S,
            partial(copy_context().run, self._turns.run, partial(ask, *arguments, **options)),
        )
        while True:
            try:
                answer = await asyncio.get_running_loop().run_in_executor(self._threads, call)
            except RetryableError as error:
                self._complaints.complain(_NO_STORE, str(error), level=logging.ERROR)
                self._meter.add(declared.STORE_RETRIES)
                await self._sleep(wait_s)
                wait_s = min(wait_s * 2, _LONGEST_RETRY_S)
            else:
                if self._store.trouble is None and self._complaints.is_over(_NO_STORE):
                    _log.info("the store answers again")
                return answer

    @asynccontextmanager
    async def _alone(
        self, subjects: Iterable[str]
    ) -> AsyncIterator[Callable[[Iterable[str]], None]]:
        """No two revisions of one subject are made at the same time, or both would be the same
        one.

        What this gives lets go of some subjects before the others.
        """
        held: dict[str, asyncio.Lock] = {}

        def let_go(done: Iterable[str]) -> None:
            for subject in done:
                if subject in held:
                    held.pop(subject).release()

        try:
            for subject in sorted(set(subjects)):
                lock = self._revising.setdefault(subject, asyncio.Lock())
                await lock.acquire()
                held[subject] = lock
            yield let_go
        finally:
            let_go([*held])

    def _is_revised(self, subject: str) -> bool:
        """Whether a revision of a subject is being made."""
        lock = self._revising.get(subject)
        return lock is not None and lock.locked()


def _count(evaluations: Iterable[Evaluation], meter: Meter) -> None:
    """Count what was committed."""
    counted: Counter[tuple[str, str, str]] = Counter()
    for x in evaluations:
        match x.outcome:
            case Skip(cause=cause):
                counted["skipped", x.metric, cause] += 1
            case Failure(type=error):
                counted["failed", x.metric, error] += 1
            case _:
                counted["scored", x.metric, x.label or "none"] += 1
    for (status, metric, label), number in counted.items():
        kind = _COUNTED[status]
        meter.add(kind, number, **{kind.labels[0]: metric, kind.labels[1]: label})


_COUNTED = {
    "scored": declared.EVALUATIONS_SCORED,
    "skipped": declared.EVALUATIONS_SKIPPED,
    "failed": declared.EVALUATIONS_FAILED,
}


def refuse_misplaced(overrides: Overrides, run: str, instead: str = "give the id of a") -> None:
    """Raise InputError on a metric that does not run with what is to be evaluated: `run` is "trace"
    or "session". `instead` is what to do, before the name of what the metric runs with.
    """
    other = "session" if run == "trace" else "trace"
    known = metrics.available()
    for name in overrides.metrics or ():
        # of a trace without a session it runs too
        if name in known and known[name].run != run and not is_rubric(name):
            raise InputError(f"{name} runs with a {other}, not with a {run}: {instead} {other}")


def _is_before(one: AgentTrace, other: AgentTrace) -> bool:
    """Whether both are of one session, and `one` began first."""
    return (
        one.session_key == other.session_key
        and one.started_ns < other.started_ns
        and one.id != other.id
    )


def _drawn_as(before: Sequence[Evaluation], evaluations: Sequence[Evaluation]) -> list[Evaluation]:
    """The evaluations with the chance with which the same had been drawn before."""
    shares = {x.metric: x.sampling for x in before}
    return [changed(x, sampling=shares.get(x.metric, x.sampling)) for x in evaluations]
