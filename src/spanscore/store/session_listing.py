"""The sessions in a store, page by page: those that went on last first."""

from dataclasses import dataclass
from typing import Any, Final

from sqlalchemy import Row, func, select
from sqlalchemy.engine import Connection

from spanscore.filters import Field, Fields, Filter
from spanscore.model.score import Evaluation
from spanscore.store import reading, tenants
from spanscore.store.fields import label_of, value_of
from spanscore.store.listing import Page, Place
from spanscore.store.reading import SessionRecord
from spanscore.store.schema import agent_traces

_CHUNK: Final = 20
_MAX_LOOKED_AT: Final = 1000
"""Sessions that are read for one page at most: a page may have fewer than were asked for, and others after it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionQuery:
    """Which sessions of a tenant are wanted; `filter` is of `SESSION_FIELDS`, None: all."""

    filter: Filter[SessionRecord] | None = None
    tenant: str = ""


def sessions(
    connection: Connection, query: SessionQuery, limit: int, after: Place | None = None
) -> Page[SessionRecord]:
    """At most `limit` sessions, each with its newest traces and their scores."""
    below = after.row if after else 2**63 - 1
    items: list[SessionRecord] = []
    looked_at = 0
    while chunk := _newest(connection, below, query.tenant):
        keys = [row.session_id for row in chunk]
        traces = reading.session_traces(connection, keys, query.tenant)
        scores = reading.newest_scores(connection, [row.id for row in traces], keys, query.tenant)
        found = reading.session_records(traces, scores)
        for row in chunk:
            below = row.last
            record = found.get(row.session_id)
            if record is not None and (query.filter is None or query.filter.matches(record)):
                items.append(record)
            if len(items) == limit:
                return Page(items, Place(below))
        looked_at += len(chunk)
        if looked_at >= _MAX_LOOKED_AT:
            return Page(items, Place(below))
    return Page(items, None)


def _newest(connection: Connection, below: int, tenant: str) -> list[Row[Any]]:
    """(session_id, last): the sessions whose last trace was stored before the row `below`, the last ones first."""
    last = func.max(agent_traces.c.row).label("last")
    wanted = (agent_traces.c.session_id.is_not(None), *tenants.is_of(agent_traces, tenant))
    query = select(agent_traces.c.session_id, last).where(*wanted)
    query = query.group_by(agent_traces.c.session_id).having(last < below).order_by(last.desc()).limit(_CHUNK)
    return list(connection.execute(query))


def own_scores(record: SessionRecord) -> list[Evaluation]:
    """The scores of the session itself, without those of its traces."""
    return [x for x in record.scores if x.scope == "session"]


def newest(record: SessionRecord, fact: str) -> Any:
    """A fact of the newest trace of a session that records it, such as `agent_name`; None where none does."""
    found = (getattr(trace, fact) for trace in reversed(record.session.traces))
    return next((x for x in found if x is not None), None)


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
