"""Unusable spans, refused or mended."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.protobuf.message import DecodeError
from google.protobuf.message_factory import GetMessageClass
from opentelemetry.proto.metrics.v1.metrics_pb2 import Metric
from opentelemetry.proto.trace.v1.trace_pb2 import Span

from spanscore.otlp.signal import WIRE, LogRecord, Signal

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


_ITEMS: Final = frozenset({Span.DESCRIPTOR, LogRecord.DESCRIPTOR, Metric.DESCRIPTOR})
_MAX_DEPTH: Final = 100
"""How deep protobuf's own decoder goes."""

_MAX_FIELD_NUMBER: Final = 2**29 - 1
_VARINT, _FIXED64, _LENGTH, _FIXED32 = 0, 1, 2, 5
_FIXED_BYTES: Final = {_FIXED64: 8, _FIXED32: 4}


@dataclass(slots=True)
class Mended:
    """A request made decodable: its bytes, what had to be taken out, and how many texts had
    characters replaced.
    """

    body: bytes = b""
    refused: list[Refusal] = field(default_factory=list)
    replaced: int = 0


def mend(signal: Signal, body: bytes) -> Mended:
    """Replace bytes that are not UTF-8 by U+FFFD, and take out the spans, log records or metrics
    still not decodable.

    Slow, for the rare request that needs it. Raises ValueError where the request does not decode
    even so.
    """
    mended = Mended()
    request: Any = WIRE[signal].request  # protobuf's stubs know two types of Descriptor
    try:
        mended.body = _message(memoryview(body), request.DESCRIPTOR, mended, 0)
        request.FromString(mended.body)
    except (ValueError, DecodeError) as error:
        raise ValueError(f"not an OTLP export request of {signal} ({error})") from error
    return mended


def _message(body: memoryview, descriptor: Descriptor, mended: Mended, depth: int) -> bytes:
    if depth > _MAX_DEPTH:
        raise ValueError("nested too deeply")
    out = bytearray()
    for tag, number, payload, raw in _fields(body):
        declared = descriptor.fields_by_number.get(number) if payload is not None else None
        if payload is None or declared is None:
            out += raw
            continue
        content = _content(payload, declared, mended, depth)
        if content is not None:
            for part in (tag, _encode_varint(len(content)), content):
                out += part
    return bytes(out)


def _content(
    payload: memoryview, declared: FieldDescriptor, mended: Mended, depth: int
) -> bytes | memoryview | None:
    """What a length-delimited field is to hold; None: take it out."""
    if declared.message_type in _ITEMS:
        return _item(payload, declared.message_type, mended, depth)
    if declared.message_type:
        return _message(payload, declared.message_type, mended, depth + 1)
    if declared.type != FieldDescriptor.TYPE_STRING:
        return payload
    text = str(payload, errors="replace").encode()
    mended.replaced += text != payload
    return text


def _item(payload: memoryview, descriptor: Descriptor, mended: Mended, depth: int) -> bytes | None:
    try:
        content = _message(payload, descriptor, mended, depth + 1)
        GetMessageClass(descriptor).FromString(content)
    except (ValueError, DecodeError):
        mended.refused.append(Refusal(_name(payload, descriptor), "it cannot be decoded"))
        return None
    return content


def _name(payload: memoryview, descriptor: Descriptor) -> str:
    """The name of an item that cannot be decoded, where it can be found all the same."""
    named = descriptor.fields_by_name.get("name")
    try:
        found = (
            text
            for _, number, text, _ in _fields(payload)
            if named and number == named.number and text
        )
        return str(next(found, b""), errors="replace")
    except ValueError:
        return ""


def _fields(body: memoryview) -> Iterator[tuple[memoryview, int, memoryview | None, memoryview]]:
    """(tag, field number, payload if it is length-delimited, the whole field) of each field of a
    message.

    They are views, since copies of what is nested 100 deep would be 100 times the request.
    """
    start = 0
    while start < len(body):
        key, content = _decode_varint(body, start)
        kind, tag = key & 7, body[start:content]
        if kind == _LENGTH:
            size, content = _decode_varint(body, content)
            end = content + size
        elif kind == _VARINT:
            _, end = _decode_varint(body, content)
        elif kind in _FIXED_BYTES:
            end = content + _FIXED_BYTES[kind]
        else:
            raise ValueError(f"wire type {kind} is not in use")
        if key >> 3 > _MAX_FIELD_NUMBER:
            raise ValueError("a field number beyond protobuf's range")
        if end > len(body):
            raise ValueError("the bytes end too early")
        yield tag, key >> 3, body[content:end] if kind == _LENGTH else None, body[start:end]
        start = end


def _decode_varint(body: memoryview, start: int) -> tuple[int, int]:
    """A varint, and where the byte after it is."""
    number = 0
    for i, byte in enumerate(body[start : start + 10]):
        number |= (byte & 0x7F) << (7 * i)
        if byte < 0x80:
            return number, start + i + 1
    raise ValueError("the bytes end within a number")


def _encode_varint(number: int) -> bytes:
    out = bytearray()
    while number >= 0x80:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes((*out, number))
