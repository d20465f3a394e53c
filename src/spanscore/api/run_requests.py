"""Requests of RunService made from keywords, for both clients."""

import json
from collections.abc import Mapping, Sequence
from typing import Any, Literal, TypedDict

from google.protobuf import json_format

from spanscore.api.client_keywords import fields, one_of
from spanscore.api.v1 import run_service_pb2 as pb
from spanscore.api.v1.score_pb2 import SCOPE_SESSION, SCOPE_TRACE


class RunOptions(TypedDict, total=False):
    """What a run is asked to do; what is left out is as the server has it."""

    name: str
    """For people; two runs may have the same."""

    sessions: bool
    """Whether sessions are evaluated, and not traces."""

    filter: str
    """Only what meets this filter (AIP-160), as ListTraces has it, or ListSessions with
    `sessions`.
    """

    service: str
    """Only of this service.name."""

    agent: str
    """Only of this agent."""

    environment: str
    """Only of this deployment environment."""

    user: str
    """Only of this user."""

    resource: Mapping[str, str]
    """Only with these attributes of the resource."""

    started_after_ns: int
    """Only what started then or later, in nanoseconds since the Unix epoch."""

    started_before_ns: int
    """Only what started earlier than that."""

    trace_ids: Sequence[str]
    """These traces, by the ids of agent traces or of OpenTelemetry traces."""

    session_ids: Sequence[str]
    """These sessions; of a run of traces, the traces of these sessions."""

    source: str
    """The traces of this source of the server, in place of those that it has stored."""

    share: float
    """The chance of each to be drawn."""

    count: int
    """How many are drawn, in place of a share."""

    seed: int
    """Another seed draws others."""

    metrics: Sequence[str]
    """The metrics; without them the configured ones."""

    model: str
    """The model that judges all of them."""

    thresholds: Mapping[str, float]
    """By metric the score from which on its label is "pass"."""

    signal_weights: Mapping[str, float]
    """How much the traces' metrics count in the session metrics."""

    options: Mapping[str, Mapping[str, Any]]
    """By metric the options that it has in place of the configured ones, as JSON values."""

    max_usd: float
    """What the run may spend on its judge in USD."""

    max_tokens: int
    """What the run may spend on its judge in tokens, of input and output together."""

    export: bool
    """Whether the scores are exported."""


RunStateName = Literal["pending", "running", "paused", "succeeded", "failed", "cancelled"]
ItemStateName = Literal["pending", "done", "failed", "gone"]

_CONDITIONS = (
    "service",
    "agent",
    "environment",
    "user",
    "resource",
    "started_after_ns",
    "started_before_ns",
)


def run_of(wanted: RunOptions) -> pb.Run:
    """The run that is asked for; an option that is None is as if it were left out.

    Raises TypeError or ValueError where a field cannot have such a value.
    """
    given = fields(wanted, RunOptions, "a run")
    conditions = _part(given, *_CONDITIONS)
    sampling = _part(given, "share", "count", "seed")
    budget = _part(given, "max_usd", "max_tokens")
    return pb.Run(
        display_name=given.get("name", ""),
        target=pb.RunTarget(
            scope=SCOPE_SESSION if given.get("sessions") else SCOPE_TRACE,
            where=given.get("filter", ""),
            source=given.get("source", ""),
            filter=pb.TraceFilter(**conditions) if conditions else None,
            sampling=pb.RunSampling(**sampling) if sampling else None,
            **_part(given, "trace_ids", "session_ids"),
        ),
        measure=_measure(given),
        budget=pb.RunBudget(**budget) if budget else None,
        export=given.get("export", False),
    )


def _measure(given: Mapping[str, Any]) -> pb.RunMeasure:
    found = pb.RunMeasure(**_part(given, "metrics", "model", "thresholds", "signal_weights"))
    for metric, options in given.get("options", {}).items():
        json_format.Parse(json.dumps(options), found.options[metric])
    return found


def _part(given: Mapping[str, Any], *names: str) -> dict[str, Any]:
    return {name: given[name] for name in names if name in given}


def run_name(run: str) -> str:
    """The name of a run that is given by its name or its id.

    >>> run_name("a1"), run_name("runs/a1")
    ('runs/a1', 'runs/a1')
    """
    return run if run.startswith("runs/") else f"runs/{run}"


def list_request(states: Sequence[RunStateName], order_by: str) -> pb.ListRunsRequest:
    """Asks for the runs in some states, without any all, in an order.

    Raises ValueError where there is no such state.
    """
    for state in states:
        one_of("state", state, RunStateName)
    wanted = [pb.RunState.Value(f"RUN_STATE_{x.upper()}") for x in states]
    return pb.ListRunsRequest(states=wanted, order_by=order_by)


def items_request(run: str, state: ItemStateName) -> pb.ListRunItemsRequest:
    """Asks for the items of a run in a state. Raises ValueError where there is no such state."""
    one_of("state", state, ItemStateName)
    return pb.ListRunItemsRequest(
        parent=run_name(run), state=pb.RunItemState.Value(f"RUN_ITEM_STATE_{state.upper()}")
    )


def retry_request(run: str, max_usd: float | None, max_tokens: int | None) -> pb.RetryRunRequest:
    """Asks for what failed of a run to be evaluated again, with another budget where one is
    given.
    """
    has_budget = max_usd is not None or max_tokens is not None
    budget = pb.RunBudget(max_usd=max_usd, max_tokens=max_tokens) if has_budget else None
    return pb.RetryRunRequest(name=run_name(run), budget=budget)
