"""What the application's providers are given: processors that take what ends, and wait for
nothing.
"""

from collections.abc import Callable
from typing import Any

from opentelemetry.context import Context
from opentelemetry.sdk._logs import LogRecordProcessor
from opentelemetry.sdk.trace import ReadableSpan, Span, SpanProcessor

from spanscore.sdk.authoring.current import Named, current_names
from spanscore.sdk.authoring.turn import named
from spanscore.sdk.worker import Worker

_MILLIS = 1000
_SHUTDOWN_S = 20.0


class Spans(SpanProcessor):
    """Takes the application's sampled spans. No exception leaves it, whatever a span is."""

    def __init__(self, worker: Worker, closed: Callable[[], None]) -> None:
        """`closed` is called at a shutdown."""
        self._worker = worker
        self._closed = closed

    # as the SDK has it
    def on_start(self, span: Span, parent_context: Context | None = None) -> None:
        """A span has begun: its trace is not complete before it has ended.

        A session named around it is set on it.
        """
        try:
            context = span.context
            if (
                context is not None
                and context.trace_flags.sampled
                and not self._worker.is_own_thread()
            ):
                self._worker.started(context)
                names = current_names(parent_context)
                if names.session_id is not None or names.user_id is not None:
                    _name(span, names)
        except Exception:  # noqa: BLE001, S110 - it is the application's span, and only its score is at stake
            pass

    def on_end(self, span: ReadableSpan) -> None:
        """A span has ended."""
        try:
            context = span.context
            if (
                context is not None
                and context.trace_flags.sampled
                and not self._worker.is_own_thread()
            ):
                self._worker.ended(span)
        except Exception:  # noqa: BLE001, S110 - likewise
            pass

    def force_flush(self, timeout_millis: int = 30000) -> bool:
        """Wait until what is complete is scored, and its scores were handed to the other
        processors.
        """
        return self._worker.flush(timeout_millis / _MILLIS)

    def shutdown(self) -> None:
        """Score what is there, and end."""
        self._closed()


def _name(span: Span, names: Named) -> None:
    """Set the attributes of a session and a user that the span itself does not have."""
    own = span.attributes or {}
    found = named(names.session_id, names.user_id).items()
    span.set_attributes(
        {key: value for key, value in found if value is not None and key not in own}
    )


class Logs(LogRecordProcessor):
    """Takes the application's log records that belong to a span."""

    def __init__(self, worker: Worker) -> None:
        self._worker = worker

    def on_emit(self, log_record: Any) -> None:
        """A log record was emitted."""
        try:
            record = log_record.log_record
            if (
                record.trace_id or getattr(record, "event_name", None)
            ) and not self._worker.is_own_thread():
                self._worker.logged(log_record)
        except Exception:  # noqa: BLE001, S110 - it is the application's, and only a score is at stake
            pass

    emit = on_emit  # its name in older releases

    def force_flush(self, timeout_millis: int = 30000) -> bool:
        """Wait as the span processor does."""
        return self._worker.flush(timeout_millis / _MILLIS)

    def shutdown(self) -> None:
        """Score what is complete while its scores can still leave."""
        self._worker.flush(_SHUTDOWN_S)
