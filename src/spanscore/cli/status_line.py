"""The status line of `spanscore serve`."""

import asyncio
import contextlib
import logging
import shutil
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, TextIO

from spanscore.cli.terminal import on_one_line
from spanscore.telemetry import Meter, declared

_log = logging.getLogger(__name__)

_TERMINAL_EVERY_S, _LOG_EVERY_S = 1.0, 60.0
_CLEAR = "\r\x1b[2K"
_WIDE = 400


def status(meter: Meter, health: Mapping[str, Any], exporters: Iterable[str]) -> str:
    """Traces, scores and where they go, in a line.

    `exporters` are the names of those that are configured.
    """
    totals = meter.totals()
    scored = next(x.values for x in meter.collect() if x.metric is declared.EVALUATIONS_SCORED)
    label = declared.EVALUATIONS_SCORED.labels.index("label")
    failing = sum(
        count
        for labels, count in scored.items()
        if labels[label] == "fail" and isinstance(count, float | int)
    )
    waiting = health["open_traces"] + health["waiting_traces"] + health["waiting_parts"]
    failed = int(totals.get("evaluations_failed", 0))
    parts = (
        f"{int(totals.get('agent_traces', 0)):,} traces",
        f"{int(totals.get('evaluations_scored', 0)):,} scores",
        f"{int(failing):,} failing",
        *([f"{failed:,} not measured"] if failed else []),
        f"{waiting:,} traces waiting",
    )
    return f"{', '.join(parts)}; {_destinations(health, exporters)}"


def _destinations(health: Mapping[str, Any], exporters: Iterable[str]) -> str:
    behind, undelivered = health["scores_to_export"], health["scores_undelivered"]
    named = [
        _destination(name, behind.get(name, 0), undelivered.get(name, 0)) for name in exporters
    ]
    return (
        f"scores go to {', '.join(named)}"
        if named
        else "scores stay in the store: no exporter is configured"
    )


def _destination(name: str, behind: int, undelivered: int) -> str:
    notes = [
        f"{count:,} {what}"
        for count, what in ((behind, "to send"), (undelivered, "undelivered"))
        if count
    ]
    return f"{name} ({', '.join(notes)})" if notes else name


async def run(read: Callable[[], str]) -> None:
    """Show what `read` gives, for ever: where standard error is a terminal in a line of its own,
    else in the log.

    Nothing is shown while nothing changes.
    """
    if sys.stderr.isatty():
        with _line_of_its_own() as line:
            await _changes(read, _TERMINAL_EVERY_S, line.show)
    else:
        await _changes(read, _LOG_EVERY_S, lambda text: _log.info("%s", text))


async def _changes(read: Callable[[], str], every_s: float, show: Callable[[str], None]) -> None:
    last = read()
    while True:
        await asyncio.sleep(every_s)
        if (text := read()) != last:
            show(text)
            last = text


class _Line:
    """A stream for log lines, below which a line stands that is written anew."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._shown = ""

    def show(self, text: str) -> None:
        """Put `text` in the place of what stands there."""
        self._shown = on_one_line(text, max(shutil.get_terminal_size((_WIDE, 24)).columns - 1, 20))
        self._stream.write(f"{_CLEAR}{self._shown}")
        self._stream.flush()

    def write(self, text: str) -> int:
        """Write log lines above it."""
        self._stream.write(f"{_CLEAR}{text}{self._shown if text.endswith(chr(10)) else ''}")
        return len(text)

    def flush(self) -> None:
        """Write what waits to be written."""
        self._stream.flush()

    def end(self) -> None:
        """Leave the line where it is, and begin the next."""
        if self._shown:
            self._stream.write("\n")
            self._shown = ""
        self._stream.flush()


@contextlib.contextmanager
def _line_of_its_own() -> Iterator[_Line]:
    """A line at the bottom of the terminal; while the block runs, log lines are written above
    it.
    """
    line = _Line(sys.stderr)
    handlers = [x for x in logging.getLogger().handlers if isinstance(x, logging.StreamHandler)]
    for handler in handlers:
        handler.setStream(line)
    try:
        yield line
    finally:
        line.end()
        for handler in handlers:
            handler.setStream(sys.stderr)
