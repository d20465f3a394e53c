"""Scores ordered by value or time."""

import struct
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any, Final, NamedTuple

from sqlalchemy import case, func, or_, select
from sqlalchemy.engine import Connection

from spanscore.model.score import Evaluation
from spanscore.store import ordering, records
from spanscore.store.listing import SCORE_FIELDS, ScoreQuery
from spanscore.store.ordering import Key, Order
from spanscore.store.schema import COUNTED, score_procedures
from spanscore.store.schema import scores as stored

FIELDS: Final[Mapping[str, Callable[[Evaluation], Any]]] = {
    "value": lambda x: x.value,
    "evaluated_at_ns": lambda x: x.evaluated_at_ns,
}
"""What scores can be ordered by, and how it is read of one; a score without a value comes last."""

NUMBERS: Final = 4
"""How many numbers a place has."""

_CHUNK: Final = 200
_MAX_LOOKED_AT: Final = 20_000
"""Scores that are sorted and decoded for one page at most: a page may have fewer items, and others
after it.
"""
_OURS: Final = "spanscore"

_SCORES, _MADE = stored.c, score_procedures.c
_IS_MISSING = case((_SCORES.value.is_(None), 1), else_=0)
_VALUE = func.coalesce(_SCORES.value, 0.0)
_COLUMNS: Final = {"metric": _MADE.metric, "scope": _MADE.scope, "value": _SCORES.value}


class OrderedPage(NamedTuple):
    """Some scores in their order, and where the next page begins; None after the last."""

    items: list[Evaluation]
    next: tuple[int, ...] | None


def scores(
    connection: Connection,
    query: ScoreQuery,
    order: Sequence[Order],
    limit: int,
    after: Sequence[int] | None = None,
) -> OrderedPage:
    """At most `limit` scores in an `order` by `FIELDS`, of each series of scores that others gave
    only the last one.
    """
    keys = _keys(order)
    wanted = select(_SCORES.number, _SCORES.value, _SCORES.evaluated_ns).join_from(
        stored, score_procedures, _SCORES.procedure == _MADE.id
    )
    wanted = wanted.where(COUNTED, *_conditions(query))
    if after is not None:
        wanted = wanted.where(ordering.past(keys, list(_values(order, after))))
    most = _MAX_LOOKED_AT if _has_more_conditions(query) else min(limit, _MAX_LOOKED_AT)
    rows = iter(connection.execute(wanted.order_by(*ordering.in_order(keys)).limit(most)).all())
    items: list[Evaluation] = []
    looked_at = 0
    while chunk := list(islice(rows, min(_CHUNK, most))):
        found = _stored(connection, [row.number for row in chunk], query)
        for row in chunk:
            looked_at += 1
            items += [x for x in found.get(row.number, ()) if query.wants(x)]
            if len(items) == limit or looked_at == most:
                return OrderedPage(items, _place(row))
    return OrderedPage(items, None)


def _has_more_conditions(query: ScoreQuery) -> bool:
    """Whether facts alone do not show which scores are wanted."""
    return any(
        x is not None for x in (query.filter, query.service, query.session_id, query.since_ns)
    )


def _keys(order: Sequence[Order]) -> list[Key]:
    found = []
    for field, is_falling in order:
        if field == "value":
            found += [Key(_IS_MISSING, is_falling=False), Key(_VALUE, is_falling)]
        else:
            found.append(Key(_SCORES.evaluated_ns, is_falling))
    return [*found, Key(_SCORES.number, is_falling=True)]


def _values(order: Sequence[Order], place: Sequence[int]) -> Iterator[Any]:
    """The values of the keys at a place."""
    is_missing, bits, evaluated_ns, number = place
    for field, _ in order:
        if field == "value":
            yield from (is_missing, struct.unpack(">d", struct.pack(">q", bits))[0])
        else:
            yield evaluated_ns
    yield number


def _place(row: Any) -> tuple[int, ...]:
    [bits] = struct.unpack(">q", struct.pack(">d", row.value or 0.0))
    return int(row.value is None), bits, row.evaluated_ns, row.number


def _conditions(query: ScoreQuery) -> Iterator[Any]:
    """The conditions that facts can check."""
    yield _MADE.tenant == query.tenant
    yield _MADE.run == query.run
    if query.source is not None:
        yield (
            _MADE.source.is_(None) if query.source == _OURS else _MADE.source == query.source[:256]
        )
    if query.metric is not None:
        yield or_(
            _MADE.metric == query.metric,
            _MADE.metric.startswith(f"{query.metric}.", autoescape=True),
        )
    if query.failing:
        yield or_(_SCORES.passing == 0, _MADE.status == "failed")
    if not query.skipped:
        yield _MADE.status != "skipped"
    found = ordering.condition(query.filter.node if query.filter else None, SCORE_FIELDS, _COLUMNS)
    if found is not None:
        yield found


def _stored(
    connection: Connection, numbers: Sequence[int], query: ScoreQuery
) -> dict[int, list[Evaluation]]:
    """The scores with these numbers, without those that are damaged or were stored before
    `since_ns`.
    """
    wanted = select(_SCORES.number, _SCORES.stored_ns, _SCORES.record)
    return {
        row.number: records.undamaged(records.decode_evaluation, row.record)
        for row in connection.execute(wanted.where(_SCORES.number.in_(numbers)))
        if row.stored_ns >= (query.since_ns or 0)
    }
