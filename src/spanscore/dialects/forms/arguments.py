"""Arguments, results and definitions of tools."""

import re
from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import Any

from spanscore.dialects.forms.structure import (
    Facts,
    change_messages,
    identity,
    is_redacted,
    json_values,
    opened,
    structure,
)
from spanscore.model.json import Json, printed
from spanscore.model.span import changed
from spanscore.model.step import Message, ToolResult
from spanscore.model.trace import RequestedCall, Tool

_NO_ID = "<not specified>"  # Google ADK's
_WRAPPED = ("function", "custom", "toolSpec")  # OpenAI's and Bedrock's
_SCHEMAS = (
    "parameters",
    "input_schema",
    "parameters_json_schema",
    "parametersJsonSchema",
    "inputSchema",
)
_NO_NAMES = ("", "function", "custom")

_OF_DEFINITIONS = frozenset(
    {"name", "type", *_WRAPPED, "function_declarations", "functionDeclarations"}
)
_BLOCK_KEYS = frozenset(
    {"type", "text", "content", "annotations", "citations", "id", "cache_control", "extras"}
)


def arguments(value: Any) -> Json:
    """Arguments as a JSON value; text that is no JSON stays text, since a model may have written it
    wrongly.

    >>> arguments('{"city": "Paris"}'), arguments(""), arguments('{"city": "Par')
    ({'city': 'Paris'}, {}, '{"city": "Par')
    """
    return {} if value == "" else opened(value)


def result(value: Any) -> Json:
    """A tool's result as a message carries it: a list of text blocks is opened to its text, JSON
    text to its value.

    >>> result([{"type": "text", "text": "[1, 2]"}]), result([]), result("false"), result("15C")
    ([1, 2], [], False, '15C')
    """
    if isinstance(value, list) and value and all(_is_text_block(x) for x in value):
        value = "\n".join(str(_block_text(x)) for x in value)
    return opened(value)


def failure(returned: object) -> str:
    """The text of an error whose text is what a failed call returned; "error" where it returned
    nothing that can be read, since an empty text would be none.

    >>> failure("locked"), failure({"code": 5}), failure(" "), failure(None)
    ('locked', '{"code":5}', 'error', 'error')
    """
    stated = "" if returned is None else printed(returned)
    return stated if stated.strip() else "error"


def call_id(value: object) -> str | None:
    """A call id, or None where it is hidden.

    Of several (`fc_…` and `call_…`) the one that results refer to.
    """
    if isinstance(value, list):
        named = [x for x in value if isinstance(x, str)]
        value = next((x for x in named if x.startswith("call_")), named[0] if named else None)
    found = identity(value)
    if found is None or (found[-1] in "]>*_ \n" and (found == _NO_ID or is_redacted(found))):
        return None
    return found


def tools(value: Any) -> tuple[Tool, ...] | None:
    """The tools that a list of definitions names; None where nothing can be read.

    An unreadable definition is left out.

    A tool that the provider runs is called by its type.

    >>> found = tools('[{"type": "function", "function": {"name": "f"}}, "g"]')
    >>> found[0], len(found)
    (Tool(name='f', description=None, parameters=None), 2)
    """
    return _tools_of_text(value) if isinstance(value, str) else _tools_of(structure(value).value)


# every call of an agent repeats the same definitions, and so does its next trace
@lru_cache(maxsize=64)
def _tools_of_text(text: str) -> tuple[Tool, ...] | None:
    return _tools_of(structure(text).value)


def _tools_of(definitions: Any) -> tuple[Tool, ...] | None:
    if isinstance(definitions, dict):
        definitions = _by_name(definitions) or [definitions]
    if not isinstance(definitions, list):
        return None
    single: list[Any] = []
    for listed in definitions:
        definition = structure(listed).value if isinstance(listed, str) else listed
        declared = definition if isinstance(definition, list) else _declared(definition)
        single += declared if isinstance(declared, list) else [definition]
    found = tuple(tool for tool in map(_tool, single) if tool is not None)
    return found if found or not single else None


def _by_name(definitions: dict[str, Any]) -> list[Any]:
    """The definitions of an object that has each under its name; none where it is one definition
    itself.
    """
    is_one = not _OF_DEFINITIONS.isdisjoint(definitions)
    if is_one or not all(isinstance(x, dict) for x in definitions.values()):
        return []
    return [{"name": name, **definition} for name, definition in definitions.items()]


def _declared(definition: Any) -> Any:
    """What Gemini lists inside of one tool."""
    if not isinstance(definition, dict):
        return None
    return definition.get("function_declarations", definition.get("functionDeclarations"))


def _tool(definition: Any) -> Tool | None:
    if isinstance(definition, str):
        return Tool(definition) if definition else None
    if isinstance(definition, dict):
        definition = next(
            (definition[x] for x in _WRAPPED if isinstance(definition.get(x), dict)), definition
        )
    if not isinstance(definition, dict):
        return None
    name = definition.get("name", definition.get("type"))
    if not isinstance(name, str) or name in _NO_NAMES:
        return None
    description = definition.get("description", definition.get("desc"))
    schema = next((x for x in map(definition.get, _SCHEMAS) if x is not None), None)
    if isinstance(schema, str):
        schema = opened(schema)
    elif isinstance(schema, dict) and schema.keys() == {"json"}:  # Bedrock's
        schema = schema["json"]
    return Tool(name, description if isinstance(description, str) else None, schema)


def _is_text_block(block: object) -> bool:
    return (
        isinstance(block, dict)
        # no set: it may be unhashable
        and block.get("type") in ("text", "output_text", "input_text")
        and isinstance(_block_text(block), str)
        and _BLOCK_KEYS.issuperset(block)
    )


def _block_text(block: dict[str, Any]) -> Any:
    return block.get("text", block.get("content"))


_MAX_CALLS = 32  # that one answer requests


def split_calls(messages: Sequence[Message], tools: Sequence[Tool]) -> tuple[Message, ...]:
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
    found, end = json_values(text, between="")
    return found if end == len(text) and 1 < len(found) <= _MAX_CALLS else []


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


_MAX_RESULTS = 1000  # of one message
_NUMBERED = re.compile(r"_\d+$")


def response_content(returned: Json, *, objects: bool = False) -> Json:
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
    calls = tuple(changed(x, call_id=_given_id(x.call_id, names)) for x in message.calls)
    values = (response_content(x.value, objects=objects) for x in message.results)
    given = (_given_id(x.call_id, names) for x in message.results)
    results = tuple(map(ToolResult, given, values, (x.error for x in message.results)))
    return changed(message, calls=calls, results=results)


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
        found = _gemini_objects(message.text or "") if may_answer else []
        if found and len(found) == pending:
            yield changed(
                message, role="tool", text=None, results=tuple(ToolResult(None, x) for x in found)
            )
        else:
            yield message
        pending = len(message.calls)


def _gemini_objects(text: str) -> list[Json]:
    """The JSON objects that a text consists of, with empty lines between them; empty for any other
    text.
    """
    found, end = json_values(text, between="\n")
    is_whole = end == len(text) and len(found) <= _MAX_RESULTS
    return found if is_whole and all(isinstance(x, dict) for x in found) else []
