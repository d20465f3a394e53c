"""Open messages in every provider's spelling: semconv parts, OpenAI, Anthropic, Bedrock, Gemini and AI SDK blocks."""

from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any, NamedTuple

from spanscore.dialects._arguments import arguments, call_id, result
from spanscore.dialects._json import is_redacted, opened, plain_structure, structure
from spanscore.dialects._marks import is_cut, is_damaged
from spanscore.dialects._plain_messages import plain_message
from spanscore.model.json import Json, printed
from spanscore.model.span import Value
from spanscore.model.step import Message, MessageFact, ToolResult
from spanscore.model.trace import RequestedCall

_MAX_NESTING = 8  # blocks inside blocks; providers use two

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
    """The messages of an attribute, or None where it holds none; and whether some of them were cut off or hidden.

    Of a list that was cut the last message stands for what is lost. What was cut inside of a message, it says itself.
    """

    messages: tuple[Message, ...] | None
    damaged: bool = False


class _Parts:
    """What the parts of one message add up to."""

    __slots__ = ("calls", "damaged", "reasoning", "results", "texts")

    def __init__(self) -> None:
        self.texts: list[str] = []
        self.reasoning: list[str] = []
        self.calls: list[RequestedCall] = []
        self.results: list[ToolResult] = []
        self.damaged: set[MessageFact] = set()

    def text(self, value: object) -> None:
        if is_redacted(value):
            self.damaged.add("text")
        elif isinstance(value, str):
            self.texts.append(value)
            if is_cut(value):
                self.damaged.add("text")

    def think(self, value: object) -> None:
        if isinstance(value, str) and value:
            self.reasoning.append(value)

    def call(self, identity: object, name: object, value: Any) -> None:
        if isinstance(name, str) and name:
            given = arguments(value)
            self.calls.append(RequestedCall(call_id(identity), name, None if is_redacted(given) else given))
            if is_damaged(given):
                self.damaged.add("calls")

    def result(self, identity: object, value: Any, error: str | None = None, name: object = None) -> None:
        returned = result(value)
        told = None if is_redacted(returned) else returned
        named = name if isinstance(name, str) and name else None
        self.results.append(ToolResult(call_id(identity), told, error, name=named))
        if is_damaged(returned):
            self.damaged.add("results")

    def message(self, role: str) -> Message:
        return Message(
            role,
            "\n".join(self.texts) if self.texts else None,
            "\n".join(self.reasoning) if self.reasoning else None,
            tuple(self.calls),
            tuple(self.results),
            frozenset(self.damaged),
        )


def messages(value: Value, default_role: str = "user") -> Messages:
    """The messages of an attribute: a list of them, one, or plain text. What cannot be read costs only itself."""
    parsed, damaged = plain_structure(value)
    if parsed is None:
        return Messages(None, damaged)
    if isinstance(value, str) and not _holds_messages(parsed):
        return Messages((Message(default_role, value),), damaged)
    items = parsed if isinstance(parsed, list) else [parsed]
    if len(items) == 1 and isinstance(items[0], list):  # one conversation of a batch
        items = items[0]
    found: list[Message] = []
    for item in items:
        plain = plain_message(item)
        if plain is not None:
            found.append(plain)
            continue
        role, parts = _read(item, default_role)
        if role is not None:
            found.append(parts.message(role))
    if damaged:
        found.append(Message(default_role, damaged=_LOST))
    return Messages(tuple(found), damaged)


def _holds_messages(parsed: Any) -> bool:
    """Whether what was read as JSON is messages, and not what somebody said that is JSON itself."""
    if isinstance(parsed, list):
        return not parsed or isinstance(parsed[0], dict) or any(isinstance(x, (dict, list)) for x in parsed)
    return isinstance(parsed, str) or (isinstance(parsed, dict) and not _MESSAGE_KEYS.isdisjoint(parsed))


def blocks(text: object) -> list[Any] | None:
    """The provider's content blocks that `text` holds as JSON; None for any other text, JSON or not."""
    if not isinstance(text, str) or not text.startswith('[{"'):
        return None
    parsed = structure(text).value
    return parsed if isinstance(parsed, list) and parsed and all(map(_is_block, parsed)) else None


def with_blocks(event: Mapping[str, Any]) -> Mapping[str, Any]:
    """The attributes of an event with the blocks that they hold as JSON; a body holds blocks as they are."""
    opened = {key: blocks(event.get(key)) for key in ("content", "message")}
    return {**event, **{key: value for key, value in opened.items() if value is not None}}


def _is_block(block: object) -> bool:
    if not isinstance(block, dict):
        return False
    kind = block.get("type")
    keyed = block.keys() <= {"text"} or not _KEYED_PARTS.keys().isdisjoint(block)
    return keyed or (isinstance(kind, str) and kind in _PARTS)


def is_item(value: Mapping[str, Any]) -> bool:
    """Whether an object is an item of OpenAI's Responses, which needs no role."""
    return isinstance(value.get("type"), str) and value["type"] in _ITEM_ROLES


def message(item: object, default_role: str) -> Message | None:
    """One message, or None where `item` is none."""
    role, parts = _read(item, default_role)
    return None if role is None else parts.message(role)


def system_text(value: Value) -> tuple[str | None, bool]:
    """The text of system instructions, which are parts, messages or plain text; and whether they were redacted."""
    return _system_of_text(value) if isinstance(value, str) else _system(value)


@lru_cache(maxsize=64)  # every call of an agent repeats them
def _system_of_text(text: str) -> tuple[str | None, bool]:
    return _system(text)


def _system(value: Value) -> tuple[str | None, bool]:
    parsed, damaged = structure(value)
    parts = _Parts()
    for item in parsed if isinstance(parsed, list) else [parsed]:
        if isinstance(item, dict) and ("parts" in item or "role" in item):
            parts.texts += _read(item, "system")[1].texts
        else:
            _part(item, parts, 0)
    return ("\n".join(parts.texts) if parts.texts else None), damaged or bool(parts.damaged)


def _read(item: object, default_role: str) -> tuple[str | None, _Parts]:
    """The role of a message and its parts; None for what is no message."""
    parts = _Parts()
    if isinstance(item, str):
        parts.text(item)
        return default_role, parts
    if not isinstance(item, dict):
        return None, parts
    role = item.get("role")
    if role is None and is_item(item):
        _part(item, parts, 0)
        return _ITEM_ROLES[item["type"]], parts
    role = _ROLES.get(role.lower(), role) if isinstance(role, str) and role else default_role
    content = _first(item, ("parts", "content", "refusal"))
    answered = item.get("tool_call_id")
    if answered is not None or (role == "tool" and _is_bare_result(content)):
        answered = item.get("id") if answered is None else answered
        parts.result(answered, content, _stated_error(item, content), item.get("name"))
    else:
        _content(content, parts, 0)
        _openai_calls(item, parts)
    return role, parts


def _content(content: Any, parts: _Parts, depth: int) -> None:
    if isinstance(content, list):
        for part in content:
            _part(part, parts, depth)
    elif content is not None:
        _part(content, parts, depth)


def _is_bare_result(content: Any) -> bool:
    """Whether the content of a tool's message is the result itself, and not parts, of which one is the result.

    Or the call: Strands tells what a tool was called with in the tool's name.
    """
    if not isinstance(content, list):
        return True
    return not any(isinstance(x, dict) and (str(x.get("type")) in _IN_PARTS or _is_keyed_result(x)) for x in content)


def _is_keyed_result(part: dict[str, Any]) -> bool:
    return any(isinstance(part.get(key), dict) for key in _KEYED_RESULTS)


def _openai_calls(item: dict[str, Any], parts: _Parts) -> None:
    calls, known = item.get("tool_calls"), {x.call_id for x in parts.calls if x.call_id}  # some tell them twice
    for call in calls if isinstance(calls, list) else ():
        if isinstance(call, str):  # LiveKit prints each call as JSON
            call = structure(call).value  # noqa: PLW2901 # the same call, opened
        if isinstance(call, dict) and call_id(call.get("id")) not in known:
            function = call.get("function")
            _call_part(function if isinstance(function, dict) else call, parts, call.get("id"))
    function = item.get("function_call")
    if isinstance(function, dict) and not parts.calls:
        _call_part(function, parts, None)
    parts.think(item.get("reasoning_content", item.get("reasoning")))  # vLLM and OpenRouter have the shorter name


def _part(part: Any, parts: _Parts, depth: int) -> None:
    """Add one part. A part that is not understood (an image, a file, what is yet to be invented) is left out."""
    if isinstance(part, str):
        parts.text(part)
    elif isinstance(part, dict) and depth < _MAX_NESTING:
        kind = part.get("type")
        handler = _PARTS.get(kind) if isinstance(kind, str) else None
        if handler is not None:
            handler(part, parts, depth)
        else:
            _untyped_part(part, parts, depth)


def _untyped_part(part: dict[str, Any], parts: _Parts, depth: int) -> None:
    """Blocks that say what they are by their key: Bedrock's and Gemini's."""
    for key, handler in _KEYED_PARTS.items():
        if isinstance(part.get(key), dict):
            handler(part[key], parts, depth)
            return
    if isinstance(part.get("text"), str):
        (parts.think if part.get("thought") is True else parts.text)(part["text"])


def _text_part(part: dict[str, Any], parts: _Parts, _depth: int) -> None:
    parts.text(_first(part, ("content", "text", "refusal")))


def _reasoning_part(part: dict[str, Any], parts: _Parts, depth: int) -> None:
    if isinstance(part.get("reasoningText"), dict):
        part = part["reasoningText"]
    summary = part.get("summary")
    for item in summary if isinstance(summary, list) else ():
        if isinstance(item, dict):
            _reasoning_part(item, parts, depth)
    parts.think(_first(part, ("content", "thinking", "text", "reasoning")))


def _call_part(part: dict[str, Any], parts: _Parts, identity: object = None) -> None:
    function = part.get("function")
    if isinstance(function, dict):
        identity, part = _first(part, _IDS), function
    value = _first(part, ("arguments", "input", "args", "parameters", "server_tool_call"))
    parts.call(_first(part, _IDS) if identity is None else identity, _first(part, ("name", "toolName")), value)


def _typed_call_part(part: dict[str, Any], parts: _Parts, _depth: int) -> None:
    _call_part(part, parts)


def _result_part(part: dict[str, Any], parts: _Parts, _depth: int) -> None:
    value = _first(part, ("response", "result", "output", "content", "server_tool_call_response"))
    parts.result(_first(part, _RESULT_IDS), value, _stated_error(part, value), part.get("name"))


def _vercel_result(part: dict[str, Any], parts: _Parts, _depth: int) -> None:
    """Vercel AI SDK's result, from its version 5 on in an envelope that says what kind of value it is."""
    value = part.get("output")
    kind = str(value.get("type")) if isinstance(value, dict) else None
    if value is None:
        _result_part(part, parts, _depth)
    elif kind == "text":
        parts.results.append(ToolResult(call_id(part.get("toolCallId")), opened(value.get("value"), scalars=False)))
    elif kind in _VERCEL_VALUES and "value" in value:
        error = printed(value["value"]) if kind.startswith("error-") else None
        parts.result(part.get("toolCallId"), value["value"], error)
    else:
        parts.result(part.get("toolCallId"), value)


def _bedrock_result(part: dict[str, Any], parts: _Parts, _depth: int) -> None:
    content = part.get("content")
    value: Any = content
    if isinstance(content, list) and len(content) == 1 and isinstance(content[0], dict) and len(content[0]) == 1:
        value = next((content[0][x] for x in ("text", "json") if x in content[0]), content)
    parts.result(part.get("toolUseId"), value, _stated_error(part, value))


def _gemini_result(part: dict[str, Any], parts: _Parts, _depth: int) -> None:
    parts.result(_first(part, _RESULT_IDS), _first(part, ("response", "output")), name=part.get("name"))


def _message_part(part: dict[str, Any], parts: _Parts, depth: int) -> None:
    _content(part.get("content"), parts, depth + 1)


def _stated_error(part: dict[str, Any], value: Any) -> str | None:
    """The text of a result whose envelope says that it is an error."""
    if part.get("is_error") is True or part.get("isError") is True or part.get("status") == "error":
        return printed(result(value))
    return None


def _first(part: dict[str, Any], keys: tuple[str, ...]) -> Json:
    for key in keys:
        if key in part and part[key] is not None:
            return part[key]  # type: ignore[no-any-return] # a value of parsed JSON
    return None


_IDS = ("call_id", "id", "toolCallId", "toolUseId", "ref")
_RESULT_IDS = ("call_id", "tool_use_id", "tool_call_id", "toolCallId", "toolUseId", "id", "ref")
_VERCEL_VALUES = frozenset({"json", "content", "error-text", "error-json"})
_RESULTS = frozenset(
    {"tool_call_response", "tool_result", "tool-result", "function_call_output", "server_tool_call_response"}
)
_IN_PARTS = _RESULTS | {"tool_call"}
_PARTS: dict[str, Callable[[dict[str, Any], _Parts, int], None]] = {
    **dict.fromkeys(("text", "input_text", "output_text", "refusal"), _text_part),
    **dict.fromkeys(("reasoning", "thinking", "redacted_thinking", "summary_text"), _reasoning_part),
    **dict.fromkeys(
        ("tool_call", "tool_use", "tool-call", "toolUse", "function_call", "function", "server_tool_call"),
        _typed_call_part,
    ),
    **dict.fromkeys(_RESULTS, _result_part),
    "tool-result": _vercel_result,
    "message": _message_part,
}
_KEYED_RESULTS: dict[str, Callable[[dict[str, Any], _Parts, int], None]] = {
    "toolResult": _bedrock_result,
    "toolResponse": _gemini_result,
    "function_response": _gemini_result,
    "functionResponse": _gemini_result,
}
_KEYED_PARTS: dict[str, Callable[[dict[str, Any], _Parts, int], None]] = {
    "toolUse": _typed_call_part,
    "toolRequest": _typed_call_part,
    "function_call": _typed_call_part,
    "functionCall": _typed_call_part,
    **_KEYED_RESULTS,
    "reasoningContent": _reasoning_part,
}
_MESSAGE_KEYS = frozenset({"role", "parts", "content", "type", "tool_calls", "tool_call_id", "text", *_KEYED_PARTS})
_ITEM_ROLES = {
    "function_call": "assistant",
    "reasoning": "assistant",
    "message": "assistant",
    "function_call_output": "tool",
}
