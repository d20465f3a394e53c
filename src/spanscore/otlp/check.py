"""Which spans of a request cannot be used, so that they can be refused by name and the rest be
kept.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

_SHOWN: Final = 3
"""How many refused spans a message names; a request can hold thousands."""

_NAME_CHARS: Final = 60
_TRACE_ID_BYTES: Final = 16
_SPAN_ID_BYTES: Final = 8
_NO_TRACE, _NO_SPAN = bytes(_TRACE_ID_BYTES), bytes(_SPAN_ID_BYTES)
_LAST_NS: Final = 2**63 - 1


@dataclass(frozen=True, slots=True)
class Refusal:
    """A span, log record or metric that was taken out of its request: its name, and why."""

    name: str
    reason: str


def remove_damaged(request: Any) -> list[Refusal]:
    """Take out of an ExportTraceServiceRequest the spans that no trace can hold, and say which they
    were.

    Refused is what OpenTelemetry's specification calls invalid: a trace id that is not 16 bytes or
    is all zeros, a span id that is not 8 bytes or is all zeros; and a time after the year 2262,
    which no database keeps as an integer.
    """
    refused: list[Refusal] = []
    for by_resource in request.resource_spans:
        for by_scope in by_resource.scope_spans:
            refused += _take_out(by_scope.spans)
    return refused


def describe(refused: Sequence[Refusal], item: str = "span") -> str:
    """One line that says how many spans (or what `item` names) were refused, and names the first
    few.

    >>> describe([Refusal("chat", "its trace id is all zeros")])
    "1 span refused, the rest is kept: 'chat' (its trace id is all zeros)"
    """
    named = "; ".join(f"{x.name[:_NAME_CHARS]!r} ({x.reason})" for x in refused[:_SHOWN])
    more = f"; and {len(refused) - _SHOWN} more" if len(refused) > _SHOWN else ""
    return (
        f"{len(refused)} {item}{'' if len(refused) == 1 else 's'} refused, the rest is kept:"
        f" {named}{more}"
    )


def _take_out(spans: Any) -> list[Refusal]:
    """Remove the damaged ones of a scope's spans, all at once: to remove one moves all spans behind
    it.
    """
    refused = [Refusal(span.name, reason) for span in spans if (reason := _fault(span))]
    if refused:
        spans.sort(key=_is_damaged)  # the sort is stable: those that stay keep their order
        del spans[len(spans) - len(refused) :]
    return refused


def _is_damaged(span: Any) -> bool:
    return _fault(span) is not None


def _fault(span: Any) -> str | None:
    trace_id, span_id = span.trace_id, span.span_id
    if len(trace_id) != _TRACE_ID_BYTES or trace_id == _NO_TRACE:
        return _id_fault("trace id", trace_id, _TRACE_ID_BYTES)
    if len(span_id) != _SPAN_ID_BYTES or span_id == _NO_SPAN:
        return _id_fault("span id", span_id, _SPAN_ID_BYTES)
    if span.start_time_unix_nano > _LAST_NS or span.end_time_unix_nano > _LAST_NS:
        return "its time is after the year 2262"
    return None


def _id_fault(what: str, identifier: bytes, length: int) -> str:
    if len(identifier) == length:
        return f"its {what} is all zeros"
    return (
        f"its {what} has {len(identifier)} bytes, not {length}"
        if identifier
        else f"it has no {what}"
    )
