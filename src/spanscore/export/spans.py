"""Evaluations as evaluation spans: what every tracing backend shows, in the evaluated span's own trace."""

import hashlib
from collections.abc import Iterable
from datetime import UTC, datetime
from functools import lru_cache
from typing import Literal

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.trace.v1.trace_pb2 import ScopeSpans, Span

from spanscore.export import wording
from spanscore.export.resources import ByResource
from spanscore.model.score import Evaluation, Evaluator, Failure, JudgeUsage, Score, Skip
from spanscore.model.span import Value
from spanscore.model.trace import Target
from spanscore.otlp import encode

_LENGTH_NS = 10**6
_LENGTH_UNDER_NOTHING_NS = 1000
_NO_USAGE = JudgeUsage()


def request(
    evaluations: Iterable[Evaluation], placement: Literal["child", "linked"], max_text_length: int
) -> ExportTraceServiceRequest:
    """The evaluation spans of `evaluations`; none for a skipped one, nor for one that left inline."""
    message = ExportTraceServiceRequest()
    scopes: ByResource[ScopeSpans] = ByResource(message.resource_spans.add, lambda x: x.scope_spans.add())
    for evaluation in evaluations:
        if not isinstance(evaluation.outcome, Skip) and not evaluation.inline:
            span = scopes.of(evaluation.target.resource).spans.add()
            _fill(span, evaluation, max_text_length)
            _place(span, evaluation, placement)
    return message


def times(target: Target) -> tuple[int, int]:
    """Start and end, in Unix ns: at the end of the evaluated span and never of no length.

    At the time of the evaluation they would stretch the trace in every waterfall, from milliseconds to seconds.
    """
    end_ns = max(target.end_ns, target.start_ns)
    start_ns = max(target.start_ns, end_ns - _LENGTH_NS)
    return (start_ns, end_ns) if start_ns < end_ns else (start_ns, start_ns + _LENGTH_UNDER_NOTHING_NS)


def _place(span: Span, evaluation: Evaluation, placement: Literal["child", "linked"]) -> None:
    target = evaluation.target
    trace_id, parent_id = bytes.fromhex(target.trace_id), bytes.fromhex(target.span_id)
    span.span_id = bytes.fromhex(evaluation.uid)
    if placement == "child":  # without a link: Jaeger would show FOLLOWS_FROM in place of CHILD_OF
        span.trace_id, span.parent_span_id = trace_id, parent_id
    else:
        span.trace_id = hashlib.sha256(f"linked\n{evaluation.uid}".encode()).digest()[:16]
        span.links.add(trace_id=trace_id, span_id=parent_id)


def _fill(span: Span, evaluation: Evaluation, max_text_length: int) -> None:
    """Everything but the ids; what is the same for many spans as bytes, since that is several times faster."""
    label = evaluation.label
    span.name = f"evaluation {evaluation.metric}: {label}" if label else f"evaluation {evaluation.metric}"
    span.start_time_unix_nano, span.end_time_unix_nano = times(evaluation.target)
    add = span.attributes.add
    summary = wording.summary(evaluation)
    reason = wording.cut(evaluation.reason, max_text_length)
    add(key="evaluation.summary").value.string_value = summary
    add(key="output.value").value.string_value = f"{summary}\n{reason}" if reason else summary
    add(key="spanscore.revision").value.int_value = evaluation.revision
    add(key="spanscore.evaluated_at").value.string_value = _iso(evaluation.evaluated_at_ns)
    if evaluation.threshold is not None:
        add(key="spanscore.threshold").value.double_value = evaluation.threshold
    if isinstance(evaluation.outcome, Failure):
        add(key="error.type").value.string_value = evaluation.outcome.type
    elif isinstance(evaluation.outcome, Score):
        _add_score(span, evaluation.outcome, label, reason, max_text_length)
    encode.fill(span.attributes, _rare(evaluation))
    span.MergeFromString(_same_for_many(evaluation.metric, evaluation.scope, evaluation.scale, evaluation.evaluator))


def _add_score(span: Span, score: Score, label: str | None, reason: str, max_text_length: int) -> None:
    add = span.attributes.add
    add(key="gen_ai.evaluation.score.value").value.double_value = score.value
    if label:
        add(key="gen_ai.evaluation.score.label").value.string_value = label
    if reason:
        add(key="gen_ai.evaluation.explanation").value.string_value = reason
    metadata = wording.metadata(score.metadata, max_text_length)
    if metadata:
        add(key="spanscore.metadata").value.string_value = metadata


def _rare(evaluation: Evaluation) -> dict[str, Value]:
    """Attributes that few evaluations have, and the subject."""
    found: dict[str, Value] = {}
    if evaluation.scope == "session":
        found["session.id"] = found["gen_ai.conversation.id"] = evaluation.session_id or evaluation.subject_id
    else:
        found["spanscore.agent_trace_id"] = evaluation.subject_id
    if evaluation.supersedes is not None:
        found["spanscore.supersedes"] = evaluation.supersedes
    if evaluation.usage != _NO_USAGE:
        usage = {f"spanscore.judge.{name}": getattr(evaluation.usage, name) for name in JudgeUsage.__dataclass_fields__}
        found |= {key: value for key, value in usage.items() if value is not None}
    return found


@lru_cache(maxsize=1024)
def _same_for_many(metric: str, scope: str, scale: tuple[float, float], evaluator: Evaluator) -> bytes:
    """A serialised span that holds what the spans of one metric and evaluator share."""
    provenance = {f"spanscore.evaluator.{name}": getattr(evaluator, name) for name in Evaluator.__dataclass_fields__}
    span = Span(kind=Span.SPAN_KIND_INTERNAL)
    shared: dict[str, Value] = {
        "gen_ai.operation.name": "evaluation",
        "gen_ai.evaluation.name": metric,
        "openinference.span.kind": "EVALUATOR",
        "output.mime_type": "text/plain",
        "spanscore.emitted": True,
        "spanscore.scope": scope,
        "spanscore.scale": [float(x) for x in scale],
    }
    shared |= {key: value for key, value in provenance.items() if value is not None}
    encode.fill(span.attributes, shared)
    return span.SerializeToString()


def _iso(time_ns: int) -> str:
    """Unix nanoseconds as RFC 3339 in UTC, to the microsecond."""
    return datetime.fromtimestamp(time_ns // 1000 / 1e6, UTC).isoformat(timespec="microseconds")
