"""JSON that was cut off: its beginning as a whole value, so that what came before the cut can be
read.
"""

import re
from typing import Final

_TOKEN: Final = re.compile(rb'"[^"\\]*(?:\\.[^"\\]*)*"|[\[\]{},"]', re.DOTALL)
_CLOSERS: Final = {b"[": b"]", b"{": b"}"}


def whole_prefix(text: bytes, depth: int) -> bytes:
    """`text` up to its last complete element at most `depth` arrays and objects deep, with all that
    is open closed.

    >>> whole_prefix(b'{"a": [{"b": [1, 2]}, {"b": [3', 2)
    b'{"a": [{"b": [1, 2]}]}'
    """
    open_: list[bytes] = []
    end, closing = 0, b""
    for token in _TOKEN.finditer(text):
        mark = token[0]
        if mark == b'"':  # of a text that does not end
            break
        if mark in _CLOSERS:
            open_.append(_CLOSERS[mark])
        elif mark in {b"]", b"}"}:
            if open_:
                open_.pop()
        elif mark != b"," or not open_:
            continue
        if len(open_) <= depth and mark != b"{" and (mark != b"," or open_[-1] == b"]"):
            end = token.start() if mark == b"," else token.end()
            closing = b"".join(reversed(open_))
    return text[:end] + closing
