"""Where `instrument` is attached to the application: its providers, found or set."""

import logging
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any

from opentelemetry import trace as trace_globals
from opentelemetry._logs import get_logger_provider
from opentelemetry.sdk.trace import TracerProvider

from spanscore.config import Settings
from spanscore.errors import ConfigError
from spanscore.sdk.application import Application, Histogram, span_processors
from spanscore.sdk.global_providers import is_stand_in, set_replaceable
from spanscore.sdk.in_process import APPLICATION
from spanscore.sdk.processors import Logs, Spans
from spanscore.sdk.worker import Worker

_log = logging.getLogger(__name__)

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

    @property
    def histogram(self) -> Histogram:
        """The histogram of scores of this application."""
        return Histogram()

    def attach(self, worker: Worker, closed: Callable[[], object]) -> None:
        """Have the providers hand over what they emit; `closed` is called when they are shut
        down.
        """

        def shut_down() -> None:
            closed()

        self._processors = Spans(worker, shut_down), Logs(worker)
        self._attach_spans(self.tracer_provider)
        self._attach_logs(self.logger_provider)

    def exporters(self, settings: Settings) -> Mapping[str, Any]:
        """The exporters of these settings, by name."""
        from spanscore.export.opening import open_exporters  # noqa: PLC0415 - in the thread

        found: dict[str, Any] = dict(open_exporters(settings.export))
        if APPLICATION in settings.export.exporters:
            found[APPLICATION] = Application(self)
        return found

    def follow(self) -> None:
        """Go on with the global providers where the application has set others since."""
        tracer_provider, logger_provider = (
            trace_globals.get_tracer_provider(),
            get_logger_provider(),
        )
        if self._given_tracer is None and tracer_provider is not self.tracer_provider:
            self.tracer_provider = tracer_provider
            self._attach_spans(tracer_provider)
        if self._given_logger is None and logger_provider is not self.logger_provider:
            self.logger_provider = (
                logger_provider if hasattr(logger_provider, "add_log_record_processor") else None
            )
            self._attach_logs(self.logger_provider)

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
        _put_first(
            getattr(provider, "_multi_log_record_processor", None),
            self._processors[1],
            "_log_record_processors",
        )


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
