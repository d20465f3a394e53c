"""What the agent traces that are there are ordered by, read from their records."""

import json
from collections.abc import Iterator, Sequence
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection

revision = "0023"
down_revision = "0022"

_BATCH = 100
_MOST, _MOST_ERRORS = 2**63 - 2, 2**31 - 1
_DAMAGED = (ValueError, LookupError, TypeError, AttributeError)

_measures = sa.table(
    "trace_measures",
    *map(sa.column, ("row", "tenant", "latency_ns", "tokens", "tool_errors")),
)
_LAST = sa.text("SELECT max(row) FROM trace_measures")
_TRACES = sa.text(
    "SELECT row, tenant, record FROM agent_traces WHERE row > :after ORDER BY row LIMIT :batch"
)


def fill(connection: Connection) -> bool:
    """Write the measures of some of the agent traces that have none yet."""
    last: int | None = connection.execute(_LAST).scalar()
    after = -1 if last is None else last
    while rows := connection.execute(_TRACES, {"after": after, "batch": _BATCH}).all():
        measured = list(_measured(rows))
        if measured:
            connection.execute(sa.insert(_measures), measured)
            return True
        after = rows[-1].row
    return False


def upgrade() -> None:
    """Nothing is left to do."""


def _measured(rows: Sequence[Any]) -> Iterator[dict[str, Any]]:
    for row in rows:
        try:
            yield {"row": row.row, "tenant": row.tenant, **_measures_of(json.loads(row.record))}
        except _DAMAGED:
            continue


def _measures_of(trace: Any) -> dict[str, int | None]:
    usage, calls = trace.get("usage") or {}, trace.get("tool_calls")
    given, produced = usage.get("input_tokens"), usage.get("output_tokens")
    tokens = None if given is None or produced is None else given + produced
    errors = None if calls is None else sum(x.get("error") is not None for x in calls)
    return {
        "latency_ns": _bounded(trace["ended_ns"] - trace["started_ns"], _MOST),
        "tokens": None if tokens is None else _bounded(tokens, _MOST),
        "tool_errors": None if errors is None else _bounded(errors, _MOST_ERRORS),
    }


def _bounded(number: int, most: int) -> int:
    return max(-most, min(number, most))
