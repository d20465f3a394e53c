"""Evaluation runs, from creation to deletion."""

import asyncio
import secrets
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from spanscore.control.active_runs import ActiveRuns
from spanscore.control.estimates import Estimated, Estimating
from spanscore.control.item_lists import Rows, Targeted, stored
from spanscore.errors import ExistsError, NotFoundError, StateError, shortened
from spanscore.model.options import read_spec
from spanscore.model.trace import AgentTrace
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
from spanscore.threads import in_thread

_LOOK_AGAIN_S = 0.5
"""How often a server looks whether the one that leads has deleted a run."""

MAX_UNFINISHED = 1000
"""Runs of one tenant that have not ended: of more, no other is created or retried."""

_SHOWN_CHARS = 80
_UNFINISHED: tuple[RunState, ...] = ("PENDING", "RUNNING", "PAUSED")

_ID_BYTES = 7


@dataclass(eq=False)
class Runs(ActiveRuns):
    """The runs of all tenants in a store.

    Belongs to one event loop; `run` works them off until it is cancelled.
    """

    def __post_init__(self) -> None:
        super().__post_init__()
        self._estimating = Estimating(self)

    async def create(self, tenant: str, spec: RunSpec, request_id: str | None = None) -> Run:
        """Keep a new run, which begins when it is its turn.

        With the `request_id` of an earlier one that run is returned, whatever its target names by
        now. Raises InputError where `spec` cannot be met, ExistsError where something else was
        asked for under the request id, StateError where too many runs wait.
        """
        if request_id is not None:
            earlier = await in_thread(
                self.store.read_runs, lambda x: x.of_request(tenant, request_id)
            )
            if earlier is not None:
                return _same_run(earlier, spec)
        await self.refuse_unmet(tenant, spec)
        keep = self._keeping(tenant, spec, request_id)
        created = await in_thread(self.store.write_runs, lambda x: keep(x, None))
        self.look_again()
        return _same_run(created, spec)

    def starting(self, tenant: str, spec: RunSpec) -> Callable[[RunTables, Rows | None], Run]:
        """What keeps a new run in a transaction of the caller's, who calls `look_again` when that
        is committed.

        It is given the rows of the traces that the run is about; None: all. Raises InputError where
        `spec` cannot be met; the function raises StateError where too many runs wait.
        """
        self.measurers.of(spec)
        self.sources.require(tenant, spec.target)
        return self._keeping(tenant, spec)

    async def refuse_unmet(self, tenant: str, spec: RunSpec) -> None:
        """Raise InputError where a run cannot be created: of what it measures, or of the ids that
        it names.
        """
        self.refuse_impossible(tenant, spec)
        await in_thread(Targeted(self.store, tenant, spec.target).refuse_unknown)

    def refuse_impossible(self, tenant: str, spec: RunSpec) -> None:
        """Raise InputError where no such run can be as the server is configured, whatever is
        stored.
        """
        self.measurers.refuse_above(spec.budget)
        self.measurers.of(spec)
        self.sources.require(tenant, spec.target)

    async def import_traces(self, tenant: str, traces: Sequence[AgentTrace]) -> list[AgentTrace]:
        """Store traces that were rebuilt elsewhere for runs to evaluate; returns them as this
        tenant's.

        Nothing is evaluated because of it. Raises RetryableError where the store cannot be used
        now.
        """
        own = self.sources.owned(tenant, traces)
        await in_thread(self.store.commit, await in_thread(stored, own), [])
        return own

    async def get(self, tenant: str, run_id: str) -> Run:
        """A run as it is now. Raises NotFoundError."""
        found = await in_thread(self.store.read_runs, lambda x: x.get(tenant, run_id))
        return _there(found, run_id)

    async def get_whole(self, tenant: str, run_id: str) -> tuple[Run, RunSpec]:
        """A run as it is now, and what it is asked to do with all ids that its target names.

        Raises NotFoundError.
        """
        found, ids = await in_thread(
            self.store.read_runs, lambda x: (x.get(tenant, run_id), x.ids(run_id))
        )
        run = _there(found, run_id)
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
        return await in_thread(
            self.store.read_runs, lambda x: x.page(tenant, limit, after, states, order)
        )

    async def items(
        self, tenant: str, run_id: str, state: ItemState, limit: int, after: int = -1
    ) -> list[Item]:
        """At most `limit` items of a run in a state, such as those that failed.

        Raises NotFoundError.
        """
        run = await self.get(tenant, run_id)
        return await in_thread(self.store.read_runs, lambda x: x.items(run.id, state, after, limit))

    async def estimate(self, tenant: str, spec: RunSpec) -> Estimated:
        """What a run would cost at most; nothing is stored.

        Raises as `create`, and as `Estimating.estimate`.
        """
        self.measurers.refuse_above(spec.budget)
        return await self._estimating.estimate(tenant, spec)

    async def pause(self, tenant: str, run_id: str) -> Run:
        """Stop a run for now; within seconds nothing more is asked.

        Raises NotFoundError, StateError.
        """
        run = await self._move(tenant, run_id, ("PENDING", "RUNNING"), "PAUSED", "paused")
        self.end(run_id)
        return run

    async def resume(self, tenant: str, run_id: str) -> Run:
        """Have a paused run go on where it stood. Raises NotFoundError, StateError."""

        def resume(tables: RunTables, run: Run) -> Run:
            _refuse_too_many(tables, tenant, ("PENDING", "RUNNING"))
            return run

        return await self._move(tenant, run_id, ("PAUSED",), "PENDING", "resumed", resume)

    async def cancel(self, tenant: str, run_id: str) -> Run:
        """End a run for good; what it has scored stays. Raises NotFoundError, StateError."""

        def cancel(_: RunTables, run: Run) -> Run:
            return run.noting(ended_ns=self.clock_ns())

        run = await self._move(tenant, run_id, _UNFINISHED, "CANCELLED", "cancelled", cancel)
        self.end(run_id, grace_s=0.0)
        return run

    async def retry(self, tenant: str, run_id: str, budget: RunBudget | None = None) -> Run:
        """Evaluate again what failed of a run that has ended, and nothing else; `budget` takes the
        place of the run's.

        A run that could not be begun, or came to no end, goes on where it stood. Raises
        NotFoundError, and StateError where nothing failed, the run was cancelled or has not ended,
        or too many runs wait. FieldError where no run may have such a budget.
        """
        self.measurers.refuse_above(budget)

        def retry(tables: RunTables, run: Run) -> Run:
            if not run.progress.failed and run.progress.cursor is None and not run.progress.left:
                raise StateError(f"run {run_id}: nothing of it has failed")
            _refuse_too_many(tables, tenant)
            tables.retry(run_id)
            if budget is not None:
                spec = read_spec(RunSpec, run.spec).model_copy(update={"budget": budget})
                run = replace(run, spec=stored_spec(spec).spec)
            # why scores are missing is replaced with them, but for items that have none
            causes = run.progress.scores.failed.items()
            failed = {cause: count for cause, count in causes if not cause.startswith("\t")}
            scores = replace(run.progress.scores, failed=failed)
            return run.noting(failed=0, scores=scores, ended_ns=None, reason=None)

        of: tuple[RunState, ...] = ("SUCCEEDED", "FAILED")
        return await self._move(tenant, run_id, of, "PENDING", "retried", retry)

    async def delete(self, tenant: str, run_id: str, *, with_scores: bool) -> None:
        """Delete a run, and the scores that it made where they are to go too. Raises NotFoundError.

        A run that is under way is ended first. A restart in between goes on with it.
        """
        state: RunState = "ERASING" if with_scores else "DELETING"
        await self._move(tenant, run_id, (*ENDED, *_UNFINISHED), state, "deleted")
        self.end(run_id, grace_s=0.0)
        if (active := self._active.get(run_id)) is not None:
            await asyncio.wait([active.task])
        if not self.leads():
            while await in_thread(self.store.read_runs, lambda x: x.get(tenant, run_id)):
                await self.sleep(_LOOK_AGAIN_S)
            return
        await self._delete_steps(run_id, in_thread, with_scores=with_scores)

    def _keeping(
        self, tenant: str, spec: RunSpec, request_id: str | None = None
    ) -> Callable[[RunTables, Rows | None], Run]:
        """What keeps a new run about some rows, unless there is one of the `request_id`."""
        new = stored_spec(spec)
        named = len(spec.target.trace_ids) + len(spec.target.session_ids)

        def keep(tables: RunTables, rows: Rows | None) -> Run:
            same = None if request_id is None else tables.of_request(tenant, request_id)
            if same is not None:
                return same
            _refuse_too_many(tables, tenant)
            now_ns, id_ = self.clock_ns(), secrets.token_hex(_ID_BYTES)
            progress = Progress(asked=new.digest, named=named, rows=rows)
            run = Run(id_, tenant, "PENDING", new.spec, now_ns, now_ns, progress, request_id)
            tables.create(run, new.ids)
            return run

        return keep

    async def _move(
        self,
        tenant: str,
        run_id: str,
        of: Sequence[RunState],
        to: RunState,
        done: str,
        edit: Callable[[RunTables, Run], Run] = lambda _, run: run,
    ) -> Run:
        """A run in its next state, as `edit` gives it.

        Raises NotFoundError, and StateError where it is in none from which it can be.
        """

        def move(tables: RunTables) -> Run:
            run = _there(tables.get(tenant, run_id), run_id)
            if run.state not in of:
                raise StateError(
                    f"run {run_id} is {run.state}: only one that is {' or '.join(of)} can be {done}"
                )
            moved = edit(tables, replace(run, state=to))
            return tables.change(run_id, self.clock_ns(), lambda _: moved) or moved

        changed = await in_thread(self.store.write_runs, move)
        if to == "PENDING":
            self.look_again()
        return changed


def _refuse_too_many(
    tables: RunTables, tenant: str, states: Sequence[RunState] = _UNFINISHED
) -> None:
    """Raise StateError where a tenant can have no more runs in these states."""
    if tables.count(tenant, states) >= MAX_UNFINISHED:
        is_any = "waiting, running or paused" if "PAUSED" in states else "waiting or running"
        raise StateError(f"{MAX_UNFINISHED} runs are {is_any}; cancel some, or wait for their end")


def _same_run(run: Run, spec: RunSpec) -> Run:
    """`run`, where it was created by `spec`. Raises ExistsError."""
    if run.progress.asked != stored_spec(spec).digest:
        raise ExistsError(
            f"request_id {run.request_id!r}: run {run.id} was created under it with another content"
        )
    return run


def _there(run: Run | None, run_id: str) -> Run:
    if run is None:
        raise NotFoundError(f"there is no run {shortened(run_id, _SHOWN_CHARS)!r}")
    return run
