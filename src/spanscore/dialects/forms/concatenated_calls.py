"""Split a tool call into which an instrumentation of streams concatenated several, as some for
JavaScript do.
"""

import json
from collections.abc import Sequence
from typing import Any

from spanscore.model.step import Message
from spanscore.model.trace import RequestedCall, Tool

_MAX_CALLS = 32  # that one answer requests


def split(messages: Sequence[Message], tools: Sequence[Tool]) -> tuple[Message, ...]:
    """The messages; a call whose arguments are several objects in a row is replaced by several
    calls.

    Their names are split at the names of the offered tools. Where that does not work out the call
    stays as it is.
    """
    return tuple(_split(x, tools) if x.calls else x for x in messages)


def _split(message: Message, tools: Sequence[Tool]) -> Message:
    calls = [part for call in message.calls for part in _calls(call, tools)]
    if len(calls) == len(message.calls):
        return message
    return Message(message.role, message.text, message.reasoning, tuple(calls), message.results)


def _calls(call: RequestedCall, tools: Sequence[Tool]) -> list[RequestedCall]:
    if not isinstance(call.arguments, str) or "}{" not in call.arguments:
        return [call]
    objects = _objects(call.arguments)
    names = _names(call.name, [x.name for x in tools], len(objects))
    if not names:
        return [call]
    ids = _ids(call.call_id, len(objects))
    return [RequestedCall(*x) for x in zip(ids, names, objects, strict=True)]


def _objects(text: str) -> list[Any]:
    """The JSON objects that `text` is made of; none where it is not."""
    decoder, at, found = json.JSONDecoder(), 0, list[Any]()
    while at < len(text) and len(found) < _MAX_CALLS:
        try:
            value, at = decoder.raw_decode(text, at)
        except (ValueError, RecursionError):
            return []
        found.append(value)
    return found if at == len(text) and len(found) > 1 else []


def _names(text: str, offered: Sequence[str], count: int) -> list[str]:
    """`text` as `count` names of tools in a row; where no tools are listed, as one name `count`
    times.
    """
    part = len(text) // count if count else 0
    if count and not offered and text == text[:part] * count:
        return [text[:part]] * count
    ways: list[tuple[str, list[str]]] = [(text, [])]  # what is left, and the names before it
    for _ in range(count):
        ways = [
            (rest[len(x) :], [*names, x])
            for rest, names in ways
            for x in offered
            if x and rest.startswith(x)
        ]
        ways = ways[:_MAX_CALLS]
    return next((names for rest, names in ways if not rest), [])


def _ids(text: str | None, count: int) -> list[str | None]:
    """OpenAI's ids all start alike; None where they cannot be separated."""
    found = ["call_" + x for x in (text or "").split("call_")[1:]]
    return [*found] if len(found) == count else [None] * count
