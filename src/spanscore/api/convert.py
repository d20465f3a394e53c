"""Agent traces and scores as messages."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from spanscore.api.messages import decode, encode, encoder, set_field, words_by_number
from spanscore.api.requests import name_of
from spanscore.api.v1 import agent_trace_pb2 as trace_pb, score_pb2 as score_pb
from spanscore.model.external import etag
from spanscore.model.json import dumps, loads
from spanscore.model.score import (
    Annotation,
    Evaluation,
    Evaluator,
    Failure,
    Outcome,
    ScopeKind,
    Score,
    Skip,
    reaches,
)
from spanscore.model.span import without_headers
from spanscore.model.trace import AgentTrace, Expected, Target
from spanscore.store.given_scores import Given

SCOPES: Mapping[int, ScopeKind] = words_by_number(score_pb.Scope.DESCRIPTOR)
_ADDED = ("threshold", "success")
"""What the JSON form of a score adds to its metadata."""


def encode_trace(trace: AgentTrace) -> trace_pb.AgentTrace:
    """The message of `trace`; whatever it holds, it can be sent."""
    message = encode(trace_pb.AgentTrace, trace, name=name_of("traces", trace.id))
    set_field(message.target, "resource_json", without_headers(trace.target.resource))
    message.history_recorded = trace.history is not None
    if trace.expected is not None:
        message.expected.tools_stated = trace.expected.tools is not None
    return message


def decode_trace(message: trace_pb.AgentTrace) -> AgentTrace:
    """The inverse of `encode_trace`. Raises ValueError where a `*_json` field is no JSON."""
    trace = decode(AgentTrace, message)
    if not message.completeness:
        trace = replace(trace, completeness="idle")
    if not trace.history and not message.history_recorded:
        trace = replace(trace, history=None)
    if trace.expected is None:
        return trace
    return replace(trace, expected=_checked(trace.expected, message.expected))


def _checked(expected: Expected, message: trace_pb.Expected) -> Expected:
    if not message.tools_stated:
        return replace(expected, tools=None)
    for tool in expected.tools or ():
        if not isinstance(tool.arguments, dict | None):
            raise ValueError(f"arguments_json of {tool.name!r} is no JSON object")  # noqa: TRY004 - as of what is no JSON
    return expected


@encoder(Evaluation)
def encode_score(evaluation: Evaluation, **more: Any) -> score_pb.Score:
    """The message of `evaluation`, with `more` fields beside; whatever it holds, it can be sent."""
    outcome = evaluation.outcome
    return encode(
        score_pb.Score,
        evaluation,
        name=name_of("scores", evaluation.uid),
        trace_id=evaluation.target.trace_id,
        span_id=evaluation.target.span_id,
        session_key=evaluation.session_key or evaluation.session_id,
        metadata_json=dumps(evaluation.to_json()["metadata"]),
        error=outcome if isinstance(outcome, Failure) else None,
        skip_cause=outcome.cause if isinstance(outcome, Skip) else None,
        etag=etag(evaluation) if evaluation.is_external else "",
        **more,
    )


def encode_given(given: Given) -> score_pb.Score:
    """The message of a score that others gave, which says whether what it is of is stored."""
    return encode_score(given.score, subject_state=given.subject)


def decode_score(message: score_pb.Score) -> Evaluation:
    """The evaluation of a message, but for what messages do not have: resource, tally, and the test
    it was made for.

    Raises ValueError where `metadata_json` is no JSON.
    """
    return decode(
        Evaluation,
        message,
        scope=SCOPES.get(message.scope, "trace"),
        outcome=_outcome(message),
        scale=(message.scale.low, message.scale.high) if message.HasField("scale") else None,
        evaluator=decode(Evaluator, message.evaluator),
        target=Target(message.trace_id, message.span_id, 0, round(message.latency_s * 1e9), {}),
    )


def _outcome(message: score_pb.Score) -> Outcome | Annotation:
    if message.status == score_pb.STATUS_FAILED:
        return Failure(message.error.type, message.error.message)
    if message.status == score_pb.STATUS_SKIPPED:
        return Skip(message.reason, message.skip_cause or "other")  # type: ignore[arg-type] # a newer server may have more causes
    metadata = loads(message.metadata_json or "{}")
    value, label = _given(message, "value"), _given(message, "label")
    if message.evaluator.HasField("source") or value is None:
        passed = metadata.pop("success", None)
        return Annotation(value, label, message.reason, metadata, passed)
    threshold = _given(message, "threshold")
    by_threshold = "pass" if threshold is not None and reaches(value, threshold) else "fail"
    own = {name: x for name, x in metadata.items() if name not in _ADDED}
    return Score(value, message.reason, own, None if label in {None, by_threshold} else label)


def _given(message: Any, field: str) -> Any:
    """The value of an optional field, or None where it is not set."""
    return getattr(message, field) if message.HasField(field) else None
