"""What spanscore says of itself: counters that health and logs read, and structured log lines on standard error."""

import contextlib
import logging
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Literal

from pydantic import BaseModel, ConfigDict

from spanscore.model.json import dumps

_log = logging.getLogger(__name__)

_COMPLAIN_EVERY_NS = 60 * 10**9


class Config(BaseModel):
    """How spanscore logs."""

    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)

    level: Literal["debug", "info", "warn", "error"] = "info"
    """The least severe level that is logged."""

    encoding: Literal["console", "json"] = "console"
    """`console` for people, `json` for a log pipeline: one object a line."""


class Counters:
    """Named counts that only go up; safe to use from any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._counts: Counter[str] = Counter()

    def add(self, name: str, count: int = 1) -> None:
        """Add `count` to `name`."""
        with self._lock:
            self._counts[name] += count

    def snapshot(self) -> dict[str, int]:
        """All counts so far, by name."""
        with self._lock:
            return dict(sorted(self._counts.items()))


class Complaints:
    """Says what goes wrong when it begins, then once a minute, with how often it did: a store can be down all night."""

    def __init__(self, clock_ns: Callable[[], int]) -> None:
        """`clock_ns` gives Unix nanoseconds."""
        self._clock_ns = clock_ns
        self._said: dict[str, tuple[int, int]] = {}  # by subject: when it was last said, and how often not since

    def complain(self, about: str, what: str) -> None:
        """Warn of `what`, unless there was a line about the same less than a minute ago. `about` is one of few."""
        now_ns = self._clock_ns()
        if about not in self._said:
            _log.warning("%s: %s", about, what)
        else:
            said_ns, unsaid = self._said[about]
            if 0 <= now_ns - said_ns < _COMPLAIN_EVERY_NS:
                self._said[about] = said_ns, unsaid + 1
                return
            _log.warning("%s: %s (%d times since the last line about it)", about, what, unsaid + 1)
        self._said[about] = now_ns, 0

    def is_over(self, about: str) -> bool:
        """Forget what was wrong; whether anything was."""
        return self._said.pop(about, None) is not None


class _JsonFormatter(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        fields = {
            "ts": time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created)) + f".{record.msecs:03.0f}Z",
            "level": record.levelname.lower(),
            "logger": record.name,
            "msg": record.getMessage(),
        }
        if record.exc_info:
            fields["stacktrace"] = self.formatException(record.exc_info)
        return dumps(fields)


def configure_logging(config: Config) -> None:
    """Send spanscore's log lines to standard error as `config` says; other libraries only from WARN up."""
    handler = logging.StreamHandler(sys.stderr)
    console = logging.Formatter("%(asctime)s\t%(levelname)s\t%(name)s\t%(message)s")
    handler.setFormatter(_JsonFormatter() if config.encoding == "json" else console)
    logging.basicConfig(level=logging.WARNING, handlers=[handler], force=True)
    logging.getLogger("spanscore").setLevel("WARNING" if config.level == "warn" else config.level.upper())


@contextlib.contextmanager
def instrumentation_suppressed() -> Iterator[None]:
    """Within this block, calls of a model are not traced, so that the judge's never show up in a user's traces.

    The keys are those that OpenTelemetry's, OpenInference's and Traceloop's instrumentations ask before they trace.
    """
    try:
        from opentelemetry import context  # noqa: PLC0415 - only where the process is instrumented is it installed
    except ImportError:
        yield
        return
    keys = (
        context._SUPPRESS_INSTRUMENTATION_KEY,  # noqa: SLF001 - private by name, but what instrumentations import
        "suppress_instrumentation",
        "suppress_language_model_instrumentation",
    )
    suppressed = context.get_current()
    for key in keys:
        suppressed = context.set_value(key, True, suppressed)  # noqa: FBT003 - set_value takes it by position
    token = context.attach(suppressed)
    try:
        yield
    finally:
        context.detach(token)
