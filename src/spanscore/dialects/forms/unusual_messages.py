"""Bring messages of rare outlines into the usual one: wrapped ones, bare tool calls, those that
Python printed.
"""

import re
from collections.abc import Mapping
from typing import Any

from spanscore.dialects.forms.reprs import WHOLE_STRING, opened_repr
from spanscore.dialects.forms.structure import structure
from spanscore.dialects.keys.gen_ai import GEN_AI_EVENT_CONTENT

UNUSUAL = frozenset(
    {"message", "toolCalls", "toolCallId", "toolName", "additional_kwargs", GEN_AI_EVENT_CONTENT}
)
"""Keys of which a message of a rare outline has at least one; so most messages are spared the
closer look.
"""

_TYPES = {
    "human": "user",
    "HumanMessage": "user",
    "HumanMessageChunk": "user",
    "ai": "assistant",
    "AIMessage": "assistant",
    "AIMessageChunk": "assistant",
    "system": "system",
    "SystemMessage": "system",
    "tool": "tool",
    "ToolMessage": "tool",
}
"""LangChain's types of messages, which stand where others have a role."""

_GIVEN = ("args", "input", "arguments")
_SCHEMAS = ("parameters", "input_schema", "inputSchema", "parameters_json_schema")
_MAX_WRAPPERS = 4
_MAX_PRINTED_CHARS = 64 * 1024
_PRINTED = re.compile(
    rf"(role|content|name|tool_call_id)=({WHOLE_STRING}|None)(?:\s+|\Z)", re.DOTALL
)
_ITEMS = ("ResponseFunctionToolCall(", "ResponseOutputMessage(", "ResponseReasoningItem(")
_STARTS_OF_ITEMS = (*_ITEMS, *("[" + x for x in _ITEMS))
_LATER = re.compile(r"\s[a-z_]+=")


def usual(item: Mapping[str, Any]) -> Mapping[str, Any]:
    """A message in the outline that most have: its role, its content, its calls, the id of the call
    it answers.
    """
    item = _unwrapped(item)
    renamed = {"tool_calls": item.get("toolCalls"), "tool_call_id": item.get("toolCallId")}
    if (
        item.get("role") is None
        and isinstance(item.get("toolName"), str)
        and any(x in item for x in _GIVEN)
    ):
        return {"role": "assistant", "tool_calls": [item]}
    beside = item.get("additional_kwargs")
    if isinstance(beside, dict):
        renamed["tool_calls"] = renamed["tool_calls"] or beside.get("tool_calls")
        renamed["reasoning_content"] = beside.get("reasoning_content")
    missing = {
        key: value for key, value in renamed.items() if value is not None and not item.get(key)
    }
    return {**item, **missing} if missing else item


def _unwrapped(item: Mapping[str, Any]) -> Mapping[str, Any]:
    """The message out of a choice, an event's payload or an object around it; the finish reason
    stays with it.
    """
    for _ in range(_MAX_WRAPPERS):
        if "content" in item or "parts" in item:
            break
        payload = structure(item.get(GEN_AI_EVENT_CONTENT)).value
        inner = payload if isinstance(payload, dict) else item.get("message")
        if not isinstance(inner, dict):
            break
        item = {"role": item["role"], **inner} if isinstance(item.get("role"), str) else inner
    return item


def typed_role(item: Mapping[str, Any]) -> str | None:
    """The role of a message whose type stands for it, as LangChain's messages have."""
    kind = item.get("type")
    return _TYPES.get(kind) if isinstance(kind, str) else None


def calls_in(content: object) -> list[Any] | None:
    """The tool calls that a message contains as JSON in the place of its text; None for any other
    content.
    """
    if not isinstance(content, str) or not content.startswith("[{") or '"function"' not in content:
        return None
    parsed = structure(content).value
    return (
        parsed
        if isinstance(parsed, list) and parsed and all(map(_is_function_call, parsed))
        else None
    )


def _is_function_call(value: object) -> bool:
    function = value.get("function") if isinstance(value, dict) else None
    return (
        isinstance(function, dict)
        and isinstance(function.get("name"), str)
        and "arguments" in function
    )


def definition(item: object) -> Any:
    """The definition of a tool that stands in the place of a tool's message; None for a message.

    LangChain's callback handler of Langfuse records the offered tools in this way.
    """
    if (
        not isinstance(item, dict)
        or item.get("role") != "tool"
        or item.get("tool_call_id") is not None
    ):
        return None
    content = item.get("content")
    if not isinstance(content, dict):
        return None
    if content.get("type") == "function" and isinstance(content.get("function"), dict):
        return None if "arguments" in content["function"] else content
    is_defined = isinstance(content.get("name"), str) and any(
        isinstance(content.get(x), dict) for x in _SCHEMAS
    )
    return content if is_defined else None


def printed_items(text: str) -> list[dict[str, Any]] | None:
    """The items of OpenAI's Responses that Python printed, one or a list; None for any other text.

    >>> printed_items("[ResponseFunctionToolCall(name='add', type='function_call')]")
    [{'name': 'add', 'type': 'function_call'}]
    """
    if not text.startswith(_STARTS_OF_ITEMS):
        return None
    value = opened_repr(text)
    items = value if isinstance(value, list) else [value]
    return items if all(isinstance(x, dict) for x in items) else None


def printed_message(text: str) -> dict[str, Any] | None:
    """A message that Python printed by its fields; None for any other text.

    >>> printed_message("role='user' content='Where?' name=None tool_call_id=None")
    {'role': 'user', 'content': 'Where?', 'name': None, 'tool_call_id': None}
    >>> printed_message("role='user' is the default")
    """
    if not text.startswith("role='") or len(text) > _MAX_PRINTED_CHARS:
        return None
    fields, at = dict[str, Any](), 0
    while (found := _PRINTED.match(text, at)) is not None:
        fields[found[1]], at = opened_repr(found[2]), found.end()
    is_whole = at == len(text) or _LATER.match(text, at - 1) is not None
    return fields if is_whole and isinstance(fields.get("content"), str) else None
