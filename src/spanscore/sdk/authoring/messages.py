"""Messages as OpenTelemetry's GenAI conventions write them, made of text, a provider's messages or
any other value.
"""

from collections.abc import Iterator, Mapping
from typing import Any, TypeGuard

from spanscore.model.json import Json, loads
from spanscore.sdk.authoring.values import Plain, json_of, text_of

_MAX_CHARS = 1_000_000
"""Of a whole conversation. Each message that is not part of one has the bound of a single value."""


def messages_of(value: object, role: str, *, finish_reason: str | None = None) -> str:
    """`value` as JSON text of messages; what is none is the text of one message of `role`.

    >>> messages_of("Hi", "user")
    '[{"role":"user","parts":[{"type":"text","content":"Hi"}]}]'
    """
    given = _plain(value)
    if _is_conversation(given):
        written = [_message(x) for x in given]
    elif isinstance(given, dict) and _is_message(given):
        written = [_message(given)]
    else:
        written = [{"role": role, "parts": [{"type": "text", "content": text_of(value)}]}]
    if finish_reason is not None:
        written[-1].setdefault("finish_reason", finish_reason)
    return json_of(written, _MAX_CHARS)


def requested_calls(value: object) -> Iterator[tuple[str, Json, str]]:
    """The name, arguments and id of each tool call that a model's answer asks for."""
    given = _plain(value)
    for item in given if isinstance(given, list) else [given]:
        if not isinstance(item, dict):
            continue
        for part in _parts(item):
            if part.get("type") == "tool_call" and part.get("id") and part.get("name"):
                yield str(part["name"]), part.get("arguments"), str(part["id"])


def instructions_of(text: str) -> str:
    """System instructions as JSON text."""
    return json_of([{"type": "text", "content": text_of(text)}])


def _plain(value: object) -> Json:
    return value if isinstance(value, str) else Plain(_MAX_CHARS).value(value)


def _is_conversation(given: Json) -> TypeGuard[list[dict[str, Json]]]:
    return (
        isinstance(given, list)
        and bool(given)
        and all(isinstance(x, dict) and _is_message(x) for x in given)
    )


def _is_message(item: Mapping[str, Any]) -> bool:
    return isinstance(item.get("role"), str) and not {"content", "parts", "tool_calls"}.isdisjoint(
        item
    )


def _message(item: dict[str, Json]) -> dict[str, Json]:
    kept = {key: item[key] for key in ("name", "finish_reason") if item.get(key) is not None}
    return {"role": item["role"], "parts": list(_parts(item)), **kept}


def _parts(item: Mapping[str, Any]) -> Iterator[dict[str, Json]]:
    """The parts of a message of OpenAI, Anthropic or OpenTelemetry; what is of no kind that is
    known stays as it is.
    """
    if isinstance(item.get("parts"), list):
        yield from (x for x in item["parts"] if isinstance(x, dict))
        return
    content = item.get("content")
    if item.get("role") == "tool":
        yield {"type": "tool_call_response", "id": item.get("tool_call_id"), "response": content}
        return
    for block in content if isinstance(content, list) else [content]:
        if isinstance(block, str):
            yield {"type": "text", "content": block}
        elif isinstance(block, dict):
            yield _block(block)
    for call in item.get("tool_calls") or ():
        if isinstance(call, dict):
            yield _call(call)


def _block(block: dict[str, Json]) -> dict[str, Json]:
    kind = block.get("type")
    if kind in ("text", "input_text", "output_text") and isinstance(block.get("text"), str):
        return {"type": "text", "content": block["text"]}
    if kind == "tool_use":
        return {
            "type": "tool_call",
            "id": block.get("id"),
            "name": block.get("name"),
            "arguments": block.get("input"),
        }
    if kind == "tool_result":
        return {
            "type": "tool_call_response",
            "id": block.get("tool_use_id"),
            "response": block.get("content"),
        }
    if kind == "thinking":
        return {"type": "reasoning", "content": block.get("thinking")}
    return block


def _call(call: dict[str, Any]) -> dict[str, Json]:
    function = call["function"] if isinstance(call.get("function"), dict) else call
    return {
        "type": "tool_call",
        "id": call.get("id"),
        "name": function.get("name"),
        "arguments": _arguments(function.get("arguments")),
    }


def _arguments(given: Json) -> Json:
    """What a model wrote as arguments, as the JSON value that it is; text that is no JSON stays
    text.
    """
    if not isinstance(given, str):
        return given
    try:
        opened: Json = loads(given) if given else {}
    except ValueError:
        return given
    return opened
