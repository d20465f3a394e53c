"""Evaluation runs: created, worked off a few at a time, paused, retried and deleted, through any
restart.
"""

import asyncio
import logging
import secrets
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Collection, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from spanscore.control import listing
from spanscore.control.estimating import Estimated, Estimating
from spanscore.control.loop_delay import LoopDelay
from spanscore.control.measurer import Measurers
from spanscore.control.request_threads import in_thread
from spanscore.control.run_states import (
    before_retry,
    moved,
    not_found,
    reason_of,
    refuse_too_many,
    same_run,
    worked_off,
)
from spanscore.control.scoring_items import ItemScoring
from spanscore.control.source_listing import stored
from spanscore.control.sources import Sources
from spanscore.control.spec import RunBudget, RunSpec, kept, whole
from spanscore.control.target import read_spec
from spanscore.control.turn_taking import TurnTaking
from spanscore.control.working import Work
from spanscore.errors import InputError, StateError
from spanscore.evaluation.runs_config import Runs as Config
from spanscore.model.score import ScopeKind
from spanscore.model.trace import AgentTrace
from spanscore.scoring import Scoring
from spanscore.store.ordering import Order
from spanscore.store.runs import (
    ENDED,
    NEWEST_FIRST,
    Item,
    ItemState,
    OpenRun,
    Place,
    Progress,
    Run,
    RunState,
    RunTables,
)
from spanscore.store.store import Store

_log = logging.getLogger(__name__)

_ID_BYTES = 7  # a page token has it as a number of 64 bits

_GRACE_S = 5.0
"""How long what a judge was asked when a run was paused may take; then it is asked again when the
run goes on.
"""

_LOOK_AGAIN_S = 5.0
_EXPIRE_EVERY_NS = 60 * 10**9
_ERASES: dict[RunState, bool] = {"DELETING": False, "ERASING": True}


@dataclass(slots=True)
class _Active:
    tenant: str
    work: Work
    task: "asyncio.Task[None]"
    gives_way: bool = False


class Runs:
    """The runs of all tenants in a store.

    Belongs to one event loop; `run` works them off until it is cancelled.
    """

    def __init__(
        self,
        config: Config,
        measurers: Measurers,
        scoring: Scoring,
        store: Store,
        *,
        sources: Sources | None = None,
        is_busy: Callable[[], bool] = lambda: False,
        clock_ns: Callable[[], int] = time.time_ns,
        sleep: Callable[[float], Awaitable[object]] = asyncio.sleep,
    ) -> None:
        """`sources` are where runs may read traces that are stored elsewhere.

        While `is_busy` with what comes in, or the event loop is late, runs wait.
        """
        self._config = config
        self._sources = sources or Sources({})
        self._measurers = measurers
        self._scoring = scoring
        self._store = store
        self._delay = LoopDelay()
        self._is_busy = lambda: self._delay.is_long or is_busy()
        self._clock_ns = clock_ns
        self._sleep = sleep
        self._estimating = Estimating(
            store, measurers, measurers.judge_config, self._sources, clock_ns
        )
        self._active: dict[str, _Active] = {}
        self._turn_taking = TurnTaking()
        # the run that is being begun, unless it was ended meanwhile
        self._beginning: str | None = None
        self._news = asyncio.Event()
        self._is_stopped = False
        self._expire_at_ns = 0

    async def run(self) -> None:
        """Work off the runs that there are, and those that are created, until cancelled."""
        try:
            while True:
                self._news.clear()
                try:
                    await self._take_up()
                except Exception:  # noqa: BLE001 - runs can wait, the server cannot
                    _log.exception("evaluation runs cannot be taken up now")
                try:
                    async with asyncio.timeout(_LOOK_AGAIN_S):
                        await self._news.wait()
                except TimeoutError:
                    pass
        finally:
            tasks = [x.task for x in self._active.values()]
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def stop(self) -> None:
        """Take up nothing more, and wait some seconds for what is under way; the next start goes on
        with the rest.
        """
        self._is_stopped = True
        for active in self._active.values():
            active.work.end()
        tasks = [x.task for x in self._active.values()]
        if tasks:
            _, late = await asyncio.wait(tasks, timeout=_GRACE_S)
            for task in late:
                task.cancel()

    async def create(self, tenant: str, spec: RunSpec, request_id: str | None = None) -> Run:
        """Keep a new run, which begins when it is its turn.

        With the `request_id` of an earlier one that run is returned, whatever its target names by
        now. Raises InputError where `spec` cannot be met, ExistsError where something else was
        asked for under the request id, StateError where too many runs wait.
        """
        if request_id is not None:
            earlier: Run | None = await self._once(
                self._store.read_runs, lambda x: x.of_request(tenant, request_id)
            )
            if earlier is not None:
                return same_run(earlier, spec)
        await self.refuse_unmet(tenant, spec)
        run, ids = self._new(tenant, spec, request_id)

        def create(tables: RunTables) -> Run:
            if (
                request_id is not None
                and (same := tables.of_request(tenant, request_id)) is not None
            ):
                return same
            refuse_too_many(tables, tenant)
            tables.create(run, ids)
            return run

        created: Run = await self._once(self._store.write_runs, create)
        self._news.set()
        return same_run(created, spec)

    def starting(
        self, tenant: str, spec: RunSpec
    ) -> Callable[[RunTables, "tuple[int, int] | None"], Run]:
        """What keeps a new run in a transaction of the caller's, who calls `look_again` when that
        is committed.

        It is given the rows of the traces that the run is about; None: all. Raises InputError where
        `spec` cannot be met; the function raises StateError where too many runs wait.
        """
        self._measurers.of(spec)
        self._sources.require(tenant, spec.target)

        def start(tables: RunTables, rows: tuple[int, int] | None) -> Run:
            run, ids = self._new(tenant, spec, rows=rows)
            refuse_too_many(tables, tenant)
            tables.create(run, ids)
            return run

        return start

    def measures(self, spec: RunSpec) -> str:
        """A digest of what a run would measure by: its metrics with their options, and the models
        that judge.

        Raises InputError where `spec` cannot be met.
        """
        return self._measurers.digest(spec)

    async def refuse_unmet(self, tenant: str, spec: RunSpec) -> None:
        """Raise InputError where a run cannot be created: of what it measures, or of the ids that
        it names.
        """
        self._measurers.refuse_above(spec.budget)
        self._measurers.of(spec)
        self._sources.require(tenant, spec.target)
        await self._once(listing.refuse_unknown, self._store, tenant, spec.target)

    def refuse_unmeasured(self, metric: str, scope: ScopeKind, spec: RunSpec | None) -> None:
        """Raise InputError where `spec` gives no scores of a metric; None: where there is no such
        metric of a scope.
        """
        self._measurers.refuse_unmeasured(metric, scope, spec)

    async def has_changed(self, tenant: str, spec: RunSpec, row: int) -> bool:
        """Whether anything that a run would evaluate was stored or changed after a row of the
        traces.

        It may read much: no request waits for its thread. Raises RetryableError where the store
        cannot be used now.
        """
        return await asyncio.to_thread(listing.has_newer, self._store, tenant, spec.target, row)

    async def named(self, tenant: str, spec: RunSpec) -> str:
        """A digest of the traces or sessions that a run would be about. As `has_changed`."""
        return await asyncio.to_thread(listing.digest, self._store, tenant, spec.target)

    def look_again(self) -> None:
        """Take up what somebody else has written of runs."""
        self._news.set()

    def give_up(self, run_id: str) -> None:
        """End the work on a run that somebody else has cancelled in the store."""
        self._end(run_id, grace_s=0.0)

    async def import_traces(self, tenant: str, traces: Sequence[AgentTrace]) -> list[AgentTrace]:
        """Store traces that were rebuilt elsewhere for runs to evaluate; returns them as this
        tenant's.

        Nothing is evaluated because of it. Raises RetryableError where the store cannot be used
        now.
        """
        own = self._sources.owned(tenant, traces)
        await self._once(self._store.commit, await in_thread(stored, own), [])
        return own

    async def get(self, tenant: str, run_id: str) -> Run:
        """A run as it is now. Raises NotFoundError."""
        found: Run | None = await self._once(self._store.read_runs, lambda x: x.get(tenant, run_id))
        if found is None:
            raise not_found(run_id)
        return found

    async def get_whole(self, tenant: str, run_id: str) -> tuple[Run, RunSpec]:
        """A run as it is now, and what it is asked to do with all ids that its target names.

        Raises NotFoundError.
        """

        def read(tables: RunTables) -> tuple[Run | None, str]:
            return tables.get(tenant, run_id), tables.ids(run_id)

        run, ids = await self._once(self._store.read_runs, read)
        if run is None:
            raise not_found(run_id)
        return run, whole(run.spec, ids)

    async def page(
        self,
        tenant: str,
        limit: int,
        after: Place | None = None,
        states: Sequence[RunState] = (),
        order: Order = NEWEST_FIRST,
    ) -> list[Run]:
        """At most `limit` runs in an order, the newest first unless another is given."""
        found: list[Run] = await self._once(
            self._store.read_runs, lambda x: x.page(tenant, limit, after, states, order)
        )
        return found

    async def items(
        self, tenant: str, run_id: str, state: ItemState, limit: int, after: int = -1
    ) -> list[Item]:
        """At most `limit` items of a run in a state, such as those that failed.

        Raises NotFoundError.
        """
        run = await self.get(tenant, run_id)
        found: list[Item] = await self._once(
            self._store.read_runs, lambda x: x.items(run.id, state, after, limit)
        )
        return found

    async def estimate(self, tenant: str, spec: RunSpec) -> Estimated:
        """What a run would cost at most; nothing is stored.

        Raises as `create`, and as `Estimating.estimate`.
        """
        self._measurers.refuse_above(spec.budget)
        return await self._estimating.estimate(tenant, spec)

    def eta_s(self, run: Run) -> float | None:
        """How many seconds a run will still take; None where it is not worked on, or nothing is
        known of it yet.
        """
        active = self._active.get(run.id)
        if active is None or run.progress.cursor is not None:
            return None
        return active.work.rate.eta_s(run.progress.left)

    async def pause(self, tenant: str, run_id: str) -> Run:
        """Stop a run for now; within seconds nothing more is asked.

        Raises NotFoundError, StateError.
        """
        run = await self._move(tenant, run_id, ("PENDING", "RUNNING"), "PAUSED", "paused")
        self._end(run_id)
        return run

    async def resume(self, tenant: str, run_id: str) -> Run:
        """Have a paused run go on where it stood. Raises NotFoundError, StateError."""

        def resume(tables: RunTables) -> Run:
            run = moved(tables.get(tenant, run_id), run_id, ("PAUSED",), "PENDING", "resumed")
            refuse_too_many(tables, tenant, ("PENDING", "RUNNING"))
            return tables.change(run_id, self._clock_ns(), lambda _: run) or run

        changed: Run = await self._once(self._store.write_runs, resume)
        self._news.set()
        return changed

    async def cancel(self, tenant: str, run_id: str) -> Run:
        """End a run for good; what it has scored stays. Raises NotFoundError, StateError."""
        run = await self._move(
            tenant, run_id, ("PENDING", "RUNNING", "PAUSED"), "CANCELLED", "cancelled"
        )
        self._end(run_id, grace_s=0.0)
        return run

    async def retry(self, tenant: str, run_id: str, budget: RunBudget | None = None) -> Run:
        """Evaluate again what failed of a run that has ended, and nothing else; `budget` takes the
        place of the run's.

        A run that could not be begun, or came to no end, goes on where it stood. Raises
        NotFoundError, and StateError where nothing failed, the run was cancelled or has not ended,
        or too many runs wait. FieldError where no run may have such a budget.
        """
        self._measurers.refuse_above(budget)

        def retry(tables: RunTables) -> Run:
            run = moved(
                tables.get(tenant, run_id), run_id, ("SUCCEEDED", "FAILED"), "PENDING", "retried"
            )
            if not run.progress.failed and run.progress.cursor is None and not run.progress.left:
                raise StateError(f"run {run_id}: nothing of it has failed")
            refuse_too_many(tables, tenant)
            tables.retry(run_id)
            if budget is not None:
                spec = read_spec(RunSpec, run.spec).model_copy(update={"budget": budget})
                run = replace(run, spec=kept(spec).spec)
            run = replace(run, progress=before_retry(run.progress))
            return tables.change(run_id, self._clock_ns(), lambda _: run) or run

        changed: Run = await self._once(self._store.write_runs, retry)
        self._news.set()
        return changed

    async def delete(self, tenant: str, run_id: str, *, with_scores: bool) -> None:
        """Delete a run, and the scores that it made where they are to go too. Raises NotFoundError.

        A run that is under way is ended first. A restart in between goes on with it.
        """
        state: RunState = "ERASING" if with_scores else "DELETING"
        await self._move(tenant, run_id, (*ENDED, "PENDING", "RUNNING", "PAUSED"), state, "deleted")
        self._end(run_id, grace_s=0.0)
        if (active := self._active.get(run_id)) is not None:
            await asyncio.wait([active.task])
        await self._delete(run_id, with_scores=with_scores, ask=self._once)

    async def _expire(self) -> None:
        """Have runs be deleted that ended long ago."""
        now_ns, bounds = self._clock_ns(), self._config.retention
        if now_ns < self._expire_at_ns:
            return
        before_ns = None if bounds.max_age is None else now_ns - bounds.max_age
        to: RunState = "ERASING" if bounds.delete_scores else "DELETING"
        expired: list[str] = await self._ask(
            self._store.write_runs,
            lambda x: x.expire(before_ns=before_ns, max_count=bounds.max_runs, to=to),
        )
        if expired:
            _log.info(
                "%d evaluation runs are deleted: evaluation.runs.retention keeps no more",
                len(expired),
            )
        self._expire_at_ns = now_ns + _EXPIRE_EVERY_NS

    def _new(
        self,
        tenant: str,
        spec: RunSpec,
        request_id: str | None = None,
        rows: tuple[int, int] | None = None,
    ) -> tuple[Run, str]:
        """A run that is not stored yet, and the ids that its target names, as they are stored."""
        now_ns, new = self._clock_ns(), kept(spec)
        named = len(spec.target.trace_ids) + len(spec.target.session_ids)
        progress = Progress(asked=new.digest, named=named, rows=rows)
        id_ = secrets.token_hex(_ID_BYTES)
        return Run(
            id_, tenant, "PENDING", new.spec, now_ns, now_ns, progress, request_id=request_id
        ), new.ids

    async def _take_up(self) -> None:
        await self._expire()
        unfinished: list[OpenRun] = await self._ask(self._store.read_runs, lambda x: x.unfinished())
        idle = [x for x in unfinished if x.id not in self._active]
        waiting = [x for x in idle if x.state not in _ERASES]
        self._give_way({x.tenant for x in waiting})
        while waiting and len(self._active) < self._config.at_once and not self._is_stopped:
            run = self._turn_taking.next(waiting, Counter(x.tenant for x in self._active.values()))
            waiting.remove(run)
            await self._take_up_one(run, self._begin(run.id))
        for run in idle:
            if run.state in _ERASES and not self._is_stopped:
                await self._take_up_one(run, self._delete(run.id, with_scores=_ERASES[run.state]))

    def _give_way(self, waiting: Collection[str]) -> None:
        """Where all places are taken and a tenant has none, have one that has several free its
        newest run's place.

        What is under way of that run is finished first: its judge is paid already. Then the run
        waits for its turn again, and goes on.
        """
        counts = Counter(x.tenant for x in self._active.values())
        if len(self._active) < self._config.at_once or any(
            x.gives_way for x in self._active.values()
        ):
            return
        [(tenant, most)] = counts.most_common(1)
        if most > 1 and not counts.keys() >= set(waiting):
            run_id, active = next(
                x for x in reversed(self._active.items()) if x[1].tenant == tenant
            )
            active.gives_way = True
            _log.info("run %s gives way to a run of another tenant", run_id)
            active.work.end()

    async def _take_up_one(self, run: OpenRun, work: Awaitable[None]) -> None:
        try:
            await work
        except Exception:  # noqa: BLE001 - one run must not keep the later ones waiting
            _log.exception("run %s cannot be taken up now", run.id)

    async def _begin(self, run_id: str) -> None:
        now_ns = self._clock_ns()
        self._beginning = run_id

        def started(tables: RunTables) -> Run | None:
            def start(current: Run) -> Run:
                if current.state not in {"PENDING", "RUNNING"}:
                    return current
                first_ns = current.progress.started_ns or now_ns
                return replace(
                    current,
                    state="RUNNING",
                    progress=replace(current.progress, started_ns=first_ns),
                )

            return tables.change(run_id, now_ns, start)

        begun: Run | None = await self._ask(self._store.write_runs, started)
        if begun is None or begun.state != "RUNNING":
            return
        ids: str = await self._ask(self._store.read_runs, lambda x: x.ids(run_id))
        if self._beginning != run_id:
            return
        try:
            spec = whole(begun.spec, ids)
            measurer = self._measurers.of(spec, begun.progress.spent)
        except InputError as error:  # the configuration has changed since it was created
            await self._fail(begun, str(error))
            return
        except Exception as error:  # noqa: BLE001 - such as an option that a metric of a user's own cannot take
            _log.exception("run %s cannot begin", begun.id)
            await self._fail(begun, f"{type(error).__name__}: {error}")
            return
        work = Work(
            begun,
            spec,
            lambda listed: ItemScoring(listed, spec, measurer, self._scoring, self._store),
            self._scoring,
            self._store,
            sources=self._sources,
            max_from_source=self._config.max_from_source,
            looks_back=measurer.engine.looks_back,
            at_once=self._config.max_concurrent,
            is_busy=self._is_busy,
            booked=lambda: measurer.booked,
            clock_ns=self._clock_ns,
            sleep=self._sleep,
        )
        _log.info(
            "run %s is worked on: %d of %d done",
            begun.id,
            worked_off(begun.progress),
            begun.progress.items,
        )
        task = asyncio.create_task(self._work_off(begun, work))
        self._active[begun.id] = _Active(begun.tenant, work, task)

    async def _work_off(self, run: Run, work: Work) -> None:
        try:
            async with self._delay.watched():
                state = await work.run()
            if state is not None:
                _log.info("run %s: %s", run.id, state.lower())
        except InputError as error:
            _log.error("run %s cannot go on: %s", run.id, error)
            await self._fail(run, str(error))
        except Exception as error:  # noqa: BLE001 - one run must not stop the others, nor itself at every start
            _log.exception("run %s cannot go on", run.id)
            await self._fail(run, reason_of(error))
        finally:
            await self._book(run.id, work)
            self._active.pop(run.id, None)
            self._news.set()

    async def _book(self, run_id: str, work: Work) -> None:
        """Keep what the calls may have cost that were given up, for when the run goes on."""
        try:
            await work.book()
        except Exception:  # noqa: BLE001 - the run ends all the same
            _log.exception("run %s: what its last calls may have cost cannot be stored", run_id)

    async def _fail(self, run: Run, reason: str) -> None:
        def fail(current: Run) -> Run:
            if current.state != "RUNNING":
                return current
            return replace(
                current,
                state="FAILED",
                progress=replace(current.progress, ended_ns=self._clock_ns(), reason=reason),
            )

        await self._ask(self._store.write_runs, lambda x: x.change(run.id, self._clock_ns(), fail))

    def _end(self, run_id: str, grace_s: float = _GRACE_S) -> None:
        """Take up nothing more of a run; after `grace_s` what is under way is given up too."""
        if self._beginning == run_id:
            self._beginning = None
        if (active := self._active.get(run_id)) is not None:
            active.work.end()
            asyncio.get_running_loop().call_later(grace_s, active.task.cancel)

    async def _move(
        self, tenant: str, run_id: str, of: Sequence[RunState], to: RunState, done: str
    ) -> Run:
        def move(tables: RunTables) -> Run:
            run = moved(tables.get(tenant, run_id), run_id, of, to, done)
            if to == "CANCELLED":
                run = replace(run, progress=replace(run.progress, ended_ns=self._clock_ns()))
            return tables.change(run_id, self._clock_ns(), lambda _: run) or run

        changed: Run = await self._once(self._store.write_runs, move)
        return changed

    async def _delete(
        self, run_id: str, *, with_scores: bool, ask: Callable[..., Awaitable[Any]] | None = None
    ) -> None:
        """Delete what is left of a run, step by step, so that what comes in is committed in
        between.
        """
        delete = partial(self._store.delete_run_step, run_id, with_scores=with_scores)
        while not await (ask or self._ask)(delete):
            pass

    async def _once(self, ask: Callable[..., Any], *arguments: Any, **options: Any) -> Any:
        """What the store answers to who waits for it.

        Raises RetryableError where it cannot be used now.
        """
        return await in_thread(ask, *arguments, **options)

    async def _ask(self, ask: Callable[..., Any], *arguments: Any, **options: Any) -> Any:
        """What the store answers, however long it takes."""
        return await self._scoring.patiently(ask, *arguments, **options)
