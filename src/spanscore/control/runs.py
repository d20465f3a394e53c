"""Evaluation runs, from creation to deletion."""

import asyncio
import secrets
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from typing import Any

from spanscore.control import item_lists
from spanscore.control.active_runs import (
    ActiveRuns,
    before_retry,
    moved,
    not_found,
    refuse_too_many,
    same_run,
)
from spanscore.control.estimates import Estimated, Estimating
from spanscore.control.item_lists import stored
from spanscore.control.measurer import Measurers
from spanscore.control.run_sources import Sources
from spanscore.errors import StateError
from spanscore.evaluation.config import Runs as Config
from spanscore.model.options import read_spec
from spanscore.model.score import ScopeKind
from spanscore.model.trace import AgentTrace
from spanscore.scoring import Scoring
from spanscore.specs import RunBudget, RunSpec, stored_spec, whole
from spanscore.store.ordering import Order
from spanscore.store.runs import (
    ENDED,
    NEWEST_FIRST,
    Item,
    ItemState,
    Place,
    Progress,
    Run,
    RunState,
    RunTables,
)
from spanscore.store.store import Store
from spanscore.threads import in_thread

_LOOK_AGAIN_S = 0.5
"""How often a server looks whether the one that leads has deleted a run."""

_ID_BYTES = 7  # a page token has it as a number of 64 bits


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
        leads: Callable[[], bool] = lambda: True,
        clock_ns: Callable[[], int] = time.time_ns,
        sleep: Callable[[float], Awaitable[object]] = asyncio.sleep,
    ) -> None:
        """`sources` are where runs may read traces that are stored elsewhere.

        While `is_busy` with what comes in, or the event loop is late, runs wait. Unless this server
        `leads`, another one works them off.
        """
        self._leads, self._sleep = leads, sleep
        self._sources = sources or Sources({})
        self._measurers = measurers
        self._store = store
        self._clock_ns = clock_ns
        self._estimating = Estimating(
            store, measurers, measurers.judge_config, self._sources, clock_ns
        )
        self._active_runs = ActiveRuns(
            config,
            measurers,
            scoring,
            store,
            sources=self._sources,
            is_busy=is_busy,
            clock_ns=clock_ns,
            sleep=sleep,
        )

    async def run(self) -> None:
        """Work off the runs that there are, and those that are created, until cancelled."""
        await self._active_runs.run()

    async def stop(self) -> None:
        """Take up nothing more, and wait some seconds for what is under way; the next start goes on
        with the rest.
        """
        await self._active_runs.stop()

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
        self._active_runs.look_again()
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
        self.refuse_impossible(tenant, spec)
        await self._once(item_lists.refuse_unknown, self._store, tenant, spec.target)

    def refuse_impossible(self, tenant: str, spec: RunSpec) -> None:
        """Raise InputError where no such run can be as the server is configured, whatever is
        stored.
        """
        self._measurers.refuse_above(spec.budget)
        self._measurers.of(spec)
        self._sources.require(tenant, spec.target)

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
        return await asyncio.to_thread(item_lists.has_newer, self._store, tenant, spec.target, row)

    async def named(self, tenant: str, spec: RunSpec) -> str:
        """A digest of the traces or sessions that a run would be about. As `has_changed`."""
        return await asyncio.to_thread(item_lists.digest, self._store, tenant, spec.target)

    def look_again(self) -> None:
        """Take up what somebody else has written of runs."""
        self._active_runs.look_again()

    def give_up(self, run_id: str) -> None:
        """End the work on a run that somebody else has cancelled in the store."""
        self._active_runs.end(run_id, grace_s=0.0)

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
        return self._active_runs.eta_s(run)

    async def pause(self, tenant: str, run_id: str) -> Run:
        """Stop a run for now; within seconds nothing more is asked.

        Raises NotFoundError, StateError.
        """
        run = await self._move(tenant, run_id, ("PENDING", "RUNNING"), "PAUSED", "paused")
        self._active_runs.end(run_id)
        return run

    async def resume(self, tenant: str, run_id: str) -> Run:
        """Have a paused run go on where it stood. Raises NotFoundError, StateError."""

        def resume(tables: RunTables) -> Run:
            run = moved(tables.get(tenant, run_id), run_id, ("PAUSED",), "PENDING", "resumed")
            refuse_too_many(tables, tenant, ("PENDING", "RUNNING"))
            return tables.change(run_id, self._clock_ns(), lambda _: run) or run

        changed: Run = await self._once(self._store.write_runs, resume)
        self._active_runs.look_again()
        return changed

    async def cancel(self, tenant: str, run_id: str) -> Run:
        """End a run for good; what it has scored stays. Raises NotFoundError, StateError."""
        run = await self._move(
            tenant, run_id, ("PENDING", "RUNNING", "PAUSED"), "CANCELLED", "cancelled"
        )
        self._active_runs.end(run_id, grace_s=0.0)
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
                run = replace(run, spec=stored_spec(spec).spec)
            run = replace(run, progress=before_retry(run.progress))
            return tables.change(run_id, self._clock_ns(), lambda _: run) or run

        changed: Run = await self._once(self._store.write_runs, retry)
        self._active_runs.look_again()
        return changed

    async def delete(self, tenant: str, run_id: str, *, with_scores: bool) -> None:
        """Delete a run, and the scores that it made where they are to go too. Raises NotFoundError.

        A run that is under way is ended first. A restart in between goes on with it.
        """
        state: RunState = "ERASING" if with_scores else "DELETING"
        await self._move(tenant, run_id, (*ENDED, "PENDING", "RUNNING", "PAUSED"), state, "deleted")
        self._active_runs.end(run_id, grace_s=0.0)
        await self._active_runs.ended(run_id)
        if not self._leads():
            while await self._once(self._store.read_runs, lambda x: x.get(tenant, run_id)):
                await self._sleep(_LOOK_AGAIN_S)
            return
        await self._active_runs.delete(run_id, with_scores=with_scores, ask=self._once)

    def _new(
        self,
        tenant: str,
        spec: RunSpec,
        request_id: str | None = None,
        rows: tuple[int, int] | None = None,
    ) -> tuple[Run, str]:
        """A run that is not stored yet, and the ids that its target names, as they are stored."""
        now_ns, new = self._clock_ns(), stored_spec(spec)
        named = len(spec.target.trace_ids) + len(spec.target.session_ids)
        progress = Progress(asked=new.digest, named=named, rows=rows)
        id_ = secrets.token_hex(_ID_BYTES)
        return Run(
            id_, tenant, "PENDING", new.spec, now_ns, now_ns, progress, request_id=request_id
        ), new.ids

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

    async def _once(self, ask: Callable[..., Any], *arguments: Any, **options: Any) -> Any:
        """What the store answers to who waits for it.

        Raises RetryableError where it cannot be used now.
        """
        return await in_thread(ask, *arguments, **options)
