"""Shows on standard error how far work has come: a bar on a terminal, elsewhere a line now and
then.
"""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TypeAlias

Steps: TypeAlias = Callable[[], object]
"""Called after each step."""

_LINES = 10


@contextmanager
def steps(what: str, total: int, *, shown: bool = True) -> Iterator[Steps]:
    """Show progress while the block runs; call what it gives after each of `total` steps."""
    if not shown or not total:
        yield lambda: None
    elif sys.stderr.isatty():
        from rich.console import Console  # noqa: PLC0415 - only a terminal needs it
        from rich.progress import Progress  # noqa: PLC0415 - only a terminal needs it

        with Progress(console=Console(stderr=True), transient=True) as bar:
            task = bar.add_task(what, total=total)
            yield lambda: bar.advance(task)
    else:
        yield _Lines(what, total)


class _Lines:
    """Writes a line after each tenth of the steps."""

    def __init__(self, what: str, total: int) -> None:
        self._what = what
        self._total = total
        self._count = 0

    def __call__(self) -> None:
        """A step is done."""
        self._count += 1
        if self._count * _LINES // self._total > (self._count - 1) * _LINES // self._total:
            print(f"spanscore: {self._what}: {self._count} of {self._total}", file=sys.stderr)  # noqa: T201 - as it says
