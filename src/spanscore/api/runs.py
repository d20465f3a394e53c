"""RunService, and runs as messages and specs."""

import asyncio
import contextlib
from collections import Counter
from collections.abc import AsyncIterator, Iterator, Sequence
from typing import Any

from google.protobuf.empty_pb2 import Empty

from spanscore.api import requests
from spanscore.api.backend import Backend
from spanscore.api.messages import encode, fill, read, word_of
from spanscore.api.requests import id_in, name_of, request_id_in
from spanscore.api.servicer import Call, Servicer, needs
from spanscore.api.v1 import run_service_pb2 as pb
from spanscore.control.runs import Runs
from spanscore.errors import FieldError, RetryableError
from spanscore.model.options import read_spec
from spanscore.specs import RunBudget, RunSpec, stored_spec, whole
from spanscore.store import ordering
from spanscore.store.runs import NEWEST_FIRST, ORDERS, ItemState, Place, Progress, Run, RunState

_WATCH_EVERY_S = 0.5
_MAX_STREAMS = 50  # of one tenant; each reads its run twice a second
_RETRY_AFTER_S = 5.0


class RunService(Servicer):
    """See run_service.proto."""

    service = pb.DESCRIPTOR.services_by_name["RunService"]

    def __init__(self, backend: Backend) -> None:
        self._backend = backend
        self._stopping = asyncio.Event()
        self._streams = Counter[str]()

    def stop(self) -> None:
        """End those that watch a run; they may watch it again when the server is back."""
        self._stopping.set()

    @property
    def _runs(self) -> Runs:
        return self._backend.runs

    @needs("write")
    async def create_run(self, request: pb.CreateRunRequest, call: Call) -> pb.Run:
        """Keep a new run."""
        request_id = request_id_in(request.request_id)
        spec = spec_of(request.run)
        with _within_run():
            created = await self._runs.create(call.tenant, spec, request_id)
        return encode_run(
            created, self._runs.eta_s(created), whole(created.spec, stored_spec(spec).ids)
        )

    @needs("read")
    async def estimate_run(self, request: pb.EstimateRunRequest, call: Call) -> pb.RunEstimate:
        """What a run would cost at most."""
        if request.run.target.source:
            call.require("write", "to read a source")
        spec = spec_of(request.run)
        with _within_run():
            return encode(pb.RunEstimate, await self._runs.estimate(call.tenant, spec))

    @needs("read")
    async def get_run(self, request: pb.GetRunRequest, call: Call) -> pb.Run:
        """One run, with the ids that its target names."""
        run, spec = await self._runs.get_whole(call.tenant, id_in(request.name, "runs"))
        return encode_run(run, self._runs.eta_s(run), spec)

    @needs("read")
    async def list_runs(self, request: pb.ListRunsRequest, call: Call) -> pb.ListRunsResponse:
        """A page of runs."""
        limit = requests.limit(request.page_size)
        states = states_of(request.states)
        after = requests.place(request, call, 2)
        order, *_ = ordering.parse(request.order_by, ORDERS, alone=ORDERS) or (NEWEST_FIRST,)
        place = Place(*after) if after else None
        found = await self._runs.page(call.tenant, limit + 1, place, states, order)
        return pb.ListRunsResponse(
            runs=map(self._encoded, found[:limit]),
            next_page_token=requests.following(
                request, call, found, limit, lambda x: (getattr(x, order.field), x.id)
            ),
        )

    @needs("read")
    async def watch_run(self, request: pb.WatchRunRequest, call: Call) -> AsyncIterator[pb.Run]:
        """The run, and again whenever it has changed."""
        run_id = id_in(request.name, "runs")
        if self._streams[call.tenant] >= _MAX_STREAMS:
            message = f"{_MAX_STREAMS} streams watch runs already: end one, or ask GetRun"
            raise RetryableError(message, retry_after_s=_RETRY_AFTER_S)
        self._streams[call.tenant] += 1
        try:
            async for run in self._states(run_id, call):
                yield self._encoded(run)
        finally:
            self._streams[call.tenant] -= 1
            self._streams += Counter()  # without the tenants that watch none

    async def _states(self, run_id: str, call: Call) -> AsyncIterator[Run]:
        shown = None
        while True:
            call.admit()
            run = await self._runs.get(call.tenant, run_id)
            if run != shown:
                shown = run
                yield run
            if run.is_ended or run.state == "PAUSED":
                return
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._stopping.wait(), _WATCH_EVERY_S)
                raise RetryableError(
                    "the server stops; the run goes on when it is back", retry_after_s=1
                )

    @needs("read")
    async def list_run_items(
        self, request: pb.ListRunItemsRequest, call: Call
    ) -> pb.ListRunItemsResponse:
        """A page of a run's items."""
        limit = requests.limit(request.page_size)
        (after,) = requests.place(request, call, 1) or (-1,)
        run_id, state = id_in(request.parent, "runs", "parent"), item_state(request.state)
        found = await self._runs.items(call.tenant, run_id, state, limit + 1, after)
        return pb.ListRunItemsResponse(
            items=[encode(pb.RunItem, x) for x in found[:limit]],
            next_page_token=requests.following(request, call, found, limit, lambda x: (x.number,)),
        )

    @needs("write")
    async def pause_run(self, request: pb.PauseRunRequest, call: Call) -> pb.Run:
        """Stop a run for now."""
        return self._encoded(await self._runs.pause(call.tenant, id_in(request.name, "runs")))

    @needs("write")
    async def resume_run(self, request: pb.ResumeRunRequest, call: Call) -> pb.Run:
        """Have a paused run go on."""
        return self._encoded(await self._runs.resume(call.tenant, id_in(request.name, "runs")))

    @needs("write")
    async def cancel_run(self, request: pb.CancelRunRequest, call: Call) -> pb.Run:
        """End a run for good."""
        return self._encoded(await self._runs.cancel(call.tenant, id_in(request.name, "runs")))

    @needs("write")
    async def retry_run(self, request: pb.RetryRunRequest, call: Call) -> pb.Run:
        """Evaluate again what failed."""
        budget = budget_of(request.budget) if request.HasField("budget") else None
        return self._encoded(
            await self._runs.retry(call.tenant, id_in(request.name, "runs"), budget)
        )

    @needs("write")
    async def delete_run(self, request: pb.DeleteRunRequest, call: Call) -> Empty:
        """Delete a run."""
        await self._runs.delete(
            call.tenant, id_in(request.name, "runs"), with_scores=request.delete_scores
        )
        return Empty()

    def _encoded(self, run: Run) -> pb.Run:
        return encode_run(run, self._runs.eta_s(run))


@contextlib.contextmanager
def _within_run() -> Iterator[None]:
    """Have errors name the field of the request that the run is in."""
    try:
        yield
    except FieldError as error:
        raise error.within("run") from None


def spec_of(run: pb.Run) -> RunSpec:
    """What a run is asked to do. Raises FieldError with the path of what is wrong."""
    return read(RunSpec, run, "run")


def budget_of(budget: pb.RunBudget) -> RunBudget:
    """What a run may spend. Raises FieldError."""
    return read(RunBudget, budget, "budget")


def states_of(states: Sequence[Any]) -> list[RunState]:
    """States of runs as the store names them. Raises FieldError."""
    enum = pb.RunState.DESCRIPTOR
    found: Any = [word_of(enum, x, f"states[{n}]").upper() for n, x in enumerate(states)]
    return found  # type: ignore[no-any-return]  # the names are the same


def item_state(state: Any) -> ItemState:
    """The state of items as the store names it; FAILED where none is given. Raises FieldError."""
    found: Any = word_of(pb.RunItemState.DESCRIPTOR, state, "state").upper() if state else "FAILED"
    return found  # type: ignore[no-any-return]  # the names are the same


def encode_run(run: Run, eta_s: float | None, spec: RunSpec | None = None) -> pb.Run:
    """A run as a message, with the ids that its target names only where its whole `spec` is
    given.
    """
    message = encode(
        pb.Run,
        run,
        name=name_of("runs", run.id),
        started_ns=run.progress.started_ns,
        ended_ns=run.progress.ended_ns,
        progress=_encode_progress(run.progress, eta_s),
        reason=run.progress.reason,
    )
    fill(message, spec or read_spec(RunSpec, run.spec))
    message.target.id_count = run.progress.named
    return message


def _encode_progress(progress: Progress, eta_s: float | None) -> pb.RunProgress:
    return encode(
        pb.RunProgress,
        progress,
        listed=progress.cursor is None,
        scores=progress.scores.scored,
        skipped=[_missing(key, count) for key, count in progress.scores.skipped.items()],
        errors=[_missing(key, count) for key, count in progress.scores.failed.items()],
        eta_s=eta_s,
    )


def _missing(key: str, count: int) -> pb.MissingScores:
    metric, _, cause = key.rpartition("\t")
    return pb.MissingScores(metric=metric, cause=cause, count=count)
