"""The application's OpenTelemetry providers."""

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from contextvars import Context
from importlib.metadata import version
from typing import Any, Final

from opentelemetry import metrics, trace, trace as trace_globals
from opentelemetry._logs import get_logger_provider
from opentelemetry.context import Context as OtelContext
from opentelemetry.sdk._logs import LogRecordProcessor
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import (
    Event,
    ReadableSpan,
    Span as SdkSpan,
    SpanProcessor,
    TracerProvider,
)
from opentelemetry.sdk.util.instrumentation import InstrumentationScope

from spanscore.config import Settings
from spanscore.errors import ConfigError, PermanentError
from spanscore.export import events
from spanscore.export.port import UnsupportedSignalError
from spanscore.export.wording import SCOPE_NAME
from spanscore.model.score import Evaluation
from spanscore.model.span import Headers, LogRecord, Resource as SpanResource, Span
from spanscore.otlp import codec
from spanscore.otlp.signal import WIRE, Signal
from spanscore.sdk.authoring.spans import Named, current_names
from spanscore.sdk.authoring.turn import named
from spanscore.sdk.captures import is_stand_in, set_replaceable
from spanscore.sdk.in_process_settings import APPLICATION
from spanscore.sdk.scoring_thread import Worker

_log = logging.getLogger(__name__)

_SAMPLED: Final = trace.TraceFlags(trace.TraceFlags.SAMPLED)


class Application:
    """An `export.port.Exporter` into the providers of this process."""

    def __init__(self, providers: "Attached") -> None:
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
            await asyncio.to_thread(self._emit_spans, list(codec.spans(request)))
        elif signal == "logs":
            if self._providers.logger_provider is not None:
                await asyncio.to_thread(self._emit_events, list(codec.log_records(request)))
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


def histogram() -> Callable[[Sequence[Evaluation]], None]:
    """Records scores in the histogram `gen_ai.evaluation.score` by the metrics API, for the
    application's MeterProvider if it has one.
    """
    meter = metrics.get_meter(SCOPE_NAME, version("spanscore"))
    what = "Scores of evaluations, as a share of their scale."
    about: dict[str, Any] = {"unit": "1", "description": what}
    try:
        scores = meter.create_histogram(
            events.NAME, **about, explicit_bucket_boundaries_advisory=events.BOUNDS
        )
    except TypeError:  # older releases take no advice
        scores = meter.create_histogram(events.NAME, **about)

    def record(evaluations: Sequence[Evaluation]) -> None:
        for evaluation in evaluations:
            if evaluation.value is not None:
                target = _context(evaluation.target.trace_id, evaluation.target.span_id)
                within = trace.set_span_in_context(trace.NonRecordingSpan(target))
                value, attributes = events.normalised(evaluation), events.attributes(evaluation)
                scores.record(value, attributes, context=within)

    return record


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
        [trace.Link(_context(x.trace_id, x.span_id), dict(x.attributes)) for x in span.links],
        trace.SpanKind(max(span.kind - 1, 0)),
        None,
        _status(span),
        span.start_ns,
        span.end_ns,
        InstrumentationScope(span.scope.name, span.scope.version),
    )


def _status(span: Span) -> trace.Status:
    code = trace.StatusCode(span.status_code)
    has_failed = code is trace.StatusCode.ERROR
    return trace.Status(code, (span.status_message or None) if has_failed else None)


def _emitted(record: LogRecord) -> Any:
    from opentelemetry._logs import LogRecord as ApiRecord, SeverityNumber  # noqa: PLC0415 - its module is private in old releases

    context = _context(record.trace_id, record.span_id)
    facts: dict[str, Any] = {
        "timestamp": record.time_ns,
        "observed_timestamp": record.time_ns,
        "severity_number": SeverityNumber(record.severity_number),
        "body": record.body,
        "attributes": dict(record.attributes),
    }
    try:
        around = trace.set_span_in_context(trace.NonRecordingSpan(context))
        return ApiRecord(**facts, context=around, event_name=record.event_name)
    except TypeError:  # before 1.35 the SDK had a record of its own
        from opentelemetry.sdk import _logs  # noqa: PLC0415 - only there

        sdk_logs: Any = _logs
        ids = {x: getattr(context, x) for x in ("trace_id", "span_id", "trace_flags")}
        return sdk_logs.LogRecord(**facts, **ids, resource=_resource(record.resource))


def _resource(resource: SpanResource) -> Resource:
    return Resource(dict(resource.attributes))


def _context(trace_id: str, span_id: str) -> trace.SpanContext:
    return trace.SpanContext(
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


_NO_PROVIDER = (
    "no TracerProvider was set up, so spanscore set one: it exports nothing, and scores stay in"
    " this process. Call spanscore.instrument() after OpenTelemetry is set up, or give"
    " export=ENDPOINT or on_scores=FUNCTION"
)


class Attached:
    """The providers of an application: the given ones, else the global ones, also where these are
    replaced later.
    """

    def __init__(
        self, tracer_provider: Any = None, logger_provider: Any = None, *, needs_exporters: bool
    ) -> None:
        """Find the providers. Raises ConfigError where a given one takes no processors.

        `needs_exporters` says that nobody gets the scores but the application's own exporters.
        """
        self._given_tracer, self._given_logger = tracer_provider, logger_provider
        self.tracer_provider = tracer_provider or _global_tracer_provider(warns=needs_exporters)
        self.logger_provider = logger_provider or _global_logger_provider()
        self._processors: tuple[Spans, Logs] | None = None
        if not hasattr(self.tracer_provider, "add_span_processor"):
            kind = f"{type(self.tracer_provider).__module__}.{type(self.tracer_provider).__name__}"
            raise ConfigError(
                f"tracer_provider: {kind} takes no span processors; spanscore needs a"
                " TracerProvider of the OpenTelemetry SDK"
            )

    def attach(self, worker: Worker, closed: Callable[[], object]) -> None:
        """Have the providers hand over what they emit; `closed` is called when they are shut
        down.
        """
        self._processors = Spans(worker, closed), Logs(worker)
        self._attach_spans(self.tracer_provider)
        self._attach_logs(self.logger_provider)

    def exporters(self, settings: Settings) -> Mapping[str, Any]:
        """The exporters of these settings, by name."""
        from spanscore.export import open_exporters  # noqa: PLC0415 - in the thread

        found: dict[str, Any] = dict(open_exporters(settings.export))
        if APPLICATION in settings.export.exporters:
            found[APPLICATION] = Application(self)
        return found

    def follow(self) -> None:
        """Go on with the global providers where the application has set others since."""
        tracer_provider = trace_globals.get_tracer_provider()
        if self._given_tracer is None and tracer_provider is not self.tracer_provider:
            self.tracer_provider = tracer_provider
            self._attach_spans(tracer_provider)
        logger_provider = _global_logger_provider()
        if self._given_logger is None and logger_provider is not self.logger_provider:
            self.logger_provider = logger_provider
            self._attach_logs(logger_provider)

    def flush(self) -> None:
        """Have the application's processors send what they still hold."""
        for provider in (self.tracer_provider, self.logger_provider):
            force_flush = getattr(provider, "force_flush", None)
            if force_flush is not None:
                with suppress(Exception):  # whoever exports says what is wrong
                    force_flush()

    def _attach_spans(self, provider: Any) -> None:
        if self._processors is None or not hasattr(provider, "add_span_processor"):
            return
        provider.add_span_processor(self._processors[0])
        _put_first(span_processors(provider), self._processors[0], "_span_processors")

    def _attach_logs(self, provider: Any) -> None:
        if self._processors is None or provider is None:
            return
        provider.add_log_record_processor(self._processors[1])
        multi = getattr(provider, "_multi_log_record_processor", None)
        _put_first(multi, self._processors[1], "_log_record_processors")


def _global_tracer_provider(*, warns: bool) -> Any:
    found = trace_globals.get_tracer_provider()
    if not is_stand_in(found):
        return found
    if warns:
        _log.warning(_NO_PROVIDER)
    made = TracerProvider()
    set_replaceable(trace_globals, "_TRACER_PROVIDER", made)
    return made


def _global_logger_provider() -> Any:
    """The global LoggerProvider; None where there is none of the SDK's: events are then neither
    read nor emitted.
    """
    found = get_logger_provider()
    return found if hasattr(found, "add_log_record_processor") else None


def _put_first(multi: Any, own: Any, field: str) -> None:
    """Have the provider call this processor before all others, at a flush and a shutdown too.

    Its scores leave through the others, so they have to be there before those are shut down. Where
    a provider has no such list, the handler at the process's exit sees to that.
    """
    processors = getattr(multi, field, None)
    lock = getattr(multi, "_lock", None)
    if isinstance(processors, tuple) and lock is not None:
        with lock:
            rest = tuple(x for x in getattr(multi, field) if x is not own)
            setattr(multi, field, (own, *rest))


_MILLIS = 1000
_SHUTDOWN_S = 20.0


class Spans(SpanProcessor):
    """Takes the application's sampled spans. No exception leaves it, whatever a span is."""

    def __init__(self, worker: Worker, closed: Callable[[], object]) -> None:
        """`closed` is called at a shutdown."""
        self._worker = worker
        self._closed = closed

    # as the SDK has it
    def on_start(self, span: SdkSpan, parent_context: OtelContext | None = None) -> None:
        """A span has begun: its trace is not complete before it has ended.

        A session named around it is set on it.
        """
        try:
            if self._takes(span):
                self._worker.started(span.context)
                names = current_names(parent_context)
                if names.session_id is not None or names.user_id is not None:
                    _name(span, names)
        except Exception:  # noqa: BLE001, S110 - it is the application's span, and only its score is at stake
            pass

    def on_end(self, span: ReadableSpan) -> None:
        """A span has ended."""
        try:
            if self._takes(span):
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

    def _takes(self, span: ReadableSpan) -> bool:
        is_sampled = span.context is not None and span.context.trace_flags.sampled
        return is_sampled and not self._worker.is_own_thread()


def _name(span: SdkSpan, names: Named) -> None:
    """Set the attributes of a session and a user that the span itself does not have."""
    own = span.attributes or {}
    found = named(names.session_id, names.user_id).items()
    span.set_attributes({key: x for key, x in found if x is not None and key not in own})


class Logs(LogRecordProcessor):
    """Takes the application's log records that belong to a span."""

    def __init__(self, worker: Worker) -> None:
        self._worker = worker

    def on_emit(self, log_record: Any) -> None:
        """A log record was emitted."""
        try:
            record = log_record.log_record
            is_known = record.trace_id or getattr(record, "event_name", None)
            if is_known and not self._worker.is_own_thread():
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
