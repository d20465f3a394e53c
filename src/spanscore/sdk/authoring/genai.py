"""Tools, messages and responses as the GenAI conventions have them."""

import enum
import inspect
import itertools
import types
import typing
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary

from spanscore.model.json import Json, loads
from spanscore.sdk.authoring.values import Plain, guarded, json_of, text_of

DESCRIBED = "__spanscore_tool__"
"""The attribute of a decorated function that holds its `Described`."""

_MAX_CHARS = 1_000_000
_TYPES: dict[Any, dict[str, Json]] = {
    str: {"type": "string"},
    int: {"type": "integer"},
    float: {"type": "number"},
    bool: {"type": "boolean"},
    list: {"type": "array"},
    tuple: {"type": "array"},
    set: {"type": "array"},
    dict: {"type": "object"},
    types.NoneType: {"type": "null"},
}
_UNIONS = (typing.Union, types.UnionType)
_MAX_NESTED = 8


@dataclass(frozen=True)
class Described:
    """A tool's name, and its description where there is one."""

    name: str
    description: str | None = None


def described(function: Any, name: str | None = None, description: str | None = None) -> Described:
    """What a function, a method, a partial or an object that can be called is called and does."""
    named = getattr(function, "func", function)  # of a functools.partial
    own_name = name or getattr(named, "__name__", None) or type(named).__name__
    own = inspect.getdoc(named) if hasattr(named, "__name__") else named.__doc__
    documented = description or own
    return Described(own_name, inspect.cleandoc(documented) if documented else None)


@guarded
def definitions_of(tools: Iterable[Any]) -> str:
    """The tools as JSON text of definitions."""
    listed = [tools] if isinstance(tools, str | Mapping) else tools
    return json_of([_definition(x) for x in listed], _MAX_CHARS)


def _definition(tool: Any) -> Json:
    if isinstance(tool, str):
        return {"type": "function", "name": tool}
    if isinstance(tool, Mapping):
        given = Plain(_MAX_CHARS).value(tool)
        return _flat(given) if isinstance(given, dict) else given
    if isinstance(getattr(tool, "name", None), str) and not inspect.isroutine(tool):
        return _of_object(tool)
    return _of_callable(tool)


def _flat(given: dict[str, Json]) -> dict[str, Json]:
    """A provider's definition in the form that the conventions have: its function's fields beside
    the type.
    """
    function = given.get("function")
    if isinstance(function, dict):
        return {"type": "function", **function}
    if "input_schema" in given and "parameters" not in given:  # Anthropic's
        given["parameters"] = given.pop("input_schema")
    return {"type": "function", **given}


def _of_object(tool: Any) -> Json:
    """A framework's tool: what it says of itself."""
    found: dict[str, Json] = {"type": "function", "name": tool.name}
    if isinstance(getattr(tool, "description", None), str):
        found["description"] = tool.description
    given = (getattr(tool, x, None) for x in _SCHEMAS)
    schema = next((x for x in given if isinstance(x, Mapping)), None)
    arguments = getattr(tool, "args", None)  # LangChain's: the properties alone
    if schema is None and isinstance(arguments, Mapping):
        schema = {"type": "object", "properties": arguments}
    if schema is not None:
        found["parameters"] = Plain(_MAX_CHARS).value(schema)
    return found


_SCHEMAS = ("params_json_schema", "parameters", "input_schema")


_of_functions: WeakKeyDictionary[types.FunctionType, dict[str, Json]] = WeakKeyDictionary()
_of_methods: WeakKeyDictionary[types.FunctionType, dict[str, Json]] = WeakKeyDictionary()
"""What is known of functions, and of methods by their functions: no object that a method is bound
to is kept alive.
"""


def _of_callable(called: Any) -> dict[str, Json]:
    """The definition of what can be called, made once of a function: every turn of an agent lists
    the same ones.
    """
    is_method = isinstance(called, types.MethodType)
    function = called.__func__ if is_method else called
    if not isinstance(function, types.FunctionType):
        return _of_function(called)
    known = _of_methods if is_method else _of_functions
    found = known.get(function)
    if found is None:
        found = known[function] = _of_function(called)
    return found


def _of_function(function: Callable[..., Any]) -> dict[str, Json]:
    tool: Described = getattr(function, DESCRIBED, None) or described(function)
    found: dict[str, Json] = {"type": "function", "name": tool.name}
    if tool.description:
        found["description"] = tool.description
    found["parameters"] = parameters_of(function)
    return found


def parameters_of(function: Callable[..., Any]) -> dict[str, Json]:
    """The JSON schema of a function's parameters: of those whose type has a plain one, the type."""
    hints = _hints(function)
    properties: dict[str, Json] = {}
    required: list[Json] = []
    for name, parameter in own_parameters(inspect.signature(function)).items():
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
            continue
        properties[name] = _schema_or_any(hints.get(name, Any))
        if parameter.default is parameter.empty:
            required.append(name)
    return {"type": "object", "properties": properties, "required": required}


def own_parameters(signature: inspect.Signature) -> dict[str, inspect.Parameter]:
    """The parameters without the object or class that a method is called on."""
    listed = list(signature.parameters.items())
    return dict(listed[1:] if listed and listed[0][0] in ("self", "cls") else listed)


def _hints(function: Any) -> dict[str, Any]:
    is_plain = inspect.isroutine(function)
    called = function if is_plain else getattr(function, "func", type(function).__call__)
    try:
        return typing.get_type_hints(called, include_extras=True)
    except Exception:  # noqa: BLE001 - a name in an annotation may exist for the type checker alone
        return {}


def _schema_or_any(hint: Any) -> dict[str, Json]:
    try:
        return _schema(hint)
    except Exception:  # noqa: BLE001 - a type may be anything that Python can evaluate
        return {}


def _schema(hint: Any, depth: int = 0) -> dict[str, Json]:
    origin = typing.get_origin(hint)
    if origin is None and hint in _TYPES:
        return dict(_TYPES[hint])
    if depth >= _MAX_NESTED:
        return {}
    if origin is typing.Annotated:
        return _annotated(hint, depth)
    if origin in _UNIONS:
        return {"anyOf": [_schema(x, depth + 1) for x in typing.get_args(hint)]}
    is_enum = isinstance(hint, enum.EnumType)
    choices = typing.get_args(hint) if origin is typing.Literal else hint if is_enum else ()
    if choices:
        return {"enum": [Plain().value(x) for x in choices]}
    return _container(hint, origin, depth)


def _container(hint: Any, origin: Any, depth: int) -> dict[str, Json]:
    if origin is dict:
        return {"type": "object"}
    if origin in (list, tuple, set):
        items = [x for x in typing.get_args(hint) if x is not Ellipsis]
        of = {"items": _schema(items[0], depth + 1)} if len(items) == 1 else {}
        return {"type": "array", **of}
    own = getattr(hint, "model_json_schema", None)  # pydantic's
    found = Plain(_MAX_CHARS).value(own()) if callable(own) else None
    return found if isinstance(found, dict) else {}


def _annotated(hint: Any, depth: int) -> dict[str, Json]:
    """The type, with the text beside it as its description."""
    of, *beside = typing.get_args(hint)
    text = next((x for x in beside if isinstance(x, str)), None)
    return _schema(of, depth + 1) | ({} if text is None else {"description": text})


class Arguments:
    """Names what a function is called with; defaults that a call leaves out stay out, as a model
    leaves them out.
    """

    def __init__(self, function: Callable[..., Any]) -> None:
        self._signature = _signature(function)
        own = {} if self._signature is None else own_parameters(self._signature)
        self._keywords = next((x.name for x in own.values() if x.kind is x.VAR_KEYWORD), None)
        self._is_method = self._signature is not None and len(own) < len(self._signature.parameters)

    @guarded
    def named(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
        """The arguments by name.

        Those of a call that the function would refuse are named as far as they can be.
        """
        given = self._bound(args, kwargs)
        if self._is_method:
            given = dict(list(given.items())[1:])
        if self._keywords in given:
            given |= given.pop(self._keywords)
        return given

    @guarded
    def first(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """The first argument, without the object that a method is called on; None where there is
        none.
        """
        return next(iter((self.named(args, kwargs) or {}).values()), None)

    def _bound(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
        names = [] if self._signature is None else list(self._signature.parameters)
        if self._signature is not None:
            try:
                return dict(self._signature.bind(*args, **kwargs).arguments)
            except TypeError:  # the function itself is about to say so
                pass
        found = dict(zip(names, args, strict=False))
        left = args[len(names) :]
        return {**found, **({"args": list(left)} if left else {}), **kwargs}


def _signature(function: Callable[..., Any]) -> inspect.Signature | None:
    """The signature; None of what Python has none for, such as some functions in C."""
    try:
        return inspect.signature(function)
    except (TypeError, ValueError):
        return None


"""Of a whole conversation. Each message that is not part of one has the bound of a single value."""


def messages_of(value: object, role: str, *, finish_reason: str | None = None) -> str:
    """`value` as JSON text of messages; what is none is the text of one message of `role`.

    >>> messages_of("Hi", "user")
    '[{"role":"user","parts":[{"type":"text","content":"Hi"}]}]'
    """
    given = _plain(value)
    if _is_conversation(given):
        written = [_message(x) for x in given]
    elif isinstance(given, dict) and _is_message(given):
        written = [_message(given)]
    else:
        written = [{"role": role, "parts": [{"type": "text", "content": text_of(value)}]}]
    if finish_reason is not None:
        written[-1].setdefault("finish_reason", finish_reason)
    return json_of(written, _MAX_CHARS)


def requested_calls(value: object) -> Iterator[tuple[str, Json, str]]:
    """The name, arguments and id of each tool call that a model's answer asks for."""
    given = _plain(value)
    for item in given if isinstance(given, list) else [given]:
        if not isinstance(item, dict):
            continue
        for part in _parts(item):
            if part.get("type") == "tool_call" and part.get("id") and part.get("name"):
                yield str(part["name"]), part.get("arguments"), str(part["id"])


def instructions_of(text: str) -> str:
    """System instructions as JSON text."""
    return json_of([{"type": "text", "content": text_of(text)}])


def _plain(value: object) -> Json:
    return value if isinstance(value, str) else Plain(_MAX_CHARS).value(value)


def _is_conversation(given: Json) -> typing.TypeGuard[list[dict[str, Json]]]:
    if not isinstance(given, list) or not given:
        return False
    return all(isinstance(x, dict) and _is_message(x) for x in given)


def _is_message(item: Mapping[str, Any]) -> bool:
    has_content = not {"content", "parts", "tool_calls"}.isdisjoint(item)
    return isinstance(item.get("role"), str) and has_content


def _message(item: dict[str, Json]) -> dict[str, Json]:
    kept = {key: item[key] for key in ("name", "finish_reason") if item.get(key) is not None}
    return {"role": item["role"], "parts": list(_parts(item)), **kept}


def _parts(item: Mapping[str, Any]) -> Iterator[dict[str, Json]]:
    """The parts of a message of OpenAI, Anthropic or OpenTelemetry; what is of no kind that is
    known stays as it is.
    """
    if isinstance(item.get("parts"), list):
        yield from (x for x in item["parts"] if isinstance(x, dict))
        return
    content = item.get("content")
    if item.get("role") == "tool":
        yield _returned(item.get("tool_call_id"), content)
        return
    for block in content if isinstance(content, list) else [content]:
        if isinstance(block, str):
            yield {"type": "text", "content": block}
        elif isinstance(block, dict):
            yield _block(block)
    for call in item.get("tool_calls") or ():
        if isinstance(call, dict):
            yield _call(call)


def _block(block: dict[str, Json]) -> dict[str, Json]:
    kind = block.get("type")
    if kind in ("text", "input_text", "output_text") and isinstance(block.get("text"), str):
        return {"type": "text", "content": block["text"]}
    if kind == "tool_use":
        return _requested(block.get("id"), block.get("name"), block.get("input"))
    if kind == "tool_result":
        return _returned(block.get("tool_use_id"), block.get("content"))
    if kind == "thinking":
        return {"type": "reasoning", "content": block.get("thinking")}
    return block


def _call(call: dict[str, Any]) -> dict[str, Json]:
    function = call["function"] if isinstance(call.get("function"), dict) else call
    arguments = _arguments(function.get("arguments"))
    return _requested(call.get("id"), function.get("name"), arguments)


def _requested(call_id: Json, name: Json, arguments: Json) -> dict[str, Json]:
    return {"type": "tool_call", "id": call_id, "name": name, "arguments": arguments}


def _returned(call_id: Json, response: Json) -> dict[str, Json]:
    return {"type": "tool_call_response", "id": call_id, "response": response}


def _arguments(given: Json) -> Json:
    """What a model wrote as arguments, as the JSON value that it is; text that is no JSON stays
    text.
    """
    if not isinstance(given, str):
        return given
    try:
        opened: Json = loads(given) if given else {}
    except ValueError:
        return given
    return opened


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
    given = _plain(value)
    if not isinstance(given, dict) or (found := _answered(given)) is None:
        return Response(given)
    answer, reasons, of_input, of_output = found
    usage = given.get("usage")
    usage = usage if isinstance(usage, dict) else {}
    counts = [x for name in of_input if (x := _count(usage.get(name))) is not None]
    return Response(
        answer,
        _text(given.get("model")),
        _text(given.get("id")),
        reasons,
        sum(counts) if counts else None,
        _count(usage.get(of_output)),
    )


def _answered(given: dict[str, Any]) -> tuple[Any, tuple[str, ...], tuple[str, ...], str] | None:
    """The answer and why it ends, and the names of its counts of tokens; None where it is none.

    Anthropic counts the tokens that it had in its cache beside those that it had not.
    """
    if isinstance(given.get("choices"), list):
        choices = [x for x in given["choices"] if isinstance(x, dict)]
        messages = [x["message"] for x in choices if isinstance(x.get("message"), dict)]
        reasons = tuple(str(x["finish_reason"]) for x in choices if x.get("finish_reason"))
        return messages, reasons, ("prompt_tokens",), "completion_tokens"
    if isinstance(given.get("output"), list):
        items = [x for x in given["output"] if isinstance(x, dict)]
        parts = list(itertools.chain.from_iterable(map(_item_parts, items)))
        return {"role": "assistant", "parts": parts}, (), ("input_tokens",), "output_tokens"
    content = given.get("content")
    if given.get("type") == "message" and isinstance(content, list) and "usage" in given:
        stop = _text(given.get("stop_reason"))
        message = {"role": "assistant", "content": content}
        return message, (stop,) if stop else (), _ANTHROPIC_INPUT, "output_tokens"
    return None


def _item_parts(item: dict[str, Any]) -> Iterator[Json]:
    if item.get("type") == "function_call":
        yield _requested(item.get("call_id"), item.get("name"), item.get("arguments"))
    elif item.get("type") == "message" and isinstance(item.get("content"), list):
        yield from ({"type": "text", "content": x["text"]} for x in item["content"] if _is_text(x))


def _is_text(block: object) -> bool:
    return isinstance(block, dict) and isinstance(block.get("text"), str)


_ANTHROPIC_INPUT = ("input_tokens", "cache_creation_input_tokens", "cache_read_input_tokens")


def _text(value: object) -> str | None:
    return value if isinstance(value, str) and value else None


def _count(value: object) -> int | None:
    return value if type(value) is int and value >= 0 else None
