"""`spanscore.evaluate`: recorded agent traces scored from a script or a notebook."""

import asyncio
import os
import threading
from collections.abc import Callable, Coroutine, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, TypeAlias, TypeVar

from spanscore import config as configuration
from spanscore.config import Settings
from spanscore.errors import InputError
from spanscore.judge.port import Judge
from spanscore.metrics import Metric
from spanscore.model.score import Evaluation
from spanscore.model.trace import AgentTrace
from spanscore.offline import OfflineScoring
from spanscore.offline.recordings import Recordings
from spanscore.otlp.files import Telemetry
from spanscore.sdk.score_report import Report

ResultT = TypeVar("ResultT")

PathLike: TypeAlias = str | os.PathLike[str]
Recorded: TypeAlias = PathLike | Telemetry | Iterable[PathLike] | Iterable[AgentTrace]
"""Files or folders of OTLP, what `spanscore.load` gives, or agent traces."""


def evaluate(
    traces: Recorded,
    *,
    metrics: Sequence[str | type[Metric]] | str | None = None,
    judge: str | Judge | None = None,
    threshold: float | None = None,
    config: Settings | PathLike | None = None,
) -> Report:
    """Score recorded agent traces and their sessions, and wait for the scores; also inside a running event loop.

    `traces` is a file or folder of OTLP, several of them, what `spanscore.load` gives, or agent traces. `metrics` are
    the names of those to measure; without it those of the configuration. `judge` is a model such as "gpt-4o-mini", or
    an object with `ask`. `threshold` is the score from which on the label is pass. `config` is a configuration file,
    or its settings; without it the defaults hold, and SPANSCORE_JUDGE_MODEL.

    Raises InputError where a file cannot be read or contains no agent trace, or a metric, model or threshold cannot
    be; ConfigError for the configuration. An error of a judge is no exception: it is an evaluation that failed.
    """
    return _waited_for(lambda: evaluate_async(traces, metrics=metrics, judge=judge, threshold=threshold, config=config))


async def evaluate_async(
    traces: Recorded,
    *,
    metrics: Sequence[str | type[Metric]] | str | None = None,
    judge: str | Judge | None = None,
    threshold: float | None = None,
    config: Settings | PathLike | None = None,
) -> Report:
    """What `evaluate` does, for whoever has an event loop and other things to do in it meanwhile."""
    model = judge if isinstance(judge, str) else None
    settings = _settings(config, model)
    scoring = OfflineScoring.prepared(
        settings,
        metrics=None if metrics is None else _names(metrics),
        model=model,
        threshold=threshold,
        judge=None if isinstance(judge, str) else judge,
    )
    notes: list[str] = []
    found: list[AgentTrace] = []
    evaluations: list[Evaluation] = []
    async for subject, scores in scoring.run(_batches(traces, settings, notes.append)):
        if isinstance(subject, AgentTrace):
            found.append(subject)
        evaluations += scores
    return Report(tuple(found), tuple(evaluations), tuple(notes))


def _settings(config: Settings | PathLike | None, model: str | None) -> Settings:
    if isinstance(config, Settings):
        settings = config
    else:
        settings = configuration.default() if config is None else configuration.load(Path(config))
    return settings.model_copy(update={"judge": settings.judge.or_model(model)})


def _names(metrics: Sequence[str | type[Metric]] | str) -> list[str]:
    named = [metrics] if isinstance(metrics, str) else list(metrics)
    return [str(getattr(x, "name", x)) for x in named]


def _batches(traces: Recorded, settings: Settings, note: Callable[[str], None]) -> Iterator[Sequence[AgentTrace]]:
    scope = settings.assemble.session_scope
    if isinstance(traces, Telemetry):
        yield from Recordings.of(traces, scope, note).batches()
        return
    given: list[Any] = [traces] if isinstance(traces, str | os.PathLike) else list(traces)
    if all(isinstance(x, AgentTrace) for x in given):
        yield given
        return
    if not all(isinstance(x, str | os.PathLike) for x in given):
        wrong = next(x for x in given if not isinstance(x, str | os.PathLike))
        raise InputError(
            f"traces: {type(wrong).__name__} is neither a path nor an AgentTrace: give files, folders, what "
            "spanscore.load gives, or agent traces"
        )
    yield from Recordings([Path(x) for x in given], scope, note).batches()


def _waited_for(work: Callable[[], Coroutine[Any, Any, ResultT]]) -> ResultT:
    """The result of `work`, in an event loop of its own: in another thread where this one has a running loop."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(work())
    return _in_a_thread(work)


def _in_a_thread(work: Callable[[], Coroutine[Any, Any, ResultT]]) -> ResultT:
    """As `_waited_for`; an interrupt of the waiting thread, as a notebook's stop button is, ends the work as well."""
    outcome: list[ResultT | BaseException] = []
    started: list[tuple[asyncio.AbstractEventLoop, asyncio.Task[Any]]] = []

    async def noted() -> ResultT:
        if (task := asyncio.current_task()) is not None:
            started.append((asyncio.get_running_loop(), task))
        return await work()

    def run() -> None:
        try:
            outcome.append(asyncio.run(noted()))
        except BaseException as error:  # noqa: BLE001 - it is raised where the result is waited for
            outcome.append(error)

    thread = threading.Thread(target=run, name="spanscore-evaluate", daemon=True)
    thread.start()
    try:
        thread.join()
    except KeyboardInterrupt:
        for loop, task in started:
            loop.call_soon_threadsafe(task.cancel)
        raise
    [result] = outcome
    if isinstance(result, BaseException):
        raise result
    return result
