"""Sessions, page by page."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, Literal

from sqlalchemy import Row, func, select
from sqlalchemy.engine import Connection

from spanscore.filters import Field, Fields, Filter
from spanscore.model.score import Evaluation
from spanscore.store import lookup, ordering, stored_rows
from spanscore.store.listing import Page, Place, label_of, value_of
from spanscore.store.lookup import SessionRecord
from spanscore.store.ordering import Key, Order
from spanscore.store.schema import agent_traces

ORDERS: Final = ("stored_ns", "trace_count")
"""What sessions can be ordered by, one at a time: when their last trace was stored, and how many
traces they have.
"""

_CHUNK: Final = 20
_LAST: Final = func.max(agent_traces.c.row)
_TRACES: Final = func.count()
_MAX_LOOKED_AT: Final = 1000
"""Sessions that are read for one page at most: a page may have fewer than were asked for, and
others after it.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionQuery:
    """Which sessions of a tenant are wanted; `filter` is of `SESSION_FIELDS`, None: all.

    `order`: by `ORDERS`; without it those that went on last come first.
    """

    filter: Filter[SessionRecord] | None = None
    order: Sequence[Order] = ()
    tenant: str = ""


def sessions(
    connection: Connection, query: SessionQuery, limit: int, after: Place | None = None
) -> Page[SessionRecord]:
    """At most `limit` sessions, each with its newest traces and their scores; the first page of all
    has their number.
    """
    page = _sessions(connection, query, limit, after)
    if after is not None or query.filter is not None:
        return page
    own = stored_rows.is_of(agent_traces, query.tenant)
    everything = select(func.count(agent_traces.c.session_id.distinct())).where(*own)
    return replace(page, total=connection.execute(everything).scalar_one())


def _sessions(
    connection: Connection, query: SessionQuery, limit: int, after: Place | None
) -> Page[SessionRecord]:
    place = after
    items: list[SessionRecord] = []
    looked_at = 0
    while chunk := _next(connection, query, place):
        keys = [row.session_id for row in chunk]
        found = lookup.read_sessions(connection, keys, query.tenant).by_key()
        for row in chunk:
            place = Place(row.last, traces=row.traces)
            record = found.get(row.session_id)
            if record is not None and (query.filter is None or query.filter.matches(record)):
                items.append(record)
            if len(items) == limit:
                return Page(items, place)
        looked_at += len(chunk)
        if looked_at >= _MAX_LOOKED_AT:
            return Page(items, place)
    return Page(items, None)


def _next(connection: Connection, query: SessionQuery, place: Place | None) -> list[Row[Any]]:
    """(session_id, last, traces): sessions after a place, with the row of their last trace and how
    many they have.
    """
    keys = _keys(query.order)
    wanted = (
        agent_traces.c.session_id.is_not(None),
        *stored_rows.is_of(agent_traces, query.tenant),
    )
    found = select(agent_traces.c.session_id, _LAST.label("last"), _TRACES.label("traces")).where(
        *wanted
    )
    found = (
        found.group_by(agent_traces.c.session_id).order_by(*ordering.in_order(keys)).limit(_CHUNK)
    )
    if place is not None:
        known = (place.row,) if len(keys) == 1 else (place.traces, place.row)
        found = found.having(ordering.past(keys, known))
    return list(connection.execute(found))


def _keys(order: Sequence[Order]) -> list[Key]:
    """By how many traces, or by the last trace: that alone distinguishes sessions."""
    if not order:
        return [Key(_LAST, is_falling=True)]
    (field, is_falling), *_ = order
    if field == "trace_count":
        return [Key(_TRACES, is_falling), Key(_LAST, is_falling=True)]
    return [Key(_LAST, is_falling)]


def own_scores(record: SessionRecord) -> list[Evaluation]:
    """The scores of the session itself, without those of its traces."""
    return [x for x in record.scores if x.scope == "session"]


def newest(record: SessionRecord, fact: str) -> Any:
    """A fact of the newest trace of a session that records it, such as `agent_name`; None where
    none does.
    """
    found = (getattr(trace, fact) for trace in reversed(record.session.traces))
    return next((x for x in found if x is not None), None)


def first_input(record: SessionRecord) -> str | None:
    """What the user said in the first of its traces that records it."""
    return next((x.user_input for x in record.session.traces if x.user_input is not None), None)


def tokens(record: SessionRecord, fact: Literal["input_tokens", "output_tokens"]) -> int | None:
    """Those of all model calls of its traces; None where none are recorded."""
    found = [getattr(x.usage, fact) for x in record.session.traces]
    return sum(x or 0 for x in found) if any(x is not None for x in found) else None


def started_ns(record: SessionRecord) -> int:
    """When the first of its traces began."""
    return min(x.started_ns for x in record.session.traces)


def ended_ns(record: SessionRecord) -> int:
    """When the last of its traces ended."""
    return max(x.ended_ns for x in record.session.traces)


SESSION_FIELDS: Final[Fields[SessionRecord]] = {
    "session_id": Field("text", lambda x: x.session.session_id),
    "session_key": Field("text", lambda x: x.session.id),
    "agent_name": Field("text", lambda x: newest(x, "agent_name")),
    "service_name": Field("text", lambda x: newest(x, "service_name")),
    "user_id": Field("text", lambda x: newest(x, "user_id")),
    "started_ns": Field("time", started_ns),
    "ended_ns": Field("time", ended_ns),
    "latency": Field("duration", lambda x: (ended_ns(x) - started_ns(x)) / 1e9),
    "trace_count": Field("number", lambda x: len(x.session.traces)),
    "failing": Field("bool", lambda x: any(y.is_failing for y in x.scores)),
    "score": Field("number", lambda x, metric: value_of(own_scores(x), metric), is_map=True),
    "label": Field("text", lambda x, metric: label_of(own_scores(x), metric), is_map=True),
}
