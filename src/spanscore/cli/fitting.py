"""Tables whose names are broken where a reader expects it: after a separator, and not in the middle
of a word.
"""

import re
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

Rows = Sequence[Sequence[Any]]

_ANY_WIDTH = 1_000
_LEAST_CHARS = 16
_PIECES = re.compile(r"[^\s_./:-]*[\s_./:-]?")


def fitted(output: "Console", made: Callable[[Rows], "Table"], rows: Rows) -> "Table":
    """The table of these rows, with the names in its first column broken to the room that the
    others leave.
    """
    nameless = made([["", *row[1:]] for row in rows])
    first = nameless.columns[0]
    taken = width(output, nameless) - max(len(str(first.header)), first.min_width or 0)
    room = max(output.width - taken, _LEAST_CHARS)
    return made([[broken(str(row[0]), room), *row[1:]] for row in rows])


def width(output: "Console", table: "Table") -> int:
    """How wide a table is where there is room enough."""
    return output.measure(table, options=output.options.update(width=_ANY_WIDTH)).maximum


def broken(text: str, room: int) -> str:
    """`text` in lines of at most `room` terminal cells that end after a separator, as far as it has
    any; a Chinese character takes two.

    >>> print(broken("rubric.instruction_following_and_tone", 20))
    rubric.instruction_
    following_and_tone
    """
    return "\n".join(line for given in text.split("\n") for line in _lines(given, room))


def _lines(text: str, room: int) -> list[str]:
    from rich.cells import cell_len  # noqa: PLC0415 - what prints no table needs no rich

    lines = [""]
    for piece in filter(None, _PIECES.findall(text)):
        if lines[-1] and cell_len(lines[-1] + piece.rstrip()) > room:
            lines.append("")
        lines[-1] += piece
    return [line.rstrip() for line in lines]
