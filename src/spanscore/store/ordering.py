"""Orders and filters of lists, in SQL."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, NamedTuple, TypeVar

from sqlalchemy import BigInteger, ColumnElement, Integer, and_, false, not_, or_

from spanscore.errors import FieldError
from spanscore.filters import And, Comparison, Field, Node, Not, Or, value_of

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


_COMPARE: Final[Mapping[str, str]] = {
    "=": "__eq__",
    "!=": "__ne__",
    "<": "__lt__",
    "<=": "__le__",
    ">": "__gt__",
    ">=": "__ge__",
}


class _Condition(NamedTuple):
    """`sql` holds where the filter's part does; with `is_exact` nowhere else."""

    sql: ColumnElement[bool]
    is_exact: bool


def condition(
    node: Node | None, fields: Mapping[str, Field[Any]], columns: Mapping[str, Any]
) -> ColumnElement[bool] | None:
    """A condition on `columns`, by field, that every row which meets a checked filter fulfils;
    None: there is none.
    """
    found = None if node is None else _condition(node, fields, columns)
    return None if found is None else found.sql


def _condition(
    node: Node, fields: Mapping[str, Field[Any]], columns: Mapping[str, Any]
) -> _Condition | None:
    match node:
        case Comparison():
            return _comparison(node, fields, columns)
        case Not(part):
            return _negated(_condition(part, fields, columns))
        case And(parts):
            return _all_of([_condition(part, fields, columns) for part in parts])
        case Or(parts):
            return _any_of([_condition(part, fields, columns) for part in parts])


def _negated(part: _Condition | None) -> _Condition | None:
    """Of a condition that lets more through than it should the negation would let too little."""
    if part is None or not part.is_exact:
        return None
    return _Condition(not_(part.sql), is_exact=True)


def _all_of(parts: Sequence[_Condition | None]) -> _Condition | None:
    """What of the parts SQL can check; None where that is nothing."""
    known = [x for x in parts if x is not None]
    if not known:
        return None
    is_exact = len(known) == len(parts) and all(x.is_exact for x in known)
    return _Condition(and_(*(x.sql for x in known)), is_exact)


def _any_of(parts: Sequence[_Condition | None]) -> _Condition | None:
    """None unless SQL can check every part: a row could match by any of them."""
    known = [x for x in parts if x is not None]
    if len(known) < len(parts):
        return None
    return _Condition(or_(*(x.sql for x in known)), all(x.is_exact for x in known))


def _comparison(
    node: Comparison, fields: Mapping[str, Field[Any]], columns: Mapping[str, Any]
) -> _Condition | None:
    if node.field not in columns or node.operator == ":":
        return None
    column, wanted = columns[node.field], value_of(fields[node.field], node)
    if isinstance(wanted, str) and ("*" in wanted or "\x00" in wanted):
        return None  # left to those who read the record
    if type(wanted) is int and wanted.bit_length() > _bits(column):
        return None
    sql = and_(column.is_not(None), getattr(column, _COMPARE[node.operator])(wanted))
    return _Condition(or_(sql, false()), is_exact=True)


def _bits(column: ColumnElement[Any]) -> int:
    """How many bits, but for the sign, an integer has at most that a database compares with this
    column.
    """
    return (
        31 if isinstance(column.type, Integer) and not isinstance(column.type, BigInteger) else 63
    )
