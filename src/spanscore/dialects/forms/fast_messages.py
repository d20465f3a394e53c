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


def plain_message(item: Any) -> Message | None:  # noqa: C901, PLR0911 # the hot loop: a call for each part shows
    """A message of a text, calls and results as the conventions have them; None for any other, and
    for no message.

    It gives what `messages.message` does.
    """
    if type(item) is not dict or len(item) > _ROLE_AND_PARTS + ("finish_reason" in item) + (
        "name" in item
    ):
        return None
    parts, role = item.get("parts"), item.get("role")
    if type(parts) is not list or not parts or type(role) is not str or role not in _PLAIN_ROLES:
        return None
    text: str | None = None
    calls: list[RequestedCall] = []
    results: list[ToolResult] = []
    for part in parts:
        kind = part.get("type") if type(part) is dict else None
        if kind == "text" and text is None and role != "tool":
            text = part.get("content")
            if type(text) is not str or (text[-1:] in LAST_OF_MARKERS and is_cut_or_redacted(text)):
                return None
        elif kind == "tool_call" and len(part) == _PLAIN_CALL:
            identity, name, given = part.get("id"), part.get("name"), part.get("arguments")
            if type(identity) is not str or not identity or identity[-1] in _LAST_OF_NO_ID:
                return None
            if type(name) is not str or not name or type(given) is not dict or is_damaged(given):
                return None
            calls.append(RequestedCall(identity, name, given))
        elif kind == "tool_call_response" and len(part) == _PLAIN_RESULT:
            identity, value = part.get("id"), part.get("response")
            if type(identity) is not str or not identity or identity[-1] in _LAST_OF_NO_ID:
                return None
            returned = opened(value) if type(value) is str else None
            if type(value) is not str or is_damaged(returned):
                return None
            results.append(ToolResult(identity, returned))
        else:
            return None
    return Message(role, text, None, tuple(calls), tuple(results))
