"""Read the content that AWS's distribution of OpenTelemetry (Bedrock AgentCore) moves from a span
into a log record.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from spanscore.dialects.forms.messages import with_blocks
from spanscore.dialects.forms.structure import structure
from spanscore.dialects.keys.gen_ai import (
    GEN_AI_ASSISTANT_MESSAGE,
    GEN_AI_CHOICE,
    GEN_AI_CLIENT_INFERENCE_OPERATION_DETAILS,
    GEN_AI_INPUT_MESSAGES,
    GEN_AI_OUTPUT_MESSAGES,
    GEN_AI_SYSTEM_INSTRUCTIONS,
)
from spanscore.model.record import record
from spanscore.model.span import Attributes, LogRecord, Span, Value

_DETAILS, _CHOICE = GEN_AI_CLIENT_INFERENCE_OPERATION_DETAILS, GEN_AI_CHOICE
_MAX_BARE = 200
_ORDER = ("system", "user", "assistant", "tool")  # in which a conversation goes on


def moved(span: Span, log: LogRecord) -> list[tuple[str, Mapping[str, Any]]]:
    """The events that the conventions have for what was moved: name and payload.

    Empty for any other record.

    Such a record is named after the span's scope. What was an event is there as its attributes,
    what was an attribute as its value; of several events of one name only the last is left.
    """
    if log.event_name != span.scope.name or not isinstance(log.body, dict):
        return []
    given = sorted(listed(log.body, "input"), key=lambda x: _ORDER.index(x["role"]))
    events = [_event(x, GEN_AI_INPUT_MESSAGES, f"gen_ai.{x['role']}.message") for x in given]
    for message in listed(log.body, "output"):
        content = message.get("content")
        # an answer before this one
        earlier = isinstance(content, dict) and "message" not in content
        at = len(events) - sum(x["role"] == "tool" for x in given) if earlier else len(events)
        events.insert(
            at,
            _event(
                message, GEN_AI_OUTPUT_MESSAGES, GEN_AI_ASSISTANT_MESSAGE if earlier else _CHOICE
            ),
        )
    return events


@record()
class Names:
    """What a convention calls what was moved: a function's input and output, and by index the
    messages of a model.
    """

    value: str
    role: str
    content: str


def with_moved(
    span: Span, logs: Sequence[LogRecord], given: Names, produced: Names, *, is_model: bool
) -> Span:
    """The span with the attributes that were moved into a record of it; the span itself where none
    was.

    Of a model's span what is JSON is the request or response as it came, all else the messages,
    whose roles are left on the span; of another span the first content is what it was given or
    returned.
    """
    body = next(
        (x.body for x in logs if x.event_name == span.scope.name and isinstance(x.body, dict)), None
    )
    if not isinstance(body, dict):
        return span
    moved_back: dict[str, Value] = {}
    for side, names in (("input", given), ("output", produced)):
        if names.value not in span.attributes:
            contents = [
                (x["role"], x["content"])
                for x in listed(body, side)
                if isinstance(x.get("content"), str)
            ]
            moved_back |= _moved_back(contents, names, span.attributes, is_model=is_model)
    return replace(span, attributes={**moved_back, **span.attributes}) if moved_back else span


def _moved_back(
    contents: Sequence[tuple[str, str]], names: Names, attributes: Attributes, *, is_model: bool
) -> dict[str, Value]:
    whole = next(
        (
            at
            for at, (_, content) in enumerate(contents)
            if not is_model or content.startswith(("{", "["))
        ),
        None,
    )
    found: dict[str, Value] = {} if whole is None else {names.value: contents[whole][1]}
    if not is_model:
        return found
    at = 0
    for role, content in (x for place, x in enumerate(contents) if place != whole):
        while (
            attributes.get(names.role.format(at), role) != role and at < len(contents) + _MAX_BARE
        ):
            at += 1  # a message without content, as one that only requests tools
        found |= {names.role.format(at): role, names.content.format(at): content}
        at += 1
    return found


def listed(body: Mapping[str, Any], side: str) -> list[dict[str, Any]]:
    """The messages on one side of a record's body, `input` or `output`."""
    content = body.get(side)
    listed = content.get("messages") if isinstance(content, dict) else None
    return (
        [x for x in listed if isinstance(x, dict) and x.get("role") in _ORDER]
        if isinstance(listed, list)
        else []
    )


def _event(message: dict[str, Any], attribute: str, name: str) -> tuple[str, Mapping[str, Any]]:
    content = message.get("content")
    if isinstance(content, dict):
        return name, with_blocks(content)
    if isinstance(content, str) and message["role"] == "system":
        return _DETAILS, {GEN_AI_SYSTEM_INSTRUCTIONS: content}
    if isinstance(content, str) and _are_messages(structure(content).value):
        return _DETAILS, {attribute: content}
    return name, with_blocks({"message" if name == _CHOICE else "content": content})


def _are_messages(value: Any) -> bool:
    return (
        isinstance(value, list)
        and bool(value)
        and all(isinstance(x, dict) and "role" in x for x in value)
    )
