"""Telemetry captured for one piece of work."""

import asyncio
import functools
import gc
import itertools
import logging
import threading
from collections import Counter, OrderedDict
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from types import ModuleType
from typing import Any, Final
from weakref import WeakSet

import opentelemetry._logs._internal as logs_globals
from opentelemetry import context as otel_context, trace as otel_trace, trace as trace_globals
from opentelemetry.sdk._logs import LoggerProvider, LogRecordProcessor
from opentelemetry.sdk.trace import SpanProcessor, TracerProvider
from opentelemetry.sdk.trace.sampling import ALWAYS_ON

from spanscore.model.span import LogRecord, Span
from spanscore.sdk.otel_spans import to_log_record, to_span

MAX_SPANS = 50_000
"""Spans, and log records, that are kept of one piece of work; what comes after is counted."""

_MAX_KNOWN_SPANS = 200_000
"""Spans of which it is remembered to whose work they belong, so that their children belong to it
too.
"""

_KEY = "spanscore-capture"
_NOBODY = 0


class Capture:
    """What was emitted for one piece of work: the spans that have ended, and log records.

    It belongs to the work what is emitted in the context that `Captures.running` sets, in contexts
    copied from it (tasks, `asyncio.to_thread`, what passes OpenTelemetry's context on), or under a
    span that belongs to it. What shows none of these, as in a thread that was started by hand,
    belongs to it while no other work runs.
    """

    def __init__(self, number: int) -> None:
        self.number = number
        self.left_out = 0
        self._spans: list[Any] = []
        self._logs: list[LogRecord] = []
        self._open: dict[int, int] = {}
        self._changed = threading.Condition()

    def telemetry(self, timeout_s: float = 0.0) -> tuple[list[Span], list[LogRecord]]:
        """The spans that have ended and the log records, as far as there are any.

        Waits up to `timeout_s` seconds for spans that are still open, but for those in which the
        caller itself is, and not within an event loop, which could not end them meanwhile.
        """
        with self._changed:
            if timeout_s > 0 and not _in_event_loop():
                self._changed.wait_for(lambda: not self.open_spans(), timeout_s)
            spans, logs = list(self._spans), list(self._logs)
        return [to_span(x) for x in spans], logs

    def open_spans(self) -> int:
        """How many spans have begun and not ended, without those in which the caller is."""
        around: set[int] = set()
        current: int | None = otel_trace.get_current_span().get_span_context().span_id
        while current and current not in around:
            around.add(current)
            current = self._open.get(current)
        return len(self._open.keys() - around)

    def started(self, span: Any) -> None:
        """A span has begun."""
        with self._changed:
            self._open[span.context.span_id] = span.parent.span_id if span.parent else 0

    def ended(self, span: Any) -> None:
        """A span has ended."""
        with self._changed:
            self._open.pop(span.context.span_id, None)
            self._keep(self._spans, span)
            self._changed.notify_all()

    def logged(self, record: LogRecord) -> None:
        """A log record was emitted."""
        with self._changed:
            self._keep(self._logs, record)

    def _keep(self, kept: list[Any], item: Any) -> None:
        if len(kept) < MAX_SPANS:
            kept.append(item)
        else:
            self.left_out += 1

    def scopes(self) -> Mapping[str, int]:
        """How many spans there are of each instrumentation scope."""
        with self._changed:
            return Counter(getattr(x.instrumentation_scope, "name", "") for x in self._spans)


class Captures(SpanProcessor, LogRecordProcessor):
    """All work that runs at this moment, and which of it each span belongs to.

    May be called from any thread.
    """

    def __init__(self) -> None:
        self._numbers = itertools.count(1)
        self._running: dict[int, Capture] = {}
        self._owners: OrderedDict[int, int] = OrderedDict()
        self._lock = threading.Lock()

    @contextmanager
    def running(self) -> Iterator[Capture]:
        """Capture what is emitted within the block.

        It must be left in the context in which it was entered.
        """
        capture = Capture(next(self._numbers))
        with self._lock:
            self._running[capture.number] = capture
        token = otel_context.attach(otel_context.set_value(_KEY, capture.number))
        try:
            yield capture
        finally:
            otel_context.detach(token)
            with self._lock:
                self._running.pop(capture.number, None)

    def on_start(self, span: Any, parent_context: otel_context.Context | None = None) -> None:
        """A span has begun, in the calling context or with `parent_context`."""
        parent = span.parent.span_id if span.parent else None
        number = self._owner(parent_context, parent)
        with self._lock:
            self._owners[span.context.span_id] = number
            if len(self._owners) > _MAX_KNOWN_SPANS:
                self._owners.popitem(last=False)
        if (capture := self._running.get(number)) is not None:
            capture.started(span)

    def on_end(self, span: Any) -> None:
        """A span has ended; one without ids, which nobody began, is of no work."""
        number = self._owners.get(span.context.span_id, _NOBODY) if span.context else _NOBODY
        if (capture := self._running.get(number)) is not None:
            capture.ended(span)

    def on_emit(self, log_record: Any) -> None:
        """A log record was emitted. No exception leaves it, whatever the record is."""
        if not self._running:
            return
        try:
            record = to_log_record(log_record)
        except Exception:  # noqa: BLE001 - it is the application's own, and no test's turn
            return
        span_id = int(record.span_id, 16) if record.span_id else None
        if (capture := self._running.get(self._owner(None, span_id))) is not None:
            capture.logged(record)

    emit = on_emit  # its name in older releases

    def _owner(self, given: otel_context.Context | None, parent: int | None) -> int:
        """Whose work it is: by the context, else by the span above it, else that of the only work
        there is.
        """
        for context in (given, otel_context.get_current()):
            number = otel_context.get_value(_KEY, context) if context is not None else None
            if isinstance(number, int):
                return number
        owner = None if parent is None else self._owners.get(parent)
        if owner is not None:
            return owner
        running = list(self._running)
        return running[0] if len(running) == 1 else _NOBODY


def _in_event_loop() -> bool:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True


class Attached:
    """Captures that see all that any SDK provider of this process emits, whenever and by whom it
    was made.

    A framework may keep a provider of its own and never make it the global one. So those that exist
    are looked for once, and those that are made later are noticed as they are made.
    """

    def __init__(self) -> None:
        self.captures: Final = Captures()
        self._known: WeakSet[Any] = WeakSet()
        self._lock = threading.Lock()
        self._watch(TracerProvider, TracerProvider.add_span_processor)
        self._watch(LoggerProvider, LoggerProvider.add_log_record_processor)

    def require_providers(self) -> None:
        """Set a global provider of each kind where there is none, for agents whose tests set up
        none.
        """
        if is_stand_in(trace_globals.get_tracer_provider()):
            set_replaceable(trace_globals, "_TRACER_PROVIDER", self._own_tracer_provider)
        if is_stand_in(logs_globals.get_logger_provider()):
            set_replaceable(logs_globals, "_LOGGER_PROVIDER", self._own_logger_provider)

    @functools.cached_property
    def _own_tracer_provider(self) -> TracerProvider:
        return TracerProvider(sampler=ALWAYS_ON, shutdown_on_exit=False)

    @functools.cached_property
    def _own_logger_provider(self) -> LoggerProvider:
        return LoggerProvider(shutdown_on_exit=False)

    def _watch(self, kind: Any, attach: Callable[[Any, Any], None]) -> None:
        """Attach to each provider of a kind: to those that there are, and to others as soon as they
        are made.
        """
        made = kind.__init__

        def attached_once(provider: Any) -> None:
            with self._lock:
                is_new = provider not in self._known
                self._known.add(provider)
            if is_new:
                attach(provider, self.captures)

        @functools.wraps(made)
        def noticed(provider: Any, *args: Any, **kwargs: Any) -> None:
            made(provider, *args, **kwargs)
            attached_once(provider)

        kind.__init__ = noticed
        for found in gc.get_objects():
            # by its type: a proxy may do anything when asked for its class
            if issubclass(type(found), kind):
                attached_once(found)


@functools.cache
def attached() -> Attached:
    """The captures of this process."""
    return Attached()


_log = logging.getLogger(__name__)


def is_stand_in(provider: object) -> bool:
    """Whether this is what the API gives while no provider is set."""
    kind = type(provider)
    return kind.__name__.startswith("Proxy") and kind.__module__.startswith("opentelemetry.")


def set_replaceable(module: ModuleType, name: str, provider: object) -> None:
    """Set a global provider so that the application may still set its own.

    `set_tracer_provider` could be called once only, and the application's call would be refused.
    """
    if hasattr(module, name):
        setattr(module, name, provider)
    else:
        _log.warning(
            "%s has no %s: call set_tracer_provider yourself, before", module.__name__, name
        )
