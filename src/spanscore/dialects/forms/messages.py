"""Messages in every provider's spelling."""

import re
from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import Any, NamedTuple

from spanscore.dialects.forms.attachments import without_bytes
from spanscore.dialects.forms.message_parts import (
    KEYS,
    KINDS,
    Parts,
    add_calls,
    add_content,
    add_part,
    first,
    is_bare_result,
    item_role,
    stated_error,
    without_thoughts,
)
from spanscore.dialects.forms.repeats import once
from spanscore.dialects.forms.structure import (
    WHOLE_STRING,
    Facts,
    literal,
    objects,
    opened,
    opened_repr,
    plain_structure,
    structure,
    unprinted,
)
from spanscore.dialects.forms.tool_results import bare_texts
from spanscore.dialects.forms.truncation import LAST_OF_MARKERS, is_cut_or_redacted, is_damaged
from spanscore.model.json import is_masked
from spanscore.model.span import Value
from spanscore.model.step import Message, MessageFact, ToolResult
from spanscore.model.trace import RequestedCall, Tool

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


def event_messages(value: Value) -> Messages:
    """The messages of events that one attribute lists; each is the body of an event with its name
    beside it.
    """
    parsed, damaged = structure(value)
    items = objects(parsed)
    bodies = [x["message"] if isinstance(x.get("message"), dict) else x for x in items]
    return Messages(messages(bodies).messages if bodies else None, damaged)


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
    return once(_of_list, item, default_role)


def _of_list(item: object, default_role: str) -> Message | None:
    return _message(item, default_role) if definition(item) is None else None


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
            return listed if inner in _OF_MESSAGES else [listed[0][inner]]
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
    return isinstance(kind, str) and (kind in _ITEM_ROLES or item_role(kind) is not None)


def message(item: object, default_role: str) -> Message | None:
    """One message, or None where `item` is none."""
    return once(_message, item, default_role)


def _message(item: object, default_role: str) -> Message | None:
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
        return _ITEM_ROLES.get(item["type"]) or item_role(item["type"])
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
"""Where requests and responses have their messages, and the key that each element of them has. Of
several choices the first is the answer.
"""

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


_OBJECTS, _NEXT = "[{", (",{", ", {")  # of other lists, not each item is a message
_MAX_HISTORIES = 4  # conversations that interleave: an agent's and its sub-agents'


class MessageCache:
    """The inputs of a trace's model calls that were read last, since each mostly repeats one of
    them and goes on.
    """

    __slots__ = ("_read",)

    def __init__(self) -> None:
        # each text without the bracket at its end
        self._read: list[tuple[str, tuple[Message, ...]]] = []

    def messages(self, value: Value) -> Messages:
        """As `messages`, but reads only what comes after an earlier input that `value` starts with
        or repeats.
        """
        if not isinstance(value, str) or value[-1:] != "]":
            return messages(value)
        found: Messages | None = None
        for at, (text, known) in enumerate(self._read):
            if not value.startswith(text):
                continue
            if len(value) == len(text) + 1:  # an agent's, and its first model call's
                return Messages(known)
            if value.startswith(_NEXT, len(text)):
                rest = messages("[" + value[len(text) + 1 :])
                found = Messages(known + (rest.messages or ()), rest.damaged)
                del self._read[at]
                break
        found = found or messages(value)
        if found.messages is not None and not found.damaged and value.startswith(_OBJECTS):
            self._read = [(value[:-1], found.messages), *self._read[:_MAX_HISTORIES]]
        return found


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
            if role != "system" and (is_masked(text) or without_thoughts(text) is not None):
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
    return None if is_damaged(returned) else ToolResult(call_id, without_bytes(returned))


UNUSUAL = frozenset(
    {"message", "toolCalls", "toolCallId", "toolName", "additional_kwargs", "gen_ai.event.content"}
)
"""Keys of which a message of a rare outline has at least one; so most messages are spared the
closer look.
"""

TYPES = {
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
        payload = structure(item.get("gen_ai.event.content")).value
        inner = payload if isinstance(payload, dict) else item.get("message")
        if not isinstance(inner, dict):
            break
        item = {"role": item["role"], **inner} if isinstance(item.get("role"), str) else inner
    return item


def typed_role(item: Mapping[str, Any]) -> str | None:
    """The role of a message whose type stands for it, as LangChain's messages have."""
    kind = item.get("type")
    return TYPES.get(kind) if isinstance(kind, str) else None


def calls_in(content: object) -> list[Any] | None:
    """The tool calls that a message contains as JSON in the place of its text; None for any other
    content.
    """
    if not isinstance(content, str) or not content.startswith("[{") or '"function"' not in content:
        return None
    parsed = structure(content).value
    if isinstance(parsed, list) and parsed and all(map(_is_function_call, parsed)):
        return parsed
    return None


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


_ACTION, _INPUT, _ANSWER = "\nAction:", "\nAction Input:", "Answer:"
_THOUGHT, _OBSERVATION = "Thought:", "Observation: "
_TOOL, _DESCRIPTION, _ARGUMENTS = "> Tool Name: ", "\nTool Description: ", "\nTool Args: "
_MAX_CHARS = 256 * 1024


def complete_react(facts: Facts) -> None:
    """Open the messages of a model call, in place, if its instructions ask for this form."""
    given = facts.get("input") or ()
    instructions = given[0].text if given and given[0].role == "system" else None
    if not instructions or not _requires_form(instructions):
        return
    facts["input"] = tuple(_opened(given))
    if produced := facts.get("output"):
        facts["output"] = tuple(_opened(produced))
    if not facts.get("tools"):
        facts["tools"] = tuple(_offered(instructions)) or None


def _requires_form(instructions: str) -> bool:
    is_described = _INPUT in instructions and _OBSERVATION in instructions and _TOOL in instructions
    return is_described and len(instructions) < _MAX_CHARS


def _opened(messages: tuple[Message, ...]) -> Iterator[Message]:
    called = False
    for message in messages:
        text = message.text or ""
        if called and message.role == "user" and text.startswith(_OBSERVATION):
            yield Message(
                "tool", results=(ToolResult(None, unprinted(text.removeprefix(_OBSERVATION))),)
            )
            continue
        opened = (
            _opened_answer(text) if message.role == "assistant" and not message.calls else message
        )
        called = bool(opened.calls)
        yield opened


def _opened_answer(text: str) -> Message:
    """A thought with the tool to call, or with the answer; text of any other form as it is."""
    head, separator, given = ("\n" + text).partition(_INPUT)
    thought, acts, name = head.rpartition(_ACTION)
    if separator and acts and name.strip():
        call = RequestedCall(None, name.strip(), _arguments(given))
        return Message("assistant", _without_label(thought), None, (call,))
    thought, answers, answer = text.partition(_ANSWER)
    if answers and (not thought.strip() or thought.lstrip().startswith(_THOUGHT)):
        return Message("assistant", answer.strip(), _without_label(thought))
    return Message("assistant", text)


def _without_label(thought: str) -> str | None:
    return thought.strip().removeprefix(_THOUGHT).strip() or None


def _arguments(text: str) -> Any:
    """JSON, or a Python literal in the calls that the agent's history repeats."""
    value = opened(text.strip())
    return literal(value) if isinstance(value, str) else value


def _offered(instructions: str) -> Iterator[Tool]:
    for part in instructions.split(_TOOL)[1:]:
        name, _, rest = part.partition(_DESCRIPTION)
        description, _, given = rest.partition(_ARGUMENTS)
        schema = opened(given.partition("\n")[0])
        if name and "\n" not in name:
            yield Tool(
                name.strip(),
                description.strip() or None,
                schema if isinstance(schema, dict) else None,
            )
