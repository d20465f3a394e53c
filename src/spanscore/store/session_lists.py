"""Sessions, page by page."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, Literal

from sqlalchemy import ColumnElement, Row, func, select
from sqlalchemy.engine import Connection

from spanscore.filters import Field, Fields, Filter
from spanscore.model.score import Evaluation
from spanscore.store import lookup, ordering, stored_rows
from spanscore.store.listing import NEWEST_FIRST, STORED, Page, label_of, page, value_of
from spanscore.store.lookup import SessionRecord
from spanscore.store.ordering import Order, Place
from spanscore.store.schema import agent_traces

ORDERS: Final = (STORED, "trace_count")
"""What sessions can be ordered by, one at a time: when their last trace was stored, and how many
traces they have.
"""

_AT_ONCE: Final = 20
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

    def read(rows: Sequence[Row[Any]]) -> Iterator[list[SessionRecord]]:
        keys = [row[0] for row in rows]
        found = lookup.read_sessions(connection, keys, query.tenant).by_key()
        for key in keys:
            some = [found[key]] if key in found else []
            yield [x for x in some if query.filter is None or query.filter.matches(x)]

    column = agent_traces.c.session_id
    own = (column.is_not(None), *stored_rows.is_of(agent_traces, query.tenant))
    last, count = func.max(agent_traces.c.row).label("last"), func.count().label("traces")
    table = select(column, last, count).where(*own).group_by(column).subquery().c
    [(field, is_falling)] = query.order or (NEWEST_FIRST,)
    keys: list[ColumnElement[int]] = [table.last]
    if field == "trace_count":
        keys = [table.traces, table.last if is_falling else -table.last]
    rows = ordering.walk(
        connection, select(table.session_id), keys, after, is_falling=is_falling, first=limit
    )
    found = page(rows, limit, read, at_once=_AT_ONCE, most=_MAX_LOOKED_AT)
    if after is not None or query.filter is not None:
        return found
    everything = select(func.count(column.distinct())).where(*own)
    return replace(found, total=connection.execute(everything).scalar_one())


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
