"""JSON in compressed blocks of a page, each small enough to be read only when somebody looks at
what is in it.
"""

import base64
import zlib
from collections.abc import Iterator
from typing import Any

from spanscore.model.json import dumps

_CHUNK_BYTES = 256 * 1024
_GZIP = 31
"""`wbits` of a gzip stream; zlib writes no time into it, so that one input gives one output."""


class Chunks:
    """Collects objects and writes them as blocks, until they are `max_bytes` together.

    An object's place is the number of its block and its place there. What comes past the bound has
    none.
    """

    def __init__(self, max_bytes: int) -> None:
        self.left_out = 0
        self._room = max_bytes
        self._number = 0
        self._waiting: list[bytes] = []
        self._waiting_bytes = 0
        self._ready: list[bytes] = []

    def add(self, item: dict[str, Any]) -> list[int] | None:
        """Take in one object; gives its place, or None where there is no more room."""
        if self._room <= 0:
            self.left_out += 1
            return None
        text = encoded(item)
        self._waiting.append(text)
        self._waiting_bytes += len(text)
        place = [self._number, len(self._waiting) - 1]
        if self._waiting_bytes >= _CHUNK_BYTES:
            self._close()
        return place

    def written(self) -> Iterator[bytes]:
        """The blocks that are complete and were not taken yet."""
        ready, self._ready = self._ready, []
        yield from ready

    def rest(self) -> Iterator[bytes]:
        """All that is left, complete or not."""
        if self._waiting:
            self._close()
        yield from self.written()

    def _close(self) -> None:
        content = block(f"chunk-{self._number}", b"[" + b",".join(self._waiting) + b"]")
        self._room -= len(content)
        self._ready.append(content)
        self._number += 1
        self._waiting, self._waiting_bytes = [], 0


def encoded(item: Any) -> bytes:
    """JSON as UTF-8; what UTF-8 cannot express becomes a question mark."""
    return dumps(item).encode("utf-8", "replace")


def block(name: str, content: bytes) -> bytes:
    """An element of a page with compressed content, which no browser runs."""
    packer = zlib.compressobj(6, zlib.DEFLATED, _GZIP)
    packed = base64.b64encode(packer.compress(content) + packer.flush())
    return b'<script type="text/plain" id="' + name.encode() + b'">' + packed + b"</script>\n"
