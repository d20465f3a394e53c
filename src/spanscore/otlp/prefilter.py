"""Search of raw requests for any of several strings."""

import re
from collections.abc import Iterable, Iterator
from functools import cache
from itertools import islice
from typing import TYPE_CHECKING, Any, Final

from google.protobuf.descriptor import Descriptor

from spanscore.lazy_imports import is_loaded, np
from spanscore.otlp.signal import WIRE, Signal
from spanscore.threads import cached_property

if TYPE_CHECKING:
    from spanscore.otlp.word_search import WordSearch

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
    def _long(self) -> "WordSearch":
        from spanscore.otlp.word_search import WordSearch  # noqa: PLC0415 - numpy, which small bodies do not need

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

_LENGTH: Final = 2
_FIXED_BYTES: Final = {1: 8, 5: 4}
_VALUE_STARTS: Final = (b"{", b"[", b",")
"""One of these stands before each value of a JSON text but the first."""

_STRING: Final = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"', re.DOTALL)
_STRINGS: Final = re.compile(rb'(?:[^"]*+"[^"\\]*+(?:\\.[^"\\]*+)*+"){1,1000}+', re.DOTALL)
"""A piece of a JSON text that ends with a string: while one is looked at, no other thread runs."""


def short_messages(body: bytes) -> int:
    """How many messages of fewer than 16 bytes a request in protobuf has at most."""
    if is_loaded():  # a quarter of the time, but not worth the import
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
    request: Any = WIRE[signal].request  # protobuf's stubs know two types of Descriptor
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
                key, at = _varint(body, at)
                kind = key & 7
                if kind == _LENGTH:
                    size, at = _varint(body, at)
                    inner = nested.get(key >> 3)
                    if inner is not None:
                        yield
                        waiting.append((at, min(at + size, end), inner))
                    at += size
                elif kind == 0:
                    _, at = _varint(body, at)
                else:
                    at += _FIXED_BYTES.get(kind, 0)
        except IndexError:
            return


@cache
def _nested(descriptor: Descriptor) -> dict[int, Descriptor]:
    """The message types of a message's fields, by field number."""
    return {x.number: x.message_type for x in descriptor.fields if x.message_type}


def _varint(body: bytes, at: int) -> tuple[int, int]:
    """A varint, and where the byte after it is. Raises IndexError where the bytes end within it."""
    byte = body[at]
    number, shift = byte & 0x7F, 7
    while byte >= 0x80:
        at += 1
        byte = body[at]
        number |= (byte & 0x7F) << shift
        shift += 7
    return number, at + 1
