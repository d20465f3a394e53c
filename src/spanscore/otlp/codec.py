"""OTLP messages to the model and back, and OTLP/JSON both ways, lenient on input.

Protobuf's own `json_format` reads ids as base64, has no bound on depth that fits ours, and takes
many times as long.
"""

import base64
import math
import re
import reprlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cache, partial
from typing import Any, Final, TypeAlias

from google.protobuf.descriptor import Descriptor, EnumDescriptor, FieldDescriptor
from google.protobuf.message import Message
from opentelemetry.proto.common.v1.common_pb2 import AnyValue

from spanscore.model import json
from spanscore.model.span import (
    Event,
    Link,
    LogRecord,
    Resource,
    Scope,
    Span,
    Value,
    without_headers,
)
from spanscore.otlp.signal import WIRE, Signal

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


_Read: TypeAlias = Callable[[Any, Any, int], None]
"""Writes a JSON value into its field of a message, given how many AnyValues the message lies in."""

_IDS: Final = frozenset({"trace_id", "span_id", "parent_span_id"})
_HEX: Final = re.compile(r"(?:[0-9a-fA-F]{2})*")
_URL_ALPHABET: Final = str.maketrans("-_", "+/")
_SELF_CONTAINED: Final = AnyValue.DESCRIPTOR.full_name
"""The one type of OTLP that can contain itself."""

_INT_RANGE: Final = {
    FieldDescriptor.CPPTYPE_INT32: range(-(2**31), 2**31),
    FieldDescriptor.CPPTYPE_INT64: range(-(2**63), 2**63),
    FieldDescriptor.CPPTYPE_UINT32: range(2**32),
    FieldDescriptor.CPPTYPE_UINT64: range(2**64),
}
_WIDE: Final = frozenset({FieldDescriptor.CPPTYPE_INT64, FieldDescriptor.CPPTYPE_UINT64})
_NOT_UTF_8: Final = re.compile("[\udc80-\udcff]+")
_FLOATING: Final = frozenset({FieldDescriptor.CPPTYPE_DOUBLE, FieldDescriptor.CPPTYPE_FLOAT})


def parse(signal: Signal, text: str | bytes) -> Message:
    """The export request that the JSON `text` holds.

    As the specification asks, unknown fields are ignored, ids are hex in any case, and integers
    come as numbers or strings. Enums may also come by name, and ids in base64, as Tempo prints
    them, or behind `0x`. An id that is neither is read as empty, so that its span alone is refused.
    What lies deeper in an attribute than `decode.MAX_DEPTH` is left out. Raises ValueError, which
    names the place, on anything else.
    """
    return from_object(signal, json.loads(text))


def loads(text: bytes) -> tuple[Any, int]:
    """The JSON value in `text`, and in how many places bytes that are not UTF-8 were replaced by
    U+FFFD.

    Raises ValueError where it is no JSON.
    """
    try:
        return json.loads(text), 0
    except UnicodeDecodeError:
        mended, replaced = _NOT_UTF_8.subn("\ufffd", text.decode(errors="surrogateescape"))
        return json.loads(mended), replaced


def from_object(signal: Signal, parsed: Any) -> Message:
    """The export request that a parsed JSON object holds; see `parse`."""
    request = WIRE[signal].request()
    _read_message(request, parsed, 0)
    return request


def encode(message: Message) -> str:
    """`message` as OTLP/JSON on one line: hex ids, 64-bit integers as strings, enums as integers,
    defaults left out.
    """
    return json.dumps(to_object(message))


def to_object(message: Message) -> dict[str, Any]:
    """`message` as the JSON object that `encode` prints."""
    printers = _printers(message.DESCRIPTOR)
    shown: dict[str, Any] = {}
    for field, field_value in message.ListFields():
        name, printer = printers[field.name]
        shown[name] = printer(field_value)
    return shown


class _FaultError(ValueError):
    """A JSON value that does not fit its field; the place is put together as the error passes
    up.
    """

    def __init__(self, expected: str, found: Any) -> None:
        super().__init__(f"expected {expected}, found {reprlib.repr(found)}")
        self._path: list[str] = []

    def inside(self, step: str) -> None:
        self._path.insert(0, step)

    def __str__(self) -> str:
        return f"{''.join(self._path).lstrip('.') or 'the whole request'}: {self.args[0]}"


def _read_message(message: Any, parsed: Any, depth: int) -> None:
    if not isinstance(parsed, dict):
        raise _FaultError("an object", parsed)
    readers = _readers(message.DESCRIPTOR)
    for key, item in parsed.items():
        read = readers.get(key)
        if read is not None and item is not None:  # null stands for a field's default
            try:
                read(message, item, depth)
            except _FaultError as fault:
                fault.inside(f".{key}")
                raise


def _each(items: Any, read: Callable[[Any], None]) -> None:
    if not isinstance(items, list):
        raise _FaultError("a list", items)
    for i, item in enumerate(items):
        try:
            read(item)
        except _FaultError as fault:
            fault.inside(f"[{i}]")
            raise


@cache
def _readers(descriptor: Descriptor) -> dict[str, _Read]:
    """What reads each field of a message type, by its name in JSON and by its name in the proto
    file.
    """
    found = {}
    for field in descriptor.fields:
        read = _message_reader(field) if field.message_type else _scalar_reader(field)
        found[field.json_name] = found[field.name] = read
    return found


def _message_reader(field: FieldDescriptor) -> _Read:
    name = field.name
    holder: Any = field.containing_type
    step = 1 if holder.full_name == _SELF_CONTAINED else 0

    def read_many(message: Any, items: Any, depth: int) -> None:
        add = getattr(message, name).add
        _each(items, lambda item: _read_message(add(), item, depth))

    def read_one(message: Any, item: Any, depth: int) -> None:
        if depth + step <= MAX_DEPTH:
            field_value = getattr(message, name)
            field_value.SetInParent()
            _read_message(field_value, item, depth + step)

    return read_many if is_repeated(field) else read_one


def _scalar_reader(field: FieldDescriptor) -> _Read:
    name, convert = field.name, _converter(field)

    def read_many(message: Any, items: Any, _depth: int) -> None:
        append = getattr(message, name).append
        _each(items, lambda item: append(convert(item)))

    def read_one(message: Any, item: Any, _depth: int) -> None:
        setattr(message, name, convert(item))

    return read_many if is_repeated(field) else read_one


def is_repeated(field: Any) -> bool:
    """Whether a FieldDescriptor has a list of values: `is_repeated` in protobuf 7, `label` in older
    ones.
    """
    return bool(
        field.is_repeated if hasattr(field, "is_repeated") else field.label == field.LABEL_REPEATED
    )


def _converter(field: FieldDescriptor) -> Callable[[Any], Any]:
    kind = field.cpp_type
    if kind in _INT_RANGE:
        return partial(_integer, allowed=_INT_RANGE[kind])
    if kind in _FLOATING:
        return _floating
    if field.enum_type:
        return partial(_enum, descriptor=field.enum_type)
    if kind == FieldDescriptor.CPPTYPE_BOOL:
        return _boolean
    if field.type == FieldDescriptor.TYPE_BYTES:
        return _identifier if field.name in _IDS else _bytes
    return _text


def _text(item: Any) -> str:
    if not isinstance(item, str):
        raise _FaultError("text", item)
    return well_formed(item)


def _boolean(item: Any) -> bool:
    if not isinstance(item, bool):
        raise _FaultError("true or false", item)
    return item


def _integer(item: Any, allowed: range) -> int:
    number = item
    if isinstance(item, str) and len(item) <= 20:  # as many as the longest 64-bit integer has
        number = int(item) if re.fullmatch(r"-?[0-9]+", item) else item
    # 1e3, or an integer that passed through JavaScript
    elif isinstance(item, float) and item.is_integer():
        number = int(item)
    if isinstance(number, bool) or not isinstance(number, int) or number not in allowed:
        raise _FaultError(f"an integer from {allowed[0]} to {allowed[-1]}", item)
    return number


def _floating(item: Any) -> float:
    if isinstance(item, bool):
        raise _FaultError("a number", item)
    try:
        return float(item)  # also reads "NaN" and "-Infinity"
    except (TypeError, ValueError, OverflowError):
        raise _FaultError("a number", item) from None


def _enum(item: Any, descriptor: EnumDescriptor) -> int:
    """An enum by number or name; a name that we do not know is a newer sender's, and reads as
    unspecified.
    """
    if isinstance(item, str) and not item.isdecimal():
        known = descriptor.values_by_name.get(item)
        return known.number if known else 0
    return _integer(item, _INT_RANGE[FieldDescriptor.CPPTYPE_INT32])


def _identifier(item: Any) -> bytes:
    if not isinstance(item, str):
        return b""
    digits = item.removeprefix("0x")
    if _HEX.fullmatch(digits):
        return bytes.fromhex(digits)
    try:
        # 8 or 16 bytes in base64 are always padded, and hex never
        return _bytes(item) if item.endswith("=") else b""
    except _FaultError:
        return b""


def _bytes(item: Any) -> bytes:
    try:
        return base64.b64decode(item.translate(_URL_ALPHABET), validate=True)
    except (AttributeError, ValueError):
        raise _FaultError("base64", item) from None


@cache
def _printers(descriptor: Descriptor) -> dict[str, tuple[str, Callable[[Any], Any]]]:
    """The JSON name of each field of a message type, and what prints its value, or the list of its
    values.
    """
    return {field.name: (field.json_name, _printer(field)) for field in descriptor.fields}


def _printer(field: FieldDescriptor) -> Callable[[Any], Any]:
    print_one = _value_printer(field)
    return (lambda items: [print_one(x) for x in items]) if is_repeated(field) else print_one


def _value_printer(field: FieldDescriptor) -> Callable[[Any], Any]:
    if field.message_type:
        return to_object
    if field.type == FieldDescriptor.TYPE_BYTES:
        return bytes.hex if field.name in _IDS else lambda raw: base64.b64encode(raw).decode()
    if field.cpp_type in _WIDE:
        return str
    return _shown_float if field.cpp_type in _FLOATING else lambda number: number


def _shown_float(number: float) -> float | str:
    if math.isfinite(number):
        return number
    return "NaN" if math.isnan(number) else "Infinity" if number > 0 else "-Infinity"
