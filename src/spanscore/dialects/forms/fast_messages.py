"""The quick way of reading a message of the conventions, which nearly all messages can be read
in.
"""

from typing import Any

from spanscore.dialects.forms.structure import opened
from spanscore.dialects.forms.truncation import LAST_OF_MARKERS, is_cut_or_redacted, is_damaged
from spanscore.model.step import Message, ToolResult
from spanscore.model.trace import RequestedCall

_ROLE_AND_PARTS = 2
_LAST_OF_NO_ID = "]>*_ \n"  # of what stands for a hidden id, or for none
_PLAIN_CALL, _PLAIN_RESULT = 4, 3  # keys of these parts, with their type
_PLAIN_ROLES = frozenset({"user", "assistant", "system", "tool"})


def plain_message(item: Any) -> Message | None:
    """A message of a text, calls and results as the conventions have them; None for any other, and
    for no message.

    It gives what `messages.message` does.
    """
    if type(item) is not dict:
        return None
    if len(item) > _ROLE_AND_PARTS + ("finish_reason" in item) + ("name" in item):
        return None
    parts, role = item.get("parts"), item.get("role")
    if type(parts) is not list or not parts:
        return None
    if type(role) is not str or role not in _PLAIN_ROLES:
        return None
    return _of_parts(role, parts)


def _of_parts(role: str, parts: list[Any]) -> Message | None:
    text: str | None = None
    calls: list[RequestedCall] = []
    results: list[ToolResult] = []
    for part in parts:
        kind = part.get("type") if type(part) is dict else None
        if kind == "text" and text is None and role != "tool":
            text = part.get("content")
            if type(text) is not str or (text[-1:] in LAST_OF_MARKERS and is_cut_or_redacted(text)):
                return None
        elif kind == "tool_call" and (call := _plain_call(part)) is not None:
            calls.append(call)
        elif kind == "tool_call_response" and (result := _plain_result(part)) is not None:
            results.append(result)
        else:
            return None
    return Message(role, text, None, tuple(calls), tuple(results))


def _is_plain_id(identity: Any) -> bool:
    return type(identity) is str and identity != "" and identity[-1] not in _LAST_OF_NO_ID


def _plain_call(part: dict[str, Any]) -> RequestedCall | None:
    """A requested call with an id, a name and an object of arguments; None for any other part."""
    call_id, name, given = part.get("id"), part.get("name"), part.get("arguments")
    if len(part) != _PLAIN_CALL or not _is_plain_id(call_id):
        return None
    if type(name) is not str or not name or type(given) is not dict or is_damaged(given):
        return None
    return RequestedCall(call_id, name, given)


def _plain_result(part: dict[str, Any]) -> ToolResult | None:
    """A call's result that is a text with the call's id; None for any other part."""
    call_id, value = part.get("id"), part.get("response")
    if len(part) != _PLAIN_RESULT or not _is_plain_id(call_id) or type(value) is not str:
        return None
    returned = opened(value)
    return None if is_damaged(returned) else ToolResult(call_id, returned)
