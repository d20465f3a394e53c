"""Values that were cut before they arrived.

What a limit of an SDK cuts has no marker: `losses.py` finds it by its length. Masks in place
of hidden content are in `structure.is_redacted`.
"""

import re
from typing import Any

from spanscore.dialects.forms.structure import MAX_DEPTH, is_redacted, structure

_WORDS = ("truncated",)
"""Words of which a marker in brackets contains one, in lower case."""

_MARKER = re.compile(
    rf"[\[(<][^\[\]()<>]{{0,60}}\b(?:{'|'.join(_WORDS)})\b[^\[\]()<>]{{0,60}}[\])>]?\s*",
    re.IGNORECASE,
)
_TAIL_CHARS = 160
_MIN_CHARS_OF_ELLIPSIS = 200  # shorter texts end in one because somebody hesitates
# nobody cuts what is longer to less than this; the text is walked token by token
_MAX_CHARS = 1024 * 1024
_ESCAPE = "\\"
_QUOTES = ('"', "'")
_CLOSING = {"{": "}", "[": "]"}
_OPENING = re.compile(
    r"""\s*(?:\{\s*["'}]|\{\s*$|\[\s*(?:["'\[{\]\d-]|true|false|null|True|False|None|$))"""
)
_TOKENS = re.compile(
    r"""(?:"[^"\\]*(?:\\.[^"\\]*)*|'[^'\\]*(?:\\.[^'\\]*)*)(?P<end>["']|\\?\Z)|[\[\]{},]""",
    re.DOTALL,
)
LAST_OF_MARKERS = frozenset("])>…d D_*\n")
"""The last characters of all texts with a marker or a mask: other texts need no closer look.

A new marker or mask that ends in another character has to have that character here.
"""


def is_cut(text: str) -> bool:
    """Whether `text` ends in a marker of truncation.

    >>> (
    ...     is_cut("The weather in ...[TRUNCATED]"),
    ...     is_cut("It rains [3 lines truncated]"),
    ...     is_cut("Well…"),
    ... )
    (True, True, False)
    """
    if text[-1:] not in LAST_OF_MARKERS:
        return False
    if text[-1] == "…":
        return len(text) >= _MIN_CHARS_OF_ELLIPSIS
    tail = text[-_TAIL_CHARS:]
    lowered = tail.lower()
    return any(word in lowered for word in _WORDS) and any(
        x.end() == len(tail) for x in _MARKER.finditer(tail)
    )


def is_cut_or_redacted(text: str) -> bool:
    """Whether `text` was cut or redacted. The last character of nearly all texts shows that they
    were not.
    """
    return text[-1:] in LAST_OF_MARKERS and (is_redacted(text) or is_cut(text))


def mended(text: str) -> str | None:
    """A JSON array or object that ends before it is closed, closed; None for other text.

    Python's spelling counts too.

    The last member or element is left out where it was cut so that it cannot be closed.

    >>> mended('{"cities": ["Paris", "Ber'), mended('{"city": "Paris"}'), mended("[see below]")
    ('{"cities": ["Paris", "Ber"]}', None, None)
    >>> mended('{"city": "Paris", "day')
    '{"city": "Paris"}'
    """
    if len(text) > _MAX_CHARS or _OPENING.match(text) is None:
        return None
    closed, last = _closed(text)
    if closed is None or structure(closed).value is not None:
        return closed
    return _closed(text[:last])[0]


def _closed(text: str) -> tuple[str | None, int]:
    """The text closed, None where it needs no closing; and where its last member or element that is
    open begins.
    """
    waiting: list[str] = []
    last = 0
    for token in _TOKENS.finditer(text):
        first = token[0][0]
        if first == ",":
            last = token.start()
        elif first in _CLOSING:
            waiting.append(_CLOSING[first])
            last = token.end()
        elif first in "]}":
            if not waiting or waiting.pop() != first:
                return None, last
        elif token["end"] not in _QUOTES:
            return f"{text.rstrip(_ESCAPE)}{first}{''.join(reversed(waiting))}", last
        if not 0 < len(waiting) <= MAX_DEPTH:
            return None, last
    return f"{text}{''.join(reversed(waiting))}", last


def is_damaged(value: Any) -> bool:
    """Whether a tool's arguments or result were cut or redacted, or one of an object's values
    was.
    """
    if isinstance(value, dict):
        for member in value.values():  # for every tool call: a generator would take twice as long
            if (
                isinstance(member, str)
                and member[-1:] in LAST_OF_MARKERS
                and is_cut_or_redacted(member)
            ):
                return True
        return False
    if not isinstance(value, str) or not value:
        return False
    return is_cut_or_redacted(value) or (value[0] in "{[" and mended(value) is not None)
