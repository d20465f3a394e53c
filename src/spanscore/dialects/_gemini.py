"""Open what Google's SDKs put around Gemini's tool calls: the object that a result must be, ids for calls without."""

import re
from dataclasses import replace
from typing import Any

from spanscore.dialects._base import Facts
from spanscore.dialects._json import opened
from spanscore.dialects._reprs import opened_repr
from spanscore.model.json import Json
from spanscore.model.span import Span
from spanscore.model.step import Message, ToolResult

_SIDES = ("input", "output")
_FIELDS = r"(?:[a-z_]+=None ?)*+"
_PART = re.compile(
    rf"{_FIELDS}(function_call|function_response)=(Function(?:Call|Response)\(\n.*\n\)) ?{_FIELDS}", re.DOTALL
)
_NUMBERED = re.compile(r"_\d+$")


def content(returned: Json, *, objects: bool = False) -> Json:
    """What a tool returned: the API asks for an object, so the SDKs put all else into one, under `result`.

    With `objects` they do so with objects too, as the Gen AI SDK does with what the functions return that it calls.
    """
    if isinstance(returned, dict) and returned.keys() == {"result"}:
        inner = returned["result"]
        return opened(inner, scalars=False) if objects or not isinstance(inner, dict) else returned
    return returned


def without_envelopes(facts: Facts, *, objects: bool = False) -> None:
    """Open the results in a model call's messages, in place, and drop ids that are made up where the model gives none.

    They are a tool's name and the place of the part in its message, so a call and its result differ in them.
    """
    names = {call.name for side in _SIDES for x in facts.get(side) or () for call in x.calls}
    for side in _SIDES:
        if facts.get(side):
            facts[side] = tuple(_opened(x, names, objects=objects) if x.calls or x.results else x for x in facts[side])


def _opened(message: Message, names: set[str], *, objects: bool) -> Message:
    calls = tuple(replace(x, call_id=_given_id(x.call_id, names)) for x in message.calls)
    values = (content(x.value, objects=objects) for x in message.results)
    given = (_given_id(x.call_id, names) for x in message.results)
    results = tuple(map(ToolResult, given, values, (x.error for x in message.results)))
    return replace(message, calls=calls, results=results)


def _given_id(identity: str | None, names: set[str]) -> str | None:
    made_up = identity is not None and _NUMBERED.sub("", identity) in names and _NUMBERED.search(identity)
    return None if made_up else identity


def unprinted_part(block: Any) -> Any:
    r"""A text block, or the call or the result that it holds as str() prints a part of the Gen AI SDK.

    >>> unprinted_part({"type": "text", "text": "function_call=FunctionCall(\n  name='f'\n) text=None"})
    {'function_call': {'name': 'f'}}
    """
    said = block.get("text") if isinstance(block, dict) else None
    found = _PART.fullmatch(said) if isinstance(said, str) else None
    value = opened_repr(found[2]) if found else None
    return {found[1]: value} if found and isinstance(value, dict) else block


def complete(_span: Span, facts: Facts) -> None:
    """Open what is in a model call that others than Google's own instrumentation tell of, in place."""
    if facts["kind"] == "model":
        without_envelopes(facts, objects=True)
