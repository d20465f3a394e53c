"""Scores in forms of their own: Logfire's feedback, evaluations of LangWatch and Langfuse, and
TruLens' feedback functions.
"""

from collections.abc import Iterator

from spanscore.model.span import Span
from spanscore.received_scores._attributes import flag, json_object, mapping, numeric, text
from spanscore.received_scores._given import Given, Place, session_of

LOGFIRE = "logfire.feedback.name"
LANGWATCH = "langwatch.span.type"
LANGFUSE = "langfuse.observation.type"
TRULENS = "ai.observability.eval_root.score"


def of_span(span: Span) -> Iterator[Given]:
    """The score that a span is."""
    attributes = span.attributes
    if LOGFIRE in attributes:
        found = _logfire(span)
    elif attributes.get(LANGWATCH) in {"evaluation", "guardrail"}:
        found = _langwatch(span)
    elif attributes.get(LANGFUSE) == "evaluator":
        found = _langfuse(span)
    elif TRULENS in attributes:
        found = _trulens(span)
    else:
        return
    if found is not None and found.has_outcome:
        yield found


def _logfire(span: Span) -> Given | None:
    """The value is the attribute with the feedback's name: a number is a score, a text a label,
    True a pass.
    """
    name = text(span.attributes, LOGFIRE)
    if name is None:
        return None
    value = span.attributes.get(name)
    return Given(
        name=name,
        place=_parent(span),
        scope_name=span.scope.name,
        seed=(span.trace_id, span.span_id),
        at_ns=span.end_ns,
        value=value
        if isinstance(value, bool)
        else numeric(value)
        if not isinstance(value, str)
        else None,
        label=value if isinstance(value, str) else None,
        reason=text(span.attributes, "logfire.feedback.comment"),
        source="logfire",
    )


def _langwatch(span: Span) -> Given | None:
    output = json_object(span.attributes, "langwatch.output")
    result = mapping(output.get("value")) if output.get("type") == "evaluation_result" else output
    is_error = result.get("status") == "error"
    return Given(
        name=text(span.attributes, "langwatch.evaluation.name") or span.name,
        place=_parent(span),
        scope_name=span.scope.name,
        seed=(span.trace_id, span.span_id),
        at_ns=span.end_ns,
        value=numeric(result.get("score")),
        label=text(result, "label"),
        passed=flag(result, "passed"),
        reason=text(result, "details"),
        error=(text(result, "error_type") or "Error") if is_error else None,
        source="langwatch",
    )


def _langfuse(span: Span) -> Given:
    """An evaluator's observation, where its output is an object with a score, a value or a label,
    as Langfuse's `Evaluation` has them.
    """
    output = json_object(span.attributes, "langfuse.observation.output")
    value = output.get("score", output.get("value"))
    number = numeric(value)
    word = value if isinstance(value, str) and number is None else None
    return Given(
        name=text(output, "name") or span.name,
        place=_parent(span),
        scope_name=span.scope.name,
        seed=(span.trace_id, span.span_id),
        at_ns=span.end_ns,
        value=number,
        label=text({"label": word, **output}, "label"),
        passed=flag(output, "passed"),
        reason=text(output, "comment", "explanation", "reason"),
        source="langfuse",
    )


def _trulens(span: Span) -> Given | None:
    """A feedback function's span, which lies in the trace of the record that it is of."""
    base = TRULENS.rpartition(".")[0]
    name = text(span.attributes, f"{base}.metric_name")
    if name is None:
        return None
    return Given(
        name=name,
        place=_parent(span),
        scope_name=span.scope.name,
        seed=(span.trace_id, span.span_id),
        at_ns=span.end_ns,
        value=numeric(span.attributes.get(TRULENS)),
        error=text(span.attributes, f"{base}.error"),
        reason=text(span.attributes, "ai.observability.eval.explanation"),
        source="trulens",
    )


def _parent(span: Span) -> Place:
    return Place(span.trace_id, span.parent_span_id, span.resource, session_of(span.attributes))
