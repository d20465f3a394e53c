"""Read the content that AWS's distribution of OpenTelemetry (Bedrock AgentCore) moves from a span into a log record."""

from collections.abc import Mapping
from typing import Any

from spanscore.dialects._json import structure
from spanscore.dialects._messages import with_blocks
from spanscore.model.span import LogRecord, Span

_DETAILS, _CHOICE = "gen_ai.client.inference.operation.details", "gen_ai.choice"
_ORDER = ("system", "user", "assistant", "tool")  # in which a conversation goes on


def moved(span: Span, log: LogRecord) -> list[tuple[str, Mapping[str, Any]]]:
    """The events that the conventions have for what was moved: name and payload. Empty for any other record.

    Such a record is named after the span's scope. What was an event is there as its attributes, what was an attribute
    as its value; of several events of one name only the last is left.
    """
    if log.event_name != span.scope.name or not isinstance(log.body, dict):
        return []
    given = sorted(_listed(log.body, "input"), key=lambda x: _ORDER.index(x["role"]))
    events = [_event(x, "gen_ai.input.messages", f"gen_ai.{x['role']}.message") for x in given]
    for message in _listed(log.body, "output"):
        content = message.get("content")
        earlier = isinstance(content, dict) and "message" not in content  # an answer before this one
        at = len(events) - sum(x["role"] == "tool" for x in given) if earlier else len(events)
        events.insert(at, _event(message, "gen_ai.output.messages", "gen_ai.assistant.message" if earlier else _CHOICE))
    return events


def _listed(body: Mapping[str, Any], side: str) -> list[dict[str, Any]]:
    held = body.get(side)
    listed = held.get("messages") if isinstance(held, dict) else None
    return [x for x in listed if isinstance(x, dict) and x.get("role") in _ORDER] if isinstance(listed, list) else []


def _event(message: dict[str, Any], attribute: str, name: str) -> tuple[str, Mapping[str, Any]]:
    content = message.get("content")
    if isinstance(content, dict):
        return name, with_blocks(content)
    if isinstance(content, str) and message["role"] == "system":
        return _DETAILS, {"gen_ai.system_instructions": content}
    if isinstance(content, str) and _are_messages(structure(content).value):
        return _DETAILS, {attribute: content}
    return name, with_blocks({"message" if name == _CHOICE else "content": content})


def _are_messages(value: Any) -> bool:
    return isinstance(value, list) and bool(value) and all(isinstance(x, dict) and "role" in x for x in value)
