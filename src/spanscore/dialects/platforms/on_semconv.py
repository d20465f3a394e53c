"""Platforms whose spans extend the conventions.

`braintrust`: Braintrust's SDKs for Java, Go, Ruby and .NET: spans with a type, whose input, output,
metadata and metrics are JSON in attributes.

`sentry`: Sentry's AI integrations for JavaScript: the semantic conventions, with answers and tools
under other names.
"""

from collections.abc import Sequence
from typing import Any, Final

from spanscore.dialects.conventions import semconv
from spanscore.dialects.dialect import ContentSwitch, Context, Dialect, IgnoredSpans, Quirk
from spanscore.dialects.forms.arguments import arguments, call_id, tools
from spanscore.dialects.forms.decorated_calls import cut, read_call, read_recorded
from spanscore.dialects.forms.messages import message, messages
from spanscore.dialects.forms.provider_bodies import conversation
from spanscore.dialects.forms.structure import (
    Facts,
    add_damaged,
    add_missing,
    as_list,
    first_text,
    first_value,
    is_redacted,
    object_at,
    opened,
    read_names,
    read_usage,
    structure,
    text,
)
from spanscore.model.span import Attributes, LogRecord, Span
from spanscore.model.step import Message, StepKind

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


def read_braintrust(span: Span, context: Context) -> Facts:
    """The facts of one of its spans; scorers and classifiers are none of a turn's steps."""
    attributes = span.attributes
    stated = object_at(attributes, _TYPE)
    facts: Facts = semconv.read(span, context) if "gen_ai.operation.name" in attributes else {}
    facts["kind"] = kind = _kind(stated.get("type"), facts, context)
    metadata = object_at(attributes, "braintrust.metadata")
    read_names(metadata, facts)
    if kind == "model":
        _read_model(attributes, metadata, facts)
    elif kind == "tool":
        _read_tool_braintrust(span, text(stated.get("name")), facts)
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


def _read_tool_braintrust(span: Span, stated: str | None, facts: Facts) -> None:
    attributes = span.attributes
    name = first_text(attributes, ("gen_ai.tool.name", "tool.name")) or stated or text(span.name)
    for start in _NAMED:
        name = name and name.removeprefix(start).strip()
    found: Facts = {"kind": "tool", "tool_name": name}
    found["call_id"] = call_id(first_value(attributes, ("gen_ai.tool.call.id", "tool.call_id")))
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


_BRAINTRUST = Dialect(
    "braintrust",
    read_braintrust,
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


_ORIGIN, _OURS = "sentry.origin", "auto.ai."
_ORIGINAL_LENGTHS = (
    "sentry.sdk_meta.gen_ai.input.messages.original_length",
    "gen_ai.request.messages.original_length",
)
_CALLS, _OFFERED = "gen_ai.response.tool_calls", "gen_ai.request.available_tools"


def matches(span: Span, _logs: Sequence[LogRecord]) -> bool:
    """Whether the span has a `sentry.origin` that starts with `auto.ai.`."""
    origin = span.attributes.get(_ORIGIN)
    return isinstance(origin, str) and origin.startswith(_OURS)


def read_sentry(span: Span, context: Context) -> Facts:
    """The facts of a span of a provider's client, of LangChain or of LangGraph."""
    attributes = span.attributes
    facts = semconv.read(span, context)
    if facts["kind"] in {"model", "agent"}:
        if (
            facts.get("input") is None
            and (given := attributes.get("gen_ai.request.messages")) is not None
        ):
            facts["input"] = messages(given).messages
        if facts.get("output") is None:
            facts["output"] = _answer(attributes)
        if (
            facts.get("tools") is None
            and (offered := first_text(attributes, (_OFFERED,))) is not None
        ):
            facts["tools"] = tools(offered)
        if _is_cut(attributes, facts.get("input")):
            add_damaged(facts, "input")
    elif facts["kind"] == "tool":
        _read_tool_sentry(attributes, facts)
    return facts


def _answer(attributes: Attributes) -> tuple[Message, ...] | None:
    recorded = attributes.get("gen_ai.response.text")
    called = structure(attributes.get(_CALLS)).value
    if recorded is None and called is None:
        return None
    texts: Any = (
        structure(recorded).value if attributes.get(_ORIGIN) == "auto.ai.openai" else recorded
    )
    if not isinstance(texts, list):  # OpenAI's has a text for each choice, if it was not streamed
        texts = [recorded]
    parts = [{"type": "text", "text": x} for x in texts if isinstance(x, str)]
    calls = as_list(called)
    answer = message({"role": "assistant", "content": [*parts, *map(_part, calls)]}, "assistant")
    return None if answer is None else (answer,)


def _part(call: Any) -> Any:
    """A call as a part of the answer: Google's stand without a type."""
    return {"type": "tool_call", **call} if isinstance(call, dict) and "type" not in call else call


def _is_cut(attributes: Attributes, given: tuple[Message, ...] | None) -> bool:
    """Whether messages were left out, since Sentry keeps only as many of the last ones as have
    room.
    """
    before = next((x for x in map(attributes.get, _ORIGINAL_LENGTHS) if isinstance(x, int)), 0)
    return given is not None and len(given) < before


def _read_tool_sentry(attributes: Attributes, facts: Facts) -> None:
    given = attributes.get("gen_ai.tool.input")
    returned = attributes.get("gen_ai.tool.output")
    if facts.get("arguments") is None and given is not None and not is_redacted(given):
        facts["arguments"] = arguments(given)
    if not facts.get("has_result") and returned is not None and not is_redacted(returned):
        facts["result"], facts["has_result"] = opened(returned), True


_SENTRY = Dialect(
    "sentry",
    read_sentry,
    matches=matches,
    matching_keys=(_ORIGIN,),
    prefilters=(b"auto.ai.",),
    content=(
        ContentSwitch(
            "set recordInputs and recordOutputs of its integration to true (JavaScript), or"
            " send_default_pii=True and include_prompts=True (Python)"
        ),
    ),
)


DIALECTS = (_BRAINTRUST, _SENTRY)
QUIRKS = (
    Quirk(
        "sentry",
        "semconv",
        content=(
            ContentSwitch(
                "set recordInputs and recordOutputs of its integration to true", "@sentry/"
            ),
        ),
    ),
)
