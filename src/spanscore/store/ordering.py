"""In which order a list has its items, as AIP-132 writes it, and what comes after a place in that
order.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, NamedTuple, TypeVar

from sqlalchemy import ColumnElement, and_, or_

from spanscore.errors import FieldError

ItemT = TypeVar("ItemT")

_DIRECTIONS: Final = {"asc": False, "desc": True}
_MAX_SHOWN: Final = 80


class Order(NamedTuple):
    """One of the fields that a list is ordered by."""

    field: str
    is_falling: bool = False


class Key(NamedTuple):
    """What rows are ordered by: never null, and the last key of an order is unique to a row."""

    column: ColumnElement[Any]
    is_falling: bool


def parse(text: str, fields: Sequence[str], *, alone: Sequence[str] = ()) -> tuple[Order, ...]:
    """The order that `order_by` asks for; () where it is empty. Raises FieldError.

    `fields` are those that there are; one that is also in `alone` stands by itself.

    >>> parse("value desc, evaluated_at_ns", ["value", "evaluated_at_ns"])
    (Order(field='value', is_falling=True), Order(field='evaluated_at_ns', is_falling=False))
    """
    if not text.strip():
        return ()
    found = tuple(_order(part, text, fields) for part in text.split(","))
    names = [x.field for x in found]
    if len(set(names)) < len(names):
        raise FieldError("order_by", f"{text[:_MAX_SHOWN]!r}: a field is named twice")
    for name in names:
        if name in alone and len(names) > 1:
            raise FieldError(
                "order_by", f"{text[:_MAX_SHOWN]!r}: {name} stands alone, without other fields"
            )
    return found


def _order(part: str, text: str, fields: Sequence[str]) -> Order:
    shown = repr(text[:_MAX_SHOWN])
    name, *direction = part.split() or [""]
    if name not in fields:
        raise FieldError(
            "order_by",
            f"{shown}: there is no order by {part.strip()[:_MAX_SHOWN]!r};"
            f" there is {_listed(fields)}",
        )
    match [x.lower() for x in direction]:
        case []:
            return Order(name)
        case [way] if way in _DIRECTIONS:
            return Order(name, _DIRECTIONS[way])
    raise FieldError(
        "order_by", f"{shown}: write `{name}` or `{name} desc`, with commas between fields"
    )


def _listed(fields: Sequence[str]) -> str:
    return ", ".join(fields)


def in_order(keys: Sequence[Key]) -> list[ColumnElement[Any]]:
    """What a query is ordered by."""
    return [key.column.desc() if key.is_falling else key.column.asc() for key in keys]


def past(keys: Sequence[Key], place: Sequence[Any]) -> ColumnElement[bool]:
    """That a row comes after one whose keys have the values of `place`."""
    pairs = list(zip(keys, place, strict=True))
    ways = []
    for number, (key, value) in enumerate(pairs):
        same = [before.column == known for before, known in pairs[:number]]
        ways.append(and_(*same, key.column < value if key.is_falling else key.column > value))
    return or_(*ways)


def arranged(
    items: Sequence[ItemT], order: Sequence[Order], read: Mapping[str, Callable[[ItemT], Any]]
) -> list[ItemT]:
    """The items in an order; those without a value come last, and those that are equal stay as they
    are.

    >>> arranged([2, None, 3], [Order("n", True)], {"n": lambda x: x})
    [3, 2, None]
    """
    found = list(items)
    for field, is_falling in reversed(order):
        value = read[field]
        known = [x for x in found if value(x) is not None]
        known.sort(key=value, reverse=is_falling)
        found = [*known, *(x for x in found if value(x) is None)]
    return found
