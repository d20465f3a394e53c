"""Texts of a report: redacted, shortened, packed."""

import base64
import json
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import orjson

from spanscore.model.json import Json, dumps, printed

MAX_CHARS = 20_000
"""No text is longer in a report; what is left out is a number in its middle."""

_LEAST_CHARS = 200
_LINE_CHARS = 160
_SHORT_CHARS = 90
_INDENTED = orjson.OPT_NON_STR_KEYS | orjson.OPT_INDENT_2


@dataclass(frozen=True, slots=True)
class Texts:
    """How texts are prepared: none longer than `limit` characters, each after `redact`."""

    limit: int = MAX_CHARS
    redact: Callable[[str], str] = str

    def within(self, budget: int, count: int) -> "Texts":
        """The same with a limit that keeps `count` texts within `budget` characters, as far as that
        is readable.
        """
        limit = budget // max(count, 1)
        return Texts(max(_LEAST_CHARS, min(self.limit, limit)), self.redact)

    def text(self, text: str | None) -> str | None:
        """A text; None stays None."""
        return None if text is None else cut(self.redact(text), self.limit)

    def value(self, value: Json) -> str | None:
        """A JSON value for reading: a string as it is, anything else as JSON of several lines.

        None stays None.
        """
        return self.text(value if isinstance(value, str | None) else pretty(value))

    def line(self, text: str, max_chars: int = _LINE_CHARS) -> str:
        """A text on one line.

        >>> Texts().line("Book   me", 6)
        'Book…'
        """
        read = text
        if len(text) > max_chars * 8:
            words = text[: max_chars * 8].split()
            # half a word may be half a secret, which nothing finds
            read = " ".join(words[:-1]) or text[:max_chars]
        start = " ".join(self.redact(read).split())
        if len(start) <= max_chars and read is text:
            return start
        return f"{start[: max_chars - 1].rstrip()}…"

    def brief(self, value: Json, max_chars: int = _LINE_CHARS) -> str:
        """A JSON value on one line, an object's members without its braces.

        >>> Texts().brief({"city": "Oslo", "days": 3})
        'city: "Oslo", days: 3'
        """
        if isinstance(value, dict):
            members = (f"{name}: {dumps(x)}" for name, x in list(value.items())[:20])
            return self.line(", ".join(members), max_chars)
        return "" if value is None else self.line(printed(value), max_chars)


def cut(text: str, limit: int) -> str:
    """At most about `limit` characters of a text: its beginning and its end.

    >>> cut("x" * 300, 200).count("x"), cut("short", 200)
    (200, 'short')
    """
    if len(text) <= limit:
        return text
    head = limit * 2 // 3
    tail = limit - head
    return (
        f"{text[:head]}\n[… {len(text) - limit:,} characters are left out of this report"
        f" …]\n{text[-tail:]}"
    )


def pretty(value: Json) -> str:
    """A JSON value for reading: on one line where it is short, else on several.

    >>> pretty({"city": "Oslo"})
    '{"city": "Oslo"}'
    """
    if len(dumps(value)) <= _SHORT_CHARS:
        return json.dumps(value, ensure_ascii=False, default=str)
    try:
        return orjson.dumps(value, default=str, option=_INDENTED).decode()
    except TypeError:  # integers beyond 64 bits, lone surrogates, nested too deeply
        pass
    try:
        return json.dumps(value, indent=2, ensure_ascii=False, default=str)
    except (TypeError, ValueError, RecursionError):
        return dumps(value)


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
