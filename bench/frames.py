"""Files of encoded messages, four bytes of length (little-endian) before each."""

import struct
from collections.abc import Iterator
from pathlib import Path

_LENGTH = struct.Struct("<I")


def framed(body: bytes) -> bytes:
    return _LENGTH.pack(len(body)) + body


def read(path: Path) -> Iterator[bytes]:
    """Each message in turn, so that a file may be larger than the memory."""
    with path.open("rb") as file:
        while head := file.read(_LENGTH.size):
            yield file.read(_LENGTH.unpack(head)[0])
