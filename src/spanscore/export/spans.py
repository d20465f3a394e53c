"""Evaluations as evaluation spans: what every tracing backend shows, in the evaluated span's own trace."""

import hashlib
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from functools import lru_cache
from typing import Literal

from opentelemetry.proto.trace.v1.trace_pb2 import Span

from spanscore.export import wire, wording
from spanscore.export.resources import ByResource
from spanscore.model.score import Evaluation, Evaluator, Failure, JudgeUsage, Skip
from spanscore.model.span import Value
from spanscore.model.trace import Target

_LENGTH_NS = 10**6
_LENGTH_UNDER_NOTHING_NS = 1000
_LAST_NS = 2**64 - 1
"""The latest time that OTLP has a place for; a hostile span can end there."""

_NO_USAGE = JudgeUsage()

_SPAN_ID = wire.head(Span(span_id=bytes(8)), 8)
_SUMMARY = wire.text_attribute(Span, "evaluation.summary")
_OUTPUT = wire.text_attribute(Span, "output.value")
_EVALUATED_AT = wire.text_attribute(Span, "spanscore.evaluated_at")
_VALUE = wire.Double(Span, "gen_ai.evaluation.score.value")
_EXPLANATION = wire.text_attribute(Span, "gen_ai.evaluation.explanation")
_METADATA = wire.text_attribute(Span, "spanscore.metadata")
_SAMPLING = wire.Double(Span, "spanscore.sampling")
_SKIP_CAUSE = wire.text_attribute(Span, "spanscore.skip_cause")
_ERROR_TYPE = wire.text_attribute(Span, "error.type")
_AGENT_TRACE_ID = wire.text_attribute(Span, "spanscore.agent_trace_id")
_SESSION_ID = wire.text_attribute(Span, "session.id")
_CONVERSATION_ID = wire.text_attribute(Span, "gen_ai.conversation.id")
_SUPERSEDES = wire.text_attribute(Span, "spanscore.supersedes")


def request(evaluations: Iterable[Evaluation], placement: Literal["child", "linked"], max_text_length: int) -> bytes:
    """The evaluation spans of `evaluations` as a serialised request.

    None for a skipped one, unless it rests on no signal, nor for one that left inline.
    """
    groups = ByResource()
    for evaluation in evaluations:
        if wording.is_told(evaluation) and not evaluation.inline:
            span = _placed(evaluation, placement) + _said(evaluation, max_text_length)
            groups.of(evaluation.target.resource).append(span)
    return groups.request()


def times(target: Target) -> tuple[int, int]:
    """Start and end, in Unix ns: at the end of the evaluated span and never of no length.

    At the time of the evaluation they would stretch the trace in every waterfall, from milliseconds to seconds.
    """
    end_ns = max(target.end_ns, target.start_ns)
    start_ns = max(target.start_ns, end_ns - _LENGTH_NS)
    if start_ns < end_ns:
        return start_ns, end_ns
    end_ns = min(end_ns + _LENGTH_UNDER_NOTHING_NS, _LAST_NS)
    return min(start_ns, end_ns - _LENGTH_UNDER_NOTHING_NS), end_ns


def _placed(evaluation: Evaluation, placement: Literal["child", "linked"]) -> bytes:
    """Ids and times."""
    target, uid = evaluation.target, evaluation.uid
    start_ns, end_ns = times(target)
    own = _SPAN_ID + bytes.fromhex(uid)
    if placement == "child":
        return own + _child(target.trace_id, target.span_id, start_ns, end_ns)
    span = Span(start_time_unix_nano=start_ns, end_time_unix_nano=end_ns)
    span.trace_id = hashlib.sha256(f"linked\n{uid}".encode()).digest()[:16]
    if target.span_id:
        span.links.add(trace_id=bytes.fromhex(target.trace_id), span_id=bytes.fromhex(target.span_id))
    return own + span.SerializeToString()


@lru_cache(maxsize=64)  # the scores of a trace follow one another
def _child(trace_id: str, parent_id: str, start_ns: int, end_ns: int) -> bytes:
    """Without a link to the parent: Jaeger would show FOLLOWS_FROM in place of CHILD_OF."""
    return Span(
        trace_id=bytes.fromhex(trace_id),
        parent_span_id=bytes.fromhex(parent_id),
        start_time_unix_nano=start_ns,
        end_time_unix_nano=end_ns,
    ).SerializeToString()


def _said(evaluation: Evaluation, max_text_length: int) -> bytes:
    """Name and attributes."""
    outcome, threshold, label = evaluation.outcome, evaluation.threshold, evaluation.label
    summary = wording.summary(evaluation)
    reason = wording.cut(evaluation.reason, max_text_length)
    parts = [
        _SUMMARY(summary),  # the first: some backends show attributes as they come
        _same_for_many(evaluation.metric, label, evaluation.scope, evaluation.scale, threshold, evaluation.evaluator),
        _revision(evaluation.revision),
        _OUTPUT(f"{summary}\n{reason}" if reason else summary),
        _EVALUATED_AT(_iso(evaluation.evaluated_at_ns)),
    ]
    if isinstance(outcome, Failure):
        parts.append(_ERROR_TYPE(outcome.type))
    elif isinstance(outcome, Skip):
        parts += (_SKIP_CAUSE(outcome.cause), _EXPLANATION(reason))
    else:
        parts.append(_VALUE(outcome.value))
        if reason:
            parts.append(_EXPLANATION(reason))
        if metadata := wording.metadata(outcome.metadata, max_text_length):
            parts.append(_METADATA(metadata))
    parts += _subject(evaluation)
    if evaluation.supersedes is not None:
        parts.append(_SUPERSEDES(evaluation.supersedes))
    if evaluation.trial is not None:
        parts.append(wire.attributes(Span, wording.trial(evaluation)))
    if evaluation.usage != _NO_USAGE:
        parts.append(wire.attributes(Span, _named("spanscore.judge.", evaluation.usage)))
    return b"".join(parts)


def _subject(evaluation: Evaluation) -> Iterator[bytes]:
    """The agent trace and the session that were evaluated, and with what chance they had been drawn."""
    if evaluation.sampling < 1:
        yield _SAMPLING(evaluation.sampling)
    if evaluation.scope == "trace":
        yield _AGENT_TRACE_ID(evaluation.subject_id)
    if session_id := wording.session(evaluation):
        yield from (_SESSION_ID(session_id), _CONVERSATION_ID(session_id))


@lru_cache(maxsize=1024)
def _same_for_many(
    metric: str,
    label: str | None,
    scope: str,
    scale: tuple[float, float],
    threshold: float | None,
    evaluator: Evaluator,
) -> bytes:
    """What the spans of one metric, label and evaluator share."""
    span = Span(kind=Span.SPAN_KIND_INTERNAL)
    span.name = f"evaluation {metric}: {label}" if label else f"evaluation {metric}"
    shared: dict[str, Value] = {
        "gen_ai.operation.name": "evaluation",
        "gen_ai.evaluation.name": metric,
        "openinference.span.kind": "EVALUATOR",
        "output.mime_type": "text/plain",
        "spanscore.emitted": True,
        "spanscore.scope": scope,
        "spanscore.scale": [float(x) for x in scale],
    }
    if label:
        shared["gen_ai.evaluation.score.label"] = label
    if threshold is not None:
        shared["spanscore.threshold"] = float(threshold)
    return span.SerializeToString() + wire.attributes(Span, shared | _named("spanscore.evaluator.", evaluator))


@lru_cache(maxsize=1024)
def _revision(revision: int) -> bytes:
    return wire.attributes(Span, {"spanscore.revision": revision})


def _named(prefix: str, facts: Evaluator | JudgeUsage) -> dict[str, Value]:
    """The fields that are not None, as attributes."""
    named = {f"{prefix}{name}": getattr(facts, name) for name in facts.__dataclass_fields__}
    return {key: value for key, value in named.items() if value is not None}


def _iso(time_ns: int) -> str:
    """Unix nanoseconds as RFC 3339 in UTC, to the microsecond."""
    seconds, rest_ns = divmod(time_ns, 10**9)
    return f"{_iso_second(seconds)}.{rest_ns // 1000:06d}+00:00"


@lru_cache(maxsize=64)
def _iso_second(seconds: int) -> str:
    return datetime.fromtimestamp(seconds, UTC).replace(tzinfo=None).isoformat()
