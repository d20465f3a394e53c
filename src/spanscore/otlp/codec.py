"""OTLP messages to the model and back."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from spanscore.model.headers import without_headers
from spanscore.model.span import Event, Link, LogRecord, Resource, Scope, Span, Value

MAX_DEPTH: Final = 32
"""How many arrays and key-value lists may lie inside one another; what lies deeper is read as
None.
"""

_NO_SPAN: Final = bytes(8)


def value(message: Any, depth: int = 0) -> Value:
    """The Python value of an AnyValue; None for one that is empty, or that lies below MAX_DEPTH."""
    kind = message.WhichOneof("value")
    if kind == "array_value":
        return (
            [value(x, depth + 1) for x in message.array_value.values] if depth < MAX_DEPTH else None
        )
    if kind == "kvlist_value":
        return attributes(message.kvlist_value.values, depth + 1) if depth < MAX_DEPTH else None
    # an index into a table that only profiles have
    if kind is None or kind == "string_value_strindex":
        return None
    return getattr(message, kind)  # type: ignore[no-any-return]  # a scalar, by the oneof


def attributes(pairs: Iterable[Any], depth: int = 0) -> dict[str, Value]:
    """A repeated KeyValue as a dict; of a key that comes twice the last counts."""
    read: dict[str, Value] = {}
    for pair in pairs:
        any_value = pair.value
        # Most values are text, most others numbers: asking for these first is the faster way.
        read[pair.key] = any_value.string_value or any_value.int_value or value(any_value, depth)
    return read


def resource(message: Any) -> Resource:
    """A Resource message; its attributes are read now, but for those under names that are
    spanscore's own.
    """
    return Resource(without_headers(attributes(message.attributes)))


def scope(message: Any) -> Scope:
    """An InstrumentationScope message."""
    return Scope(message.name, message.version)


def span(message: Any, resource: Resource, scope: Scope) -> Span:
    """A Span message, with the resource and scope that it came under."""
    status = message.status
    events, links, parent = message.events, message.links, message.parent_span_id
    return Span(
        message.trace_id.hex(),
        message.span_id.hex(),
        "" if parent == _NO_SPAN else parent.hex(),
        message.name,
        message.kind,
        message.start_time_unix_nano,
        message.end_time_unix_nano,
        status.code,
        status.message,
        attributes(message.attributes),
        resource,
        scope,
        tuple(map(_event, events)) if events else (),
        tuple(Link(x.trace_id.hex(), x.span_id.hex(), attributes(x.attributes)) for x in links)
        if links
        else (),
        message.dropped_attributes_count,
        message.dropped_events_count,
        message.dropped_links_count,
    )


def _event(message: Any) -> Event:
    return Event(
        message.name,
        message.time_unix_nano,
        attributes(message.attributes),
        message.dropped_attributes_count,
    )


def log_record(message: Any, resource: Resource, scope: Scope) -> LogRecord:
    """A LogRecord message, with the resource and scope that it came under.

    Its time is when it happened or, where that is not recorded, when it was observed.
    """
    read = attributes(message.attributes)
    named = message.event_name or read.get("event.name")
    return LogRecord(
        message.trace_id.hex(),
        message.span_id.hex(),
        message.time_unix_nano or message.observed_time_unix_nano,
        named if isinstance(named, str) else "",
        value(message.body),
        read,
        resource,
        scope,
        message.severity_number,
        message.dropped_attributes_count,
    )


def spans(request: Any) -> Iterator[Span]:
    """Every span of an ExportTraceServiceRequest, in its order."""
    for by_resource in request.resource_spans:
        owner = resource(by_resource.resource)
        for by_scope in by_resource.scope_spans:
            instrumented_by = scope(by_scope.scope)
            for message in by_scope.spans:
                yield span(message, owner, instrumented_by)


def log_records(request: Any) -> Iterator[LogRecord]:
    """Every log record of an ExportLogsServiceRequest, in its order."""
    for by_resource in request.resource_logs:
        owner = resource(by_resource.resource)
        for by_scope in by_resource.scope_logs:
            instrumented_by = scope(by_scope.scope)
            for message in by_scope.log_records:
                yield log_record(message, owner, instrumented_by)


def well_formed(text: str) -> str:
    """`text` with what UTF-8 has no form for (lone surrogates, as JSON can escape them) replaced by
    U+FFFD.
    """
    if text.isascii():
        return text
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text


_INT64 = range(-(2**63), 2**63)


def fill(pairs: Any, attributes: Mapping[str, Value]) -> None:
    """Append `attributes` to a repeated KeyValue field."""
    for key, item in attributes.items():
        put(pairs.add(key=well_formed(key)).value, item)


def put(message: Any, item: Value, depth: int = 0) -> None:
    """Write `item` into the AnyValue `message`.

    An integer beyond 64 bits is written as text, which loses nothing; lone surrogates, which UTF-8
    has no form for, as U+FFFD; what lies deeper than `decode.MAX_DEPTH` is left out.
    """
    if isinstance(item, str):
        message.string_value = well_formed(item)
    elif isinstance(item, bool):
        message.bool_value = item
    elif isinstance(item, int):
        if item in _INT64:
            message.int_value = item
        else:
            message.string_value = str(item)
    elif isinstance(item, float):
        message.double_value = item
    elif isinstance(item, bytes):
        message.bytes_value = item
    elif item is not None and depth < MAX_DEPTH:
        _put_many(message, item, depth + 1)


def _put_many(message: Any, items: list[Value] | dict[str, Value], depth: int) -> None:
    if isinstance(items, dict):
        message.kvlist_value.SetInParent()
        for key, item in items.items():
            put(message.kvlist_value.values.add(key=well_formed(key)).value, item, depth)
    else:
        message.array_value.SetInParent()
        for item in items:
            put(message.array_value.values.add(), item, depth)
