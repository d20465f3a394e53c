"""Anthropic's messages."""

import json
from collections.abc import Iterator
from typing import Any

from script import Answer

from protocols.openai_chat import pieces


def offered(body: dict[str, Any]) -> list[str]:
    return [x.get("name", "") for x in body.get("tools") or []]


def whole(answer: Answer, body: dict[str, Any]) -> dict[str, Any]:
    return {
        "id": f"msg_{answer.answer_id}",
        "type": "message",
        "role": "assistant",
        "model": body.get("model", "claude-sonnet-4-5"),
        "content": _content(answer),
        "stop_reason": _stop(answer),
        "stop_sequence": None,
        "usage": {
            "input_tokens": answer.input_tokens,
            "output_tokens": answer.output_tokens,
            "cache_creation_input_tokens": 0,
            "cache_read_input_tokens": 0,
            "service_tier": "standard",
        },
    }


def events(answer: Answer, body: dict[str, Any]) -> Iterator[tuple[str, Any]]:
    message = whole(answer, body)
    begun = {
        **message,
        "content": [],
        "stop_reason": None,
        "usage": {**message["usage"], "output_tokens": 1},
    }
    yield "message_start", {"type": "message_start", "message": begun}
    for i, block in enumerate(message["content"]):
        text = block["type"] == "text"
        empty = {**block, "text": ""} if text else {**block, "input": {}}
        yield (
            "content_block_start",
            {"type": "content_block_start", "index": i, "content_block": empty},
        )
        for piece in pieces(
            block["text"] if text else json.dumps(block["input"], ensure_ascii=False)
        ):
            kind, key = ("text_delta", "text") if text else ("input_json_delta", "partial_json")
            delta = {"type": kind, key: piece}
            yield "content_block_delta", {"type": "content_block_delta", "index": i, "delta": delta}
        yield "content_block_stop", {"type": "content_block_stop", "index": i}
    delta = {"stop_reason": _stop(answer), "stop_sequence": None}
    usage = {"output_tokens": answer.output_tokens}
    yield "message_delta", {"type": "message_delta", "delta": delta, "usage": usage}
    yield "message_stop", {"type": "message_stop"}


def _content(answer: Answer) -> list[dict[str, Any]]:
    text = [{"type": "text", "text": answer.text}] if answer.text else []
    return text + [
        {"type": "tool_use", "id": f"toolu_{x.call_id}", "name": x.name, "input": x.arguments}
        for x in answer.requests
    ]


def _stop(answer: Answer) -> str:
    return "tool_use" if answer.requests else "end_turn"
