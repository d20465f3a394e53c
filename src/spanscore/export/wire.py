"""Parts of a protobuf message as bytes: what all scores repeat is serialised once, and joined to
what is a score's own.

Protobuf reads parts that follow one another as one message, whatever their order. Building each
score's span and event from such parts takes half the time that filling message objects does.
"""

from collections.abc import Callable, Sequence
from functools import lru_cache
from struct import Struct
from typing import Any

from google.protobuf.message import Message

from spanscore.model.span import Attributes
from spanscore.otlp import encode
from spanscore.otlp.text import well_formed

_LENGTHS = 1024  # that are remembered of each text
_DELIMITED = 2  # the wire type of what comes with its length
_double = Struct("<d").pack


class Text:
    """The part of a message that is one text, such as an attribute."""

    def __init__(self, kind: type[Message], put: Callable[[Any, str], object]) -> None:
        """`put` writes a text into a new message of this kind, and nothing else."""

        def head_for(length: int) -> bytes:
            message = kind()
            put(message, "x" * length)
            return head(message, length)

        self._head_for = lru_cache(_LENGTHS)(head_for)

    def __call__(self, text: str) -> bytes:
        """The part with this text; lone surrogates, which UTF-8 has no form for, are replaced by
        U+FFFD.
        """
        try:
            data = text.encode()
        except UnicodeEncodeError:
            data = well_formed(text).encode()
        return self._head_for(len(data)) + data


class Double:
    """The part of a message that is an attribute with a double."""

    def __init__(self, kind: type[Message], key: str) -> None:
        message: Any = kind()
        encode.fill(message.attributes, {key: 0.0})
        self._head = head(message, len(_double(0.0)))

    def __call__(self, number: float) -> bytes:
        """The part with this number."""
        return self._head + _double(float(number))


def text_attribute(kind: type[Message], key: str) -> Text:
    """The part of a message that is an attribute with a text."""
    return Text(kind, lambda message, text: encode.fill(message.attributes, {key: text}))


def attributes(kind: type[Message], named: Attributes) -> bytes:
    """The part of a message that is these attributes."""
    message: Any = kind()
    encode.fill(message.attributes, named)
    return bytes(message.SerializeToString())


def head(message: Message, length: int) -> bytes:
    """What precedes a message's only value, of `length` bytes: tags, keys and lengths, whatever
    that value is.
    """
    whole = message.SerializeToString()
    return whole[: len(whole) - length]


def delimited(number: int, parts: Sequence[bytes]) -> list[bytes]:
    """The parts as the field with this number of the message around them; to be joined once, when
    all is there.
    """
    return [prefix(number, sum(map(len, parts))), *parts]


@lru_cache(maxsize=4096)
def prefix(number: int, length: int) -> bytes:
    """What precedes a field with this number whose value is so many bytes long."""
    return _varint(number << 3 | _DELIMITED) + _varint(length)


def _varint(number: int) -> bytes:
    """Seven bits a byte, the lowest first; the highest bit is set where more follow."""
    found = bytearray()
    while number > 0x7F:
        found.append(number & 0x7F | 0x80)
        number >>= 7
    found.append(number)
    return bytes(found)
