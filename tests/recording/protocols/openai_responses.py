"""OpenAI's responses."""

import itertools
import json
import time
from collections.abc import Iterator
from typing import Any

from script import Answer

from protocols.openai_chat import pieces

_SPACED = "{space}__{name}"
"""The name of a tool in a namespace (Codex puts an MCP server's tools into one); it is asked for by
both.
"""


def offered(body: dict[str, Any]) -> list[str]:
    tools = body.get("tools") or []
    spaced = [
        _SPACED.format(space=x.get("name"), name=y.get("name"))
        for x in tools
        for y in x.get("tools") or []
    ]
    return [x.get("name", "") for x in tools if x.get("type") != "namespace"] + spaced


def whole(answer: Answer, body: dict[str, Any]) -> dict[str, Any]:
    return {
        "id": f"resp_{answer.answer_id}",
        "object": "response",
        "created_at": int(time.time()),
        "status": "completed",
        "background": False,
        "error": None,
        "incomplete_details": None,
        "instructions": body.get("instructions"),
        "max_output_tokens": None,
        "metadata": body.get("metadata") or {},
        "model": body.get("model", "gpt-4o-mini"),
        "output": _output(answer, body),
        "parallel_tool_calls": True,
        "previous_response_id": body.get("previous_response_id"),
        "reasoning": {"effort": None, "summary": None},
        "store": True,
        "temperature": 1.0,
        "text": {"format": {"type": "text"}},
        "tool_choice": "auto",
        "tools": body.get("tools") or [],
        "top_p": 1.0,
        "truncation": "disabled",
        "usage": {
            "input_tokens": answer.input_tokens,
            "input_tokens_details": {"cached_tokens": 0},
            "output_tokens": answer.output_tokens,
            "output_tokens_details": {"reasoning_tokens": 0},
            "total_tokens": answer.input_tokens + answer.output_tokens,
        },
    }


def events(answer: Answer, body: dict[str, Any]) -> Iterator[tuple[str, Any]]:
    response, number = whole(answer, body), itertools.count()

    def event(kind: str, **fields: Any) -> tuple[str, Any]:
        return kind, {"type": kind, "sequence_number": next(number), **fields}

    begun = response | {"status": "in_progress", "output": [], "usage": None}
    yield event("response.created", response=begun)
    yield event("response.in_progress", response=begun)
    for i, item in enumerate(response["output"]):
        place = {"output_index": i, "item_id": item["id"]}
        if item["type"] == "message":
            empty, part = {**item, "content": [], "status": "in_progress"}, item["content"][0]
            place["content_index"] = 0
            yield event("response.output_item.added", output_index=i, item=empty)
            yield event("response.content_part.added", **place, part={**part, "text": ""})
            for piece in pieces(part["text"]):
                yield event("response.output_text.delta", **place, delta=piece, logprobs=[])
            yield event("response.output_text.done", **place, text=part["text"], logprobs=[])
            yield event("response.content_part.done", **place, part=part)
        else:
            empty = {**item, "arguments": "", "status": "in_progress"}
            yield event("response.output_item.added", output_index=i, item=empty)
            for piece in pieces(item["arguments"]):
                yield event("response.function_call_arguments.delta", **place, delta=piece)
            yield event(
                "response.function_call_arguments.done",
                **place,
                name=item["name"],
                arguments=item["arguments"],
            )
        yield event("response.output_item.done", output_index=i, item=item)
    yield event("response.completed", response=response)


def _output(answer: Answer, body: dict[str, Any]) -> list[dict[str, Any]]:
    items: list[dict[str, Any]] = []
    if answer.text:
        part = {"type": "output_text", "text": answer.text, "annotations": [], "logprobs": []}
        items.append(
            {
                "id": f"msg_{answer.answer_id}",
                "type": "message",
                "role": "assistant",
                "status": "completed",
                "content": [part],
            }
        )
    items += [
        {
            "id": f"fc_{x.call_id}",
            "type": "function_call",
            "status": "completed",
            "call_id": f"call_{x.call_id}",
            **_named(x.name, body),
            "arguments": json.dumps(x.arguments, ensure_ascii=False),
        }
        for x in answer.requests
    ]
    return items


def _named(name: str, body: dict[str, Any]) -> dict[str, str]:
    """A tool's name, and the namespace that it was offered in, if any."""
    for space in (
        x.get("name", "") for x in body.get("tools") or [] if x.get("type") == "namespace"
    ):
        if name.startswith(_SPACED.format(space=space, name="")):
            return {
                "name": name.removeprefix(_SPACED.format(space=space, name="")),
                "namespace": space,
            }
    return {"name": name}
