"""Scores leave through the application's own providers: its exporters take them like its own
telemetry.
"""

import asyncio
import logging
from collections.abc import Sequence
from contextvars import Context
from importlib.metadata import version
from typing import Any, Final, Protocol

from opentelemetry import metrics, trace
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import Event, ReadableSpan
from opentelemetry.sdk.util.instrumentation import InstrumentationScope
from opentelemetry.trace import (
    Link,
    NonRecordingSpan,
    SpanContext,
    SpanKind,
    Status,
    StatusCode,
    TraceFlags,
)

from spanscore.errors import PermanentError
from spanscore.export import histogram
from spanscore.export.port import UnsupportedSignalError
from spanscore.export.resources import SCOPE_NAME
from spanscore.model.headers import Headers
from spanscore.model.score import Evaluation
from spanscore.model.span import LogRecord, Span
from spanscore.model.span import Resource as SpanResource
from spanscore.otlp import decode
from spanscore.otlp.signal import WIRE, Signal

_log = logging.getLogger(__name__)

_SAMPLED: Final = TraceFlags(TraceFlags.SAMPLED)


class Providers(Protocol):
    """The providers of an application."""

    @property
    def tracer_provider(self) -> Any: ...  # noqa: D102 # told by the class
    @property
    def logger_provider(self) -> Any: ...  # noqa: D102 # told by the class; None: no events are emitted


class Application:
    """An `export.port.Exporter` into the providers of this process."""

    def __init__(self, providers: Providers) -> None:
        """`providers` are asked each time, since the application may set others."""
        self._providers = providers

    async def send(self, signal: Signal, body: bytes, headers: Headers = ()) -> str | None:
        """Hand evaluation spans, or events, to the processors; in a thread, since some of them send
        at once.

        Raises UnsupportedSignalError where there is no provider for them, PermanentError where a
        processor fails.
        """
        del headers  # those of requests, of which there are none here
        request = WIRE[signal].request.FromString(body)
        if signal == "traces":
            await asyncio.to_thread(self._emit_spans, list(decode.spans(request)))
        elif signal == "logs":
            if self._providers.logger_provider is not None:
                await asyncio.to_thread(self._emit_events, list(decode.log_records(request)))
        else:
            raise UnsupportedSignalError(f"the application has no provider for {signal}")
        return None

    async def close(self) -> None:
        """The providers are the application's to close."""

    def _emit_spans(self, spans: Sequence[Span]) -> None:
        processor = span_processors(self._providers.tracer_provider)
        if processor is None:
            raise UnsupportedSignalError(
                f"{type(self._providers.tracer_provider).__name__} has no span processors"
            )
        for span in spans:
            _in_no_context(processor.on_end, readable(span))

    def _emit_events(self, records: Sequence[LogRecord]) -> None:
        logger = self._providers.logger_provider.get_logger(SCOPE_NAME, version("spanscore"))
        for record in records:
            _in_no_context(logger.emit, _emitted(record))


class Histogram:
    """The histogram `gen_ai.evaluation.score` by the metrics API, for the application's
    MeterProvider if it has one.
    """

    def __init__(self) -> None:
        meter = metrics.get_meter(SCOPE_NAME, version("spanscore"))
        about: dict[str, Any] = {
            "unit": "1",
            "description": "Scores of evaluations, as a share of their scale.",
        }
        try:
            self._scores = meter.create_histogram(
                histogram.NAME, **about, explicit_bucket_boundaries_advisory=histogram.BOUNDS
            )
        except TypeError:  # older releases take no advice
            self._scores = meter.create_histogram(histogram.NAME, **about)

    def record(self, evaluations: Sequence[Evaluation]) -> None:
        """Record those that have a value."""
        for evaluation in evaluations:
            if evaluation.value is not None:
                target = evaluation.target
                context = trace.set_span_in_context(
                    NonRecordingSpan(_context(target.trace_id, target.span_id))
                )
                value, attributes = (
                    histogram.normalised(evaluation),
                    histogram.attributes(evaluation),
                )
                self._scores.record(value, attributes, context=context)


def span_processors(provider: Any) -> Any:
    """What a provider hands ended spans to: one processor that stands for all; None where none can
    be found.

    The SDK has no public way to it, and none to emit a span with ids of its own.
    """
    inner = getattr(provider, "provider", provider)  # of a proxy, as Logfire's
    return getattr(inner, "_active_span_processor", None)


def readable(span: Span) -> ReadableSpan:
    """A span of the model as one of the SDK."""
    return ReadableSpan(
        span.name,
        _context(span.trace_id, span.span_id),
        _context(span.trace_id, span.parent_span_id) if span.parent_span_id else None,
        _resource(span.resource),
        dict(span.attributes),
        [Event(x.name, dict(x.attributes), x.time_ns) for x in span.events],
        [Link(_context(x.trace_id, x.span_id), dict(x.attributes)) for x in span.links],
        SpanKind(max(span.kind - 1, 0)),
        None,
        Status(StatusCode(span.status_code), span.status_message or None)
        if span.status_code == StatusCode.ERROR.value
        else Status(StatusCode(span.status_code)),
        span.start_ns,
        span.end_ns,
        InstrumentationScope(span.scope.name, span.scope.version),
    )


def _emitted(record: LogRecord) -> Any:
    from opentelemetry._logs import LogRecord as ApiRecord  # noqa: PLC0415 - its module is private in old releases
    from opentelemetry._logs import SeverityNumber  # noqa: PLC0415 - likewise

    context = _context(record.trace_id, record.span_id)
    facts: dict[str, Any] = {
        "timestamp": record.time_ns,
        "observed_timestamp": record.time_ns,
        "severity_number": SeverityNumber(record.severity_number),
        "body": record.body,
        "attributes": dict(record.attributes),
    }
    try:
        around = trace.set_span_in_context(NonRecordingSpan(context))
        return ApiRecord(**facts, context=around, event_name=record.event_name)
    except TypeError:  # before 1.35 the SDK had a record of its own
        from opentelemetry.sdk import _logs  # noqa: PLC0415 - only there

        sdk_logs: Any = _logs
        ids = {
            "trace_id": context.trace_id,
            "span_id": context.span_id,
            "trace_flags": context.trace_flags,
        }
        return sdk_logs.LogRecord(**facts, **ids, resource=_resource(record.resource))


def _resource(resource: SpanResource) -> Resource:
    return Resource(dict(resource.attributes))


def _context(trace_id: str, span_id: str) -> SpanContext:
    return SpanContext(
        int(trace_id or "0", 16), int(span_id or "0", 16), is_remote=False, trace_flags=_SAMPLED
    )


def _in_no_context(emit: Any, item: Any) -> None:
    """Emit, though this thread suppresses whatever it does itself.

    Raises PermanentError where it fails.
    """
    try:
        Context().run(emit, item)
    except Exception as error:
        raise PermanentError(
            f"a processor of the application failed: {type(error).__name__}: {error}"
        ) from error
