"""Saves what can be saved of a protobuf request that does not decode, so that one bad span costs no
batch of good ones.

Seen in the wild is text that is not UTF-8: SDKs that cut long attributes cut through characters,
encoders in Go and C++ send them on, and protobuf's Python decoder refuses the whole request.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Final

from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.protobuf.message import DecodeError
from google.protobuf.message_factory import GetMessageClass
from opentelemetry.proto.metrics.v1.metrics_pb2 import Metric
from opentelemetry.proto.trace.v1.trace_pb2 import Span

from spanscore.otlp.check import Refusal
from spanscore.otlp.logs import LogRecord
from spanscore.otlp.signal import WIRE, Signal

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
