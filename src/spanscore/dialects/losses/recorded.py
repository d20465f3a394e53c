"""Find what a span lost, where that is recorded: SDKs count what they drop, redactions what they
hide.
"""

import re
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from spanscore.dialects.losses.reread import Part
from spanscore.model.span import Attributes, Event, LogRecord, Span

MASK = "****"
"""What stands in place of a text, or of a part of it, that was masked and not hashed."""

# attributes of a span, as SDKs have it: one with so many lost some, though nobody counted them
_USUAL_LIMIT = 128
_MASKED, _MASKED_IN_BODY = "redaction.masked", "redaction.body.masked"
_DELETED, _DELETED_IN_BODY = "redaction.redacted", "redaction.body.redacted"
_MASKED_COUNT, _DELETED_COUNT = f"{_MASKED}.count", f"{_DELETED}.count"
_COUNTS = frozenset(
    (_MASKED_COUNT, _DELETED_COUNT, f"{_MASKED_IN_BODY}.count", f"{_DELETED_IN_BODY}.count")
)
_HASH = re.compile(r"\b(?:[0-9a-f]{32}|[0-9a-f]{40}|[0-9a-f]{64}|[0-9a-f]{128})\b")
_INFRASTRUCTURE = (
    "http.",
    "url.",
    "net.",
    "network.",
    "server.",
    "client.",
    "db.",
    "rpc.",
    "messaging.",
)
# events whose readers find what is lost with the first ones
_STREAMED = ("mlflow.chunk.item.", "new_token")


class RecordedLosses(NamedTuple):
    """Whether a span, its events or its log records lost attributes; if it lost events; if some of
    that is masked.
    """

    attributes: bool
    events: bool
    masked: bool


def is_of_infrastructure(key: str) -> bool:
    """Whether an attribute is about requests and databases, and never about an agent's work."""
    return key.startswith(_INFRASTRUCTURE)


def is_noted(spans: Sequence[Span], logs: Mapping[str, Sequence[LogRecord]]) -> bool:
    """Whether any span or log record of a trace records that it lost something."""
    for span in spans:
        attributes, events = span.attributes, span.events
        if (
            span.dropped_attributes_count
            or (span.dropped_events_count and _lost_events(span))
            or len(attributes) == _USUAL_LIMIT
            or _MASKED_COUNT in attributes
            or _DELETED_COUNT in attributes
            or (events and any(map(_is_noted, events)))
        ):
            return True
    return any(_is_noted(x) for each in logs.values() for x in each)


def lost(span: Span, logs: Sequence[LogRecord]) -> RecordedLosses:
    """What a span lost, as far as that was noted."""
    beside: list[Event | LogRecord] = [*span.events, *logs]
    holders = [span.attributes, *(x.attributes for x in beside)]
    counted = span.dropped_attributes_count or len(span.attributes) == _USUAL_LIMIT
    counted = counted or any(x.dropped_attributes_count for x in beside)
    return RecordedLosses(
        attributes=bool(counted) or any(map(_deleted, holders)),
        events=_lost_events(span),
        masked=any(map(_is_redacted, holders)),
    )


def is_masked(part: Part, text: str, span: Span, logs: Sequence[LogRecord]) -> bool:
    """Whether nothing but a mask is left of a part of a span, or it was noted beside it that it is
    masked.

    Where the masked ones were only counted, a mask or a hash in the text shows it.
    """
    if part.kind == "field":
        return False
    if text == MASK:
        return True
    beside = attributes_beside(part, span, logs)
    noted = _MASKED_IN_BODY if part.kind == "body" else _MASKED
    names = beside.get(f"{noted}.keys")
    if isinstance(names, str) and part.kind != "body":
        return part.key in names.split(",")
    return f"{noted}.count" in beside and (MASK in text or _HASH.search(text) is not None)


def attributes_beside(part: Part, span: Span, logs: Sequence[LogRecord]) -> Attributes:
    """The attributes among which a part of a span stands; of a log record's body, those beside
    it.
    """
    if part.kind == "attribute":
        return span.attributes
    return span.events[part.at].attributes if part.kind == "event" else logs[part.at].attributes


def _lost_events(span: Span) -> bool:
    return span.dropped_events_count > 0 and not (
        span.events and span.events[0].name.startswith(_STREAMED)
    )


def _is_noted(record: Event | LogRecord) -> bool:
    return record.dropped_attributes_count > 0 or _is_redacted(record.attributes)


def _is_redacted(holder: Attributes) -> bool:
    return not _COUNTS.isdisjoint(holder)


def _deleted(holder: Attributes) -> bool:
    """Whether it was noted that something was deleted that may have been of an agent's work."""
    if f"{_DELETED_IN_BODY}.count" in holder:
        return True
    names = holder.get(f"{_DELETED}.keys")
    if isinstance(names, str):
        return not all(map(is_of_infrastructure, names.split(",")))
    return _DELETED_COUNT in holder
