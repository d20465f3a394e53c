"""RunService, and runs as messages and specs."""

import asyncio
import contextlib
from collections import Counter
from collections.abc import AsyncIterator, Iterator, Sequence
from typing import Any, Final

from google.protobuf import json_format
from google.protobuf.empty_pb2 import Empty
from google.protobuf.message import Message

from spanscore.api import requests
from spanscore.api.backend import Backend
from spanscore.api.requests import id_in, moment, name_of, request_id_in
from spanscore.api.servicer import Call, Servicer, needs
from spanscore.api.v1 import run_service_pb2 as pb
from spanscore.api.v1.score_pb2 import SCOPE_SESSION, SCOPE_TRACE, SCOPE_UNSPECIFIED, JudgeUsage
from spanscore.control.estimates import Estimated
from spanscore.control.runs import Runs
from spanscore.errors import FieldError, RetryableError
from spanscore.model.score import ScopeKind
from spanscore.otlp.codec import is_repeated
from spanscore.specs import RunBudget, RunSpec, read_spec, stored_spec, whole
from spanscore.store import ordering
from spanscore.store.runs import (
    NEWEST_FIRST,
    ORDERS,
    Item,
    ItemState,
    Place,
    Progress,
    Run,
    RunState,
)

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
            return encode_estimate(await self._runs.estimate(call.tenant, spec))

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
        place = None if after is None else Place(after[0], f"{after[1]:014x}")
        order, *_ = ordering.parse(request.order_by, ORDERS, alone=ORDERS) or (NEWEST_FIRST,)
        found = await self._runs.page(call.tenant, limit + 1, place, states, order)
        response = pb.ListRunsResponse(runs=[self._encoded(x) for x in found[:limit]])
        if len(found) > limit:
            last = found[limit - 1]
            response.next_page_token = requests.token(
                request, call, (getattr(last, order.field), int(last.id, 16))
            )
        return response

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
        place = requests.place(request, call, 1)
        after = -1 if place is None else place[0]
        run_id, state = id_in(request.parent, "runs", "parent"), item_state(request.state)
        found = await self._runs.items(call.tenant, run_id, state, limit + 1, after)
        response = pb.ListRunItemsResponse(items=[encode_item(x) for x in found[:limit]])
        if len(found) > limit:
            response.next_page_token = requests.token(request, call, (found[limit - 1].number,))
        return response

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


_SCOPES: Final[dict[ScopeKind, Any]] = {"trace": SCOPE_TRACE, "session": SCOPE_SESSION}
_NAMES: Final = {"name": "display_name"}
"""Fields of a spec that the API names differently."""


def spec_of(run: pb.Run) -> RunSpec:
    """What a run is asked to do. Raises FieldError with the path of what is wrong."""
    target: dict[str, Any] = {
        "scope": _scope_of(run.target.scope),
        "trace_ids": list(run.target.trace_ids),
        "session_ids": list(run.target.session_ids),
        "where": run.target.where,
        "sampling": _given(run.target.sampling),
    }
    if run.target.source:
        target["source"] = run.target.source
    if run.target.HasField("filter"):
        target["filter"] = _given(run.target.filter)
        for field in ("started_after_ns", "started_before_ns"):
            moment(getattr(run.target.filter, field), f"run.target.filter.{field}")
    measure = {
        **_given(run.measure),
        "options": {name: _object(x) for name, x in run.measure.options.items()},
    }
    given = {"name": run.display_name, "target": target, "measure": measure, "export": run.export}
    if run.HasField("budget"):
        given["budget"] = _given(run.budget)
    try:
        return read_spec(RunSpec, given)
    except FieldError as error:
        raise error.within("run", _NAMES) from None


def budget_of(budget: pb.RunBudget) -> RunBudget:
    """What a run may spend. Raises FieldError."""
    try:
        return read_spec(RunBudget, _given(budget))
    except FieldError as error:
        raise error.within("budget") from None


def _scope_of(scope: Any) -> ScopeKind:
    if scope == SCOPE_UNSPECIFIED:
        return "trace"
    found = next((name for name, number in _SCOPES.items() if number == scope), None)
    if found is None:
        raise FieldError(
            "run.target.scope", f"{scope} is no scope of a run; give SCOPE_TRACE or SCOPE_SESSION"
        )
    return found


def states_of(states: Sequence[Any]) -> list[RunState]:
    """States of runs as the store names them. Raises FieldError."""
    return [_state(x, f"states[{place}]") for place, x in enumerate(states)]


def _state(state: Any, field: str) -> RunState:
    known = {value: name for name, value in pb.RunState.items() if value}
    if state not in known:
        raise FieldError(
            field, f"{state} is no state of a run; there are {', '.join(known.values())}"
        )
    found: Any = known[state].removeprefix("RUN_STATE_")
    return found  # type: ignore[no-any-return]  # the names are the same


def item_state(state: Any) -> ItemState:
    """The state of items as the store names it; FAILED where none is given. Raises FieldError."""
    if state not in pb.RunItemState.values():
        names = ", ".join(pb.RunItemState.keys())
        raise FieldError("state", f"{state} is no state of a run's items; there are {names}")
    found: Any = pb.RunItemState.Name(state).removeprefix("RUN_ITEM_STATE_")
    return "FAILED" if found == "UNSPECIFIED" else found


def encode_run(run: Run, eta_s: float | None, spec: RunSpec | None = None) -> pb.Run:
    """A run as a message, with the ids that its target names only where its whole `spec` is
    given.
    """
    asked = encode_spec(spec or read_spec(RunSpec, run.spec))
    asked.target.id_count = run.progress.named
    message = pb.Run(
        name=name_of("runs", run.id),
        state=pb.RunState.Value(f"RUN_STATE_{run.state}"),
        created_ns=run.created_ns,
        updated_ns=run.updated_ns,
        started_ns=run.progress.started_ns,
        ended_ns=run.progress.ended_ns,
        progress=_encode_progress(run.progress, eta_s),
        reason=run.progress.reason or "",
    )
    message.MergeFrom(asked)
    return message


def encode_spec(spec: RunSpec) -> pb.Run:
    """What a run is asked to do, as a message."""
    target = spec.target
    message = pb.Run(
        display_name=spec.name,
        target=pb.RunTarget(
            scope=_SCOPES[target.scope],
            trace_ids=target.trace_ids,
            session_ids=target.session_ids,
            sampling=pb.RunSampling(**target.sampling.model_dump(exclude_defaults=True)),
            source=target.source or "",
            where=target.where,
        ),
        measure=pb.RunMeasure(**spec.measure.model_dump(exclude={"options"})),
        export=spec.export,
    )
    if target.filter is not None:
        message.target.filter.CopyFrom(pb.TraceFilter(**target.filter.model_dump()))
    if spec.budget is not None:
        message.budget.CopyFrom(pb.RunBudget(**spec.budget.model_dump()))
    for metric, options in spec.measure.options.items():
        message.measure.options[metric].update(options)
    return message


def encode_item(item: Item) -> pb.RunItem:
    """An item as a message."""
    state = pb.RunItemState.Value(f"RUN_ITEM_STATE_{item.state}")
    return pb.RunItem(
        subject_id=item.subject_id, state=state, tries=item.tries, error=item.error or ""
    )


def encode_estimate(found: Estimated) -> pb.RunEstimate:
    """What a run would cost, as a message."""
    return pb.RunEstimate(
        candidates=found.candidates,
        items=found.items,
        planned=found.planned,
        calls=found.calls,
        max_input_tokens=found.input_tokens,
        max_output_tokens=found.output_tokens,
        max_cost_usd=found.cost_usd,
        models=found.models,
    )


def _encode_progress(progress: Progress, eta_s: float | None) -> pb.RunProgress:
    usage = progress.usage
    return pb.RunProgress(
        listed=progress.cursor is None,
        candidates=progress.candidates,
        items=progress.items,
        sampling=progress.sampling,
        done=progress.done,
        failed=progress.failed,
        gone=progress.gone,
        scores=progress.scores.scored,
        skipped=[_missing(key, count) for key, count in progress.scores.skipped.items()],
        errors=[_missing(key, count) for key, count in progress.scores.failed.items()],
        usage=JudgeUsage(**{name: getattr(usage, name) for name in usage.__dataclass_fields__}),
        eta_s=eta_s,
    )


def _missing(key: str, count: int) -> pb.MissingScores:
    metric, _, cause = key.rpartition("\t")
    return pb.MissingScores(metric=metric, cause=cause, count=count)


def _given(message: Message) -> dict[str, Any]:
    """The fields that are set, as they are; but for messages in it."""
    found: dict[str, Any] = {}
    for field, value in message.ListFields():
        if field.message_type is not None and not field.message_type.GetOptions().map_entry:
            continue
        if field.message_type is None:
            found[field.name] = list(value) if is_repeated(field) else value
        elif field.message_type.fields_by_name["value"].message_type is None:
            found[field.name] = dict(value)
    return found


def _object(options: Message) -> dict[str, Any]:
    """A Struct as plain values; numbers without a fraction are integers."""
    found: dict[str, Any] = json_format.MessageToDict(options)
    return {
        name: int(x) if isinstance(x, float) and x.is_integer() else x for name, x in found.items()
    }
