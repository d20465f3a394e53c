"""What agent traces are ordered by, kept beside them in narrow rows: their own records may be of
megabytes, and an order looks at all of them.
"""

from collections.abc import Mapping
from typing import Final

from sqlalchemy import BigInteger, Column, ColumnElement, func, literal

from spanscore.model.trace import AgentTrace
from spanscore.store.schema import trace_measures

_LAST: Final = 2**63 - 1
_MOST: Final = _LAST - 1
_MOST_ERRORS: Final = 2**31 - 1

ORDERS: Final[Mapping[str, Column[int]]] = {
    "latency": trace_measures.c.latency_ns,
    "tokens": trace_measures.c.tokens,
    "tool_errors": trace_measures.c.tool_errors,
}
"""What agent traces can be ordered by here, and the column that has it."""


def ordered(field: str, *, is_falling: bool) -> ColumnElement[int]:
    """What rows are ordered by for one of `ORDERS`: never null, and last where there is no
    value.
    """
    last = literal(-_LAST if is_falling else _LAST, BigInteger)
    return func.coalesce(ORDERS[field], last, type_=BigInteger)


def tokens(trace: AgentTrace) -> int | None:
    """The tokens of a turn's model calls, in and out; None where either is not recorded."""
    given, produced = trace.usage.input_tokens, trace.usage.output_tokens
    return None if given is None or produced is None else given + produced


def tool_errors(trace: AgentTrace) -> int | None:
    """How many tool calls of a turn failed; None where it does not show whether there were any."""
    calls = trace.tool_calls
    return None if calls is None else sum(x.error is not None for x in calls)


def row_of(trace: AgentTrace, row: int) -> tuple[int, str, int, int | None, int | None]:
    """The row of `trace_measures` of an agent trace whose row is `row`.

    A number for which its column has no room is cut to the greatest that it has.
    """
    used, failed = tokens(trace), tool_errors(trace)
    return (
        row,
        trace.tenant,
        _bounded(trace.ended_ns - trace.started_ns, _MOST),
        None if used is None else _bounded(used, _MOST),
        None if failed is None else _bounded(failed, _MOST_ERRORS),
    )


def _bounded(number: int, most: int) -> int:
    return max(-most, min(number, most))
