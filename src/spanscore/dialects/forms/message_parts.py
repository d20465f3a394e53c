"""The parts of a message, in every provider's spelling."""

import re
from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

from spanscore.dialects.forms import tool_results
from spanscore.dialects.forms.arguments import arguments, call_id, failure, result
from spanscore.dialects.forms.attachments import attachment, is_attached, without_bytes
from spanscore.dialects.forms.structure import is_redacted, opened, structure
from spanscore.dialects.forms.tool_results import (
    ToolOutput,
    answering,
    provider_answer,
    sdk_output,
    stated_answer,
)
from spanscore.dialects.forms.truncation import is_cut, is_damaged
from spanscore.model.json import Json, is_masked
from spanscore.model.step import Message, MessageFact, ToolResult
from spanscore.model.trace import Attachment, RequestedCall

_MAX_NESTING = 8  # blocks inside blocks; providers use two


class Parts:
    """What the parts of one message add up to."""

    __slots__ = ("attachments", "calls", "damaged", "reasoning", "results", "texts")

    def __init__(self) -> None:
        self.texts: list[str] = []
        self.reasoning: list[str] = []
        self.calls: list[RequestedCall] = []
        self.results: list[ToolResult] = []
        self.damaged: set[MessageFact] = set()
        self.attachments: list[Attachment] = []

    def text(self, value: object) -> None:
        """Add what is shown to the reader."""
        if is_redacted(value):
            self.damaged.add("text")
        elif isinstance(value, str):
            self.texts.append(value)
            if is_cut(value):
                self.damaged.add("text")

    def think(self, value: object) -> None:
        """Add the model's reasoning."""
        if isinstance(value, str) and value:
            self.reasoning.append(value)

    def call(self, identity: object, name: object, value: Any) -> None:
        """Add a tool call with its arguments."""
        if isinstance(name, str) and name:
            given = arguments(value)
            self.calls.append(
                RequestedCall(call_id(identity), name, None if is_redacted(given) else given)
            )
            if is_damaged(given):
                self.damaged.add("calls")

    def result(
        self, identity: object, value: Any, error: str | None = None, name: object = None
    ) -> None:
        """Add what a tool returned, and the call that it belongs to."""
        returned, answered_id = result(value), call_id(identity)
        named = name if isinstance(name, str) and name else None
        inside = _answer(returned, answered_id, named)
        if inside is not None:
            returned = inside.value
            answered_id = answered_id or inside.call_id
            error = error or inside.error
        content = None if is_redacted(returned) else without_bytes(returned)
        self.results.append(ToolResult(answered_id, content, error, name=named))
        if is_damaged(returned):
            self.damaged.add("results")

    def message(self, role: str) -> Message:
        """The message that all of it makes."""
        text = "\n".join(self.texts) if self.texts else None
        if role in _SPEAKING and text and is_masked(text):
            self.damaged.add("text")
        if role == "assistant" and text and (split := without_thoughts(text)) is not None:
            text, thought = split
            self.think(thought)
        return Message(
            role,
            text,
            "\n".join(self.reasoning) if self.reasoning else None,
            tuple(self.calls),
            tuple(self.results),
            frozenset(self.damaged),
            tuple(self.attachments),
        )


_SPEAKING = ("user", "assistant")
_THOUGHTS = ("think", "thinking", "thought", "reasoning")
_OPENED = re.compile(rf"\s*<({'|'.join(_THOUGHTS)})>", re.IGNORECASE)
_CLOSED = re.compile(rf"</(?:{'|'.join(_THOUGHTS)})>", re.IGNORECASE)


def without_thoughts(text: str) -> tuple[str | None, str] | None:
    """The text after the model's thoughts, and these, where it begins with thoughts in tags; None
    for any other text.

    Thoughts without an end are all of it. Those without a beginning, which was in the prompt, end
    at a tag on a line of its own.

    >>> without_thoughts("<think>Or 5?</think> 4"), without_thoughts("<think>Or")
    (('4', 'Or 5?'), (None, 'Or'))
    >>> without_thoughts("Use <think> tags.")
    """
    if "think" not in text and text.lstrip()[:1] != "<":
        return None
    opened = _OPENED.match(text)
    closed = _CLOSED.search(text, 0 if opened is None else opened.end())
    if opened is None and (closed is None or text[closed.start() - 1 : closed.start()] != "\n"):
        return None
    start = 0 if opened is None else opened.end()
    thought = text[start : None if closed is None else closed.start()].strip()
    rest = "" if closed is None else text[closed.end() :].strip()
    return rest or None, thought


def add_content(content: Any, parts: Parts, depth: int) -> None:
    """Add the content of a message: text, one part or a list of them."""
    if isinstance(content, list):
        for part in content:
            add_part(part, parts, depth)
    elif isinstance(content, dict) and "0" in content:  # a list, as flattened attributes have it
        add_content(list(content.values()), parts, depth)
    elif content is not None:
        add_part(content, parts, depth)


def is_bare_result(content: Any) -> bool:
    """Whether the content of a tool's message is the result itself, and not parts, of which one is
    the result.

    Or the call: Strands writes what a tool was called with into the tool's name.
    """
    if not isinstance(content, list):
        return True
    return not any(isinstance(x, dict) and _is_call_or_result(x) for x in content)


def _is_call_or_result(part: dict[str, Any]) -> bool:
    kind = str(part.get("type"))
    if kind in _IN_PARTS or kind.endswith("_tool_result"):
        return True
    return any(isinstance(part.get(key), dict) for key in _KEYED_RESULTS)


def add_calls(item: Mapping[str, Any], parts: Parts) -> None:
    """Add the calls that a message contains beside its content, and the model's reasoning."""
    # some contain them twice
    calls, known = item.get("tool_calls"), {x.call_id for x in parts.calls if x.call_id}
    calls = structure(calls).value if isinstance(calls, str) else calls
    for call in calls if isinstance(calls, list) else ():
        if isinstance(call, str):  # LiveKit prints each call as JSON
            call = structure(call).value  # noqa: PLW2901 # the same call, opened
        if isinstance(call, dict) and call_id(call.get("id")) not in known:
            function = first(call, ("function", "custom"))
            _call_part(function if isinstance(function, dict) else call, parts, call.get("id"))
    function = item.get("function_call")
    if isinstance(function, dict) and not parts.calls:
        _call_part(function, parts, None)
    # vLLM and OpenRouter have the shorter name
    parts.think(item.get("reasoning_content", item.get("reasoning")))


def add_part(part: Any, parts: Parts, depth: int) -> None:
    """Add one part.

    Of a part that is not understood (what is yet to be invented) the text is added; one without a
    text damages the message.
    """
    if isinstance(part, str):
        parts.text(part)
    elif isinstance(part, dict) and depth < _MAX_NESTING:
        kind = part.get("type")
        handler = KINDS.get(kind) or _by_suffix(kind) if isinstance(kind, str) else None
        if handler is not None:
            handler(part, parts, depth)
        elif is_attached(part):
            parts.attachments.append(attachment(part))
        else:
            _untyped_part(part, parts, depth)


def item_role(kind: object) -> str | None:
    """The role of an item of OpenAI's Responses that is a call or a result; None for another.

    >>> item_role("mcp_call"), item_role("shell_call_output"), item_role("text")
    ('assistant', 'tool', None)
    """
    if not isinstance(kind, str):
        return None
    if kind.endswith("_call"):
        return "assistant"
    return "tool" if kind.endswith("_call_output") else None


def _by_suffix(kind: str) -> "_Handler | None":
    """What reads a block whose type ends in what it is: Anthropic's `server_tool_use` and
    `web_search_tool_result`, OpenAI's `mcp_call` and `shell_call_output`.
    """
    if kind.endswith(("_tool_result", "_call_output")):
        return _result_part
    if kind.endswith("_call"):
        return _hosted_part
    return _typed_call_part if kind.endswith("_tool_use") else None


_RUN_BY_CLIENT = frozenset({"computer", "local_shell", "shell", "apply_patch", "tool", "function"})
_GIVEN = ("arguments", "input", "action", "operation")
_GIVEN_ALONE = ("code", "queries", "prompt")
_RETURNED = ("output", "outputs", "results", "result")


def _hosted_part(part: dict[str, Any], parts: Parts, _depth: int) -> None:
    """An item of OpenAI's Responses that is a call of a tool other than a function: the provider
    runs it and gives the result with it, or the client does, and sends the result.
    """
    kind = str(part["type"]).removesuffix("_call")
    given = first(part, _GIVEN)
    if given is None:
        given = {x: part[x] for x in _GIVEN_ALONE if part.get(x) is not None} or None
    parts.call(first(part, _IDS), part.get("name") or kind, given)
    returned, failed = first(part, _RETURNED), part.get("error")
    error = failure(failed) if failed or part.get("status") == "failed" else None
    if returned is not None or error is not None:
        parts.result(first(part, _IDS), returned, error)
    elif kind not in _RUN_BY_CLIENT:
        parts.results.append(ToolResult(call_id(first(part, _IDS)), None, shown=False))


def _untyped_part(part: dict[str, Any], parts: Parts, depth: int) -> None:
    """Blocks whose key is their type, Bedrock's and Gemini's, and the text of all others."""
    for key, handler in KEYS.items():
        if isinstance(part.get(key), dict):
            handler(part[key], parts, depth)
            return
    stated = first(part, ("text", "content"))
    if isinstance(stated, str):
        (parts.think if part.get("thought") is True else parts.text)(stated)
    elif isinstance(part.get("type"), str) and not part.keys() <= _WITHOUT_CONTENT:
        parts.damaged.add("parts")


def _text_part(part: dict[str, Any], parts: Parts, _depth: int) -> None:
    parts.text(first(part, ("content", "text", "refusal")))


def _reasoning_part(part: dict[str, Any], parts: Parts, depth: int) -> None:
    if isinstance(part.get("reasoningText"), dict):
        part = part["reasoningText"]
    summary = part.get("summary")
    for item in summary if isinstance(summary, list) else ():
        if isinstance(item, dict):
            _reasoning_part(item, parts, depth)
    thought = first(part, ("content", "thinking", "text", "reasoning"))
    for item in thought if isinstance(thought, list) else [{"text": thought}]:
        parts.think(item.get("text") if isinstance(item, dict) else item)


def _call_part(part: dict[str, Any], parts: Parts, identity: object = None) -> None:
    function = part.get("function")
    if isinstance(function, dict):
        identity, part = first(part, _IDS), function
    value = first(part, ("arguments", "input", "args", "parameters", "server_tool_call"))
    parts.call(
        first(part, _IDS) if identity is None else identity,
        first(part, ("name", "toolName")),
        value,
    )


def _typed_call_part(part: dict[str, Any], parts: Parts, _depth: int) -> None:
    _call_part(part, parts)


def _answer(returned: Json, requested_id: str | None, tool_name: str | None) -> ToolOutput | None:
    """The result inside a message that stands in its place."""
    if not isinstance(returned, dict | list):
        return None
    found = provider_answer(returned, requested_id) or answering(returned, requested_id)
    return found or stated_answer(returned, tool_name)


def _result_part(part: dict[str, Any], parts: Parts, _depth: int) -> None:
    value = first(part, ("response", "result", "output", "content", "server_tool_call_response"))
    value, error = sdk_output(tool_results.bare_texts(value))
    value = [value] if isinstance(value, dict) and value.get("type") == "text" else value
    parts.result(
        first(part, _RESULT_IDS), value, stated_error(part, value) or error, part.get("name")
    )


def _vercel_result(part: dict[str, Any], parts: Parts, _depth: int) -> None:
    """Vercel AI SDK's result, from its version 5 on in an envelope that records the type of the
    value.
    """
    value = part.get("output")
    kind = str(value.get("type")) if isinstance(value, dict) else None
    if value is None:
        _result_part(part, parts, _depth)
    elif kind == "text":
        parts.results.append(
            ToolResult(call_id(part.get("toolCallId")), opened(value.get("value"), scalars=False))
        )
    elif kind in _VERCEL_VALUES and "value" in value:
        error = failure(value["value"]) if kind.startswith("error-") else None
        parts.result(part.get("toolCallId"), value["value"], error)
    else:
        parts.result(part.get("toolCallId"), value)


def _bedrock_result(part: dict[str, Any], parts: Parts, _depth: int) -> None:
    content = part.get("content")
    value: Any = content
    if (
        isinstance(content, list)
        and len(content) == 1
        and isinstance(content[0], dict)
        and len(content[0]) == 1
    ):
        value = next((content[0][x] for x in ("text", "json") if x in content[0]), content)
    elif isinstance(content, list):
        value = tool_results.content_of_blocks(content)
    parts.result(part.get("toolUseId"), value, stated_error(part, value))


def _gemini_result(part: dict[str, Any], parts: Parts, _depth: int) -> None:
    parts.result(
        first(part, _RESULT_IDS), first(part, ("response", "output")), name=part.get("name")
    )


def _gemini_code(part: dict[str, Any], parts: Parts, _depth: int) -> None:
    """The code that Gemini's own tool ran."""
    parts.call(
        part.get("id"), _CODE_EXECUTION, {key: value for key, value in part.items() if key != "id"}
    )


def _gemini_code_result(part: dict[str, Any], parts: Parts, _depth: int) -> None:
    parts.result(
        part.get("id"),
        {key: value for key, value in part.items() if key != "id"},
        name=_CODE_EXECUTION,
    )


def _message_part(part: dict[str, Any], parts: Parts, depth: int) -> None:
    add_content(part.get("content"), parts, depth + 1)


def stated_error(part: Mapping[str, Any], value: Any) -> str | None:
    """The text of a result whose envelope marks it as an error."""
    if part.get("is_error") is True or part.get("isError") is True or part.get("status") == "error":
        return failure(result(value))
    # of Anthropic's own tools
    if isinstance(value, dict) and str(value.get("type")).endswith("_tool_result_error"):
        return failure(value.get("error_code"))
    return None


def first(part: Mapping[str, Any], keys: tuple[str, ...]) -> Json:
    """The first of the values under `keys` that is not null."""
    for key in keys:
        if key in part and part[key] is not None:
            return part[key]  # type: ignore[no-any-return] # a value of parsed JSON
    return None


_Handler: TypeAlias = Callable[[dict[str, Any], Parts, int], None]
_CODE_EXECUTION = "code_execution"
_IDS = ("call_id", "callId", "id", "toolCallId", "toolUseId", "ref")
_RESULT_IDS = (
    "call_id",
    "callId",
    "tool_use_id",
    "tool_call_id",
    "toolCallId",
    "toolUseId",
    "id",
    "ref",
)
_VERCEL_VALUES = frozenset({"json", "content", "error-text", "error-json"})
_RESULTS = frozenset(
    {
        "tool_call_response",
        "tool_result",
        "tool-result",
        "function_call_output",
        "function_call_result",
        "server_tool_call_response",
    }
)
_IN_PARTS = _RESULTS | {"tool_call"}
_WITHOUT_CONTENT = frozenset({"type", "id"})
KINDS: dict[str, _Handler] = {
    **dict.fromkeys(("text", "input_text", "output_text", "refusal"), _text_part),
    **dict.fromkeys(
        ("reasoning", "thinking", "redacted_thinking", "summary_text"), _reasoning_part
    ),
    **dict.fromkeys(
        (
            "tool_call",
            "tool_use",
            "tool-call",
            "toolUse",
            "function_call",
            "function",
            "server_tool_call",
        ),
        _typed_call_part,
    ),
    **dict.fromkeys(_RESULTS, _result_part),
    "tool-result": _vercel_result,
    "message": _message_part,
}
_KEYED_RESULTS: dict[str, _Handler] = {
    "toolResult": _bedrock_result,
    "toolResponse": _gemini_result,
    "function_response": _gemini_result,
    "functionResponse": _gemini_result,
}
KEYS: dict[str, _Handler] = {
    "toolUse": _typed_call_part,
    "toolRequest": _typed_call_part,
    "function_call": _typed_call_part,
    "functionCall": _typed_call_part,
    **_KEYED_RESULTS,
    "reasoningContent": _reasoning_part,
    **dict.fromkeys(("executable_code", "executableCode"), _gemini_code),
    **dict.fromkeys(("code_execution_result", "codeExecutionResult"), _gemini_code_result),
}
