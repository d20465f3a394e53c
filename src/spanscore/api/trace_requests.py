"""Requests of TraceService made from keywords, for both clients."""

from collections.abc import Mapping, Sequence
from typing import TypedDict

from spanscore.api.client_keywords import fields, named
from spanscore.api.v1 import trace_service_pb2 as pb


class TraceConditions(TypedDict, total=False):
    """Which agent traces are listed; without any, all."""

    filter: str
    """Only what meets this filter (AIP-160), as ListTraces has it."""

    order_by: str
    """In which order, as ListTraces has it."""

    session_id: str
    """Only of the sessions with this id or key."""

    service: str
    """Only of this service.name."""

    failing: bool
    """Only those of which a score does not pass, or could not be measured."""

    since_ns: int
    """Only what was stored then or later, in nanoseconds since the Unix epoch."""

    page_size: int
    """How many are asked for at once, at most 1000."""


class SessionConditions(TypedDict, total=False):
    """Which sessions are listed; without any, all."""

    filter: str
    """Only what meets this filter (AIP-160), as ListSessions has it."""

    order_by: str
    """In which order, as ListSessions has it."""

    page_size: int
    """How many are asked for at once, at most 1000."""


class TraceEvaluation(TypedDict, total=False):
    """How a trace is evaluated again; what is left out is as configured."""

    metrics: Sequence[str]
    """The metrics; without them the configured ones."""

    model: str
    """The model that judges."""

    threshold: float
    """The score from which on the label is "pass"."""

    request_id: str
    """With that of an earlier call its answer is returned, and nothing is evaluated."""


class SessionEvaluation(TraceEvaluation, total=False):
    """How a session is evaluated again; what is left out is as configured."""

    signal_weights: Mapping[str, float]
    """How much the traces' metrics count in the session metrics."""


def traces_request(wanted: TraceConditions) -> pb.ListTracesRequest:
    """Asks for agent traces. Raises TypeError for a condition that there is not."""
    return pb.ListTracesRequest(
        **fields(wanted, TraceConditions, "a list of traces", service="service_name")
    )


def sessions_request(wanted: SessionConditions) -> pb.ListSessionsRequest:
    """Asks for sessions. Raises TypeError for a condition that there is not."""
    return pb.ListSessionsRequest(**fields(wanted, SessionConditions, "a list of sessions"))


def evaluate_trace_request(trace: str, wanted: TraceEvaluation) -> pb.EvaluateTraceRequest:
    """Asks for a trace to be evaluated again. Raises TypeError for an option that there is not."""
    found = fields(wanted, TraceEvaluation, "the evaluation of a trace")
    return pb.EvaluateTraceRequest(name=named("traces", trace), **found)


def evaluate_session_request(session: str, wanted: SessionEvaluation) -> pb.EvaluateSessionRequest:
    """Asks for a session to be evaluated again.

    Raises TypeError for an option that there is not.
    """
    found = fields(wanted, SessionEvaluation, "the evaluation of a session")
    return pb.EvaluateSessionRequest(name=named("sessions", session), **found)
