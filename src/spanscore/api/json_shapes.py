"""Validation of JSON requests against the OpenAPI document.

protobuf's own parser takes more than that: a list or a text as a message without fields, `true` as
the number 1, `"1_0"` as 10, a number as a value of an enum. Here each of these is an error that
names the field.
"""

import math
import re
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from importlib import resources
from typing import Any, Final, TypeAlias

from google.protobuf.descriptor import Descriptor, FieldDescriptor

from spanscore.errors import FieldError, InputError, nearest, shortened
from spanscore.model.json import loads
from spanscore.otlp.codec import is_repeated
from spanscore.rpc import text_of

_FREE_FORM: Final = "google.protobuf."
"""Messages of this package have JSON of their own, which protobuf's parser checks."""

_STRING: Final = re.compile(rb'"[^"]*"?')
"""A string of JSON without escaped quotes; also one without an end."""

_INTEGER: Final = re.compile(r"0|-?[1-9][0-9]{0,18}")
_MAX_64: Final = 2**63 - 1
_INTEGERS: Final[Mapping[int, tuple[int, int]]] = {
    FieldDescriptor.TYPE_INT32: (-(2**31), 2**31 - 1),
    FieldDescriptor.TYPE_UINT32: (0, 2**32 - 1),
    FieldDescriptor.TYPE_INT64: (-_MAX_64 - 1, _MAX_64),
    FieldDescriptor.TYPE_UINT64: (0, _MAX_64),
    FieldDescriptor.TYPE_FIXED64: (0, _MAX_64),
}
"""The types of integers, each with its least and its greatest: what a database can store."""

_LARGE: Final = {
    FieldDescriptor.TYPE_INT64,
    FieldDescriptor.TYPE_UINT64,
    FieldDescriptor.TYPE_FIXED64,
}
"""Those that may be texts: not every reader of JSON has such numbers."""


@cache
def _schemas() -> Mapping[str, Any]:
    """The messages in the OpenAPI document."""
    document = loads(resources.files("spanscore.api").joinpath("openapi.json").read_bytes())
    return document["components"]["schemas"]  # type: ignore[no-any-return]  # of our own making


_MAX_VALUES: Final = 200_000
"""How many values a request may have in all: twice as many as the ids of the largest run."""

_LOOKED_AT: Final = 1024
"""How many bytes of white space there may be before the object."""

_MAX_PROBLEMS: Final = 10
_SHOWN_CHARS: Final = 40
_NAME_CHARS: Final = 256
_LEAVE_OUT: Final = "leave the field out, or write what it contains"
_HALF_A_PAIR: Final = "it has half of a surrogate pair"

_Problems: TypeAlias = Iterator[tuple[str, str]]
"""Places in a request, as in `.target.trace_ids[0]`, each with what is wrong there."""


def check_shape(text: bytes, message: Descriptor) -> None:
    """Raise FieldError, which names the fields that have another shape than `message` has, by
    their names in the proto; and InputError where `text` is no JSON object or has more than
    200,000 values.

    Where it begins as one and cannot be parsed, nothing is raised.
    """
    if not text[:_LOOKED_AT].lstrip().startswith(b"{"):
        raise InputError(
            'the request is no JSON object: write its fields as {"name": …}, or {} for none'
        )
    if _has_many_containers(text):
        raise _too_many_values()
    try:
        given = loads(text)
    except ValueError:
        return  # the parser says what is wrong
    problems = list(_bounded(_Request().in_message(given, message)))
    if problems:
        first, *others = (FieldError(place, problem) for place, problem in problems)
        raise FieldError(first.field, first.problem, others=others)


def _bounded(problems: _Problems) -> _Problems:
    for _, (place, problem) in zip(range(_MAX_PROBLEMS), problems, strict=False):
        yield place.removeprefix("."), problem


class _Request:
    """Finds what is wrong in one request. Raises InputError where it has too many values."""

    def __init__(self) -> None:
        self._values = 0

    def in_message(self, given: Any, message: Descriptor) -> _Problems:
        """What is wrong in a message."""
        if not isinstance(given, dict):
            yield "", f"{_shown(given)} is no object: write its fields as {{…}}"
            return
        seen: set[str] = set()
        chosen: dict[str, str] = {}
        for name, value in given.items():
            field = _field(name, message)
            if field is None:
                known = list(message.fields_by_camelcase_name)
                hint = nearest(name[:_SHOWN_CHARS], known) if known else "it has no fields"
                yield f".{_name(name)}", f"{message.name} has no such field; {hint}"
            elif field.name in seen:
                yield f".{field.name}", f"is there twice, also as {name}: write it once"
            else:
                seen.add(field.name)
                choice = field.containing_oneof
                if choice is not None and value is not None:
                    other = chosen.setdefault(choice.name, field.name)
                    if other != field.name:
                        yield f".{field.name}", f"is there beside {other}: give one of the two"
                for place, problem in self._in_field(value, field):
                    yield f".{field.name}{place}", problem

    def _in_field(self, given: Any, field: Any) -> _Problems:
        """What is wrong with what a field has; null stands for a single value that is left out."""
        inner = field.message_type
        if inner is not None and inner.GetOptions().map_entry:
            yield from self._in_map(given, inner)
        elif is_repeated(field):
            yield from self._in_list(given, field)
        elif given is not None:
            yield from self._in_value(given, field)

    def _in_map(self, given: Any, entry: Descriptor) -> _Problems:
        if not isinstance(given, dict):
            yield "", f"{_shown(given)} is no object; {_LEAVE_OUT}"
            return
        value = entry.fields_by_name["value"]
        for key, one in given.items():
            if _problem_of_text(key):
                yield f".{_name(key)}", f"is no name: {_HALF_A_PAIR}"
            for place, problem in self._in_value(one, value):
                yield f".{_name(key)}{place}", problem

    def _in_list(self, given: Any, field: Any) -> _Problems:
        if not isinstance(given, list):
            yield "", f"{_shown(given)} is no list; {_LEAVE_OUT}"
            return
        described = _schemas().get(field.containing_type.full_name, {}).get("properties", {})
        most = described.get(field.json_name, {}).get("maxItems", _MAX_VALUES)
        if len(given) > most:
            yield "", f"has {len(given):,} values: give {most:,} at most"
            return
        for number, one in enumerate(given):
            for place, problem in self._in_value(one, field):
                yield f"[{number}]{place}", problem

    def _in_value(self, given: Any, field: Any) -> _Problems:
        """What is wrong with one value."""
        self._count(1)
        inner = field.message_type
        if inner is None:
            problem = _problem_of_scalar(given, field)
        elif inner.full_name == f"{_FREE_FORM}FieldMask":
            problem = _problem_of_mask(given)
        elif inner.full_name.startswith(_FREE_FORM):
            problem = self._problem_of_object(given)
        else:
            yield from self.in_message(given, inner)
            return
        if problem:
            yield "", f"{_shown(given)} is {problem}"

    def _problem_of_object(self, given: Any) -> str:
        """What is wrong with an object of any fields, at whatever depth."""
        if not isinstance(given, dict):
            return "no object: write its fields as {…}"
        left: list[Any] = [given]
        while left:
            one = left.pop()
            if isinstance(one, str) and _problem_of_text(one):
                return f"not of Unicode: {_HALF_A_PAIR}"
            if isinstance(one, dict):
                self._count(2 * len(one))
                left += [*one, *one.values()]
            elif isinstance(one, list):
                self._count(len(one))
                left += one
        return ""

    def _count(self, values: int) -> None:
        self._values += values
        if self._values > _MAX_VALUES:
            raise _too_many_values()


def _too_many_values() -> InputError:
    return InputError(
        f"the request has more than {_MAX_VALUES:,} values: send several smaller ones"
    )


def _has_many_containers(text: bytes) -> bool:
    """Whether JSON text has more objects and lists than a request may have values.

    To parse 2,000,000 of them takes a second, in which no other thread runs.
    """
    opened = _opened(text)
    if opened > _MAX_VALUES:
        without_escapes = text.replace(rb"\\", b"").replace(rb"\"", b"")
        opened -= sum(_opened(x[0]) for x in _STRING.finditer(without_escapes))
    return opened > _MAX_VALUES


def _opened(text: bytes) -> int:
    return text.count(b"{") + text.count(b"[")


def _field(name: str, message: Descriptor) -> Any:
    """The field of a message with this name in JSON or in the proto; None where there is none."""
    if _problem_of_text(name):
        return None  # upb fails on it
    return message.fields_by_camelcase_name.get(name) or message.fields_by_name.get(name)


def _problem_of_scalar(given: Any, field: Any) -> str:
    """What a value that is no message is instead of what it should be; "" where it is that."""
    if field.type in _INTEGERS:
        return _problem_of_integer(given, field.type)
    if field.enum_type is not None:
        names = list(field.enum_type.values_by_name)
        return "" if given in names else f"none of {', '.join(names)}"
    return "" if (check := _CHECKS.get(field.type)) is None else check(given)


def _problem_of_integer(given: Any, kind: int) -> str:
    low, high = _INTEGERS[kind]
    is_text = kind in _LARGE and isinstance(given, str) and _INTEGER.fullmatch(given)
    if not is_text and not _is_integer(given):
        return "no integer" if kind in _LARGE else "no integer: write it as a number of JSON"
    return "" if low <= int(given) <= high else f"not between {low} and {high}"


def _is_integer(given: Any) -> bool:
    if isinstance(given, float):
        return given.is_integer()
    return isinstance(given, int) and not isinstance(given, bool)


def _problem_of_float(given: Any) -> str:
    if isinstance(given, bool) or not isinstance(given, int | float):
        return "no number"
    try:
        return "" if math.isfinite(given) else "no finite number"
    except OverflowError:  # an integer that no float can be
        return "no number that a double can be"


def _problem_of_text(given: Any) -> str:
    if not isinstance(given, str):
        return "no text: write it in quotes"
    try:
        given.encode()
    except UnicodeEncodeError:
        return f"no text of Unicode: {_HALF_A_PAIR}"
    return ""


def _problem_of_mask(given: Any) -> str:
    if not isinstance(given, str) or _problem_of_text(given):
        return _problem_of_text(given)
    if "_" not in given:
        return ""
    written = re.sub("_+([a-z0-9]?)", lambda x: x[1].upper(), given[:_NAME_CHARS])
    return f"no field mask in JSON, whose paths are in camelCase: write {written}"


_CHECKS: Final[Mapping[int, Callable[[Any], str]]] = {
    FieldDescriptor.TYPE_BOOL: lambda x: "" if isinstance(x, bool) else "neither true nor false",
    FieldDescriptor.TYPE_DOUBLE: _problem_of_float,
    FieldDescriptor.TYPE_FLOAT: _problem_of_float,
    FieldDescriptor.TYPE_STRING: _problem_of_text,
}


def _shown(given: Any) -> str:
    """A value as an error shows it."""
    if isinstance(given, dict):
        return "an object"
    if isinstance(given, list):
        return "a list"
    if given is None:
        return "null"
    is_text = isinstance(given, str)
    text = ascii(given[: _SHOWN_CHARS + 1]) if is_text else str(given)
    return shortened(text, _SHOWN_CHARS)


def _name(key: str) -> str:
    """The name of a field, or a key, as an error shows it."""
    return text_of(shortened(key, _NAME_CHARS))
