"""Amazon Bedrock's Converse; ConverseStream, whose frames are binary, is not spoken."""

from collections.abc import Iterator
from typing import Any

from script import Answer


def offered(body: dict[str, Any]) -> list[str]:
    tools = (body.get("toolConfig") or {}).get("tools") or []
    return [x.get("toolSpec", {}).get("name", "") for x in tools]


def whole(answer: Answer, _body: dict[str, Any]) -> dict[str, Any]:
    content: list[dict[str, Any]] = [{"text": answer.text}] if answer.text else []
    content += [
        {"toolUse": {"toolUseId": f"tooluse_{x.call_id}", "name": x.name, "input": x.arguments}}
        for x in answer.requests
    ]
    return {
        "output": {"message": {"role": "assistant", "content": content}},
        "stopReason": "tool_use" if answer.requests else "end_turn",
        "usage": {
            "inputTokens": answer.input_tokens,
            "outputTokens": answer.output_tokens,
            "totalTokens": answer.input_tokens + answer.output_tokens,
        },
        "metrics": {"latencyMs": 5},
    }


def events(_answer: Answer, _body: dict[str, Any]) -> Iterator[tuple[str, Any]]:
    raise NotImplementedError("ConverseStream")
