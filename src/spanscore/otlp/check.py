"""Requests as bytes: what they contain, how much they hold, and unusable spans in them.

Search for many byte strings takes one pass. Wherever a byte string of seven bytes or more begins,
it contains a whole word of four bytes that begins at a multiple of four: one of its first four
words. numpy finds the places in the body where one of these words is, and only there the byte
strings are compared.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache
from itertools import islice
from typing import Any, Final

from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.protobuf.message import DecodeError
from google.protobuf.message_factory import GetMessageClass
from opentelemetry.proto.metrics.v1.metrics_pb2 import Metric
from opentelemetry.proto.trace.v1.trace_pb2 import Span

from spanscore.lazy_imports import NDArray, np
from spanscore.otlp.signal import WIRE, LogRecord, Signal
from spanscore.threads import cached_property

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
_SHIFTS: Final = range(0, 70, 7)


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


def _decode_varint(body: bytes | memoryview, at: int) -> tuple[int, int]:
    """A varint, and where the byte after it is. Raises ValueError where it does not end."""
    number = 0
    try:
        for shift in _SHIFTS:
            byte = body[at]
            at += 1
            number |= (byte & 0x7F) << shift
            if byte < 0x80:
                return number, at
    except IndexError:
        pass
    raise ValueError("the bytes end within a number")


def _encode_varint(number: int) -> bytes:
    out = bytearray()
    while number >= 0x80:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes((*out, number))


_SMALL_BYTES: Final = 4096
"""Bodies up to this size are searched for one byte string after the other: nothing is faster
there.
"""

_LONG_BYTES: Final = 7
"""The least that a byte string has to have for `WordSearch`."""


class Prefilter:
    """Byte strings of which a request is to contain one. May be used from several threads."""

    def __init__(self, wanted: Iterable[bytes]) -> None:
        """Of those with fewer than seven bytes, the first ones are searched for first."""
        self._wanted = _without_redundant(wanted)
        self._short = tuple(x for x in self._wanted if len(x) < _LONG_BYTES)

    def passes(self, body: bytes) -> bool:
        """Whether the body contains any of the byte strings.

        >>> Prefilter([b"gen_ai.", b"traceloop."]).passes(b"...traceloop.span.kind...")
        True
        """
        if len(body) <= _SMALL_BYTES:
            return any(x in body for x in self._wanted)
        return any(x in body for x in self._short) or self._long.is_any_in(body)

    @cached_property
    def _long(self) -> WordSearch:
        return WordSearch([x for x in self._wanted if len(x) >= _LONG_BYTES])


def _without_redundant(wanted: Iterable[bytes]) -> tuple[bytes, ...]:
    """Each once and in their order, without those that contain another one: where they are, the
    other one is.
    """
    once = tuple(dict.fromkeys(wanted))
    return tuple(x for x in once if not any(y in x for y in once if y != x))


_SHORT: Final = 16
_NOT_SHORT: Final = bytes(range(_SHORT, 256))
_MESSAGE_BYTES: Final = 80
"""What protobuf's decoder takes for an attribute with its value, as measured; 33 for a value, 160
for a span.
"""

_VALUE_STARTS: Final = (b"{", b"[", b",")
"""One of these stands before each value of a JSON text but the first."""

_STRING: Final = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"', re.DOTALL)
_STRINGS: Final = re.compile(rb'(?:[^"]*+"[^"\\]*+(?:\\.[^"\\]*+)*+"){1,1000}+', re.DOTALL)
"""A piece of a JSON text that ends with a string: while one is looked at, no other thread runs."""


def short_messages(body: bytes) -> int:
    """How many messages of fewer than 16 bytes a request in protobuf has at most."""
    if "numpy" in sys.modules:  # a quarter of the time, but not worth the import
        return int(np.count_nonzero(np.frombuffer(body, np.uint8) < _SHORT))
    return len(body.translate(None, _NOT_SHORT))


def decoded_bytes(body: bytes) -> int:
    """About how much memory a request in protobuf takes when it is decoded."""
    return len(body) + _MESSAGE_BYTES * short_messages(body)


def json_values(text: bytes) -> int:
    """How many values a JSON text has at most; it counts what looks like a value inside a string
    too.
    """
    return 1 + sum(text.count(x) for x in _VALUE_STARTS)


def has_more_messages(signal: Signal, body: bytes, limit: int) -> bool:
    """Whether a request in protobuf has more than `limit` messages: spans, attributes, values and
    all others.

    They are counted one by one, up to the limit, where a glance does not show it: some tenths of a
    microsecond each.
    """
    if short_messages(body) + len(body) // (_SHORT + 2) <= limit:
        return False
    request: Any = WIRE[signal].request  # as above
    return next(islice(_messages(body, request.DESCRIPTOR), limit, None), False) is None


def has_more_values(text: bytes, limit: int) -> bool:
    """Whether a JSON text has more than `limit` values; texts that contain JSON are one value
    each.
    """
    if json_values(text) <= limit:
        return False
    found, end = 1, 0
    while piece := _STRINGS.match(text, end):
        end = piece.end()
        found += json_values(_STRING.sub(b"", piece[0])) - 1
        if found > limit:
            return True
    return found + json_values(text[end:]) - 1 > limit


def _messages(body: bytes, descriptor: Descriptor) -> Iterator[None]:
    """Yields once for each message inside one; stops where the bytes are damaged, which the decoder
    will notice.
    """
    waiting = [(0, len(body), descriptor)]
    while waiting:
        at, end, holder = waiting.pop()
        nested = _nested(holder)
        try:
            while at < end:
                key, at = _decode_varint(body, at)
                kind = key & 7
                if kind == _LENGTH:
                    size, at = _decode_varint(body, at)
                    inner = nested.get(key >> 3)
                    if inner is not None:
                        yield
                        waiting.append((at, min(at + size, end), inner))
                    at += size
                elif kind == _VARINT:
                    _, at = _decode_varint(body, at)
                else:
                    at += _FIXED_BYTES.get(kind, 0)
        except ValueError:
            return


@cache
def _nested(descriptor: Descriptor) -> dict[int, Descriptor]:
    """The message types of a message's fields, by field number."""
    return {x.number: x.message_type for x in descriptor.fields if x.message_type}


_WORD_BYTES: Final = 4
_BYTES_A_CANDIDATE: Final = 64
"""With more candidates than one in so many bytes, comparing each takes longer than searching for
each byte string.
"""

_PART_WORDS: Final = 4096
"""Words that are looked at together: what numpy makes of them stays in the CPU's cache, and is so
small that the memory for it is not taken from the system anew each time.
"""

_HASH_BITS: Final = 16
_HASH_FACTOR: Final = 2_654_435_761
"""2^32 divided by the golden ratio: Knuth's multiplicative hash."""


class WordSearch:
    """Byte strings of seven bytes or more, by the words that they contain.

    May be used from several threads.
    """

    def __init__(self, wanted: Sequence[bytes]) -> None:
        self._wanted = wanted
        self._by_word: dict[int, list[tuple[bytes, int]]] = {}
        for found in wanted:
            for offset in range(_WORD_BYTES):
                word = int.from_bytes(found[offset : offset + _WORD_BYTES], "little")
                self._by_word.setdefault(word, []).append((found, offset))
        self._is_candidate = np.zeros(2**_HASH_BITS, dtype=np.bool_)
        self._is_candidate[_hashes(np.array(list(self._by_word), dtype=np.uint32))] = True

    def is_any_in(self, body: bytes) -> bool:
        """Whether the body contains any of the byte strings."""
        words = np.frombuffer(body, dtype="<u4", count=len(body) // _WORD_BYTES)
        places = self._candidates(words)
        if len(places) > len(body) // _BYTES_A_CANDIDATE:
            return any(x in body for x in self._wanted)
        for place, word in zip(places, words[places].tolist(), strict=True):
            for found, offset in self._by_word.get(word, ()):
                start = place * _WORD_BYTES - offset
                if start >= 0 and body.startswith(found, start):
                    return True
        return False

    def _candidates(self, words: NDArray[np.uint32]) -> list[int]:
        """The places of the words that may be one of those that are searched for."""
        places: list[int] = []
        for first in range(0, len(words), _PART_WORDS):
            part = self._is_candidate.take(_hashes(words[first : first + _PART_WORDS]))
            places += (np.flatnonzero(part) + first).tolist()
        return places


def _hashes(words: NDArray[np.uint32]) -> NDArray[np.uint32]:
    return (words * np.uint32(_HASH_FACTOR)) >> np.uint32(32 - _HASH_BITS)
