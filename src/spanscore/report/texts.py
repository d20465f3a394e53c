"""Text of traces on its way into a report: redacted where that is asked for, and cut to what a page
can show.
"""

import json
from collections.abc import Callable
from dataclasses import dataclass

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
        return (
            None if value is None else self.text(value if isinstance(value, str) else pretty(value))
        )

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
            return self.line(
                ", ".join(f"{name}: {dumps(x)}" for name, x in list(value.items())[:20]), max_chars
            )
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
