"""Columns of scores, as arrays that figures are made of.

To hand over a row costs a database's driver more than all that is worked out of it. So each column
of a procedure's scores comes as one text (SQLite) or string of bytes (PostgreSQL).
"""

import math
from collections.abc import Mapping, Sequence
from typing import Any, Final, TypeAlias

from sqlalchemy import BigInteger, ColumnElement, Double, cast, func, literal_column, select
from sqlalchemy.engine import Connection

from spanscore.lazy_imports import np
from spanscore.store.schema import scores as scores_table
from spanscore.store.selections import Scores

Columns: TypeAlias = Mapping[str, Any]
"""Arrays of one length by the name of their column."""

NO_VERDICT: Final = -1
"""What `passing` is where it is null."""

_table = scores_table.c
_FIXED_POINT: Final = 10**15
"""What the width of a scale is in SQLite's integers: these pass four times as fast as its floating
point numbers, and leave a value of fifteen decimals what it is.
"""
_NO_VALUE: Final = -(10**18)


def columns(
    connection: Connection,
    scores: Scores,
    names: Sequence[str],
    scale: tuple[float, float] | None = None,
) -> Columns:
    """The columns of `scores` with these names, and `procedure`; a value is not a number where it
    is null.

    `scale`: that of all values, where it is known.
    """
    is_sqlite = connection.dialect.name == "sqlite"
    if scale is not None and not (is_sqlite and math.isfinite(scale[1] - scale[0])):
        scale = None
    found = [_column(name, scale) for name in names]
    packed = [func.group_concat(x) if is_sqlite else _as_bytes(x) for x in found]
    query = select(_table.procedure, *packed).where(*scores.conditions())
    parts = [[np.zeros(0, np.int64)] * (len(names) + 1)]
    for procedure, *texts in connection.execute(query.group_by(_table.procedure)):
        arrays = [_unpacked(x, column) for x, column in zip(texts, found, strict=True)]
        parts.append([np.full(len(arrays[0]), procedure), *arrays])
    joined = map(np.concatenate, zip(*parts, strict=True))
    result: dict[str, Any] = dict(zip(("procedure", *names), joined, strict=True))
    if scale is not None and "value" in result:
        fixed, (low, high) = result["value"], scale
        values = low + (high - low) * (fixed / _FIXED_POINT)
        result["value"] = np.where(fixed == _NO_VALUE, np.nan, values)
    return result


def _column(name: str, scale: tuple[float, float] | None) -> ColumnElement[Any]:
    if name == "passing":
        return func.coalesce(_table.passing, NO_VERDICT)
    if name != "value":
        return _table[name]
    if scale is None:
        return func.coalesce(_table.value, literal_column("'NaN'", Double))
    fixed = (_table.value - scale[0]) * (_FIXED_POINT / (scale[1] - scale[0]))
    return func.coalesce(cast(fixed + 0.5, BigInteger), literal_column(str(_NO_VALUE), BigInteger))


def _is_real(column: ColumnElement[Any]) -> bool:
    return isinstance(column.type, Double)


def _as_bytes(column: ColumnElement[Any]) -> ColumnElement[Any]:
    sent = func.float8send(column) if _is_real(column) else func.int8send(column)
    return func.string_agg(sent, literal_column("''::bytea"))


def _unpacked(found: Any, column: ColumnElement[Any]) -> Any:
    kind = "f8" if _is_real(column) else "i8"
    if isinstance(found, str):
        return np.fromstring(found, kind, sep=",")
    return np.frombuffer(found, f">{kind}").astype(kind)
