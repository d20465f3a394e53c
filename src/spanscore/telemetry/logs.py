"""Log lines on standard error, bounded."""

import functools
import logging
import sqlite3
import sys
import time
import traceback
import uuid
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from importlib.metadata import PackageNotFoundError, version
from types import TracebackType
from typing import Any, TypeAlias

from spanscore.errors import SpanscoreError
from spanscore.model.json import dumps
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
        around = current()
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
    handler.setFormatter(Console() if for_people else Json(resource_attributes(config.resource)))
    handler.addFilter(Repetition(config.logs.sampling))
    logging.basicConfig(level=logging.WARNING, handlers=[handler], force=True)
    logging.captureWarnings(capture=True)  # what libraries warn of is a line like any other
    level = config.logs.level
    logging.getLogger("spanscore").setLevel("WARNING" if level == "warn" else level.upper())


_log = logging.getLogger(__name__)

_COMPLAIN_EVERY_NS = 60 * 10**9


class Complaints:
    """Says what goes wrong when it begins, then once a minute, with how often it did: a store can
    be down all night.
    """

    def __init__(self, clock_ns: Callable[[], int]) -> None:
        """`clock_ns` gives Unix nanoseconds."""
        self._clock_ns = clock_ns
        # by subject: when it was last said, and how often not since
        self._last: dict[str, tuple[int, int]] = {}

    def complain(
        self, about: str, what: str, *, level: int = logging.WARNING, error: Exception | None = None
    ) -> None:
        """Log `what`, with the traceback of `error`, unless there was a line about the same less
        than a minute ago.

        `about` is one of few.
        """
        now_ns = self._clock_ns()
        # so that lines about something else do not use up what may be said of this
        fault = {"fault": about}
        if about not in self._last:
            _log.log(level, "%s: %s", about, what, exc_info=error, extra=fault)
        else:
            logged_ns, unlogged = self._last[about]
            if 0 <= now_ns - logged_ns < _COMPLAIN_EVERY_NS:
                self._last[about] = logged_ns, unlogged + 1
                return
            line = "%s: %s (%d times since the last line about it)"
            _log.log(level, line, about, what, unlogged + 1, exc_info=error, extra=fault)
        self._last[about] = now_ns, 0

    def is_over(self, about: str) -> bool:
        """Forget what was wrong; whether anything was."""
        return self._last.pop(about, None) is not None


@functools.cache
def instance_id() -> str:
    """Tells this process from others, and from itself before a restart."""
    return str(uuid.uuid4())


def resource_attributes(configured: Mapping[str, str]) -> dict[str, str]:
    """OpenTelemetry's attributes of a service; what is `configured` comes before what is found
    out.
    """
    try:
        own_version = version("spanscore")
    except PackageNotFoundError:
        own_version = "unknown"
    own = {
        "service.name": "spanscore",
        "service.version": own_version,
        "service.instance.id": instance_id(),
    }
    return own | dict(configured)


_ABOUT: ContextVar[Mapping[str, str | None]] = ContextVar("about", default={})  # noqa: B039 - it is never changed


@contextmanager
def about(
    *,
    trace_id: str | None = None,
    span_id: str | None = None,
    session_id: str | None = None,
    tenant: str = "",
) -> Iterator[None]:
    """Lines logged within the block, also by tasks and threads begun in it, have these ids as
    fields.
    """
    token = _ABOUT.set(
        {
            "trace_id": trace_id,
            "span_id": span_id,
            "session_id": session_id,
            "tenant": tenant or None,
        }
    )
    try:
        yield
    finally:
        _ABOUT.reset(token)


def current() -> Mapping[str, str | None]:
    """What the innermost block is about."""
    return _ABOUT.get()
