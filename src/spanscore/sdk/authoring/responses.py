"""What a provider's response says: the answer, the tokens, the model and the id; of OpenAI's APIs
and Anthropic's.
"""

from collections.abc import Iterator
from typing import Any, NamedTuple

from spanscore.model.json import Json
from spanscore.sdk.authoring.values import Plain

_MAX_CHARS = 1_000_000


class Response(NamedTuple):
    """A model's answer; None: it does not say.

    `answer` is a text, a message or a list of messages.
    """

    answer: Any
    model: str | None = None
    id: str | None = None
    finish_reasons: tuple[str, ...] = ()
    input_tokens: int | None = None
    output_tokens: int | None = None


def response_of(value: object) -> Response:
    """The response that an object of a provider's library, or its JSON, stands for; any other value
    is the answer.
    """
    given = value if isinstance(value, str) else Plain(_MAX_CHARS).value(value)
    if not isinstance(given, dict):
        return Response(given)
    if isinstance(given.get("choices"), list):
        return _of_chat(given)
    if isinstance(given.get("output"), list):
        return _of_responses(given)
    if (
        given.get("type") == "message"
        and isinstance(given.get("content"), list)
        and "usage" in given
    ):
        return _of_anthropic(given)
    return Response(given)


def _of_chat(given: dict[str, Any]) -> Response:
    choices = [x for x in given["choices"] if isinstance(x, dict)]
    messages = [x["message"] for x in choices if isinstance(x.get("message"), dict)]
    reasons = tuple(str(x["finish_reason"]) for x in choices if x.get("finish_reason"))
    usage = _usage(given)
    return Response(
        messages,
        _text(given.get("model")),
        _text(given.get("id")),
        reasons,
        _count(usage.get("prompt_tokens")),
        _count(usage.get("completion_tokens")),
    )


def _of_responses(given: dict[str, Any]) -> Response:
    parts = [
        part for item in given["output"] if isinstance(item, dict) for part in _item_parts(item)
    ]
    usage = _usage(given)
    return Response(
        {"role": "assistant", "parts": parts},
        _text(given.get("model")),
        _text(given.get("id")),
        (),
        _count(usage.get("input_tokens")),
        _count(usage.get("output_tokens")),
    )


def _item_parts(item: dict[str, Any]) -> Iterator[Json]:
    if item.get("type") == "function_call":
        yield {
            "type": "tool_call",
            "id": item.get("call_id"),
            "name": item.get("name"),
            "arguments": item.get("arguments"),
        }
    elif item.get("type") == "message" and isinstance(item.get("content"), list):
        yield from ({"type": "text", "content": x["text"]} for x in item["content"] if _is_text(x))


def _is_text(block: object) -> bool:
    return isinstance(block, dict) and isinstance(block.get("text"), str)


def _of_anthropic(given: dict[str, Any]) -> Response:
    """Anthropic counts the tokens that it had in its cache beside those that it had not."""
    usage = _usage(given)
    counts = [_count(usage.get(x)) for x in _ANTHROPIC_INPUT]
    known = [x for x in counts if x is not None]
    stop = _text(given.get("stop_reason"))
    return Response(
        {"role": "assistant", "content": given["content"]},
        _text(given.get("model")),
        _text(given.get("id")),
        (stop,) if stop else (),
        sum(known) if known else None,
        _count(usage.get("output_tokens")),
    )


_ANTHROPIC_INPUT = ("input_tokens", "cache_creation_input_tokens", "cache_read_input_tokens")


def _usage(given: dict[str, Any]) -> dict[str, Any]:
    usage = given.get("usage")
    return usage if isinstance(usage, dict) else {}


def _text(value: object) -> str | None:
    return value if isinstance(value, str) and value else None


def _count(value: object) -> int | None:
    return value if type(value) is int and value >= 0 else None
