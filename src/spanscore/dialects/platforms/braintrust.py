"""Braintrust's SDKs for Java, Go, Ruby and .NET: spans with a type, whose input, output, metadata
and metrics are JSON in attributes.
"""

from typing import Any, Final

from spanscore.dialects import keys
from spanscore.dialects.conventions import semconv
from spanscore.dialects.dialect import Context, Dialect, IgnoredSpans
from spanscore.dialects.forms.arguments import call_id, tools
from spanscore.dialects.forms.decorated_calls import (
    cut,
    read_call,
    read_recorded,
)
from spanscore.dialects.forms.provider_bodies import conversation
from spanscore.dialects.forms.structure import (
    Facts,
    add_damaged,
    add_missing,
    first_text,
    first_value,
    object_at,
    read_names,
    read_usage,
    structure,
    text,
)
from spanscore.model.span import Attributes, Span
from spanscore.model.step import StepKind

_TYPE = "braintrust.span_attributes"
_INPUTS = ("braintrust.input_json", "braintrust.input")
_OUTPUTS = ("braintrust.output_json", "braintrust.output")
_KINDS: Final[dict[str, StepKind]] = {
    "llm": "model",
    "tool": "tool",
    "function": "tool",
    "task": "workflow",
}
_CALL = frozenset({"name", "arguments"})
"""What the SDK for Ruby puts around the arguments of a call."""

_NAMED = ("ruby_llm.tool.", "function:")
"""How the names of tools' spans begin; the tool's own name is behind it."""


def read(span: Span, context: Context) -> Facts:
    """The facts of one of its spans; scorers and classifiers are none of a turn's steps."""
    attributes = span.attributes
    stated = object_at(attributes, _TYPE)
    facts: Facts = semconv.read(span, context) if keys.GEN_AI_OPERATION_NAME in attributes else {}
    facts["kind"] = kind = _kind(stated.get("type"), facts, context)
    metadata = object_at(attributes, "braintrust.metadata")
    read_names(metadata, facts)
    if kind == "model":
        _read_model(attributes, metadata, facts)
    elif kind == "tool":
        _read_tool(span, text(stated.get("name")), facts)
    elif kind == "agent":
        _read_task(attributes, facts)
    if kind in {"model", "agent"}:
        read_usage(object_at(attributes, "braintrust.metrics"), facts)
    return facts


def _kind(stated: object, facts: Facts, context: Context) -> StepKind:
    """The kind by the stated type, else by the conventions; a run of an agent is a task around all
    others.
    """
    kind = facts.get("kind", "workflow") if stated is None else _KINDS.get(str(stated), "other")
    return "agent" if kind == "workflow" and context.outermost else kind


def _read_model(attributes: Attributes, metadata: dict[str, Any], facts: Facts) -> None:
    request = structure(first_value(attributes, _INPUTS))
    response = structure(first_value(attributes, _OUTPUTS))
    facts["input"] = conversation(request.value, "user") or facts.get("input")
    facts["output"] = conversation(response.value, "assistant") or facts.get("output")
    add_damaged(facts, *cut(input=request, output=response))
    facts["model"] = text(metadata.get("model")) or facts.get("model")
    if "tools" in metadata:
        facts["tools"] = tools(metadata["tools"])


def _read_tool(span: Span, stated: str | None, facts: Facts) -> None:
    attributes = span.attributes
    name = (
        first_text(attributes, (keys.GEN_AI_TOOL_NAME, keys.TOOL_NAME)) or stated or text(span.name)
    )
    for start in _NAMED:
        name = name and name.removeprefix(start).strip()
    found: Facts = {"kind": "tool", "tool_name": name}
    found["call_id"] = call_id(first_value(attributes, (keys.GEN_AI_TOOL_CALL_ID, "tool.call_id")))
    read_call(span, first_value(attributes, _INPUTS), first_value(attributes, _OUTPUTS), found)
    given = found.get("arguments")
    if isinstance(given, dict) and given.keys() == _CALL and given["name"] == name:
        found["arguments"] = given["arguments"]
    add_missing(facts, found, missing=(None, (), False))


def _read_task(attributes: Attributes, facts: Facts) -> None:
    """What a task's function was called with and returned."""
    given, returned = first_value(attributes, _INPUTS), first_value(attributes, _OUTPUTS)
    found: Facts = {}
    read_recorded(given, returned, found)
    add_missing(facts, found)


DIALECT = Dialect(
    "braintrust",
    read,
    keys=(_TYPE, *_INPUTS, *_OUTPUTS),
    prefilters=(b"braintrust.",),
    ignored=IgnoredSpans(
        values=tuple(
            (_TYPE, f'{{"type":{gap}"{x}"}}')
            for x in ("score", "eval", "classifier", "review")
            for gap in ("", " ")
        )
    ),
    by_hand=True,
)
