"""The plain values that a reader takes from a span's attributes: texts, counts, the first of several keys."""

from collections.abc import Iterable, Mapping
from typing import Any, TypeAlias

from spanscore.model.span import Attributes, Value

Facts: TypeAlias = dict[str, Any]
"""The fields of a Step that a span records, by name: `kind` always, any of the others."""


def text(value: object) -> str | None:
    """`value` where it is text that says something, else None."""
    return value if isinstance(value, str) and value else None


def first_value(attributes: Attributes, keys: tuple[str, ...]) -> Value:
    """The first of the attributes `keys` that the span has, else None."""
    return next((x for x in map(attributes.get, keys) if x is not None), None)


def first_text(attributes: Attributes, keys: tuple[str, ...]) -> str | None:
    """The first of the attributes `keys` that is text and says something, else None."""
    return next((x for x in map(attributes.get, keys) if isinstance(x, str) and x), None)


def first_count(attributes: Mapping[str, Any], keys: Iterable[str]) -> int | None:
    """The first of the attributes `keys` that is a number of tokens, else None."""
    for key in keys:
        value = attributes.get(key)
        if value is not None and (found := count(value)) is not None:
            return found
    return None


def count(value: object) -> int | None:
    """A number of tokens, which some write as text; None for anything else.

    >>> count(12), count("12"), count(12.0), count(True), count(-1), count("many")
    (12, 12, 12, None, None, None)
    """
    if value is None or isinstance(value, bool):
        return None
    if isinstance(value, (int, float)):
        return int(value) if 0 <= value < 2**53 else None
    if isinstance(value, str) and value.isascii() and value.isdigit() and len(value) < 16:
        return int(value)
    return None
