"""`spanscore.instrument`: an application's traces, scored in place."""

import atexit
import logging
import os
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, Literal

from spanscore.errors import ConfigError, SpanscoreError
from spanscore.sdk import in_process_settings
from spanscore.sdk.forks import is_child, register_fork
from spanscore.sdk.in_process_settings import APPLICATION, CONFIG_VARIABLE, PathLike
from spanscore.sdk.scoring_thread import Job, Worker

if TYPE_CHECKING:
    from opentelemetry.sdk._logs import LoggerProvider
    from opentelemetry.sdk.trace import TracerProvider

    from spanscore.config import Settings
    from spanscore.judge.port import Judge
    from spanscore.model.score import Evaluation
    from spanscore.sdk.in_process_settings import Measures
    from spanscore.store.store import Store

_log = logging.getLogger(__name__)

_PAGE: Final = 1000
"""Scores that are read from the store at once."""

_lock = threading.Lock()
_current: "Instrumentation | None" = None


class Instrumentation:
    """Scoring in this process, as `instrument` began it."""

    def __init__(
        self,
        worker: Worker | None,
        timeout_s: float,
        flush_application: Callable[[], object] = lambda: None,
    ) -> None:
        """`worker` None: nothing is scored, since OTEL_SDK_DISABLED says so.

        `flush_application` has the application's own processors send what they hold.
        """
        self._worker = worker
        self._timeout_s = timeout_s
        self._flush_application = flush_application

    def force_flush(self, timeout_millis: int = 30000) -> bool:
        """Wait until every trace that is complete is scored and its scores have left; False: not
        within the time.
        """
        return self._worker.flush(timeout_millis / 1000) if self._worker else True

    def shutdown(self, timeout_millis: int | None = None) -> bool:
        """Score all that is there, open sessions too, and end; False: not within the time.

        Idempotent.

        Without `timeout_millis`, `shutdown_timeout` of the configuration holds. It is called when
        the process ends, and when the TracerProvider is shut down.
        """
        if self._worker is None:
            return True
        timeout_s = self._timeout_s if timeout_millis is None else timeout_millis / 1000
        is_done = self._worker.shutdown(timeout_s)
        if not is_done:
            _log.warning("not all could be scored, or sent, before the process ended")
        return is_done

    def _end_process(self) -> object:
        """Score all that is there and have it sent, where the process ends without its exit
        handlers.
        """
        self.shutdown()
        return self._flush_application()

    def _main_thread_ended(self) -> object:
        """Score what is complete where other threads go on working; else all."""
        if self._worker is None:
            return None
        main = threading.main_thread()
        others = [x for x in threading.enumerate() if x is not main and not x.daemon]
        self._worker.flush(self._timeout_s, everything=not others)
        return self._flush_application() if is_child() else None

    def scores(
        self, *, trace_id: str | None = None, session_id: str | None = None
    ) -> "list[Evaluation]":
        """The newest scores of a trace, by its hex id, or of a session and its traces, as far as
        they are kept here; without either all of them, in the order in which they were made.

        Of a trace or session, those that others gave, as by `record_score`, come last.
        """
        running = self._worker.running if self._worker else None
        if running is None or running.processing is None:
            return []
        store = running.processing.store
        if trace_id is None and session_id is None:
            return _all_scores(store)
        ours = store.evaluations(trace_id=trace_id, session_id=session_id)
        return [*ours, *store.external_scores(trace_id=trace_id, session_id=session_id)]

    def health(self) -> dict[str, Any]:
        """What waits, what was dropped, and how models and exporters do; for a health page or a
        person.
        """
        if self._worker is None:
            return {}
        running = self._worker.running
        known = running.processing if running is not None else None
        counted = {"dropped": self._worker.dropped, **(known.meter.totals() if known else {})}
        return {**(known.health() if known else {}), "counted": counted}


def _all_scores(store: "Store") -> "list[Evaluation]":
    from spanscore.store import listing  # noqa: PLC0415 - loaded with the store

    query = listing.ScoreQuery(skipped=True, order=(listing.OLDEST_FIRST,))
    page = store.list_scores(query, _PAGE, None)
    found = [*page.items]
    while page.next is not None:
        page = store.list_scores(query, _PAGE, page.next)
        found += page.items
    return found


def instrument(
    *,
    judge: "str | Judge | None" = None,
    metrics: "Measures | None" = None,
    embedding: str | Mapping[str, Any] | None = None,
    attach: Literal["spans", "attributes"] = "spans",
    export: str | None = None,
    store: PathLike | None = None,
    config: "Settings | PathLike | None" = None,
    on_scores: "Callable[[Sequence[Evaluation]], object] | None" = None,
    tracer_provider: "TracerProvider | None" = None,
    logger_provider: "LoggerProvider | None" = None,
) -> Instrumentation:
    """Score this application's own traces, in a thread of its own: one line after OpenTelemetry is
    set up.

    `judge` is a model such as "gpt-4o-mini", or an object with `ask`. `metrics` are those to
    measure, and no others: names, functions that `@spanscore.metric` decorates, or a mapping from
    name to options; without it those of the configuration. `embedding` is a provider's model, or
    what stands under `embedding` in a configuration. `export` is an OTLP endpoint for the scores;
    without it, and without exporters in the configuration, they leave through the application's own
    processors and exporters. `attach` "attributes" has them leave on the evaluated span itself,
    which waits for them in a `ScoringExporter`. `store` is an SQLite file that keeps scores;
    without it they are kept in memory for an hour. `config` is a configuration file, or its
    settings; without it SPANSCORE_CONFIG names a file, and SPANSCORE_JUDGE_MODEL a judge.
    `on_scores` is called with the scores of a trace or session when they are there, in another
    thread.

    Without providers, the application's global ones are used; where no TracerProvider is set, one
    without exporters is, which the application may replace. Called again, it takes the place of the
    call before.

    Raises ConfigError where a model, metric, option or file cannot be; from then on nothing is
    raised.
    """
    judge_model, judge_object = (judge, None) if isinstance(judge, str) else (None, judge)
    settings = in_process_settings.settings(
        judge=judge_model,
        metrics=metrics,
        embedding=embedding,
        export=export,
        store=store,
        config=config,
    )
    if os.environ.get("OTEL_SDK_DISABLED", "").strip().lower() == "true":
        _log.info("OTEL_SDK_DISABLED is true: nothing is scored")
        return Instrumentation(None, 0.0)
    _require_models(settings, judge_object)
    from spanscore.sdk.application import Attached, histogram  # noqa: PLC0415 - needs the OpenTelemetry SDK

    needs_exporters = on_scores is None and set(settings.export.exporters) <= {APPLICATION}
    attached = Attached(tracer_provider, logger_provider, needs_exporters=needs_exporters)
    holds_back = _holds_back(attach, settings)
    listeners = [histogram()] if APPLICATION in settings.export.exporters else []
    scored = _handing_on([*listeners, *([on_scores] if on_scores else [])])
    job = Job(settings, attached.exporters, judge_object, holds_back, scored, attached.follow)
    worker = Worker(job)
    instrumentation = Instrumentation(worker, settings.shutdown_timeout / 1e9, attached.flush)
    attached.attach(worker, instrumentation.shutdown)
    _take_over(instrumentation)
    if holds_back is not None:
        holds_back.open(settings.inline)  # once more: the shutdown of the one before has closed it
    return instrumentation


def _require_models(settings: "Settings", judge: "Judge | None") -> None:
    """Raise ConfigError at once, and not in the thread, where a model is named that cannot be
    called; say what runs where none is.
    """
    from spanscore.judge import check_models, open_judge  # noqa: PLC0415 - not before the environment was asked

    if judge is not None:
        return
    open_judge(settings.judge)
    check_models(settings.judge, settings.all_models())
    if lacking := settings.without_judge():
        _log.warning(
            '%s; give instrument(judge="openai/gpt-4o-mini") or SPANSCORE_JUDGE_MODEL, or'
            ' metrics=["check"] for all checks, which need none',
            lacking,
        )


def _holds_back(attach: str, settings: "Settings") -> Any:
    """The board by which scores leave on their spans; None where they leave as spans.

    Raises ConfigError.
    """
    if attach not in {"spans", "attributes"}:
        raise ConfigError(f"attach: {attach!r} is not known here: use 'spans' or 'attributes'")
    if attach == "spans":
        if (loaded := sys.modules.get("spanscore.sdk.scoring_exporter")) is not None:
            loaded.board.close()
        return None
    from spanscore.sdk import scoring_exporter  # noqa: PLC0415 - heavy, and only for who has wrapped an exporter

    if not scoring_exporter.exporters():
        raise ConfigError(
            "attach: 'attributes' needs an exporter in which spans wait for their scores: wrap"
            " yours, as in BatchSpanProcessor(spanscore.ScoringExporter(OTLPSpanExporter()))"
        )
    scoring_exporter.board.open(settings.inline)
    return scoring_exporter.board


def _handing_on(listeners: "Sequence[Callable[[Sequence[Evaluation]], object]]") -> Any:
    """A function that hands scores on; what goes wrong there is logged."""

    def scored(evaluations: "Sequence[Evaluation]") -> None:
        for one in listeners:
            try:
                one(evaluations)
            except Exception:  # noqa: BLE001 - the scores themselves are safe
                _log.exception("on_scores failed")

    return scored


def _take_over(instrumentation: Instrumentation) -> None:
    """Have this instrumentation be the process's only one, and have it end with the process."""
    global _current
    with _lock:
        before, _current = _current, instrumentation
        if before is None:
            _at_exit()
    if before is not None:
        _log.info("instrument was called again: the call before it ends")
        before.shutdown()


def _at_exit() -> None:
    """Score what is there when the main thread ends, as long as threads can be used, and then what
    has come since.

    The latter runs before the providers' own handlers, which were registered earlier: the scores
    leave before they do.
    """
    register_fork(
        lambda: _current._worker if _current else None,  # noqa: SLF001 - its own
        lambda: _current and _current._end_process(),  # noqa: SLF001 - likewise
    )
    atexit.register(lambda: _current and _current.shutdown())
    before_threads_end = getattr(threading, "_register_atexit", None)  # as concurrent.futures does
    if before_threads_end is not None:
        try:
            before_threads_end(lambda: _current and _current._main_thread_ended())  # noqa: SLF001 - its own
        except RuntimeError:  # the process is ending already
            return


_SWITCHES: Final = (CONFIG_VARIABLE, "SPANSCORE_JUDGE_MODEL")
"""One of these must be set: that spanscore is installed does not mean that every program is to be
scored.
"""


class Instrumentor:
    """An instrumentor as OpenTelemetry's loader uses it; it needs none of its packages."""

    def __init__(self) -> None:
        self._instrumentation: Any = None

    def instrument(self, **options: Any) -> None:
        """Score this program, if the environment asks for it.

        What is wrong with what it asks for is logged.
        """
        if not any(os.environ.get(name) for name in _SWITCHES):
            return
        providers = ("tracer_provider", "logger_provider")
        given = {name: options[name] for name in providers if options.get(name)}
        try:
            self._instrumentation = instrument(**given)
        except SpanscoreError as error:
            _log.error("spanscore scores nothing: %s", error)

    def uninstrument(self, **_options: Any) -> None:
        """Score what is there, and end."""
        if self._instrumentation is not None:
            self._instrumentation.shutdown()
