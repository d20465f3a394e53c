"""Tables without lines, as the commands print them: words to the left, numbers to the right."""

from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.table import Table


def plain_table(
    words: Sequence[str], numbers: Sequence[str] = (), *, wrapped: Collection[str] = ()
) -> "Table":
    """An empty table with columns of words, then columns of numbers; only those in `wrapped` take
    several lines.
    """
    from rich.table import Table  # noqa: PLC0415 - --json needs no rich

    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim")
    for heading in words:
        wraps = heading in wrapped
        table.add_column(heading, no_wrap=not wraps, overflow="fold" if wraps else "ellipsis")
    for heading in numbers:
        table.add_column(heading, no_wrap=True, justify="right")
    return table
