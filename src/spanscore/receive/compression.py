"""Compressed bodies of HTTP requests, made plain without ever having more of them in memory than a
request may have.
"""

import zlib
from collections.abc import Callable
from typing import Any, Final

import cramjam

from spanscore.lazy_imports import np

_ZLIB_OR_GZIP: Final = 47  # zlib's window bits for: either header, found by itself
_MAX_MEMBERS: Final = 16
"""Streams that a gzip body may be strung together from.

Clients send one; each costs a copy of those after it.
"""

_FRAMED_SNAPPY: Final = b"\xff\x06\x00\x00sNaPpY"
_NO_ROOM: Final = "failed to write whole buffer"
"""What Rust's `write_all` says when the buffer is full, in the words that cramjam passes on."""


def decompress(encoding: str, body: bytes, max_bytes: int) -> bytes | None:
    """`body` without its compression; None where that has more than `max_bytes`, however small it
    came.

    Raises ValueError on what was not compressed so, or is cut; KeyError on an `encoding` that is
    not in `ENCODINGS`.
    """
    undo = ENCODINGS[encoding]
    return undo(body, max_bytes) if body else b""


def _inflate(body: bytes, max_bytes: int) -> bytes | None:
    """Of gzip or zlib, whatever was announced: clients mix them up."""
    parts: list[bytes] = []
    room = max_bytes
    for _ in range(_MAX_MEMBERS):
        if not body:
            return b"".join(parts)
        stream = zlib.decompressobj(_ZLIB_OR_GZIP)
        try:
            part = stream.decompress(body, room + 1)
        except zlib.error as error:
            raise ValueError(str(error)) from error
        if len(part) > room:
            return None
        if not stream.eof:
            raise ValueError("the compressed data end too early")
        parts.append(part)
        room -= len(part)
        body = stream.unused_data
    raise ValueError(f"more than {_MAX_MEMBERS} compressed streams in one body")


def _zstd(body: bytes, max_bytes: int) -> bytes | None:
    return _filled(cramjam.zstd.decompress_into, body, max_bytes)


def _lz4(body: bytes, max_bytes: int) -> bytes | None:
    return _filled(cramjam.lz4.decompress_into, body, max_bytes)


def _snappy(body: bytes, max_bytes: int) -> bytes | None:
    """Of either format: collectors before 0.125 frame what they call snappy."""
    if body.startswith(_FRAMED_SNAPPY):
        return _filled(cramjam.snappy.decompress_into, body, max_bytes)
    try:
        is_too_large = cramjam.snappy.decompress_raw_len(body) > max_bytes
    except cramjam.DecompressionError as error:
        raise ValueError(str(error)) from error
    return None if is_too_large else _filled(cramjam.snappy.decompress_raw_into, body, max_bytes)


def _filled(
    decompress_into: Callable[[bytes, Any], int], body: bytes, max_bytes: int
) -> bytes | None:
    room = np.empty(max_bytes, np.uint8)  # memory that is not written to is only promised
    try:
        length = decompress_into(body, room)
    except cramjam.DecompressionError as error:
        if _NO_ROOM in str(error):
            return None
        raise ValueError(str(error)) from error
    return room[:length].tobytes()


ENCODINGS: Final[dict[str, Callable[[bytes, int], bytes | None]]] = {
    "gzip": _inflate,
    "deflate": _inflate,
    "zlib": _inflate,
    "zstd": _zstd,
    "snappy": _snappy,
    "x-snappy-framed": _snappy,
    "lz4": _lz4,
}
"""How to undo each Content-Encoding that is taken: those of a collector's HTTP receiver."""
