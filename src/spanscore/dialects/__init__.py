"""What a span says, in any dialect: spans and log records in, steps out.

One file is one dialect. A span is read by the first dialect that claims it, in the order of `DIALECTS`: a dialect that
extends another one stands before it, and one with a scope or an attribute of its own before those that have to look at
the span, whose attributes others borrow. So one look-up of each kind decides for all that have a marker of their own.
"""

from collections import defaultdict
from collections.abc import Iterable, Sequence

from spanscore.dialects import (
    claude_code,
    gemini_cli,
    genkit,
    google_adk,
    langfuse,
    langsmith,
    litellm,
    mlflow,
    openinference,
    openllmetry,
    pydantic_ai,
    semconv,
    strands,
    vercel_ai,
)
from spanscore.dialects._base import Context, Dialect, Facts, text
from spanscore.dialects._messages import Histories
from spanscore.model.json import dumps
from spanscore.model.span import LogRecord, Span
from spanscore.model.step import Reading, Step

DIALECTS: tuple[Dialect, ...] = (
    pydantic_ai.DIALECT,
    vercel_ai.DIALECT,
    google_adk.DIALECT,
    strands.DIALECT,
    gemini_cli.DIALECT,
    langfuse.DIALECT,
    mlflow.DIALECT,
    genkit.DIALECT,
    openinference.DIALECT,
    langsmith.DIALECT,
    litellm.DIALECT,
    claude_code.DIALECT,
    openllmetry.DIALECT,
    semconv.DIALECT,
)

_BY_SCOPE = {scope: rank for rank, dialect in enumerate(DIALECTS) for scope in dialect.scopes}
_BY_KEY = {key: rank for rank, dialect in enumerate(DIALECTS) for key in dialect.keys}
_KEYS = frozenset(_BY_KEY)
_LOOKING = tuple((x, x.claims) for x in DIALECTS if x.claims is not None)
_MARKS = tuple({mark: None for dialect in DIALECTS for mark in dialect.marks})
_EVALUATOR_SCOPES = frozenset({"spanscore", "pydantic-evals"})

__all__ = ["DIALECTS", "read", "shows_genai"]


def shows_genai(body: bytes) -> bool:
    """Whether a raw OTLP request may hold a span or log record that a dialect reads. It may say yes wrongly, never no.

    >>> shows_genai(b"...http.method..."), shows_genai(b"...gen_ai.request.model...")
    (False, True)
    """
    return any(mark in body for mark in _MARKS)


def read(spans: Iterable[Span], logs: Iterable[LogRecord] = ()) -> Reading:
    """Read the spans and log records of one trace.

    Order and repetition do not matter: of a span that comes twice the more complete one counts, and log records are
    sorted by time. Raises nothing on hostile content; what cannot be read is left out, and spans that nobody reads are
    counted.
    """
    known = _unique(spans)
    logged = _by_span(logs)
    claimed = {x.span_id: dialect for x in known if (dialect := _dialect_of(x, logged.get(x.span_id, ())))}
    histories = Histories()
    steps: list[Step] = []
    for span in known:
        dialect = claimed.get(span.span_id)
        if dialect is not None:
            outermost = span.parent_span_id not in claimed
            facts = dialect.read(span, Context(logged.get(span.span_id, ()), outermost, histories))
            steps.append(_step(span, dialect.name, facts))
        elif "session.id" in span.attributes or "user.id" in span.attributes:
            steps.append(_step(span, "", {"kind": "other"}))
    return Reading(tuple(known), tuple(steps), len(known) - len(claimed))


def _dialect_of(span: Span, logs: Sequence[LogRecord]) -> Dialect | None:
    found = _BY_SCOPE.get(span.scope.name, len(DIALECTS))
    if not _KEYS.isdisjoint(span.attributes):
        found = min(found, *(_BY_KEY[key] for key in _KEYS.intersection(span.attributes)))
    if found < len(DIALECTS):
        return DIALECTS[found]
    for dialect, claims in _LOOKING:
        if claims(span, logs):
            return dialect
    return None


def _step(span: Span, dialect: str, facts: Facts) -> Step:
    attributes = span.attributes
    if "session.id" in attributes:
        facts["session_id"] = text(attributes["session.id"]) or facts.get("session_id")
    user = attributes.get("user.id", attributes.get("enduser.id"))
    if user is not None:
        facts["user_id"] = text(user) or facts.get("user_id")
    return Step(span=span, dialect=dialect, **facts)


def _unique(spans: Iterable[Span]) -> list[Span]:
    """Each span id once, without what evaluators emitted, by start time."""
    found: dict[str, Span] = {}
    for span in spans:
        if not span.span_id or _is_evaluator(span):
            continue
        other = found.get(span.span_id)
        if other is None or (other is not span and _completeness(span) > _completeness(other)):
            found[span.span_id] = span
    return sorted(found.values(), key=lambda x: (x.start_ns, x.span_id))


def _completeness(span: Span) -> tuple[int, int, int, str]:
    """Sorts the versions of one span: a pending one before the final one, and any two that differ."""
    return span.end_ns, len(span.attributes), len(span.events), repr(span)


def _is_evaluator(span: Span) -> bool:
    """Whether spanscore or another evaluator emitted the span: a score is not part of what is scored."""
    attributes = span.attributes
    return (
        span.scope.name in _EVALUATOR_SCOPES
        or "spanscore.emitted" in attributes
        or "mlflow.trace.sourceScorer" in attributes
        or "langwatch.reserved.causality_depth" in attributes
        or attributes.get("gen_ai.operation.name") == "evaluation"
        or attributes.get("openinference.span.kind") == "EVALUATOR"
        or attributes.get("langfuse.environment") == "langfuse-llm-judge"
        or span.name == "judge_evaluation"
    )


def _by_span(logs: Iterable[LogRecord]) -> dict[str, list[LogRecord]]:
    """The log records of each span by time, each once."""
    found: defaultdict[str, dict[str, LogRecord]] = defaultdict(dict)
    for log in logs:
        if log.span_id:
            found[log.span_id][dumps([log.event_name, log.body, dict(log.attributes), log.time_ns])] = log
    return {
        span_id: [x for _, x in sorted(records.items(), key=lambda x: (x[1].time_ns, x[0]))]
        for span_id, records in found.items()
    }
