"""Open what Google's SDKs put around Gemini's tool calls: the object that a result must be, ids for
calls without.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from json import JSONDecoder

from spanscore.dialects.forms.structure import opened
from spanscore.dialects.forms.values import Facts, change_messages
from spanscore.model.json import Json
from spanscore.model.step import Message, ToolResult

_BETWEEN = "\n\n"
_MAX_RESULTS = 1000  # of one message
_NUMBERED = re.compile(r"_\d+$")


def content(returned: Json, *, objects: bool = False) -> Json:
    """What a tool returned: the API requires an object, so the SDKs put all else into one, under
    `result`.

    With `objects` they do so with objects too, as the Gen AI SDK does with what the functions
    return that it calls.
    """
    if isinstance(returned, dict) and returned.keys() == {"result"}:
        inner = returned["result"]
        return opened(inner, scalars=False) if objects or not isinstance(inner, dict) else returned
    return returned


def without_envelopes(facts: Facts, *, objects: bool = False) -> None:
    """Open the results in a model call's messages, in place, and drop ids that are made up where
    the model gives none.

    They are a tool's name and the place of the part in its message, so a call and its result differ
    in them.
    """
    sides = facts.get("input"), facts.get("output")
    names = {call.name for side in sides for x in side or () for call in x.calls}
    change_messages(
        facts, lambda x: _opened(x, names, objects=objects) if x.calls or x.results else x
    )


def _opened(message: Message, names: set[str], *, objects: bool) -> Message:
    calls = tuple(replace(x, call_id=_given_id(x.call_id, names)) for x in message.calls)
    values = (content(x.value, objects=objects) for x in message.results)
    given = (_given_id(x.call_id, names) for x in message.results)
    results = tuple(map(ToolResult, given, values, (x.error for x in message.results)))
    return replace(message, calls=calls, results=results)


def _given_id(identity: str | None, names: set[str]) -> str | None:
    made_up = (
        identity is not None and _NUMBERED.sub("", identity) in names and _NUMBERED.search(identity)
    )
    return None if made_up else identity


def with_results(messages: Sequence[Message]) -> Iterator[Message]:
    """The messages, of which those that OpenInference up to 0.1.8 writes as the user's text contain
    results.

    Such a text is one JSON object after another. What is sent after calls has to be their results:
    the API refuses all else.
    """
    pending = 0  # calls of the message before
    for message in messages:
        may_answer = pending > 0 and message.role == "user" and not message.results
        found = _objects(message.text or "") if may_answer else []
        if found and len(found) == pending:
            yield replace(
                message, role="tool", text=None, results=tuple(ToolResult(None, x) for x in found)
            )
        else:
            yield message
        pending = len(message.calls)


def _objects(text: str) -> list[Json]:
    """The JSON objects that a text consists of, with empty lines between them; empty for any other
    text.
    """
    decoder, found, at = JSONDecoder(), list[Json](), 0
    while at < len(text):
        try:
            value, at = decoder.raw_decode(text, at)
        except (ValueError, RecursionError):
            return []
        at += len(_BETWEEN) if text.startswith(_BETWEEN, at) else 0
        found.append(value)
        if (
            not isinstance(value, dict)
            or len(found) > _MAX_RESULTS
            or (at < len(text) and text[at] != "{")
        ):
            return []
    return found
