"""Open messages in every provider's spelling: semconv parts, OpenAI, Anthropic, Bedrock, Gemini and
AI SDK blocks.
"""

from collections.abc import Mapping
from functools import lru_cache
from typing import Any, NamedTuple

from spanscore.dialects.forms.bedrock_blocks import bare_texts
from spanscore.dialects.forms.fast_messages import plain_message
from spanscore.dialects.forms.message_parts import (
    KEYS,
    KINDS,
    Parts,
    add_calls,
    add_content,
    add_part,
    first,
    is_bare_result,
    stated_error,
)
from spanscore.dialects.forms.structure import plain_structure, structure
from spanscore.dialects.forms.unusual_messages import (
    UNUSUAL,
    calls_in,
    definition,
    printed_items,
    printed_message,
    typed_role,
    usual,
)
from spanscore.model.span import Value
from spanscore.model.step import Message, MessageFact

_ROLES = {
    "user": "user",
    "human": "user",
    "assistant": "assistant",
    "model": "assistant",
    "ai": "assistant",
    "bot": "assistant",
    "system": "system",
    "developer": "system",
    "instruction": "system",
    "tool": "tool",
    "function": "tool",
}


_LOST: frozenset[MessageFact] = frozenset({"text", "calls", "results"})


class Messages(NamedTuple):
    """The messages of an attribute, or None where it contains none; and whether some of them were
    cut off or hidden.

    Of a list that was cut the last message stands for what is lost. A message cut inside names its
    own damaged facts.
    """

    messages: tuple[Message, ...] | None
    damaged: bool = False


def messages(value: Value, default_role: str = "user") -> Messages:
    """The messages of an attribute: a list of them, one, or plain text.

    What cannot be read costs only itself.
    """
    items = printed_items(value) if isinstance(value, str) else None
    parsed, damaged = plain_structure(value) if items is None else (items, False)
    if parsed is None:
        return Messages(None, damaged)
    if isinstance(value, str) and not _contains_messages(parsed):
        return Messages((Message(default_role, value),), damaged)
    read = ((plain_message(x) or _one(x, default_role)) for x in _items(parsed))
    found = [x for x in read if x is not None]
    if damaged:
        found.append(Message(default_role, damaged=_LOST))
    return Messages(tuple(found), damaged)


def _items(parsed: Any) -> list[Any]:
    """The messages as they were written: those of a list, of the one conversation of a batch, or of
    a whole request.
    """
    items = parsed if isinstance(parsed, list) else [parsed]
    only = items[0] if len(items) == 1 else None
    if isinstance(only, list):
        return only
    return (_within(only) if isinstance(only, dict) else None) or items


def _one(item: Any, default_role: str) -> Message | None:
    """One message of a list, where it is no plain one; None for what is none, as the definition of
    a tool.
    """
    return message(item, default_role) if definition(item) is None else None


def _contains_messages(parsed: Any) -> bool:
    """Whether what was read as JSON is messages, and not the text of a message that is itself
    JSON.
    """
    if isinstance(parsed, list):
        return (
            not parsed
            or isinstance(parsed[0], dict)
            or any(isinstance(x, (dict, list)) for x in parsed)
        )
    if isinstance(parsed, dict):
        return is_message(parsed) or _within(parsed) is not None
    return isinstance(parsed, str)


def is_message(value: Mapping[str, Any]) -> bool:
    """Whether an object is a message, in whatever outline, or an item that stands for one."""
    return is_item(value) or not _KEYS.isdisjoint(usual(value))


def _within(body: Mapping[str, Any]) -> list[Any] | None:
    """The messages of a request or response, where an object is one and no message itself."""
    if "role" in body or "parts" in body:
        return None
    for key, inner in _LISTS.items():
        listed = body.get(key)
        if (
            isinstance(listed, list)
            and listed
            and all(isinstance(x, dict) and x.get(inner) is not None for x in listed)
        ):
            return listed if inner in _OF_MESSAGES else [x[inner] for x in listed]
    return None


def blocks(text: object) -> list[Any] | None:
    """The provider's content blocks that `text` contains as JSON; None for any other text, JSON or
    not.
    """
    if not isinstance(text, str) or not text.startswith('[{"'):
        return None
    parsed = structure(text).value
    return parsed if isinstance(parsed, list) and parsed and all(map(_is_block, parsed)) else None


def with_blocks(event: Mapping[str, Any]) -> Mapping[str, Any]:
    """The attributes of an event, their blocks in JSON opened; a body contains blocks as they
    are.
    """
    opened = {key: blocks(event.get(key)) for key in ("content", "message")}
    return {**event, **{key: value for key, value in opened.items() if value is not None}}


def _is_block(block: object) -> bool:
    if not isinstance(block, dict):
        return False
    kind = block.get("type")
    keyed = block.keys() <= {"text"} or not KEYS.keys().isdisjoint(block)
    return keyed or (isinstance(kind, str) and kind in KINDS)


def is_item(value: Mapping[str, Any]) -> bool:
    """Whether an object is an item of OpenAI's Responses, a call or a result by itself, none of
    which needs a role.
    """
    kind = value.get("type")
    if kind == "function":  # of LangChain, a message of before there were tools
        return "content" not in value
    return isinstance(kind, str) and kind in _ITEM_ROLES


def message(item: object, default_role: str) -> Message | None:
    """One message, or None where `item` is none."""
    role, parts = _read(item, default_role)
    return None if role is None else parts.message(role)


def system_text(value: Value) -> tuple[str | None, bool]:
    """The text of system instructions, which are parts, messages or plain text; and whether they
    were redacted.
    """
    return _system_of_text(value) if isinstance(value, str) else _system(value)


@lru_cache(maxsize=64)  # every call of an agent repeats them
def _system_of_text(text: str) -> tuple[str | None, bool]:
    return _system(text)


def _system(value: Value) -> tuple[str | None, bool]:
    parsed, damaged = structure(value)
    parts = Parts()
    for item in parsed if isinstance(parsed, list) else [parsed]:
        if isinstance(item, dict) and ("parts" in item or "role" in item):
            parts.texts += _read(item, "system")[1].texts
        else:
            add_part(item, parts, 0)
    return ("\n".join(parts.texts) if parts.texts else None), damaged or bool(parts.damaged)


def _read(item: object, default_role: str) -> tuple[str | None, Parts]:
    """The role of a message and its parts; None for what is no message."""
    parts = Parts()
    fields = printed_message(item) if isinstance(item, str) else item
    if fields is None:
        parts.text(item)
        return default_role, parts
    if not isinstance(fields, dict):
        return None, parts
    return _read_fields(
        fields if UNUSUAL.isdisjoint(fields) else usual(fields), default_role, parts
    ), parts


def _read_fields(item: Mapping[str, Any], default_role: str, parts: Parts) -> str | None:
    """Add the parts of a message; its role, or None for what is no message."""
    stated = item.get("role") or typed_role(item)
    if stated is None and is_item(item):
        add_part(item, parts, 0)
        return _ITEM_ROLES[item["type"]]
    if stated is None and _KEYS.isdisjoint(item) and item.get("type") in _NO_MESSAGES:
        return None
    role = _ROLES.get(stated.lower(), stated) if isinstance(stated, str) else default_role
    content = first(item, ("parts", "content", "refusal", "text"))
    if role == "tool":
        return _read_tool_message(item, content, parts)
    if item.get("tool_call_id") is not None:
        content = bare_texts(content)
        parts.result(item["tool_call_id"], content, stated_error(item, content), item.get("name"))
    else:
        add_content(content, parts, 0)
        add_calls(item, parts)
    return role


def _read_tool_message(item: Mapping[str, Any], content: Any, parts: Parts) -> str:
    """Add what a tool's message has: a result, which is mostly its content, or calls, which make it
    the assistant's.
    """
    answered = item.get("tool_call_id")
    if content is None and "response" in item:
        returned = bare_texts(item["response"])
        parts.result(
            answered or item.get("id"), returned, stated_error(item, None), item.get("name")
        )
        return "tool"
    calls = calls_in(content) if answered is None else None
    if calls is not None:
        add_calls({"tool_calls": calls}, parts)
        return "assistant"
    if answered is not None or is_bare_result(content):
        answered = item.get("id") if answered is None else answered
        content = bare_texts(content)
        parts.result(answered, content, stated_error(item, content), item.get("name"))
    else:
        add_content(content, parts, 0)
        add_calls(item, parts)
    return "tool"


_KEYS = frozenset(
    {
        "role",
        "parts",
        "content",
        "refusal",
        "text",
        "tool_calls",
        "function_call",
        "tool_call_id",
        *KEYS,
    }
)
"""Of which every message has at least one."""

_NO_MESSAGES = (None, "placeholder")
"""Types of what is no message: of another type, it is one that nobody can read yet."""

_LISTS = {"messages": "role", "contents": "parts", "choices": "message", "candidates": "content"}
"""Where requests and responses have their messages, and the key that each element of them has."""

_OF_MESSAGES = frozenset({"role", "parts"})
"""Keys of messages themselves, and not of objects around them."""

_ITEM_ROLES = {
    **dict.fromkeys(("function_call", "reasoning", "message"), "assistant"),
    **dict.fromkeys(("function", "tool_call", "tool_use", "tool-call", "toolUse"), "assistant"),
    **dict.fromkeys(
        (
            "function_call_output",
            "function_call_result",
            "tool_call_response",
            "tool_result",
            "tool-result",
        ),
        "tool",
    ),
}
