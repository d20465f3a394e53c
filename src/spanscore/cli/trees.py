"""Branches of a tree: a name and what it has, whose further lines stand under the first and not
under the name.
"""

import json
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from spanscore.cli.terminal import printable

if TYPE_CHECKING:
    from rich.console import Console, ConsoleOptions, RenderableType, RenderResult
    from rich.measure import Measurement
    from rich.text import Text

_MAX_CHARS = 1000
_MAX_ITEM_CHARS, _MAX_ITEMS = 300, 30
"""Of a value in JSON: characters of each text in it that are shown, and items of each list or
object.
"""
_LONGEST_NAME = 32
"""What follows a longer name begins on a line of its own."""
_INDENT = 4
_WORDS = re.compile(r"\S+\s*|\s+")
_PIECES = re.compile(r"[^\s,:;/&?=]+[,:;/&?=]*\s*|[,:;/&?=]+\s*|\s+")
"""Of a word with what follows it: parts that end in a separator of JSON or of an URL."""


def branch(name: "Text", text: "Text | str") -> "RenderableType":
    """A name and its text, which is wrapped at spaces within the room that is left beside the
    name; what has none, such as JSON without blanks, is broken after a separator.
    """
    from rich.console import Group  # noqa: PLC0415 - --jsonl needs no rich
    from rich.padding import Padding  # noqa: PLC0415 - likewise
    from rich.table import Table  # noqa: PLC0415 - likewise
    from rich.text import Text  # noqa: PLC0415 - likewise

    label = text if isinstance(text, Text) else Text(text)
    label.overflow = "fold"
    if name.cell_len > _LONGEST_NAME:
        name.overflow = "fold"
        return Group(name, Padding(_Wrapped(label), (0, 0, 0, _INDENT)))
    beside = Table.grid(padding=(0, 2, 0, 0))
    beside.add_column(no_wrap=True)
    beside.add_column(overflow="fold")
    beside.add_row(name, _Wrapped(label))
    return beside


@dataclass(frozen=True, slots=True)
class _Wrapped:
    """A text that breaks its words only where they are longer than a line, and there after a
    separator.
    """

    text: "Text"

    def __rich_console__(self, console: "Console", options: "ConsoleOptions") -> "RenderResult":
        for line in self.text.split("\n", allow_blank=True):
            for part in line.divide(_breaks(line, options.max_width)):
                part.rstrip()
                yield part

    def __rich_measure__(self, console: "Console", options: "ConsoleOptions") -> "Measurement":
        return self.text.__rich_measure__(console, options)


def _breaks(line: "Text", room: int) -> list[int]:
    """Where a line is broken so that as few of its words as can be are, and its parts are at most
    `room` cells wide; not within a piece, also where that is wider.
    """
    from rich.cells import cell_len  # noqa: PLC0415 - --jsonl needs no rich

    breaks: list[int] = []
    begin, at = 0, 0
    for word in _WORDS.findall(line.plain):
        is_long = cell_len(word.rstrip()) > room
        for piece in _PIECES.findall(word) if is_long else [word]:
            if at > begin and cell_len(line.plain[begin:at] + piece.rstrip()) > room:
                breaks.append(at)
                begin = at
            at += len(piece)
    return breaks


def shown(value: Any) -> str:
    """A value as text, or as JSON with a space after each separator, where lines may break; what is
    long is cut.

    >>> shown({"city": "Tokyo", "days": [1, 2]})
    '{"city": "Tokyo", "days": [1, 2]}'
    """
    return cut(
        value if isinstance(value, str) else json.dumps(_shortened(value), ensure_ascii=False)
    )


def cut(text: str) -> str:
    """`text` made printable; of a long one the beginning, and how long it is."""
    if len(text) <= _MAX_CHARS:
        return printable(text)
    return f"{printable(text[:_MAX_CHARS])}… ({len(text):,} characters, --jsonl shows all)"


def _shortened(value: Any) -> Any:
    """`value` without the ends of long texts, lists and objects, in whose place their length
    stands.
    """
    if isinstance(value, str):
        more = f"… ({len(value):,} characters)"
        return value if len(value) <= _MAX_ITEM_CHARS else f"{value[:_MAX_ITEM_CHARS]}{more}"
    if isinstance(value, list):
        more_items = [f"… ({len(value):,} items)"] if len(value) > _MAX_ITEMS else []
        return [_shortened(x) for x in value[:_MAX_ITEMS]] + more_items
    if isinstance(value, dict):
        some = {key: _shortened(x) for key, x in list(value.items())[:_MAX_ITEMS]}
        return some | ({"…": f"{len(value):,} keys"} if len(value) > _MAX_ITEMS else {})
    return value
