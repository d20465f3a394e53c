"""Open what frameworks put around a tool's result: LangChain's ToolMessage in every serialization,
AI SDK's outputs.
"""

from collections.abc import Mapping
from typing import Any, NamedTuple

from spanscore.dialects.forms.arguments import call_id, failure, result
from spanscore.model.json import Json

_COMMAND = {"graph", "update", "resume", "goto"}
_TOOL_MESSAGES = frozenset({"tool", "ToolMessage"})
_ONLY_LANGCHAINS = frozenset({"additional_kwargs", "response_metadata", "artifact"})
"""Fields that every message has, or a ToolMessage, when it is written without the class's name
around it.
"""

_OUTPUTS = frozenset({"text", "json", "content", "error-text", "error-json"})
"""The types that AI SDK records with a result's value, from its version 5 on."""


class ToolOutput(NamedTuple):
    """The content of a ToolMessage: the result, the id of the call it answers, and the error it
    states.
    """

    value: Json
    call_id: str | None
    error: str | None


def tool_output(value: object, *, known: bool = False) -> ToolOutput | None:
    """The content of a ToolMessage, in any of the forms LangChain serializes it to; None for what
    is none.

    A tool that hands over or changes a graph's state returns a Command with the ToolMessage among
    its messages. Where it is not `known` that a framework made the object, one with the fields of
    any tool message is the tool's own.

    >>> tool_output({"kwargs": {"content": "4", "tool_call_id": "c1"}})
    ToolOutput(value=4, call_id='c1', error=None)
    """
    if not isinstance(value, dict):
        return None
    if value.keys() == {"output"} and isinstance(value["output"], dict):
        value = value["output"]
    if value.keys() == _COMMAND:
        return _command_output(value["update"])
    fields, kind = fields_of(value)
    if "content" not in fields or "tool_call_id" not in fields:
        return None
    if not _is_tool_message(fields, kind, known=known or fields is not value):
        return None
    content = result(fields["content"])
    error = failure(content) if fields.get("status") == "error" else None
    return ToolOutput(content, call_id(fields["tool_call_id"]), error)


def _command_output(update: object) -> ToolOutput | None:
    """The last ToolMessage in what a Command changes."""
    listed = update.get("messages") if isinstance(update, dict) else None
    for item in reversed(listed) if isinstance(listed, list) else ():
        answer = tool_output(item, known=True)
        if answer is not None:
            return answer
    return None


def _is_tool_message(fields: Mapping[str, Any], kind: object, *, known: bool) -> bool:
    """Whether LangChain made an object: it is `known`, or has a field that only LangChain writes
    beside its type.
    """
    if known:
        return kind in _TOOL_MESSAGES or not kind
    return kind in _TOOL_MESSAGES and not _ONLY_LANGCHAINS.isdisjoint(fields)


def answering(value: object, requested_id: str | None) -> ToolOutput | None:
    """The content of a tool message in the place of the result of the call `requested_id`; None for
    any result.

    That it names this very call distinguishes it from an object of the tool's own.
    """
    found = tool_output(value, known=True)
    if found is None or (requested_id is not None and found.call_id == requested_id):
        return found
    return tool_output(value)


def sdk_output(value: Json) -> tuple[Json, str | None]:
    """A result out of AI SDK's `{"type": …, "value": …}`, and the error that it states; any other
    value as it is.

    >>> (
    ...     sdk_output({"type": "json", "value": {"left": 4}}),
    ...     sdk_output({"type": "error-text", "value": "locked"}),
    ... )
    (({'left': 4}, None), ('locked', 'locked'))
    """
    if (
        not isinstance(value, dict)
        or not value.keys() <= {"type", "value", "providerOptions"}
        or "value" not in value
    ):
        return value, None
    kind = value.get("type")
    if not isinstance(kind, str) or kind not in _OUTPUTS:
        return value, None
    inside = value["value"]
    returned = inside if kind == "text" else result(inside)
    return returned, failure(returned) if kind.startswith("error-") else None


def fields_of(item: object) -> tuple[dict[str, Any], str]:
    """The fields of a message that LangChain serialized, and its type's name; "" where it has
    none.
    """
    if not isinstance(item, dict):
        return {}, ""
    kind, names = item.get("type"), item.get("id")
    inner = item.get("kwargs") if kind == "constructor" or "type" not in item else item.get("data")
    if isinstance(inner, dict):
        class_name = names[-1] if isinstance(names, list) and names else None
        kind = class_name if kind == "constructor" else inner.get("type", kind)
        item = inner
    return item, kind if isinstance(kind, str) else ""
