"""Branches of a tree: a name and what it has, whose further lines stand under the first and not
under the name.
"""

import json
from typing import TYPE_CHECKING, Any

from spanscore.cli.terminal import printable

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.text import Text

_MAX_CHARS = 1000
_MAX_ITEM_CHARS, _MAX_ITEMS = 300, 30
"""Of a value in JSON: characters of each text in it that are shown, and items of each list or
object.
"""
_LONGEST_NAME = 32
"""What follows a longer name begins on a line of its own."""
_INDENT = 4


def branch(name: "Text", text: "Text | str") -> "RenderableType":
    """A name and its text, which is wrapped at spaces within the room that is left beside the
    name.
    """
    from rich.console import Group  # noqa: PLC0415 - --jsonl needs no rich
    from rich.padding import Padding  # noqa: PLC0415 - likewise
    from rich.table import Table  # noqa: PLC0415 - likewise
    from rich.text import Text  # noqa: PLC0415 - likewise

    label = text if isinstance(text, Text) else Text(text)
    label.overflow = "fold"
    if name.cell_len > _LONGEST_NAME:
        name.overflow = "fold"
        return Group(name, Padding(label, (0, 0, 0, _INDENT)))
    beside = Table.grid(padding=(0, 2, 0, 0))
    beside.add_column(no_wrap=True)
    beside.add_column(overflow="fold")
    beside.add_row(name, label)
    return beside


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
