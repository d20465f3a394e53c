"""OpenAI's chat completions, which many other providers speak as well."""

import json
import time
from collections.abc import Iterator
from typing import Any

from script import Answer


def offered(body: dict[str, Any]) -> list[str]:
    tools = [x.get("function", x) for x in body.get("tools") or body.get("functions") or []]
    return [x.get("name", "") for x in tools]


def whole(answer: Answer, body: dict[str, Any]) -> dict[str, Any]:
    message: dict[str, Any] = {"role": "assistant", "content": answer.text or None, "refusal": None}
    if answer.requests:
        message["tool_calls"] = _tool_calls(answer)
    choice = {"index": 0, "message": message, "logprobs": None, "finish_reason": _finish(answer)}
    return _head(answer, body) | {
        "object": "chat.completion",
        "choices": [choice],
        "usage": _usage(answer),
    }


def events(answer: Answer, body: dict[str, Any]) -> Iterator[tuple[str, Any]]:
    head = _head(answer, body) | {"object": "chat.completion.chunk"}

    def chunk(delta: dict[str, Any], finish: str | None = None) -> tuple[str, Any]:
        choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish}
        return "", head | {"choices": [choice]}

    yield chunk({"role": "assistant", "content": ""})
    for piece in pieces(answer.text):
        yield chunk({"content": piece})
    for i, call in enumerate(_tool_calls(answer)):
        arguments = call["function"]["arguments"]
        yield chunk(
            {
                "tool_calls": [
                    {"index": i, **call, "function": {**call["function"], "arguments": ""}}
                ]
            }
        )
        for piece in pieces(arguments):
            yield chunk({"tool_calls": [{"index": i, "function": {"arguments": piece}}]})
    yield chunk({}, _finish(answer))
    if (body.get("stream_options") or {}).get("include_usage"):
        yield "", head | {"choices": [], "usage": _usage(answer)}
    yield "", "[DONE]"


def pieces(text: str) -> list[str]:
    """The text in two halves, as a stream would bring it."""
    middle = len(text) // 2
    return [x for x in (text[:middle], text[middle:]) if x]


def _tool_calls(answer: Answer) -> list[dict[str, Any]]:
    return [
        {
            "id": f"call_{x.call_id}",
            "type": "function",
            "function": {"name": x.name, "arguments": json.dumps(x.arguments, ensure_ascii=False)},
        }
        for x in answer.requests
    ]


def _head(answer: Answer, body: dict[str, Any]) -> dict[str, Any]:
    model = body.get("model", "gpt-4o-mini")
    return {
        "id": f"chatcmpl-{answer.answer_id}",
        "created": int(time.time()),
        "model": model,
        "service_tier": "default",
    }


def _finish(answer: Answer) -> str:
    return "tool_calls" if answer.requests else "stop"


def _usage(answer: Answer) -> dict[str, Any]:
    return {
        "prompt_tokens": answer.input_tokens,
        "completion_tokens": answer.output_tokens,
        "total_tokens": answer.input_tokens + answer.output_tokens,
        "prompt_tokens_details": {"cached_tokens": 0, "audio_tokens": 0},
        "completion_tokens_details": {"reasoning_tokens": 0, "audio_tokens": 0},
    }
