"""Orders and filters of lists, in SQL."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple, TypeAlias, TypeVar

from sqlalchemy import ColumnElement, Row, Select, and_, not_, or_, tuple_
from sqlalchemy.engine import Connection

from spanscore.errors import FieldError
from spanscore.filters import And, Comparison, Field, Node, Not, Or, value_of

ItemT = TypeVar("ItemT")

Place: TypeAlias = tuple[int | float, ...]
"""What the last row of a page is ordered by: the next page begins after it."""

MAX_READ: Final = 20_000
"""Rows that are read at once at most."""

_DIRECTIONS: Final = {"asc": False, "desc": True}
_MAX_SHOWN: Final = 80
_BITS: Final = 63  # of an integer that a database compares with, but for the sign


class Order(NamedTuple):
    """One of the fields that a list is ordered by."""

    field: str
    is_falling: bool = False


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
        raise _error(text, "a field is named twice")
    single = next((x for x in names if x in alone), None)
    if single and len(names) > 1:
        raise _error(text, f"{single} stands alone, without other fields")
    return found


def _order(part: str, text: str, fields: Sequence[str]) -> Order:
    name, *direction = part.split() or [""]
    if name not in fields:
        wrong = repr(part.strip()[:_MAX_SHOWN])
        raise _error(text, f"there is no order by {wrong}; there is {', '.join(fields)}")
    way = " ".join(direction).lower() or "asc"
    if way not in _DIRECTIONS:
        raise _error(text, f"write `{name}` or `{name} desc`, with commas between fields")
    return Order(name, _DIRECTIONS[way])


def _error(text: str, problem: str) -> FieldError:
    return FieldError("order_by", f"{text[:_MAX_SHOWN]!r}: {problem}")


def in_order(
    query: Select[Any],
    keys: Sequence[ColumnElement[Any]],
    after: tuple[Any, ...] | None,
    *,
    is_falling: bool,
) -> Select[Any]:
    """A query for its rows after a place, in the order of `keys`: never null, and together unique
    to a row.
    """
    if after is not None:
        columns = tuple_(*keys)
        query = query.where(columns < after if is_falling else columns > after)
    return query.order_by(*(x.desc() if is_falling else x for x in keys))


def walk(
    connection: Connection,
    query: Select[Any],
    keys: Sequence[ColumnElement[Any]],
    after: Place | None,
    *,
    is_falling: bool = False,
    first: int = MAX_READ,
) -> Iterator[tuple[Place, Row[Any]]]:
    """The rows of `in_order`, each with its place. The `first` ones are read at once, then more and
    more.
    """
    place, count = after, min(first, MAX_READ)
    query = query.add_columns(*keys)
    while True:
        rest = in_order(query, keys, place, is_falling=is_falling)
        rows = connection.execute(rest.limit(count)).all()
        for row in rows:
            place = tuple(row[-len(keys) :])
            yield place, row
        if len(rows) < count:
            return
        count = min(10 * count, MAX_READ)


def arranged(
    items: Sequence[ItemT], order: Sequence[Order], read: Mapping[str, Callable[[ItemT], Any]]
) -> list[ItemT]:
    """The items in an order by numbers; those without a value come last, and those that are equal
    stay as they are.

    >>> arranged([2, None, 3], [Order("n", True)], {"n": lambda x: x})
    [3, 2, None]
    """

    def key(item: ItemT) -> list[tuple[bool, Any]]:
        values = [(read[field](item), is_falling) for field, is_falling in order]
        return [(x is None, x if x is None or not is_falling else -x) for x, is_falling in values]

    return sorted(items, key=key)


_COMPARE: Final[Mapping[str, str]] = {
    "=": "__eq__",
    "!=": "__ne__",
    "<": "__lt__",
    "<=": "__le__",
    ">": "__gt__",
    ">=": "__ge__",
}


def condition(
    node: Node | None,
    fields: Mapping[str, Field[Any]],
    columns: Mapping[str, Any],
    *,
    is_exact: bool = False,
) -> ColumnElement[bool] | None:
    """A condition on `columns`, by field, that every row which meets a checked filter fulfils;
    None: there is none.

    `is_exact`: and that no other row fulfils.
    """
    match node:
        case Comparison():
            return _comparison(node, fields, columns)
        case Not(part):  # of a condition that lets too much through it would let too little
            found = condition(part, fields, columns, is_exact=True)
            return None if found is None else not_(found)
        case And(parts) | Or(parts):
            every = [condition(part, fields, columns, is_exact=is_exact) for part in parts]
            known = [x for x in every if x is not None]
            if len(known) < len(every) and (is_exact or isinstance(node, Or)):
                return None
            return (or_ if isinstance(node, Or) else and_)(*known) if known else None
    return None


def _comparison(
    node: Comparison, fields: Mapping[str, Field[Any]], columns: Mapping[str, Any]
) -> ColumnElement[bool] | None:
    if node.field not in columns or node.operator == ":":
        return None
    column, wanted = columns[node.field], value_of(fields[node.field], node)
    if isinstance(wanted, str) and ("*" in wanted or "\x00" in wanted):
        return None  # left to those who read the record
    if type(wanted) is int and wanted.bit_length() > _BITS:
        return None
    return and_(column.is_not(None), getattr(column, _COMPARE[node.operator])(wanted))
