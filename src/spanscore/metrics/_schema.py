"""A bounded JSON Schema validator for untrusted schemas."""

import re
from collections.abc import Callable, Iterator
from itertools import islice
from typing import Any
from urllib.parse import unquote

from spanscore.model.json import Json, loads

MAX_DEPTH = 16
MAX_STEPS = 50_000
"""The work on all the values that one budget is for: some 100 to 200 ms."""
MAX_SCHEMA_VALUES = 50_000
"""A schema that contains more objects, lists, numbers and texts is not looked at."""
MAX_VIOLATIONS = 5
_BRIEF_CHARS = 60
_OF_NO_TYPE = object()
_INDEX = re.compile(r"[0-9]{1,6}")
_NAME_CHARS = 200
_COMPARED_IN_A_STEP = 16
_CHARS_OF_A_VALUE = 64
_BOUNDS = frozenset(
    (
        "enum",
        "const",
        "minLength",
        "maxLength",
        "minimum",
        "maximum",
        "exclusiveMinimum",
        "exclusiveMaximum",
    )
)
_PLAIN = _BOUNDS.union(
    (
        "type",
        "description",
        "title",
        "default",
        "examples",
        "properties",
        "required",
        "additionalProperties",
        "$schema",
    )
)


class TooLargeError(Exception):
    """A schema, or what it makes of the values, takes too long to be checked."""


class Steps:
    """A budget of `MAX_STEPS` for all the values that are checked with it."""

    def __init__(self) -> None:
        self._left = MAX_STEPS

    def take(self, count: int = 1) -> None:
        """Spend so many steps. Raises TooLargeError where there are no more."""
        self._left -= count
        if self._left < 0:
            raise TooLargeError

    def compare(self, value: Json, others: int) -> None:
        """Spend what it takes to compare `value` with so many others. Raises TooLargeError."""
        room = self._left * _COMPARED_IN_A_STEP
        self.take(1 + size(value, room) * max(others, 1) // _COMPARED_IN_A_STEP)


def size(value: Json, most: int) -> int:
    """How many objects, lists, numbers and texts of 64 characters `value` contains, itself
    included; counted to `most`.

    >>> size({"a": [1, 2]}, 100), size([0] * 1000, 10)
    (4, 10)
    """
    counted = 0
    waiting: list[Iterator[Json]] = [iter((value,))]
    while waiting and counted < most:
        for found in waiting[-1]:
            counted += 1
            if isinstance(found, str):
                counted += len(found) // _CHARS_OF_A_VALUE
            elif isinstance(found, dict | list):
                waiting.append(iter(found.values() if isinstance(found, dict) else found))
            break
        else:
            waiting.pop()
    return min(counted, most)


def violations(
    value: Json,
    schema: Json,
    steps: Steps | None = None,
    *,
    fills_in: bool = False,
    converts: bool = False,
) -> list[str]:
    """What in `value` breaks `schema`, at most five sentences; empty when nothing does, or the
    schema says nothing.

    Knows type, enum, const, properties, required, additionalProperties, items, anyOf, oneOf, allOf,
    local $ref and the bounds of numbers, lengths and counts. Other keywords are ignored; `pattern`
    is, since a regular expression from a trace could take for ever. Types may be in capitals, as
    Gemini has them.

    With `fills_in`, a missing member that has a default, and a null for one that may be left out,
    break nothing. With `converts`, nor does a value of another type that frameworks convert (see
    `as_type`). Both hold at any depth.

    It costs some of `steps`, of a budget of its own without. Raises TooLargeError where they do not
    suffice and nothing was found until then.

    >>> violations(
    ...     {"city": 7},
    ...     {"properties": {"city": {"type": "string"}, "day": {}}, "required": ["day"]},
    ... )
    ["'day' is missing", "'city' must be of type string and is 7"]
    """
    steps = steps or Steps()
    if _fits_plainly(value, schema, 0, steps):
        return []
    found: list[str] = []
    try:
        validator = _Validator(schema, steps, fills_in=fills_in, converts=converts)
        found.extend(islice(validator.walk(value, schema, "", 0), MAX_VIOLATIONS))
    except TooLargeError:
        if not found:
            raise
    return found


class _Validator:
    """Walks one value, at the cost of `steps`."""

    def __init__(self, root: Json, steps: Steps, *, fills_in: bool, converts: bool) -> None:
        self._root = root
        self._steps = steps
        self._fills_in = fills_in
        self._converts = converts

    def walk(self, value: Json, schema: Json, path: str, depth: int) -> Iterator[str]:
        self._steps.take(1 + _length(schema) // _COMPARED_IN_A_STEP)
        if not isinstance(schema, dict) or depth > MAX_DEPTH:
            return
        if "$ref" in schema:
            yield from self.walk(value, self._resolve(schema["$ref"]), path, depth + 1)
        taken = self._of_its_type(value, schema)
        if taken is _OF_NO_TYPE:
            kinds = _type_name(schema["type"])
            yield f"{_at(path)} must be of type {kinds} and is {_brief(value)}"
            return
        value = taken
        if not _BOUNDS.isdisjoint(schema):
            yield from _value_bounds(value, schema, path, self._steps)
        if isinstance(value, dict):
            yield from self._members(value, schema, path, depth)
        elif isinstance(value, list):
            yield from self._elements(value, schema, path, depth)
        if "allOf" in schema or "anyOf" in schema or "oneOf" in schema:
            yield from self._combined(value, schema, path, depth)

    def _members(
        self, value: dict[str, Json], schema: dict[str, Json], path: str, depth: int
    ) -> Iterator[str]:
        required, properties = schema.get("required"), schema.get("properties")
        self._steps.take((len(value) + _length(required)) // _COMPARED_IN_A_STEP)
        needed = [x for x in required if isinstance(x, str)] if isinstance(required, list) else []
        known = properties if isinstance(properties, dict) else {}
        for name in needed:
            if name not in value and not self._has_default(known.get(name)):
                yield f"{_at(_join(path, name))} is missing"
        others = schema.get("additionalProperties")
        left_out = self._nulls(value, needed) if self._fills_in else frozenset[str]()
        for name, member in value.items():
            if name in left_out:
                continue
            if name in known:
                yield from self.walk(member, known[name], _join(path, name), depth + 1)
            elif others is False:
                yield f"{_at(_join(path, name))} is not a parameter"
            elif isinstance(others, dict):
                yield from self.walk(member, others, _join(path, name), depth + 1)

    def _elements(
        self, value: list[Json], schema: dict[str, Json], path: str, depth: int
    ) -> Iterator[str]:
        yield from _between(
            len(value), schema, "minItems", "maxItems", f"the length of {_at(path)}"
        )
        items = schema.get("items")
        if isinstance(items, dict):
            for index, item in enumerate(value):
                yield from self.walk(item, items, f"{path}[{index}]", depth + 1)

    def _combined(
        self, value: Json, schema: dict[str, Json], path: str, depth: int
    ) -> Iterator[str]:
        for part in _schemas(schema, "allOf"):
            yield from self.walk(value, part, path, depth + 1)
        for keyword in ("anyOf", "oneOf"):
            parts = _schemas(schema, keyword)
            if parts and all(next(self.walk(value, part, path, depth + 1), None) for part in parts):
                yield f"{_at(path)} fits none of the allowed forms and is {_brief(value)}"

    def _of_its_type(self, value: Json, schema: dict[str, Json]) -> Any:
        """The value as it is or as it is converted to a type that the schema allows; else
        `_OF_NO_TYPE`.
        """
        if "type" not in schema or _is_of(value, schema, self._steps):
            return value
        if not self._converts:
            return _OF_NO_TYPE
        declared = schema["type"]
        self._steps.take(_length(declared) + size(value, MAX_SCHEMA_VALUES))
        kinds = declared if isinstance(declared, list) else [declared]
        found = (as_type(value, _kind(x)) for x in kinds)
        return next((x for x in found if x is not None), _OF_NO_TYPE)

    def _has_default(self, described: Json) -> bool:
        """Whether a missing member is filled in, by its schema or by the one it refers to."""
        if not self._fills_in or not isinstance(described, dict):
            return False
        referred = self._resolve(described["$ref"]) if "$ref" in described else None
        return "default" in described or (isinstance(referred, dict) and "default" in referred)

    def _nulls(self, value: dict[str, Json], needed: list[str]) -> frozenset[str]:
        """The names of members that are null and need not be there."""
        nulls = frozenset(name for name, member in value.items() if member is None)
        return nulls.difference(needed) if nulls else nulls

    def _resolve(self, ref: Json) -> Json:
        """What a local JSON pointer names (RFC 6901); None where it names nothing."""
        if ref == "#":
            return self._root
        if not isinstance(ref, str) or not ref.startswith("#/"):
            return None
        self._steps.take(len(ref) // _COMPARED_IN_A_STEP)
        found = self._root
        for part in unquote(ref[2:]).split("/"):
            key = part.replace("~1", "/").replace("~0", "~")
            found = found.get(key) if isinstance(found, dict) else _element(found, key)
        return found


def _element(value: Json, key: str) -> Json:
    """The element of a list that a part of a JSON pointer names."""
    if not isinstance(value, list) or not _INDEX.fullmatch(key):
        return None
    place = int(key)
    return value[place] if place < len(value) else None


def _schemas(schema: dict[str, Json], keyword: str) -> list[Json]:
    parts = schema.get(keyword)
    return parts if isinstance(parts, list) else []


def _value_bounds(value: Any, schema: dict[str, Any], path: str, steps: Steps) -> Iterator[str]:
    yield from _same_as(value, schema, path, steps)
    if isinstance(value, str):
        yield from _between(
            len(value), schema, "minLength", "maxLength", f"the length of {_at(path)}"
        )
    elif _is_number(value):
        yield from _between(value, schema, "minimum", "maximum", _at(path))
        low, high = schema.get("exclusiveMinimum"), schema.get("exclusiveMaximum")
        if _is_number(low) and value <= low:
            yield f"{_at(path)} must be more than {low} and is {value}"
        if _is_number(high) and value >= high:
            yield f"{_at(path)} must be less than {high} and is {value}"


def _same_as(value: Json, schema: dict[str, Json], path: str, steps: Steps) -> Iterator[str]:
    enum = schema.get("enum")
    if isinstance(enum, list):
        steps.compare(value, len(enum))
        if value not in enum:
            yield f"{_at(path)} must be one of {_brief(enum)} and is {_brief(value)}"
    if "const" in schema:
        steps.compare(value, 1)
        if value != schema["const"]:
            yield f"{_at(path)} must be {_brief(schema['const'])} and is {_brief(value)}"


def _between(size: Any, schema: dict[str, Any], least: str, most: str, what: str) -> Iterator[str]:
    low, high = schema.get(least), schema.get(most)
    if _is_number(low) and size < low:
        yield f"{what} must be at least {low} and is {size}"
    if _is_number(high) and size > high:
        yield f"{what} must be at most {high} and is {size}"


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


_KINDS: dict[Any, Callable[[Any], bool]] = {
    "string": lambda x: isinstance(x, str),
    "integer": lambda x: _is_number(x) and (isinstance(x, int) or x.is_integer()),
    "number": _is_number,
    "boolean": lambda x: isinstance(x, bool),
    "object": lambda x: isinstance(x, dict),
    "array": lambda x: isinstance(x, list),
    "null": lambda x: x is None,
}

_PLAIN_TYPES: dict[str, tuple[type, ...]] = {
    "string": (str,),
    "integer": (int,),
    "number": (int, float),
    "boolean": (bool,),
    "object": (dict,),
    "array": (list,),
    "null": (type(None),),
}


def _fits_plainly(value: Json, schema: Json, depth: int, steps: Steps) -> bool:
    """The common case, decided fast: types, bounds, properties and required names, and a value that
    fits them.

    False says nothing. Raises TooLargeError.
    """
    steps.take(1 + _length(schema) // _COMPARED_IN_A_STEP)
    if not isinstance(schema, dict) or depth > MAX_DEPTH or not _PLAIN.issuperset(schema):
        return False
    kind = schema.get("type")
    if not isinstance(kind, str) or type(value) not in _PLAIN_TYPES.get(kind, ()):
        return False
    if not _BOUNDS.isdisjoint(schema) and any(_value_bounds(value, schema, "", steps)):
        return False
    return not isinstance(value, dict) or _members_fit_plainly(value, schema, depth, steps)


def _members_fit_plainly(
    value: dict[str, Json], schema: dict[str, Json], depth: int, steps: Steps
) -> bool:
    properties, required = schema.get("properties", {}), schema.get("required", [])
    if not isinstance(properties, dict) or not isinstance(required, list):
        return False
    steps.take(len(required) // _COMPARED_IN_A_STEP)
    if not all(isinstance(name, str) and name in value for name in required):
        return False
    return all(
        name in properties and _fits_plainly(value[name], properties[name], depth + 1, steps)
        for name in value
    )


def _is_of(value: Json, schema: dict[str, Json], steps: Steps) -> bool:
    declared = schema["type"]
    steps.take(_length(declared))
    kinds = declared if isinstance(declared, list) else [declared]
    if value is None and schema.get("nullable") is True:
        return True
    # A type that JSON Schema does not know forbids nothing.
    return any(_kind(kind) not in _KINDS or _KINDS[_kind(kind)](value) for kind in kinds)


def _kind(declared: Json) -> str:
    """The type of this name, in whatever case; "" for what is no name."""
    return declared[:_NAME_CHARS].lower() if isinstance(declared, str) else ""


def _type_name(declared: Json) -> str:
    return " or ".join(map(_cut, declared)) if isinstance(declared, list) else _cut(declared)


def _cut(value: Json) -> str:
    return value[:_NAME_CHARS] if isinstance(value, str) else _brief(value)


def _length(value: Json) -> int:
    return len(value) if isinstance(value, list | dict) else 0


def _join(path: str, name: str) -> str:
    name = name[:_NAME_CHARS]
    return f"{path}.{name}" if path else name


def _at(path: str) -> str:
    return repr(path) if path else "the whole"


def _brief(value: Json) -> str:
    """The beginning of what Python shows of `value`, of which no more is looked at."""
    text = ""
    for piece in _shown(value):
        text += piece
        if len(text) > _BRIEF_CHARS:
            return f"{text[:_BRIEF_CHARS]}..."
    return text


def _shown(value: Json) -> Iterator[str]:
    if isinstance(value, str):
        yield repr(value[: _BRIEF_CHARS + 1])
    elif isinstance(value, dict):
        yield "{"
        for place, (name, member) in enumerate(value.items()):
            yield f"{', ' if place else ''}{name[: _BRIEF_CHARS + 1]!r}: "
            yield from _shown(member)
        yield "}"
    elif isinstance(value, list):
        yield "["
        for place, element in enumerate(value):
            yield ", " if place else ""
            yield from _shown(element)
        yield "]"
    else:
        yield repr(value)


_MAX_CHARS = 100_000
_PARSED: dict[str, tuple[type, ...]] = {
    "integer": (int, float),
    "number": (int, float),
    "object": (dict,),
    "array": (list,),
}


def as_type(value: Json, kind: str) -> Json:
    """`value` in the JSON type `kind`, where frameworks convert it; None where they do not.

    Text becomes the number, boolean, object or list that it is in JSON, and a number text.

    >>> as_type("5", "integer"), as_type("True", "boolean"), as_type(5, "string")
    (5, True, '5')
    >>> as_type("five", "integer"), as_type(5, "array")
    (None, None)
    """
    if isinstance(value, int | float) and not isinstance(value, bool):
        return str(value) if kind == "string" else None
    if not isinstance(value, str):
        return None
    if kind == "boolean":
        return {"true": True, "false": False}.get(value[:10].casefold())
    if kind not in _PARSED or len(value) > _MAX_CHARS:
        return None
    return _parsed(value, kind)


def _parsed(text: str, kind: str) -> Json:
    try:
        value = loads(text)
    except ValueError:
        return None
    is_whole = kind != "integer" or not isinstance(value, float) or value.is_integer()
    fits = isinstance(value, _PARSED[kind]) and not isinstance(value, bool) and is_whole
    return value if fits else None
