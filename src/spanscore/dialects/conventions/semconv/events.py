"""A span's events, and the log records that belong to it, as pairs of name and payload."""

from collections.abc import Iterator, Mapping
from typing import Any, TypeAlias

from spanscore.dialects.conventions.adot import moved
from spanscore.dialects.dialect import Context
from spanscore.dialects.forms.messages import with_blocks
from spanscore.dialects.forms.structure import structure
from spanscore.dialects.keys.gen_ai import (
    GEN_AI_ASSISTANT_MESSAGE,
    GEN_AI_CHOICE,
    GEN_AI_CLIENT_INFERENCE_OPERATION_DETAILS,
    GEN_AI_CONTENT_COMPLETION,
    GEN_AI_CONTENT_PROMPT,
    GEN_AI_EVENT_CONTENT,
    GEN_AI_SYSTEM_MESSAGE,
    GEN_AI_TOOL_MESSAGE,
    GEN_AI_USER_MESSAGE,
)
from spanscore.model.span import Attributes, Span, Value

Events: TypeAlias = list[tuple[str, Mapping[str, Any]]]
"""Names and payloads, in order."""

DETAILS = GEN_AI_CLIENT_INFERENCE_OPERATION_DETAILS
"""The event with all of a call's messages, recorded beside the span or in place of its
attributes.
"""

ROLES_OF_EVENTS = {
    GEN_AI_SYSTEM_MESSAGE: "system",
    GEN_AI_USER_MESSAGE: "user",
    GEN_AI_ASSISTANT_MESSAGE: "assistant",
    GEN_AI_TOOL_MESSAGE: "tool",
}

CHOICE = GEN_AI_CHOICE
PROMPT, COMPLETION = GEN_AI_CONTENT_PROMPT, GEN_AI_CONTENT_COMPLETION
EVENTS = frozenset({DETAILS, CHOICE, PROMPT, COMPLETION, *ROLES_OF_EVENTS})


def events_of(span: Span, context: Context) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Name and payload of the span's events and log records."""
    for event in span.events:
        yield event.name, _payload(None, event.attributes)
    for log in context.logs:
        yield from moved(span, log)
        # LiteLLM writes it with an underscore
        name = log.event_name or log.attributes.get("event_name")
        yield str(name), _payload(log.body, log.attributes)


def _payload(body: Value, attributes: Attributes) -> Mapping[str, Any]:
    content = attributes.get(GEN_AI_EVENT_CONTENT)  # .NET's Microsoft.Extensions.AI
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
