"""Log lines on standard error: for people or a pipeline, each fault a bounded number of times, no
user's content.
"""

import logging
import sqlite3
import sys
import time
import traceback
from collections import OrderedDict
from collections.abc import Callable, Mapping
from types import TracebackType
from typing import Any, TypeAlias

from spanscore.errors import SpanscoreError
from spanscore.model.json import dumps
from spanscore.telemetry import resource, subject
from spanscore.telemetry.config import Config, Sampling

_FIELDS = ("trace_id", "span_id", "session_id", "tenant")
"""What a line may say it is about: by `extra`, or by the block of `about` that it is logged in."""

_MAX_FIELD_CHARS = 128
_MAX_FAULTS = 1000
_EXPLAINED = (SpanscoreError, OSError, sqlite3.Error)
"""Errors whose text is of spanscore's or the system's making.

Any other's may quote what a trace holds.
"""

_ExcInfo: TypeAlias = (
    tuple[type[BaseException], BaseException, TracebackType | None] | tuple[None, None, None]
)


class Repetition(logging.Filter):
    """Lets a warning or error through so many times in a while; the next one that passes says how
    many did not.

    Lines say the same when they are of one `fault` (an `extra`), else of one logger and message
    before formatting.
    """

    def __init__(self, config: Sampling, clock_ns: Callable[[], int] = time.monotonic_ns) -> None:
        super().__init__()
        self._config = config
        self._clock_ns = clock_ns
        # since when, lines, left out
        self._seen: OrderedDict[tuple[str, str], tuple[int, int, int]] = OrderedDict()

    def filter(self, record: logging.LogRecord) -> bool:
        """Whether the line is logged."""
        if record.levelno < logging.WARNING or not self._config.enabled:
            return True
        key = (record.name, str(getattr(record, "fault", record.msg)))
        now_ns = self._clock_ns()
        since_ns, lines, unsaid = self._seen.pop(key, (now_ns, 0, 0))
        if now_ns - since_ns >= self._config.tick:
            since_ns, lines = now_ns, 0
        lines += 1
        passes = self._passes(lines)
        if passes and unsaid:
            record.unsaid = unsaid
        self._seen[key] = since_ns, lines, 0 if passes else unsaid + 1
        if len(self._seen) > _MAX_FAULTS:
            self._seen.popitem(last=False)
        return passes

    def _passes(self, lines: int) -> bool:
        past, each = lines - self._config.initial, self._config.thereafter
        return past <= 0 or (each > 0 and past % each == 0)


class _Formatter(logging.Formatter):
    """What both encodings share."""

    converter = staticmethod(time.gmtime)

    def formatException(self, ei: _ExcInfo) -> str:  # noqa: N802 - logging names it
        """The stack, and of each error its type; its text only where no user's content can be in
        it.
        """
        return stack(ei[1]) if ei[1] is not None else ""

    def message(self, record: logging.LogRecord) -> str:
        """The message, with how many like it were left out before it."""
        unsaid = getattr(record, "unsaid", 0)
        return (
            f"{record.getMessage()} ({unsaid} like it were not logged)"
            if unsaid
            else record.getMessage()
        )

    def fields(self, record: logging.LogRecord) -> dict[str, str]:
        """What the line is about."""
        around = subject.current()
        found = {name: getattr(record, name, None) or around.get(name) for name in _FIELDS}
        return {name: str(value)[:_MAX_FIELD_CHARS] for name, value in found.items() if value}


class Console(_Formatter):
    """A line for people: time, level, who says it, what, and what it is about."""

    def format(self, record: logging.LogRecord) -> str:
        """The line, and the stack below it."""
        at = f"{self.formatTime(record, '%Y-%m-%dT%H:%M:%S')}.{int(record.msecs):03d}Z"
        fields = self.fields(record)
        parts = [
            at,
            record.levelname,
            record.name,
            self.message(record),
            *([dumps(fields)] if fields else []),
        ]
        line = "\t".join(parts)
        return f"{line}\n{self.formatException(record.exc_info)}" if record.exc_info else line


class Json(_Formatter):
    """A line for a pipeline, with the keys of the collector's own."""

    def __init__(self, attributes: Mapping[str, str]) -> None:
        super().__init__()
        self._resource = dict(attributes)

    def format(self, record: logging.LogRecord) -> str:
        """One JSON object."""
        shown: dict[str, Any] = {
            "level": record.levelname.lower().replace("warning", "warn"),
            "ts": f"{self.formatTime(record, '%Y-%m-%dT%H:%M:%S')}.{int(record.msecs):03d}Z",
            "logger": record.name,
            "msg": self.message(record),
            **self.fields(record),
            "resource": self._resource,
        }
        if record.exc_info:
            shown["stacktrace"] = self.formatException(record.exc_info)
        return dumps(shown)


def stack(error: BaseException, causes: int = 5) -> str:
    """Where `error` and what it came from were raised, innermost cause first, of which there are
    `causes` at most.
    """
    cause = error.__cause__ or (None if error.__suppress_context__ else error.__context__)
    before = f"{stack(cause, causes - 1)}\n\n" if cause is not None and causes else ""
    kind = type(error)
    name = (
        kind.__qualname__
        if kind.__module__ == "builtins"
        else f"{kind.__module__}.{kind.__qualname__}"
    )
    shown = f": {error}" if isinstance(error, _EXPLAINED) else ""
    return f"{before}{''.join(traceback.format_tb(error.__traceback__))}{name}{shown}"


def configure_logging(config: Config) -> None:
    """Send spanscore's log lines to standard error as `config` says; other libraries only from WARN
    up.
    """
    handler = logging.StreamHandler(sys.stderr)
    for_people = config.logs.encoding == "console" or (
        config.logs.encoding == "auto" and sys.stderr.isatty()
    )
    handler.setFormatter(Console() if for_people else Json(resource.attributes(config.resource)))
    handler.addFilter(Repetition(config.logs.sampling))
    logging.basicConfig(level=logging.WARNING, handlers=[handler], force=True)
    logging.captureWarnings(capture=True)  # what libraries warn of is a line like any other
    level = config.logs.level
    logging.getLogger("spanscore").setLevel("WARNING" if level == "warn" else level.upper())
