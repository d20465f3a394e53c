"""Keys by which calls are found that may be one call: equal for calls of one name with equal
arguments.
"""

from collections.abc import Hashable
from typing import TypeAlias

from spanscore.model.json import Json

Kind: TypeAlias = tuple[str, Hashable]
"""The name of the tool, and the arguments as something hashable: None where they are not known."""

_MAX_DEPTH = 50
"""Levels of the arguments that are compared one by one; what lies deeper, as it is printed."""


def kind_of(name: str, arguments: Json) -> Kind:
    """The key that calls of this tool with these arguments have.

    >>> kind_of("stock", {"sku": "1", "at": "a"}) == kind_of("stock", {"at": "a", "sku": "1"})
    True
    """
    return name, _frozen(arguments, _MAX_DEPTH)


def kind_with(name: str, item: Hashable) -> Kind:
    """The key that calls of this tool have of which one argument is `item`, one of `items`."""
    return name, ("with", item)


def items(arguments: Json) -> frozenset[Hashable]:
    """The arguments one by one, as keys; none where they are no object."""
    found = arguments if isinstance(arguments, dict) else {}
    return frozenset((key, _frozen(x, _MAX_DEPTH)) for key, x in found.items())


def _frozen(value: Json, depth: int) -> Hashable:
    """A key that is equal for equal values; what lies deep is compared as it is printed."""
    if isinstance(value, dict):
        if not depth:
            return repr(value)
        return "dict", frozenset((key, _frozen(x, depth - 1)) for key, x in value.items())
    if isinstance(value, list):
        return ("list", *(_frozen(x, depth - 1) for x in value)) if depth else repr(value)
    return value
