"""OpenInference (Arize Phoenix): a span kind, flattened messages, and the inputs and outputs of
decorated functions.

`traceai`: traceAI (Future AGI): OpenInference's attributes under names of the conventions.
"""

import re
from collections.abc import Sequence
from typing import Any, Final, NamedTuple

from spanscore.dialects.conventions import adot
from spanscore.dialects.dialect import ContentSwitch, Context, Dialect, IgnoredSpans, Quirk
from spanscore.dialects.forms import langchain_messages, provider_bodies
from spanscore.dialects.forms.arguments import arguments, call_id, tools
from spanscore.dialects.forms.decorated_calls import json_of, unwrapped
from spanscore.dialects.forms.messages import message
from spanscore.dialects.forms.provider_bodies import conversation
from spanscore.dialects.forms.status import status_error
from spanscore.dialects.forms.structure import (
    Facts,
    Parsed,
    Side,
    add_damaged,
    elements,
    first_count,
    identity,
    indexed,
    is_address,
    is_redacted,
    object_at,
    objects,
    opened,
    read_names,
    structure,
    text,
)
from spanscore.model.span import Attributes, LogRecord, Span, Value, changed
from spanscore.model.step import Message, StepKind
from spanscore.model.trace import Tool

_GIVEN_TOKENS = ("llm.token_count.prompt", "gen_ai.usage.input_tokens")
_PRODUCED_TOKENS = ("llm.token_count.completion", "gen_ai.usage.output_tokens")
_RESPONSE_ID = re.compile(r'\{"id": ?"((?:chatcmpl-|resp_|msg_|gen-)[^"\\]{1,200})"')
_KINDS: Final[dict[str, StepKind]] = {
    "LLM": "model",
    "AGENT": "agent",
    "CHAIN": "workflow",
    "DECISION": "other",  # what a policy chose, no turn and no answer
    "TOOL": "tool",
    "RETRIEVER": "retrieval",
}


class _Place(NamedTuple):
    """Where one side of a model call is, and the role of its messages that state none."""

    side: Side
    value: str
    flat: str
    role: str


_HIDING = (
    "unset OPENINFERENCE_HIDE_INPUTS, OPENINFERENCE_HIDE_OUTPUTS and their like, or the same"
    " options of a trace config"
)
_PLACES = (
    _Place("input", "input.value", "llm.input_messages.", "user"),
    _Place("output", "output.value", "llm.output_messages.", "assistant"),
)
_GIVEN, _PRODUCED = (
    adot.Names(place.value, f"{place.flat}{{}}.message.role", f"{place.flat}{{}}.message.content")
    for place in _PLACES
)


def restore(span: Span, logs: Sequence[LogRecord]) -> Span:
    """The span with the content that AWS's distribution moved into a log record."""
    return adot.with_moved(span, logs, _GIVEN, _PRODUCED, is_model=_kind(span) == "model")


def read(span: Span, context: Context) -> Facts:
    """The facts of an OpenInference span."""
    attributes, quirk = span.attributes, context.quirk
    facts: Facts = {"kind": _kind(span), "session_id": identity(attributes.get("session.id"))}
    quirk.place(span, facts, context.outermost)
    kind = facts["kind"]
    if kind == "model":
        _read_model(span, quirk, facts)
    elif kind == "tool":
        _read_tool(span, facts)
    elif kind == "retrieval":
        _read_retrieval(attributes, facts)
    elif kind == "agent" or (kind == "workflow" and context.outermost):
        _read_function(span, quirk, facts)
    return facts


def _kind(span: Span) -> StepKind:
    return _KINDS.get(str(span.attributes.get("openinference.span.kind")).upper(), "other")


def _read_model(span: Span, quirk: Quirk, facts: Facts) -> None:
    attributes = span.attributes
    for place in _PLACES:
        facts[place.side] = quirk.messages(span, place.side, facts)
        if not facts[place.side]:
            _read_side(span, place, quirk, facts)
    facts["output"] = provider_bodies.with_reasoning(
        facts["output"], attributes.get("output.value")
    )
    facts["tools"] = _flat_tools(attributes) or provider_bodies.offered_in_bodies(
        attributes.get("input.value"), attributes.get("output.value")
    )
    if not any(x.role == "system" for x in facts["input"] or ()):
        facts["system"] = provider_bodies.system(attributes.get("input.value"))
    facts["model"] = text(attributes.get("llm.response.model_name")) or text(
        attributes.get("llm.model_name")
    )
    facts["input_tokens"] = first_count(attributes, _GIVEN_TOKENS)
    facts["output_tokens"] = first_count(attributes, _PRODUCED_TOKENS)
    facts["response_id"] = _response_id(span)
    reason = text(attributes.get("llm.finish_reason"))
    facts["finish_reasons"] = (reason,) if reason else ()


def _response_id(span: Span) -> str | None:
    """The id of a response that the SDK's instrumentation keeps as it came."""
    raw = span.attributes.get("output.value")
    found = _RESPONSE_ID.match(raw) if isinstance(raw, str) else None
    return None if found is None else found[1]


def _flat_tools(attributes: Attributes) -> tuple[Tool, ...]:
    """The tools on offer that a span lists, each definition in an attribute of its own."""
    listed = [x.get("json_schema") for x in _objects(attributes, "llm.tools.", "tool")]
    return tuple(tool for definition in listed for tool in tools(definition) or ())


def _read_side(span: Span, place: _Place, quirk: Quirk, facts: Facts) -> None:
    """One side of a model call: its flattened messages, completed from the request or response, or
    that itself.
    """
    side, role = place.side, place.role
    raw = span.attributes.get(place.value)
    items = quirk.items(span, _objects(span.attributes, place.flat, "message"))
    flat = [x for x in (_flat_message(item, role) for item in items) if x is not None]
    if items:
        if quirk.omits_empty_arguments and not span.dropped_attributes_count:
            flat = [provider_bodies.without_gaps(x) for x in flat]
        completed = provider_bodies.completed(tuple(flat), raw, role)
        is_hidden = any(is_redacted(x.get("content")) for x in items)
        facts[side], is_damaged = completed, is_hidden or provider_bodies.is_lost(completed, raw)
    elif is_redacted(raw):
        facts[side], is_damaged = None, True
    else:
        facts[side], is_damaged = conversation(structure(raw).value, role), False
    if is_damaged:
        add_damaged(facts, side)


def _objects(attributes: Attributes, prefix: str, name: str) -> list[dict[str, Any]]:
    """The objects `prefix.N.name`, by N."""
    return [
        x[name]
        for x in indexed(attributes, prefix)
        if isinstance(x, dict) and isinstance(x.get(name), dict)
    ]


def _flat_message(item: dict[str, Any], role: str) -> Message | None:
    calls = [x.get("tool_call") for x in elements(item.get("tool_calls")) if isinstance(x, dict)]
    content: Any = item.get("content")
    parts = [_flat_part(x) for x in elements(item.get("contents")) if isinstance(x, dict)]
    if parts:
        content = [x for x in parts if not (calls and x.get("type") == "tool_use")]
        if not any(x.get("type") == "text" for x in content) and isinstance(
            item.get("content"), str
        ):
            content.append({"type": "text", "text": item["content"]})
    if not calls and isinstance(item.get("function_call_name"), str):
        calls = [
            {
                "name": item["function_call_name"],
                "arguments": item.get("function_call_arguments_json"),
            }
        ]
    fields = {"role": item.get("role"), "content": content, "tool_calls": calls}
    if item.get("tool_call_id"):  # Bedrock's writes an empty one beside calls
        fields["tool_call_id"] = item["tool_call_id"]
    return message(fields, role)


def _flat_part(part: dict[str, Any]) -> dict[str, Any]:
    content = part.get("message_content")
    fields = dict(content) if isinstance(content, dict) else {}
    if isinstance(part.get("tool_call"), dict):
        fields |= {"type": "tool_use", **part["tool_call"]}
    return fields


def _read_tool(span: Span, facts: Facts) -> None:
    attributes = span.attributes
    facts["tool_name"] = text(attributes.get("tool.name")) or text(span.name)
    facts["call_id"] = call_id(attributes.get("tool.id"))
    facts["error"] = status_error(span)
    given, returned = attributes.get("input.value"), attributes.get("output.value")
    if is_redacted(given):
        add_damaged(facts, "arguments")
    elif given is not None:
        _read_arguments(span, given, facts)
    if is_redacted(returned):
        add_damaged(facts, "result")
    elif returned is not None:
        _read_result(span, returned, facts)


def _read_arguments(span: Span, given: Value, facts: Facts) -> None:
    plain = span.attributes.get("input.mime_type") == "text/plain"
    value = opened(given, scalars=False) if plain and given != "" else arguments(given)
    if isinstance(value, dict):
        facts["arguments"] = value
    else:
        facts["positional"] = (value,)


def _read_result(span: Span, returned: Value, facts: Facts) -> None:
    plain = span.attributes.get("output.mime_type") == "text/plain"
    facts["result"], facts["has_result"] = opened(returned, scalars=not plain), True


def _read_retrieval(attributes: Attributes, facts: Facts) -> None:
    facts["query"] = text(attributes.get("input.value"))
    found = _objects(attributes, "retrieval.documents.", "document")
    if not found:
        listed = objects(structure(attributes.get("retrieval.documents")).value)
        found = [x["document"] for x in listed if isinstance(x.get("document"), dict)]
    facts["documents"] = tuple(found)


def _read_function(span: Span, quirk: Quirk, facts: Facts) -> None:
    """An agent's or chain's input and output: a graph's state, or what a decorated function took
    and returned.
    """
    attributes = span.attributes
    given, returned = attributes.get("input.value"), attributes.get("output.value")
    names = object_at(attributes, "metadata")
    facts["agent_name"] = text(attributes.get("agent.name")) or text(names.get("lc_agent_name"))
    if facts["kind"] == "agent":
        facts["agent_name"] = facts["agent_name"] or quirk.agent_name(span)
        facts["tools"] = _flat_tools(attributes) or None
        facts["input_tokens"] = first_count(attributes, _GIVEN_TOKENS)
        facts["output_tokens"] = first_count(attributes, _PRODUCED_TOKENS)
    read_names(names, facts)
    facts["input"] = quirk.messages(span, "input", facts)
    facts["output"] = langchain_messages.after_question(quirk.messages(span, "output", facts))
    facts["input_text"] = _plain(given, attributes.get("input.mime_type"))
    _read_returned(span, returned, quirk, facts)
    if is_redacted(given):
        add_damaged(facts, "input")
    if is_redacted(returned):
        add_damaged(facts, "output")


def _plain(value: Value, mime_type: Value) -> str | None:
    """Text that a function took; JSON only where it is a string or an object that contains one
    string.
    """
    parsed = _recorded(value, mime_type).value
    if isinstance(parsed, dict) and len(parsed) == 1:
        parsed = next(iter(parsed.values()))
    return parsed if isinstance(parsed, str) else None


def _read_returned(span: Span, returned: Value, quirk: Quirk, facts: Facts) -> None:
    """What a function returned: text, or another value than messages as JSON, if no framework keeps
    its state there.
    """
    recorded = _recorded(returned, span.attributes.get("output.mime_type"))
    value = unwrapped(recorded.value, quirk.envelope)
    facts["output_text"] = value if isinstance(value, str) else None
    if not facts.get("output") and not recorded.damaged and not quirk.returns_state:
        facts["output_json"] = json_of(value)


def _recorded(value: Value, mime_type: Value) -> Parsed:
    """The arguments or the result of a function; JSON only where the span records that type."""
    if not isinstance(value, str) or is_redacted(value) or is_address(value):
        return Parsed(None)
    return structure(value) if mime_type == "application/json" else Parsed(value)


_DIALECT = Dialect(
    "openinference",
    read,
    restore=restore,
    keys=("openinference.span.kind",),
    prefilters=(b"openinference.span.kind",),
    ignored=IgnoredSpans(values=(("openinference.span.kind", "EVALUATOR"),)),
    content=(
        ContentSwitch(_HIDING),
        ContentSwitch(
            f"{_HIDING}; and leave trace_include_sensitive_data of the agents' RunConfig at true",
            "openinference.instrumentation.openai_agents",
        ),
    ),
)


_KIND = "gen_ai.span.kind"
_NAMES = {
    _KIND: "openinference.span.kind",
    "gen_ai.agent.name": "agent.name",
    "gen_ai.request.model": "llm.model_name",
    "gen_ai.response.model": "llm.response.model_name",
    "gen_ai.tool.call.id": "tool.id",
    "gen_ai.tool.name": "tool.name",
}
_PREFIXES = {
    "gen_ai.input.messages.": "llm.input_messages.",
    "gen_ai.output.messages.": "llm.output_messages.",
    "gen_ai.tool.definitions.": "llm.tools.",
}
_OF_OTHERS = frozenset({"gen_ai.operation.name", "gen_ai.input.messages", "gen_ai.output.messages"})
_MESSAGES = ("llm.input_messages.", "llm.output_messages.")
_FIRST_TEXTS = frozenset({"input.value", "output.value"})


def matches(span: Span, _logs: Sequence[LogRecord]) -> bool:
    """Whether a span states a kind, and has nothing of the conventions that it replaces."""
    return _KIND in span.attributes and _OF_OTHERS.isdisjoint(span.attributes)


def read_traceai(span: Span, context: Context) -> Facts:
    """The facts of one of its spans.

    A model's `input.value` is the text of its first message, mostly the system prompt, and its
    `output.value` a line that prints its calls: neither counts beside messages.
    """
    named = {_renamed(key): value for key, value in span.attributes.items()}
    may_repeat = span.dropped_attributes_count or any(x.startswith(_MESSAGES) for x in named)
    if span.attributes.get(_KIND) == "LLM" and may_repeat:
        named = {key: value for key, value in named.items() if key not in _FIRST_TEXTS}
    return read(changed(span, attributes=named), context)


def _renamed(key: str) -> str:
    for prefix, name in _PREFIXES.items():
        if key.startswith(prefix):
            return name + key.removeprefix(prefix)
    return _NAMES.get(key, key)


_TRACEAI = Dialect(
    "traceai",
    read_traceai,
    matches=matches,
    matching_keys=(_KIND,),
    prefilters=(_KIND.encode(),),
    content=(
        ContentSwitch(
            "unset FI_HIDE_INPUTS, FI_HIDE_OUTPUTS and their like, or the same options of a trace"
            " config"
        ),
    ),
)


DIALECTS = (_DIALECT, _TRACEAI)
