"""The items of a run: listed, evaluated, committed."""

import asyncio
import logging
import time
from collections import Counter, deque
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, NamedTuple

from spanscore.control import item_lists
from spanscore.control.item_lists import Page, RunContext, SourceListing, Targeted
from spanscore.control.measurer import Measurer
from spanscore.evaluation import MAX_EARLIER_BYTES, MAX_EARLIER_TURNS, Overrides
from spanscore.evaluation.outcomes import cause_of, superseding
from spanscore.metrics import SessionMetric
from spanscore.model.score import Evaluation, Failure, JudgeUsage, Score, Skip
from spanscore.model.trace import AgentTrace, Session
from spanscore.specs import RunSpec
from spanscore.store.runs import Booked, Finished, Item, Run, RunState, RunTables, Tallied
from spanscore.store.stored_rows import NO_TEXT, key

_MAX_ERROR = 500
_MAX_SHOWN = 5
_OF_SESSION = "runs_with_session"


class Worked(NamedTuple):
    """The evaluations of an item, and what becomes of it."""

    evaluations: list[Evaluation]
    finished: Finished


@dataclass(eq=False)
class ItemScoring:
    """Evaluates the items of one run. Belongs to one event loop."""

    context: RunContext
    run: Run
    spec: RunSpec
    measurer: Measurer

    async def scored(self, item: Item) -> Worked:
        """Evaluate an item; on a retry only what had failed.

        Nothing is stored yet, and no error of it escapes.
        """
        try:
            if self.spec.target.scope == "session":
                return await self._session(item)
            return await self._trace(item)
        except Exception as error:  # noqa: BLE001 - one trace must not stop a run
            _log.exception("run %s: %r cannot be evaluated", self.run.id, item.subject_id)
            return failed(item, error)

    async def _trace(self, item: Item) -> Worked:
        trace = await self._of_store(self.context.store.trace, item.subject_id)
        if trace is None:
            return _no_longer_stored(item)
        before = await self._before(item, trace_id=trace.id)
        earlier = await self._earlier(trace)
        found = await self.measurer.engine.evaluate_trace(
            trace, self._overrides(before), revision=item.tries + 1, earlier=earlier
        )
        worked = self._worked(item, found, before)
        is_first = not before  # else this skip is counted already
        if is_first and self.measurer.names_rubric and trace.session_id is not None:
            worked = _with_skipped(worked, "rubric", _OF_SESSION)
        return worked

    async def _session(self, item: Item) -> Worked:
        stored = await self._of_store(self.context.store.sessions, [item.subject_id])
        if not stored:
            return _no_longer_stored(item)
        session = stored[0].session
        before = _own(session, await self._before(item, session_id=item.subject_id))
        engine, external = self.measurer.engine, []
        if engine.uses_external_scores:
            external = await self._of_store(
                self.context.store.external_scores, session_key=session.id
            )
        found = await engine.evaluate_session(
            session,
            _signals(before),
            self._overrides(before),
            revision=item.tries + 1,
            external=external,
            with_signals=True,
        )
        return self._worked(item, found, before)

    async def _before(self, item: Item, **subject: str) -> list[Evaluation]:
        """What the run gave an item when it was tried before."""
        if not item.tries:
            return []
        found: list[Evaluation] = await self._of_store(
            self.context.store.evaluations, **subject, run=self.run.id
        )
        return found

    async def _of_store(self, ask: Callable[..., Any], *arguments: Any, **options: Any) -> Any:
        """What the store has of the run's tenant."""
        return await self.context.ask(ask, *arguments, **options, tenant=self.run.tenant)

    async def _earlier(self, trace: AgentTrace) -> list[AgentTrace]:
        if trace.session_id is None or not self.measurer.engine.looks_back:
            return []
        found: list[AgentTrace] = await self.context.ask(
            self.context.store.turns_before,
            trace,
            limit=MAX_EARLIER_TURNS,
            max_bytes=MAX_EARLIER_BYTES,
        )
        return found

    def _overrides(self, before: Sequence[Evaluation]) -> Overrides:
        """What measures again what has failed; all, where nothing of it could be stored.

        With a signal that failed, the session's metrics that rest on signals are measured anew.
        """
        lost = [x for x in before if _has_failed(x)]
        names = [x.metric for x in lost]
        if self.spec.target.scope == "session":
            own = {x.name for x in self.measurer.metrics}
            names = [x.metric for x in lost if x.scope == "session" or x.metric in own]
            if any(x.scope == "trace" for x in lost):
                names += [x.name for x in self.measurer.metrics if isinstance(x, SessionMetric)]
        chosen, overrides = tuple(dict.fromkeys(names)), self.measurer.overrides
        return replace(overrides, metrics=chosen) if chosen else overrides

    def _worked(
        self, item: Item, found: Sequence[Evaluation], before: Sequence[Evaluation]
    ) -> Worked:
        chance = self.run.progress.sampling
        made = [
            replace(x, run=self.run.id, withheld=not self.spec.export, sampling=chance, rank=rank)
            for rank, x in enumerate(found)
        ]
        made = superseding(made, before)
        newest = {(x.subject_id, x.metric): x for x in [*before, *made]}
        replaced = [x for x in before if newest[x.subject_id, x.metric] is not x]
        lost = next((x for x in newest.values() if _has_failed(x)), None)
        error = None if lost is None else _text(f"{lost.metric}: {lost.reason}")
        usage = sum((x.usage for x in made), JudgeUsage())
        tally = tallied(made) + -tallied(replaced)
        return Worked(
            made, Finished(item.subject_id, "FAILED" if lost else "DONE", error, tally, usage)
        )


def tallied(found: Iterable[Evaluation]) -> Tallied:
    """How many of these are scores, and why the others are none."""
    kinds: dict[type, Counter[str]] = {Skip: Counter(), Failure: Counter()}
    scored = 0
    for evaluation in found:
        match evaluation.outcome:
            case Skip(cause=cause):
                kinds[Skip][f"{evaluation.metric}\t{cause}"] += 1
            case Failure(type=error):
                kinds[Failure][f"{evaluation.metric}\t{error}"] += 1
            case Score():
                scored += 1
    return Tallied(scored, dict(kinds[Skip]), dict(kinds[Failure]))


def failed(item: Item, error: Exception) -> Worked:
    """An item of which nothing can be stored."""
    tally = Tallied(failed={f"\t{type(error).__name__}": 1})
    return Worked([], Finished(item.subject_id, "FAILED", _text(str(error)), tally, JudgeUsage()))


def _text(error: str) -> str:
    """An error as a column can hold it."""
    return NO_TEXT.sub("", error)[:_MAX_ERROR]


def _no_longer_stored(item: Item) -> Worked:
    tally = Tallied(skipped={"\tnot_stored": 1})
    return Worked(
        [], Finished(item.subject_id, "GONE", "it is no longer stored", tally, JudgeUsage())
    )


def _with_skipped(worked: Worked, metric: str, cause: str) -> Worked:
    finished = worked.finished
    scores = finished.scores + Tallied(skipped={f"{metric}\t{cause}": 1})
    return worked._replace(finished=finished._replace(scores=scores))


def _has_failed(evaluation: Evaluation) -> bool:
    """Whether there is no score for a reason that may pass, such as a spent budget, or for an
    error.
    """
    return evaluation.status == "failed" or cause_of(evaluation) is not None


def _own(session: Session, found: Iterable[Evaluation]) -> list[Evaluation]:
    """Those of `session` and its traces: its id may also be that of sessions in other
    namespaces.
    """
    traces, own_key = {x.id for x in session.traces}, key(session.id)
    return [
        x
        for x in found
        if (x.subject_id in traces if x.scope == "trace" else key(x.subject_id) == own_key)
    ]


def _signals(before: Iterable[Evaluation]) -> Mapping[str, Mapping[str, Evaluation]]:
    """What the run measured of a session's traces, by trace and metric, but for what failed."""
    found: dict[str, dict[str, Evaluation]] = {}
    for evaluation in before:
        if evaluation.scope == "trace" and not _has_failed(evaluation):
            found.setdefault(evaluation.subject_id, {})[evaluation.metric] = evaluation
    return found


_log = logging.getLogger(__name__)

_PAGE = 200
_WAIT_S, _LONGEST_WAIT_S = 0.05, 1.0
_RATE_OVER_S = 60.0


class Rate:
    """How fast items are worked off, over the last minute."""

    def __init__(self, clock_s: Callable[[], float] = time.monotonic) -> None:
        self._clock_s = clock_s
        self._counts: deque[tuple[float, int]] = deque([(clock_s(), 0)])
        self._total = 0

    def add(self, count: int) -> None:
        """So many were finished now."""
        now_s = self._clock_s()
        self._total += count
        self._counts.append((now_s, self._total))
        while self._counts[0][0] < now_s - _RATE_OVER_S and len(self._counts) > 2:
            self._counts.popleft()

    def eta_s(self, left: int) -> float | None:
        """How long `left` items will take at this rate; None where nothing is known of it yet."""
        since_s, before = self._counts[0]
        done, elapsed_s = self._total - before, self._clock_s() - since_s
        return None if done <= 0 else left * elapsed_s / done


@dataclass(eq=False)
class Work(ItemScoring):
    """The work on one run.

    Belongs to one event loop; when it is cancelled, what was not committed is done anew.
    """

    def __post_init__(self) -> None:
        self.rate = Rate()
        self._is_ending = False
        self._from_source = None
        if self.spec.target.source is not None:
            self._from_source = SourceListing(
                self.context,
                self.run,
                self.spec.target,
                looks_back=self.measurer.engine.looks_back,
                give_way=self._give_way,
            )
        self._uncommitted: list[tuple[Item, Worked]] = []
        self._committing = asyncio.Lock()
        self._giving_way = asyncio.Lock()

    def end(self) -> None:
        """Take up no more items; `work_off` returns when those under way are committed."""
        self._is_ending = True
        if self._from_source is not None:
            self._from_source.end()

    async def work_off(self) -> RunState | None:
        """Work off the run; returns the state that it has come to, None where it was ended
        before.
        """
        if not await self._list_items():
            return None
        at_once = self.context.config.max_concurrent
        async with asyncio.TaskGroup() as tasks:
            waiting: asyncio.Queue[Item | None] = asyncio.Queue(at_once)
            for _ in range(at_once):
                tasks.create_task(self._worker(waiting))
            async for item in self._pending():
                await waiting.put(item)
            for _ in range(at_once):
                await waiting.put(None)
        return None if self._is_ending else await self._end_state()

    async def _list_items(self) -> bool:
        """List the items; False where the run was ended before, or is gone."""
        run, target = self.run, self.spec.target
        if self._from_source is not None and run.progress.cursor is not None:
            found = await self._from_source.list()
            self.run = found or run
            return found is not None
        targeted = Targeted(self.context.store, run.tenant, target)
        while run.progress.cursor is not None and not self._is_ending:
            await self._give_way()
            read = partial(targeted.page, run.progress.cursor, rows=run.progress.rows)
            page = await self.context.ask(read, stored_by_ns=run.created_ns)

            def add(tables: RunTables, run: Run = run, page: Page = page) -> Run | None:
                return item_lists.add(tables, run, target.sampling, page, self.context.clock_ns())

            listed: Run | None = await self.context.ask(self.context.store.write_runs, add)
            if listed is None:
                return False
            run = listed
        self.run = run
        return run.progress.cursor is None

    async def _pending(self) -> AsyncIterator[Item]:
        after = -1
        while not self._is_ending:
            found: Sequence[Item] = await self.context.ask(
                self.context.store.read_runs,
                lambda tables, after=after: tables.items(self.run.id, "PENDING", after, _PAGE),
            )
            for item in found:
                if self._is_ending:
                    return
                yield item
            if len(found) < _PAGE:
                return
            after = found[-1].number

    async def _worker(self, waiting: "asyncio.Queue[Item | None]") -> None:
        while (item := await waiting.get()) is not None:
            if self._is_ending:
                continue
            await self._give_way()
            await self._commit(item, await self.scored(item))

    async def _give_way(self) -> None:
        """Let what comes in go first, for a second at most; those that wait for it go on one after
        the other.
        """
        if not self.context.is_busy():
            return
        async with self._giving_way:
            waited_s = 0.0
            while waited_s < _LONGEST_WAIT_S and self.context.is_busy():
                await self.context.sleep(_WAIT_S)
                waited_s += _WAIT_S

    async def _commit(self, item: Item, worked: Worked) -> None:
        """Commit an item with its scores, and in the same transaction all that wait for it
        meanwhile.
        """
        self._uncommitted.append((item, worked))
        async with self._committing:
            some, self._uncommitted = self._uncommitted, []
            if not some:
                return
            try:
                await self._commit_all([x for _, x in some])
            except Exception:  # noqa: BLE001 - each by itself, so that one which cannot be stored costs no other
                for one in some:
                    await self._commit_alone(*one)
            self.rate.add(len(some))

    async def _commit_alone(self, item: Item, worked: Worked) -> None:
        try:
            await self._commit_all([worked])
        except Exception as error:  # noqa: BLE001 - one trace must not stop a run
            what = f"run {self.run.id}: the scores of {item.subject_id!r}"
            _log.error("%s cannot be stored: %s", what, error)
            await self._commit_all([failed(item, error)])

    async def _commit_all(self, worked: Sequence[Worked]) -> None:
        finished = [x.finished for x in worked]
        found = [evaluation for x in worked for evaluation in x.evaluations]
        now_ns = self.context.clock_ns()
        await self.context.scoring.commit(
            [], found, also=lambda x: x.finish(self.run.id, finished, now_ns, self._booked)
        )

    def _booked(self) -> Booked | None:
        return self.measurer.booked

    async def book(self) -> None:
        """Write what of the budget is booked where a call was paid of which nothing was committed,
        or given up.
        """
        if self.measurer.booked is not None:
            await self.context.book(self.run.id, self._booked)

    async def _end_state(self) -> RunState | None:
        """Write that the run has come to its end: it failed where no item came out, or nothing was
        scored.
        """

        def ended(run: Run) -> Run:
            progress, now_ns = run.progress, self.context.clock_ns()
            none_came_out = progress.failed and not progress.done
            has_failed = none_came_out or not progress.scores.scored
            state: RunState = "FAILED" if has_failed else "SUCCEEDED"
            return run.noting(state, ("RUNNING",), ended_ns=now_ns, reason=_why(run))

        found = await self.context.change(self.run.id, ended)
        return None if found is None else found.state


def _why(run: Run) -> str | None:
    progress = run.progress
    if not progress.items:
        return "nothing that is there fits the target, or nothing of it was drawn"
    if progress.failed:
        return f"{progress.failed} of {progress.items} failed"
    if progress.scores.scored:
        return None
    skipped = Counter(progress.scores.skipped).most_common(_MAX_SHOWN)
    causes = [f"{' '.join(name.split())} ({count})" for name, count in skipped]
    return f"nothing was scored; skipped: {', '.join(causes)}"
