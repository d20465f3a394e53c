"""OpenTelemetry SDK spans and records as the model's.

The SDK's objects are read by their attributes, so that its modules are not imported here and its
older releases, whose log records have another shape, are read too.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, TypeVar

from spanscore.model.span import Event, Link, LogRecord, Resource, Scope, Span, Value
from spanscore.otlp.codec import MAX_DEPTH, well_formed

if TYPE_CHECKING:
    from opentelemetry.sdk.trace import ReadableSpan

_KNOWN: Final = 64
"""Resources, and scopes, of which the model's form is remembered: a process has few of either."""

_INT64: Final = range(-(2**63), 2**63)

_resources: dict[int, tuple[Any, Resource]] = {}
_scopes: dict[int, tuple[Any, Scope]] = {}

_T = TypeVar("_T")


def to_span(span: "ReadableSpan") -> Span:
    """A span of the SDK, ended or not, as the model's; what is not set yet is 0 or "".

    An attribute that OTLP has no type for is left out, as the SDK's exporters leave it out.
    """
    context: Any = span.context
    status = span.status
    return Span(
        _hex(context.trace_id, 32),
        _hex(context.span_id, 16),
        _hex(span.parent.span_id, 16) if span.parent and span.parent.span_id else "",
        _text(span.name),
        span.kind.value + 1,  # OTLP's 0 is a kind that is not specified
        span.start_time or 0,
        span.end_time or 0,
        status.status_code.value,
        _text(status.description),
        _attributes(span.attributes),
        _resource(span.resource),
        _scope(span.instrumentation_scope),
        tuple(map(_event, span.events)),
        tuple(map(_link, span.links)),
        span.dropped_attributes,
        span.dropped_events,
        span.dropped_links,
    )


def to_log_record(emitted: Any) -> LogRecord:
    """What a LogRecordProcessor is given, as the model's log record; a body that OTLP has no type
    for is None.
    """
    record = emitted.log_record
    attributes = _attributes(record.attributes)
    named = getattr(record, "event_name", None) or attributes.get("event.name")
    severity = record.severity_number
    return LogRecord(
        _hex(record.trace_id, 32) if record.trace_id else "",
        _hex(record.span_id, 16) if record.span_id else "",
        record.timestamp or record.observed_timestamp or 0,
        _text(named),
        _value_or_none(record.body),
        attributes,
        _resource(getattr(emitted, "resource", None) or getattr(record, "resource", None)),
        _scope(emitted.instrumentation_scope),
        0 if severity is None else severity.value,
        _dropped(record.attributes),
    )


def _event(event: Any) -> Event:
    given = event.attributes
    return Event(_text(event.name), event.timestamp, _attributes(given), _dropped(given))


def _link(link: Any) -> Link:
    trace_id, span_id = _hex(link.context.trace_id, 32), _hex(link.context.span_id, 16)
    return Link(trace_id, span_id, _attributes(link.attributes))


def _hex(number: int, digits: int) -> str:
    return f"{number:0{digits}x}"


def _text(item: object) -> str:
    """A name as the model has it: "" for what is no text."""
    return well_formed(str.__str__(item)) if isinstance(item, str) else ""


def _dropped(attributes: Any) -> int:
    """How many attributes the SDK left out of these; its own mapping counts them."""
    return getattr(attributes, "dropped", 0)


def _resource(resource: Any) -> Resource:
    attributes = getattr(resource, "attributes", None)
    return _remembered(_resources, resource, lambda: Resource(_attributes(attributes)))


def _scope(scope: Any) -> Scope:
    named = (getattr(scope, name, "") for name in ("name", "version"))
    return _remembered(_scopes, scope, lambda: Scope(*map(_text, named)))


def _remembered(known: dict[int, tuple[Any, _T]], original: object, make: Callable[[], _T]) -> _T:
    """The model's form of one object, made once: all spans of a resource share it, as those of one
    request do.

    The original is kept with it, since the id of one that is gone may be given to another.
    """
    found = known.get(id(original))
    if found is not None:
        return found[1]
    made = make()
    if len(known) >= _KNOWN:
        known.clear()
    known[id(original)] = original, made
    return made


def _attributes(attributes: Mapping[str, Any] | None, depth: int = 0) -> dict[str, Value]:
    read: dict[str, Value] = {}
    for key, item in (attributes or {}).items():
        try:
            read[well_formed(str(key))] = _value(item, depth)
        except TypeError:
            continue
    return read


def _value_or_none(item: Any) -> Value:
    try:
        return _value(item)
    except TypeError:
        return None


def _value(item: Any, depth: int = 0) -> Value:
    """An attribute's value as it is after OTLP. Raises TypeError on what OTLP has no type for."""
    if isinstance(item, str):
        # of a text's subclass, such as an enumeration, the text itself
        return well_formed(str.__str__(item))
    if item is None or isinstance(item, bool):
        return item
    if isinstance(item, int):
        if item not in _INT64:
            raise TypeError("OTLP has no integers beyond 64 bits")
        return int(item)
    if isinstance(item, float):
        return float(item)
    if isinstance(item, bytes):
        return bytes(item)
    return _many(item, depth + 1)


def _many(item: Any, depth: int) -> Value:
    if not isinstance(item, Sequence | Mapping):
        raise TypeError(f"OTLP has no type for {type(item).__name__}")
    if depth > MAX_DEPTH:
        return None
    # one value that cannot be sent takes the whole attribute with it, as in the SDK's encoder
    if isinstance(item, Mapping):
        return {well_formed(str(key)): _value(x, depth) for key, x in item.items()}
    return [_value(x, depth) for x in item]
