"""Tempo's answer with one trace in protobuf, read field by field: its own message type is in no
package.
"""

from collections.abc import Iterator
from typing import Any, Final

from spanscore.otlp.signal import WIRE

_TRACE, _STATUS, _MESSAGE = 1, 3, 4
"""Fields of tempopb.TraceByIDResponse; its metrics (2) are passed over."""

_VARINT, _LENGTH = 0, 2
_SIZES: Final = {1: 8, 5: 4}
_PARTIAL: Final = 1


def trace_of(body: bytes, *, is_wrapped: bool) -> tuple[Any, str]:
    """The trace as an export request, which has the same fields, and why it is partial, else "".

    `is_wrapped`: False for the older API, whose answer is the trace alone. Raises DecodeError or
    ValueError.
    """
    if not is_wrapped:
        return WIRE["traces"].request.FromString(body), ""
    request, is_partial, why = WIRE["traces"].request(), False, ""
    for number, value in _fields(body):
        if number == _TRACE and isinstance(value, bytes):
            request.MergeFromString(value)
        elif number == _STATUS:
            is_partial = value == _PARTIAL
        elif number == _MESSAGE and isinstance(value, bytes):
            why = value.decode(errors="replace")
    partial = f"Tempo says that it is partial{f': {why}' if why else ''}"
    return request, partial if is_partial else ""


def _fields(body: bytes) -> Iterator[tuple[int, bytes | int]]:
    """(number, content) of each field of a message that is a text, a message or an integer."""
    at = 0
    while at < len(body):
        key, at = _varint(body, at)
        kind = key & 7
        if kind == _VARINT:
            value, at = _varint(body, at)
            yield key >> 3, value
            continue
        if kind not in _SIZES and kind != _LENGTH:
            raise ValueError(f"wire type {kind} is not in use")
        size, at = _varint(body, at) if kind == _LENGTH else (_SIZES[kind], at)
        if at + size > len(body):
            raise ValueError("it ends in the middle of a field")
        yield key >> 3, body[at : at + size]
        at += size


def _varint(body: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        if at >= len(body) or shift > 63:
            raise ValueError("a number has no end")
        byte = body[at]
        value |= (byte & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if not byte & 0x80:
            return value, at
