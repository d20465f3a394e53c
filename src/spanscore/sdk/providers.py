"""Attaches captures to every provider of the OpenTelemetry SDK in this process, and sets one where
there is none.
"""

import functools
import gc
import threading
from collections.abc import Callable
from typing import Any, Final
from weakref import WeakSet

import opentelemetry._logs._internal as logs_globals
from opentelemetry import trace as trace_globals
from opentelemetry.context import Context
from opentelemetry.sdk._logs import LoggerProvider, LogRecordProcessor
from opentelemetry.sdk.trace import ReadableSpan, Span, SpanProcessor, TracerProvider
from opentelemetry.sdk.trace.sampling import ALWAYS_ON

from spanscore.sdk.capturing import Captures
from spanscore.sdk.global_providers import is_stand_in, set_replaceable


class _Spans(SpanProcessor):
    """Hands spans on to the captures."""

    def __init__(self, captures: Captures) -> None:
        self._captures = captures

    def on_start(self, span: Span, parent_context: Context | None = None) -> None:
        """A span has begun."""
        self._captures.started(span, parent_context)

    def on_end(self, span: ReadableSpan) -> None:
        """A span has ended."""
        self._captures.ended(span)


class _Logs(LogRecordProcessor):
    """Hands log records on to the captures."""

    def __init__(self, captures: Captures) -> None:
        self._captures = captures

    def on_emit(self, log_record: Any) -> None:
        """A log record was emitted."""
        self._captures.logged(log_record)

    emit = on_emit  # its name in older releases

    def shutdown(self) -> None:
        """Nothing is left to do."""

    def force_flush(self, timeout_millis: int = 30000) -> bool:
        """Nothing waits."""
        del timeout_millis
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
        spans, logs = _Spans(self.captures), _Logs(self.captures)
        self._watch(
            TracerProvider, lambda provider: TracerProvider.add_span_processor(provider, spans)
        )
        self._watch(
            LoggerProvider, lambda provider: LoggerProvider.add_log_record_processor(provider, logs)
        )

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

    def _watch(self, kind: Any, attach: Callable[[Any], None]) -> None:
        """Attach to each provider of a kind: to those that there are, and to others as soon as they
        are made.
        """
        made = kind.__init__

        def attached_once(provider: Any) -> None:
            with self._lock:
                is_new = provider not in self._known
                self._known.add(provider)
            if is_new:
                attach(provider)

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
