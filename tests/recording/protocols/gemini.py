"""Gemini's generateContent, and streamGenerateContent with server-sent events."""

from collections.abc import Iterator
from typing import Any

from script import Answer

from protocols.openai_chat import pieces


def offered(body: dict[str, Any]) -> list[str]:
    names = []
    for tool in body.get("tools") or []:
        declared = tool.get("functionDeclarations") or tool.get("function_declarations") or []
        names += [x.get("name", "") for x in declared]
    return names


def whole(answer: Answer, _body: dict[str, Any]) -> dict[str, Any]:
    text = [{"text": answer.text}] if answer.text else []
    return _response(answer, text + _calls(answer), last=True)


def events(answer: Answer, _body: dict[str, Any]) -> Iterator[tuple[str, Any]]:
    parts: list[list[dict[str, Any]]] = [[{"text": x}] for x in pieces(answer.text)]
    if answer.requests:
        parts.append(_calls(answer))
    for i, some in enumerate(parts):
        yield "", _response(answer, some, last=i == len(parts) - 1)


def _calls(answer: Answer) -> list[dict[str, Any]]:
    return [{"functionCall": {"name": x.name, "args": x.arguments}} for x in answer.requests]


def _response(answer: Answer, parts: list[dict[str, Any]], *, last: bool) -> dict[str, Any]:
    candidate: dict[str, Any] = {"content": {"role": "model", "parts": parts}, "index": 0}
    if last:
        candidate["finishReason"] = "STOP"
    return {
        "candidates": [candidate],
        "modelVersion": "gemini-2.5-flash",
        "responseId": answer.answer_id,
        "usageMetadata": {
            "promptTokenCount": answer.input_tokens,
            "candidatesTokenCount": answer.output_tokens,
            "totalTokenCount": answer.input_tokens + answer.output_tokens,
        },
    }
