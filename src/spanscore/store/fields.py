"""The fields that filters of scores, agent traces and sessions may name: those of the messages that
lists give.
"""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Final

from spanscore.filters import Field, Fields
from spanscore.model.headers import without_headers
from spanscore.model.score import Evaluation, Failure, Skip
from spanscore.model.tags import tags_of
from spanscore.model.trace import AgentTrace
from spanscore.store import trace_measures

if TYPE_CHECKING:
    from spanscore.store.listing import TraceScores

_KINDS: Final = ("LLM", "CODE", "HUMAN")


SCORE_FIELDS: Final[Fields[Evaluation]] = {
    "uid": Field("text", lambda x: x.uid),
    "scope": Field("word", lambda x: x.scope, ("trace", "session")),
    "status": Field("word", lambda x: x.status, ("scored", "skipped", "failed")),
    "metric": Field("text", lambda x: x.metric),
    "value": Field("number", lambda x: x.value),
    "label": Field("text", lambda x: x.label),
    "threshold": Field("number", lambda x: x.threshold),
    "reason": Field("text", lambda x: x.reason),
    "trace_id": Field("text", lambda x: x.target.trace_id),
    "span_id": Field("text", lambda x: x.target.span_id),
    "session_id": Field("text", lambda x: x.session_id),
    "session_key": Field("text", lambda x: x.session_key or x.session_id),
    "subject_id": Field("text", lambda x: x.subject_id),
    "agent_name": Field("text", lambda x: x.agent_name),
    "service_name": Field("text", lambda x: x.service_name),
    "evaluator.kind": Field("word", lambda x: x.evaluator.kind, _KINDS),
    "evaluator.name": Field("text", lambda x: x.evaluator.name),
    "evaluator.version": Field("text", lambda x: x.evaluator.version),
    "evaluator.model": Field("text", lambda x: x.evaluator.model),
    "evaluator.embedding": Field("text", lambda x: x.evaluator.embedding),
    "evaluator.source": Field("text", lambda x: x.evaluator.source),
    "evaluator.author": Field("text", lambda x: x.evaluator.author),
    "usage.calls": Field("number", lambda x: x.usage.calls),
    "usage.cost_usd": Field("number", lambda x: x.usage.cost_usd),
    "error.type": Field(
        "text", lambda x: x.outcome.type if isinstance(x.outcome, Failure) else None
    ),
    "skip_cause": Field("text", lambda x: x.outcome.cause if isinstance(x.outcome, Skip) else None),
    "revision": Field("number", lambda x: x.revision),
    "rule": Field("text", lambda x: x.rule),
    "sampling": Field("number", lambda x: x.sampling),
    "latency": Field("duration", lambda x: x.latency_s),
    "evaluated_at_ns": Field("time", lambda x: x.evaluated_at_ns),
}


def _of_trace(read: Callable[[AgentTrace], Any]) -> Callable[["TraceScores"], Any]:
    return lambda found: read(found.trace)


def _named(scores: Sequence[Evaluation], metric: str) -> Evaluation | None:
    return next((x for x in scores if x.metric == metric), None)


def value_of(scores: Sequence[Evaluation], metric: str) -> float | None:
    """The value of the score of a metric; None where there is none."""
    found = _named(scores, metric)
    return None if found is None else found.value


def label_of(scores: Sequence[Evaluation], metric: str) -> str | None:
    """The label of the score of a metric; None where there is none."""
    found = _named(scores, metric)
    return None if found is None else found.label


def _attribute(found: "TraceScores", name: str) -> str | None:
    value = without_headers(found.trace.target.resource).get(name)
    if isinstance(value, bool):
        return str(value).lower()
    return None if value is None else str(value)


TRACE_FIELDS: Final[Fields["TraceScores"]] = {
    "id": Field("text", _of_trace(lambda x: x.id)),
    "session_id": Field("text", _of_trace(lambda x: x.session_id)),
    "session_key": Field("text", _of_trace(lambda x: x.session_key)),
    "agent_name": Field("text", _of_trace(lambda x: x.agent_name)),
    "service_name": Field("text", _of_trace(lambda x: x.service_name)),
    "user_id": Field("text", _of_trace(lambda x: x.user_id)),
    "user_input": Field("text", _of_trace(lambda x: x.user_input)),
    "final_output": Field("text", _of_trace(lambda x: x.final_output)),
    "started_ns": Field("time", _of_trace(lambda x: x.started_ns)),
    "ended_ns": Field("time", _of_trace(lambda x: x.ended_ns)),
    "latency": Field("duration", _of_trace(lambda x: (x.ended_ns - x.started_ns) / 1e9)),
    "completeness": Field(
        "word", _of_trace(lambda x: x.completeness), ("complete", "idle", "truncated")
    ),
    "input_tokens": Field("number", _of_trace(lambda x: x.usage.input_tokens)),
    "output_tokens": Field("number", _of_trace(lambda x: x.usage.output_tokens)),
    "tokens": Field("number", _of_trace(trace_measures.tokens)),
    "tool_calls": Field(
        "number", _of_trace(lambda x: None if x.tool_calls is None else len(x.tool_calls))
    ),
    "tool_errors": Field("number", _of_trace(trace_measures.tool_errors)),
    "model_calls": Field("number", _of_trace(lambda x: len(x.model_calls))),
    "tags": Field("texts", _of_trace(tags_of)),
    "failing": Field("bool", lambda x: x.is_failing),
    "score": Field("number", lambda x, metric: value_of(x.scores, metric), is_map=True),
    "label": Field("text", lambda x, metric: label_of(x.scores, metric), is_map=True),
    "resource": Field("text", _attribute, is_map=True),
}
