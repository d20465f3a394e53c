"""Evaluation runs as the API's messages, and what a message asks for as a spec."""

from collections.abc import Sequence
from typing import Any, Final

from google.protobuf import json_format
from google.protobuf.message import Message

from spanscore.api.requests import moment, name_of
from spanscore.api.v1 import run_service_pb2 as pb
from spanscore.api.v1.score_pb2 import SCOPE_SESSION, SCOPE_TRACE, SCOPE_UNSPECIFIED, JudgeUsage
from spanscore.control.estimating import Estimated
from spanscore.errors import FieldError
from spanscore.model.score import ScopeKind
from spanscore.otlp.json import is_repeated
from spanscore.specs.runs import RunBudget, RunSpec
from spanscore.specs.target import read_spec
from spanscore.store.runs import Item, ItemState, Progress, Run, RunState

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
