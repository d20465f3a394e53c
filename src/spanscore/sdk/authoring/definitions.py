"""Tools on offer as OpenTelemetry lists them, made of functions, of a provider's definitions, or of
names.
"""

import enum
import inspect
import types
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints
from weakref import WeakKeyDictionary

from spanscore.model.json import Json
from spanscore.sdk.authoring.guarding import guarded
from spanscore.sdk.authoring.values import Plain, json_of

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
_UNIONS = (Union, types.UnionType)
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
    documented = description or (
        inspect.getdoc(named) if hasattr(named, "__name__") else named.__doc__
    )
    return Described(own_name, inspect.cleandoc(documented) if documented else None)


@guarded
def definitions_of(tools: Iterable[Any]) -> str:
    """The tools as JSON text of definitions."""
    return json_of(
        [_definition(x) for x in ([tools] if isinstance(tools, str | Mapping) else tools)],
        _MAX_CHARS,
    )


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
        return {
            "type": "function",
            **{"parameters" if k == "input_schema" else k: v for k, v in given.items()},
        }
    return {"type": "function", **given}


def _of_object(tool: Any) -> Json:
    """A framework's tool: what it says of itself."""
    found: dict[str, Json] = {"type": "function", "name": tool.name}
    if isinstance(getattr(tool, "description", None), str):
        found["description"] = tool.description
    schema = next(
        (x for x in (getattr(tool, y, None) for y in _SCHEMAS) if isinstance(x, Mapping)), None
    )
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
    called = (
        function
        if inspect.isroutine(function)
        else getattr(function, "func", type(function).__call__)
    )
    try:
        return get_type_hints(called, include_extras=True)
    except Exception:  # noqa: BLE001 - a name in an annotation may exist for the type checker alone
        return {}


def _schema_or_any(hint: Any) -> dict[str, Json]:
    try:
        return _schema(hint)
    except Exception:  # noqa: BLE001 - a type may be anything that Python can evaluate
        return {}


def _schema(hint: Any, depth: int = 0) -> dict[str, Json]:
    origin = get_origin(hint)
    if origin is None and hint in _TYPES:
        return dict(_TYPES[hint])
    if depth >= _MAX_NESTED:
        return {}
    if origin is Annotated:
        return _annotated(hint, depth)
    if origin in _UNIONS:
        return {"anyOf": [_schema(x, depth + 1) for x in get_args(hint)]}
    choices = (
        get_args(hint) if origin is Literal else hint if isinstance(hint, enum.EnumType) else ()
    )
    return (
        {"enum": [Plain().value(x) for x in choices]}
        if choices
        else _container(hint, origin, depth)
    )


def _container(hint: Any, origin: Any, depth: int) -> dict[str, Json]:
    if origin is dict:
        return {"type": "object"}
    if origin in (list, tuple, set):
        items = [x for x in get_args(hint) if x is not Ellipsis]
        return (
            {"type": "array", "items": _schema(items[0], depth + 1)}
            if len(items) == 1
            else {"type": "array"}
        )
    own = getattr(hint, "model_json_schema", None)  # pydantic's
    found = Plain(_MAX_CHARS).value(own()) if callable(own) else None
    return found if isinstance(found, dict) else {}


def _annotated(hint: Any, depth: int) -> dict[str, Json]:
    """The type, with the text beside it as its description."""
    of, *beside = get_args(hint)
    text = next((x for x in beside if isinstance(x, str)), None)
    return _schema(of, depth + 1) | ({} if text is None else {"description": text})
