"""What of a filter the database can check: conditions on columns, which hold at least where the
filter does.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

from sqlalchemy import BigInteger, ColumnElement, Integer, and_, false, not_, or_

from spanscore.filters import And, Comparison, Field, Node, Not, Or
from spanscore.filters.fields import value_of

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
