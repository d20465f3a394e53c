"""Printing: text from traces made harmless, colours only for a terminal, progress on standard
error.
"""

import contextlib
import json
import os
import re
import sys
from collections.abc import Callable, Iterator
from typing import IO, TYPE_CHECKING, Any, Literal, TextIO, cast

from spanscore.model.json import dumps

if TYPE_CHECKING:
    from rich.console import Console

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
    line = " ".join(printable(text[: max_chars * 4]).split())
    return (
        line
        if len(line) <= max_chars and len(text) <= max_chars * 4
        else f"{line[: max_chars - 1].rstrip()}…"
    )


def print_json(value: object) -> None:
    """Print `value` as one line of JSON."""
    print(json_line(value))


def json_line(value: object) -> str:
    """`value` as JSON; what a terminal might obey is written as a JSON escape, which is the
    same.
    """
    return _UNPRINTABLE.sub(lambda found: json.dumps(found[0])[1:-1], dumps(value))


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

    plain = bool(os.environ.get("NO_COLOR"))
    colours: Literal["auto"] | None = None if plain else "auto"
    output = Output(
        markup=False, emoji=False, highlight=False, color_system=colours, stderr=to_stderr
    )
    if not output.is_terminal and "COLUMNS" not in os.environ:
        output.width = 120
    if not output.is_terminal:
        output.file = cast("IO[str]", _Trimmed("stderr" if to_stderr else "stdout"))
    return output


def rendered(write: Callable[["Console"], None], width: int, encoding: str) -> str:
    """What `write` prints on an output that is no terminal, as it would stand there: without
    trailing blanks.
    """
    from rich.console import Console  # noqa: PLC0415 - as above

    collected = _Collected(encoding)
    file = cast("IO[str]", collected)
    write(
        Console(
            file=file, width=width, markup=False, emoji=False, highlight=False, color_system=None
        )
    )
    return _TRAILING_BLANKS.sub("", collected.getvalue())


class _Collected:
    """A text that says in which encoding it will be printed: whether there are characters to draw
    with.
    """

    def __init__(self, encoding: str) -> None:
        self.encoding = encoding
        self._parts: list[str] = []

    def write(self, text: str) -> int:
        """Add to the text."""
        self._parts.append(text)
        return len(text)

    def flush(self) -> None:
        """Nothing waits."""

    def getvalue(self) -> str:
        """The text."""
        return "".join(self._parts)


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
