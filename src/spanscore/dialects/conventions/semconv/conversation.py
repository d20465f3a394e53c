"""Events and messages of model and agent spans."""

from collections.abc import Iterator, Mapping
from typing import Any, TypeAlias

from spanscore.dialects import keys
from spanscore.dialects.conventions.adot import moved
from spanscore.dialects.dialect import Context
from spanscore.dialects.forms.arguments import tools
from spanscore.dialects.forms.messages import (
    MessageCache,
    Messages,
    message,
    messages,
    system_text,
    with_blocks,
)
from spanscore.dialects.forms.repeats import once
from spanscore.dialects.forms.structure import (
    REFERENCE_SUFFIX,
    Facts,
    add_token_details,
    first_count,
    first_value,
    identity,
    objects,
    structure,
    text,
)
from spanscore.model.span import Attributes, Span, Value, changed
from spanscore.model.step import Message, StepFact, ToolResult

Events: TypeAlias = list[tuple[str, Mapping[str, Any]]]
"""Names and payloads, in order."""

DETAILS = keys.GEN_AI_CLIENT_INFERENCE_OPERATION_DETAILS
"""The event with all of a call's messages, recorded beside the span or in place of its
attributes.
"""

ROLES_OF_EVENTS = {
    keys.GEN_AI_SYSTEM_MESSAGE: "system",
    keys.GEN_AI_USER_MESSAGE: "user",
    keys.GEN_AI_ASSISTANT_MESSAGE: "assistant",
    keys.GEN_AI_TOOL_MESSAGE: "tool",
}

CHOICE = keys.GEN_AI_CHOICE
PROMPT, COMPLETION = keys.GEN_AI_CONTENT_PROMPT, keys.GEN_AI_CONTENT_COMPLETION
EVENTS = frozenset({DETAILS, CHOICE, PROMPT, COMPLETION, *ROLES_OF_EVENTS})


def events_of(span: Span, context: Context) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Name and payload of the span's events and log records."""
    for event in span.events:
        yield event.name, once(_payload_of_event, event.attributes, "")
    for log in context.logs:
        yield from moved(span, log)
        # LiteLLM writes it with an underscore
        name = log.event_name or log.attributes.get("event_name")
        yield str(name), _payload(log.body, log.attributes)


def _payload_of_event(attributes: Attributes, _role: str) -> Mapping[str, Any]:
    return _payload(None, attributes)


def _payload(body: Value, attributes: Attributes) -> Mapping[str, Any]:
    content = attributes.get(keys.GEN_AI_EVENT_CONTENT)  # .NET's Microsoft.Extensions.AI
    parsed = structure(body if content is None else content).value
    return {**attributes, **parsed} if isinstance(parsed, dict) else with_blocks(attributes)


def with_details(attributes: Attributes, events: Events) -> Attributes:
    """The span's attributes, completed by those of its `operation.details` events: each may carry
    another half.
    """
    details = [payload for name, payload in events if name == DETAILS]
    if not details:
        return attributes
    merged: dict[str, Value] = {}
    for payload in reversed(details):
        merged.update((k, v) for k, v in payload.items() if v is not None)
    merged.update((k, v) for k, v in attributes.items() if v is not None)
    return merged


_INPUT_TOKENS = (
    keys.GEN_AI_USAGE_INPUT_TOKENS,
    keys.GEN_AI_USAGE_PROMPT_TOKENS,
    keys.GEN_AI_RESPONSE_PROMPT_TOKENS,
)

_OUTPUT_TOKENS = (
    keys.GEN_AI_USAGE_OUTPUT_TOKENS,
    keys.GEN_AI_USAGE_COMPLETION_TOKENS,
    keys.GEN_AI_RESPONSE_COMPLETION_TOKENS,
)
"""Of each what is written today, and what was; the last one by Semantic Kernel."""


_REQUESTED_TOOLS = "gen_ai.request.tools"
"""Langtrace's; others have a number or names there."""


def read_conversation(
    attributes: Attributes,
    events: Events,
    histories: MessageCache,
    facts: Facts,
) -> None:
    """Add messages, instructions, tools, model, tokens and finish reasons to `facts`, and which of
    them are cut.
    """
    given, produced = _from_attributes(attributes, histories)
    if (given.messages is None or produced.messages is None) and events:
        given, produced = _from_events(events, given, produced)
    facts["input"], facts["output"] = given.messages, produced.messages
    damaged = _damaged_sides(given, produced)
    if _lost_history(attributes):
        damaged.add("history")
    damaged |= elsewhere(attributes, _UPLOADED)
    instructions = attributes.get(keys.GEN_AI_SYSTEM_INSTRUCTIONS)
    if instructions is not None:
        facts["system"], cut = system_text(instructions)
        if cut:
            damaged.add("system")
    # Strands lists names
    definitions = first_value(attributes, (keys.GEN_AI_TOOL_DEFINITIONS, keys.GEN_AI_AGENT_TOOLS))
    if definitions is not None:
        facts["tools"] = tools(definitions)
        if facts["tools"] is None:
            damaged.add("tools")
    else:
        facts["tools"] = tools(attributes.get(_REQUESTED_TOOLS))
    facts["damaged"] = frozenset(damaged)
    facts["model"] = text(attributes.get(keys.GEN_AI_RESPONSE_MODEL)) or text(
        attributes.get(keys.GEN_AI_REQUEST_MODEL)
    )
    _read_response_ids(attributes, facts)
    facts["input_tokens"] = first_count(attributes, _INPUT_TOKENS)
    facts["output_tokens"] = first_count(attributes, _OUTPUT_TOKENS)
    add_token_details(attributes, facts)
    reasons = attributes.get(keys.GEN_AI_RESPONSE_FINISH_REASONS)
    if isinstance(reasons, list):
        facts["finish_reasons"] = tuple(x for x in reasons if isinstance(x, str))


def _read_response_ids(attributes: Attributes, facts: Facts) -> None:
    facts["response_id"] = identity(attributes.get(keys.GEN_AI_RESPONSE_ID))
    previous_id = identity(attributes.get(keys.GEN_AI_REQUEST_PREVIOUS_RESPONSE_ID))
    if previous_id is not None:  # the provider has what came before
        facts["previous_response_id"], facts["input_is_part"] = previous_id, True


_UPLOADED: Mapping[StepFact, str] = {
    "input": keys.GEN_AI_INPUT_MESSAGES,
    "output": keys.GEN_AI_OUTPUT_MESSAGES,
    "system": keys.GEN_AI_SYSTEM_INSTRUCTIONS,
    "tools": keys.GEN_AI_TOOL_DEFINITIONS,
}


def elsewhere(attributes: Attributes, wanted: Mapping[StepFact, str]) -> set[StepFact]:
    """The facts of which a span has only the address to which they were uploaded; `wanted` has the
    keys of the facts themselves.
    """
    return {
        fact
        for fact, key in wanted.items()
        if key not in attributes and key + REFERENCE_SUFFIX in attributes
    }


def _lost_history(attributes: Attributes) -> bool:
    """Whether messages were compacted, and the input lacks the text that stands for them."""
    if attributes.get(keys.GEN_AI_CONVERSATION_COMPACTED) is not True:
        return False
    listed = objects(structure(attributes.get(keys.GEN_AI_INPUT_MESSAGES)).value)
    parts = [part for message in listed for part in objects(message.get("parts"))]
    return not any(x.get("type") == "compaction" and text(x.get("content")) for x in parts)


def _damaged_sides(given: Messages, produced: Messages) -> set[StepFact]:
    damaged: set[StepFact] = set()
    if given.damaged:
        damaged.add("input")
    if produced.damaged:
        damaged.add("output")
    return damaged


def _from_attributes(attributes: Attributes, histories: MessageCache) -> tuple[Messages, Messages]:
    given = attributes.get(keys.GEN_AI_INPUT_MESSAGES)
    produced = attributes.get(keys.GEN_AI_OUTPUT_MESSAGES)
    if given is None:
        given = attributes.get(keys.GEN_AI_PROMPT)
    if produced is None:
        produced = attributes.get(keys.GEN_AI_COMPLETION)
    return (
        histories.messages(given) if given is not None else Messages(None),
        messages(produced, "assistant") if produced is not None else Messages(None),
    )


def _from_events(events: Events, given: Messages, produced: Messages) -> tuple[Messages, Messages]:
    """Complete the messages in a span's attributes by the events of one message each, and by those
    of 1.26.
    """
    inputs, chosen = list[Message](), list[Message]()
    for name, payload in events:
        if name == PROMPT:
            inputs += messages(payload.get(keys.GEN_AI_PROMPT)).messages or ()
        elif name == COMPLETION:
            chosen += messages(payload.get(keys.GEN_AI_COMPLETION), "assistant").messages or ()
        elif name == CHOICE:
            chosen += once(_chosen, payload, "assistant")
        elif name in ROLES_OF_EVENTS:
            inputs += once(_event_messages, payload, ROLES_OF_EVENTS[name])
    if given.messages is None and inputs:
        given = Messages(_with_results_left_out(inputs), given.damaged)
    if produced.messages is None and chosen:
        produced = Messages(tuple(chosen), produced.damaged)
    return given, produced


def _chosen(payload: Mapping[str, Any], role: str) -> list[Message]:
    return _event_messages(_choice(payload), role)


def _choice(payload: Mapping[str, Any]) -> Mapping[str, Any]:
    """The message of a choice; its tool calls stand inside or beside it."""
    inner = payload.get("message")
    if isinstance(inner, str) and inner.startswith('{"'):
        opened = structure(inner).value
        inner = (
            opened
            if isinstance(opened, dict) and opened.keys() & {"role", "content", "tool_calls"}
            else inner
        )
    if isinstance(inner, dict):
        return {**{k: payload[k] for k in ("tool_calls",) if k in payload}, **inner}
    return {**payload, "content": inner} if inner is not None else payload


def _event_messages(payload: Mapping[str, Any], role: str) -> list[Message]:
    """The message of an event, whose calls may be JSON in text where it came as attributes."""
    content, calls = payload.get("content"), payload.get("tool_calls")
    # Gemini's, with the role that is true
    if isinstance(content, dict) and isinstance(content.get("parts"), list):
        payload, calls = content, content.get("tool_calls")
    # a system message may have the role of a developer's
    elif payload.get("role") is None or role != "system":
        payload = {**payload, "role": role}
    if isinstance(calls, str):
        payload = {**payload, "tool_calls": structure(calls).value}
    read_message = message(payload, role)
    if (
        read_message is not None
        and read_message.results
        and payload.get("content", payload.get("parts")) is None
    ):
        unshown = tuple(changed(x, shown=False) for x in read_message.results)
        read_message = changed(read_message, results=unshown)
    return [] if read_message is None else [read_message]


def _with_results_left_out(messages: list[Message]) -> tuple[Message, ...]:
    """The messages, in which a result without content was empty, or not to be recorded if no
    message has any.
    """
    results = [y for x in messages for y in x.results]
    has_content = any(x.text is not None for x in messages) or any(x.shown for x in results)
    if not has_content or all(x.shown for x in results):
        return tuple(messages)
    return tuple(changed(x, results=tuple(map(_empty_where_unshown, x.results))) for x in messages)


def _empty_where_unshown(result: ToolResult) -> ToolResult:
    return result if result.shown else changed(result, value="", shown=True)
