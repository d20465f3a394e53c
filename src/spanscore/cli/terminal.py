"""Terminal output: safe text, tables, trees and progress."""

import contextlib
import io
import json
import os
import re
import sys
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Final, Literal, TextIO, TypeAlias, cast

from spanscore import local_files
from spanscore.errors import InputError, line_of, shortened
from spanscore.model.json import dumps

if TYPE_CHECKING:
    from rich.console import Console, ConsoleOptions, RenderableType, RenderResult
    from rich.measure import Measurement
    from rich.table import Table
    from rich.text import Text


# Everything but \n and \t that moves the cursor, starts an escape sequence, turns the writing
# direction, is invisible, or cannot be encoded at all.
_UNPRINTABLE = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u00ad\u061c\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff\ud800-\udfff"
    "\U000e0000-\U000e007f]"
)


_TRAILING_BLANKS = re.compile(r" +$", re.MULTILINE)


def printable(text: str) -> str:
    r"""`text` that can do nothing to a terminal: control characters are shown as their escapes.

    >>> print(printable("\x1b[2J wiped"))
    \x1b[2J wiped
    """
    return _UNPRINTABLE.sub(lambda found: ascii(found[0])[1:-1], text)


def on_one_line(text: str, max_chars: int) -> str:
    """`text` made printable, its white space collapsed, cut to `max_chars` with an ellipsis.

    >>> on_one_line("What is  the  weather?", 12)
    'What is the…'
    """
    return line_of(printable(shortened(text, max_chars * 4)), max_chars)


def first_of(names: Sequence[str], most: int) -> str:
    """The first of some names, and how many more there are.

    >>> first_of(["a", "b", "c"], 2)
    'a, b and 1 more'
    """
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return f"{', '.join(names[:most])}{more}"


def counted(count: int, one: str, many: str = "") -> str:
    """A number of things, with the words for one and for many; without `many`, with an s.

    >>> counted(1, "score is", "scores are"), counted(1000, "score")
    ('1 score is', '1,000 scores')
    """
    return f"1 {one}" if count == 1 else f"{count:,} {many or f'{one}s'}"


def say(text: object) -> None:
    """Print a line on standard error, as from spanscore."""
    print(f"spanscore: {printable(str(text))}", file=sys.stderr)


def utc(ns: int) -> datetime:
    """A time in Unix nanoseconds."""
    return datetime.fromtimestamp(ns // 10**9, UTC)


def print_json(value: object) -> None:
    """Print `value` as one line of JSON."""
    print(json_line(value))


def json_line(value: object) -> str:
    """`value` as JSON; what a terminal might obey is written as a JSON escape, which is the
    same.
    """
    return _UNPRINTABLE.sub(lambda found: json.dumps(found[0])[1:-1], dumps(value))


_AS_IT_IS: Final[dict[str, Any]] = {"markup": False, "emoji": False, "highlight": False}
"""How rich prints a text in which nothing is read as markup."""


def console(*, to_stderr: bool = False) -> "Console":
    """Standard output, or standard error, for tables and trees; nothing that is printed on it is
    read as markup.

    Colours only on a terminal and without NO_COLOR. Where it is no terminal, lines are 120 wide
    unless COLUMNS says otherwise.
    """
    from rich.console import Console  # noqa: PLC0415 - 60 ms that --help and --jsonl need not spend

    class Output(Console):
        """Ends as every other writer where nobody reads any more; rich would exit with 1."""

        def on_broken_pipe(self) -> None:
            raise  # noqa: PLE0704 - rich calls this while it handles the BrokenPipeError

    colours: Literal["auto"] | None = None if os.environ.get("NO_COLOR") else "auto"
    output = Output(**_AS_IT_IS, color_system=colours, stderr=to_stderr)
    if not output.is_terminal:
        output.width = output.width if "COLUMNS" in os.environ else 120
        output.file = cast("IO[str]", _Trimmed("stderr" if to_stderr else "stdout"))
    return output


def rendered(write: Callable[["Console"], None], width: int, encoding: str) -> str:
    """What `write` prints on an output that is no terminal, as it would stand there: without
    trailing blanks.
    """
    from rich.console import Console  # noqa: PLC0415 - as above

    collected = io.BytesIO()
    file = io.TextIOWrapper(
        collected, encoding=encoding, errors="backslashreplace", newline="", write_through=True
    )
    write(Console(file=file, width=width, color_system=None, **_AS_IT_IS))
    return _TRAILING_BLANKS.sub("", collected.getvalue().decode(encoding))


class _Trimmed:
    """A standard stream, by its name in `sys`, without the blanks that fill the lines of a table up
    to its width.
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self.encoding = self._stream.encoding  # which says what characters there are to draw with

    @property
    def _stream(self) -> TextIO:
        stream: TextIO = getattr(sys, self._name)
        return stream

    def write(self, text: str) -> int:
        """Print `text`, which comes in whole lines."""
        self._stream.write(_TRAILING_BLANKS.sub("", text))
        return len(text)

    def flush(self) -> None:
        """Hand on what was printed."""
        self._stream.flush()


@contextlib.contextmanager
def progress(what: str, total: int) -> Iterator[Callable[[], Any]]:
    """Show a bar on standard error while the block runs, if that is a terminal; call what it gives
    for each step.
    """
    if not sys.stderr.isatty():
        yield lambda: None
        return
    from rich.console import Console  # noqa: PLC0415 - only a terminal needs it
    from rich.progress import Progress  # noqa: PLC0415 - only a terminal needs it

    with Progress(console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(what, total=total)
        yield lambda: bar.advance(task)


def prepare_streams() -> None:
    """Let what is printed not fail for its characters, nor since a stream was closed before we
    began.
    """
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if stream is None:  # as after `>&-`
            setattr(sys, name, open(os.devnull, "w", encoding="utf-8"))  # noqa: SIM115, PTH123 - for as long as we run
        elif isinstance(stream, io.TextIOWrapper):
            # a terminal that is not UTF-8 shows escapes
            stream.reconfigure(errors="backslashreplace")


def let_go_of_streams() -> None:
    """Print nowhere from now on: else Python complains once more at its exit, about what it could
    not write.
    """
    nowhere = os.open(os.devnull, os.O_WRONLY)
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except OSError:
            with contextlib.suppress(OSError):  # a stream that is no file, as in a test
                os.dup2(nowhere, stream.fileno())
    os.close(nowhere)


Output: TypeAlias = "Console"
Rows = Sequence[Sequence[Any]]
Columns: TypeAlias = Sequence[tuple[str, Callable[[Any], Any]]]
"""Headings, each with what the cells below it show of an item."""


def plain_table(
    words: Sequence[str],
    numbers: Sequence[str] = (),
    rows: Iterable[Sequence[Any]] = (),
    *,
    wrapped: Collection[str] = (),
) -> "Table":
    """A table with these columns, those of `numbers` to the right and, where they are not among
    `words`, last; only those in `wrapped` take several lines.
    """
    from rich.table import Table  # noqa: PLC0415 - --json needs no rich

    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim")
    for heading in (*words, *(x for x in numbers if x not in words)):
        table.add_column(
            heading,
            no_wrap=heading not in wrapped,
            overflow="fold" if heading in wrapped else "ellipsis",
            justify="right" if heading in numbers else "left",
        )
    for row in rows:
        table.add_row(*row)
    return table


def styled(text: str, style: str = "") -> "Text":
    """A text for a terminal."""
    from rich.text import Text  # noqa: PLC0415 - --json needs no rich

    return Text(text, style)


def assembled(*parts: "str | Text | tuple[str, str]") -> "Text":
    """A text of parts, each with a style of its own."""
    from rich.text import Text  # noqa: PLC0415 - as above

    return Text.assemble(*parts)


_ANY_WIDTH = 1_000
_LEAST_CHARS = 16
_NAME_PIECES = re.compile(r"[^\s_./:-]+[\s_./:-]?|[\s_./:-]")


def fitted(output: "Console", made: Callable[[Rows], "Table"], rows: Rows) -> "Table":
    """The table of these rows, with the names in its first column broken to the room that the
    others leave.
    """
    nameless = made([["", *row[1:]] for row in rows])
    first = nameless.columns[0]
    taken = table_width(output, nameless) - max(len(str(first.header)), first.min_width or 0)
    room = max(output.width - taken, _LEAST_CHARS)
    return made([[broken(str(row[0]), room), *row[1:]] for row in rows])


_BREAKS = ((" [", "\n["), ("; ", "\n"), (", ", ",\n"), (" > ", " >\n"))
"""Where figures are broken, one after the other, until a table fits."""


def print_rows(
    headings: Sequence[str],
    numbers: Collection[str],
    rows: Iterable[Sequence[Any]],
    *,
    wrapped: Collection[str] = (),
    output: "Console | None" = None,
) -> None:
    """Print the columns that have something, those of `numbers` to the right.

    Where there is no room, limits stand below the values they are of, and those in `wrapped`, else
    the names in the first column, take several lines.
    """
    rows = list(rows)
    kept = [at for at in range(len(headings)) if at == 0 or any(row[at] != "-" for row in rows)]
    names, *shown = ([row[at] for at in kept] for row in (headings, *rows))
    made = partial(plain_table, names, [x for x in names if x in numbers], wrapped=wrapped)
    output = output or console()
    for whole, line_end in _BREAKS:
        if table_width(output, made(rows=shown)) <= output.width:
            break
        shown = [[x[0], *(_ended(y, whole, line_end) for y in x[1:])] for x in shown]
    output.print(made(rows=shown) if wrapped else fitted(output, lambda x: made(rows=x), shown))


def _ended(cell: Any, whole: str, line_end: str) -> Any:
    return cell.replace(whole, line_end) if isinstance(cell, str) else cell


def print_items(
    columns: Columns, numbers: Collection[str], items: Sequence[Any], *, none: str = "", **how: Any
) -> None:
    """Print a row for each item, as `print_rows`; where there is no item, `none`."""
    if none and not items:
        print(none)
        return
    rows = [[cell(x) for _, cell in columns] for x in items]
    print_rows([heading for heading, _ in columns], numbers, rows, **how)


def table_width(output: "Console", table: "Table") -> int:
    """How wide a table is where there is room enough."""
    return output.measure(table, options=output.options.update(width=_ANY_WIDTH)).maximum


def broken(text: str, room: int) -> str:
    """`text` in lines of at most `room` terminal cells that end after a separator, as far as it has
    any; a Chinese character takes two.

    >>> print(broken("rubric.instruction_following_and_tone", 20))
    rubric.instruction_
    following_and_tone
    """
    lines = []
    for line in text.split("\n"):
        cuts = [0, *_breaks(line, room, _NAME_PIECES), len(line)]
        lines += [line[begin:end].rstrip() for begin, end in pairwise(cuts)]
    return "\n".join(lines)


_MAX_CHARS = 1000
_MAX_ITEM_CHARS, _MAX_ITEMS = 300, 30
"""Of a value in JSON: characters of each text in it that are shown, and items of each list or
object.
"""
_LONGEST_NAME = 32
"""What follows a longer name begins on a line of its own."""
_INDENT = 4
_WORDS = re.compile(r"\S+\s*|\s+")
_BRANCH_PIECES = re.compile(r"[^\s,:;/&?=]+[,:;/&?=]*\s*|[,:;/&?=]+\s*|\s+")
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
            for part in line.divide(_breaks(line.plain, options.max_width, _BRANCH_PIECES)):
                part.rstrip()
                yield part

    def __rich_measure__(self, console: "Console", options: "ConsoleOptions") -> "Measurement":
        return self.text.__rich_measure__(console, options)


def _breaks(line: str, room: int, pieces: re.Pattern[str]) -> list[int]:
    """Where a line is broken so that as few of its words as can be are, and its parts are at most
    `room` cells wide; not within a piece, also where that is wider.
    """
    from rich.cells import cell_len  # noqa: PLC0415 - --jsonl needs no rich

    breaks: list[int] = []
    begin, at = 0, 0
    for word in _WORDS.findall(line):
        is_long = cell_len(word.rstrip()) > room
        for piece in pieces.findall(word) if is_long else [word]:
            if at > begin and cell_len(line[begin:at] + piece.rstrip()) > room:
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
    if isinstance(value, str):
        return cut(value)
    return cut(json.dumps(_shortened(value), ensure_ascii=False))


def cut(text: str) -> str:
    """`text` made printable; of a long one the beginning, and how long it is."""
    more = f" ({len(text):,} characters, --jsonl shows all)" if len(text) > _MAX_CHARS else ""
    return f"{printable(shortened(text, _MAX_CHARS))}{more}"


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


def write_file(path: Path | None, text: Callable[[], str]) -> None:
    """Write `text` to a file that only its owner may read, if one was asked for.

    Raises InputError where it cannot be written there, OutputError where it does not fit.
    """
    if path is None:
        return
    local_files.write(path, text().encode(errors="replace"))


def require_writable(*paths: Path | None) -> None:
    """Refuse what cannot be written before anything is paid for."""
    given = [x for x in paths if x is not None]
    for place, path in enumerate(given):
        folder = path.absolute().parent
        if str(path) == "-":
            raise InputError("-: name a file; standard output has the table")
        if not folder.is_dir():
            why = f"there is no folder {path.parent}"
            raise InputError(f"{path}: cannot be written ({why}); make it, or name another")
        if path.is_dir():
            raise InputError(f"{path}: cannot be written (it is a folder); name a file")
        if not os.access(path if path.exists() else folder, os.W_OK):
            raise InputError(f"{path}: cannot be written (permission denied); name another file")
        if path.absolute() in [x.absolute() for x in given[:place]]:
            raise InputError(f"{path}: is named for two things; name a file for each")
