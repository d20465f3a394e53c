"""A filter that is held against items: records that were read, in memory."""

import operator
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, Generic, TypeAlias, TypeVar

from spanscore.filters.fields import Field, Fields, Value, field_of, value_of
from spanscore.filters.syntax import And, Comparison, Node, Not, Or, read

ItemT = TypeVar("ItemT")

_Test: TypeAlias = Callable[[Any], bool]

_ORDERING: Final = {"<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge}


@dataclass(frozen=True, slots=True)
class Filter(Generic[ItemT]):
    """A checked filter: its tree, and whether an item meets it."""

    node: Node
    matches: Callable[[ItemT], bool]


def parse(text: str, fields: Fields[ItemT]) -> Filter[ItemT] | None:
    """The filter that `text` is, of items with these fields; None for an empty one, which all items
    meet.

    Raises FieldError, with the place that is wrong.

    >>> fields = {"value": Field("number", lambda item: item["value"])}
    >>> parse("value < 0.5", fields).matches({"value": 0.2})
    True
    """
    node = read(text)
    return None if node is None else Filter(node, test_of(node, fields))


def test_of(node: Node, fields: Fields[ItemT]) -> Callable[[ItemT], bool]:
    """Whether an item meets a filter, or a part of one.

    Raises FieldError where it cannot be right.
    """
    match node:
        case And(parts):
            tests = [test_of(part, fields) for part in parts]
            return lambda item: all(test(item) for test in tests)
        case Or(parts):
            tests = [test_of(part, fields) for part in parts]
            return lambda item: any(test(item) for test in tests)
        case Not(part):
            test = test_of(part, fields)
            return lambda item: not test(item)
        case Comparison():
            return _comparison_test(node, fields)


def _comparison_test(comparison: Comparison, fields: Fields[ItemT]) -> _Test:
    field, key = field_of(fields, comparison)
    get: Callable[[Any], Any] = field.read if key is None else lambda item: field.read(item, key)
    if comparison.operator == ":" and comparison.value == "*" and not comparison.quoted:
        return lambda item: _is_there(get(item))
    holds = _holds(field, comparison)
    return lambda item: _is_there(value := get(item)) and holds(value)


def _is_there(value: Any) -> bool:
    return value is not None and value != ()


def _holds(field: Field[Any], comparison: Comparison) -> _Test:
    """Whether a value that is there meets a comparison."""
    wanted = value_of(field, comparison)
    if comparison.operator in _ORDERING:
        compare = _ORDERING[comparison.operator]
        return lambda value: bool(compare(value, wanted))
    if comparison.operator == ":" and field.kind in {"text", "texts"}:
        return _contains(field, str(wanted))
    is_equal = _equals(field, wanted)
    return (lambda value: not is_equal(value)) if comparison.operator == "!=" else is_equal


def _contains(field: Field[Any], wanted: str) -> _Test:
    if field.kind == "texts":
        return lambda values: wanted in values
    part = wanted.casefold()
    return lambda value: part in str(value).casefold()


def _equals(field: Field[Any], wanted: Value) -> _Test:
    if (
        field.kind != "text"
        or not isinstance(wanted, str)
        or "*" not in (wanted[:1], wanted[-1:])
        or wanted == "*"
    ):
        return lambda value: bool(value == wanted)
    ends_open, begins_open = wanted.endswith("*"), wanted.startswith("*")
    part = wanted.strip("*")
    if ends_open and begins_open:
        return lambda value: part in value
    return (
        (lambda value: value.startswith(part))
        if ends_open
        else (lambda value: value.endswith(part))
    )
