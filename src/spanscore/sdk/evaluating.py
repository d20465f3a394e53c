"""`spanscore.evaluate`: recorded agent traces scored from a script or a notebook."""

import os
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, TypeAlias

from spanscore import config as configuration
from spanscore.config import Settings
from spanscore.errors import InputError
from spanscore.judge.port import Judge
from spanscore.looping import waited_for
from spanscore.model.score import Evaluation
from spanscore.model.trace import AgentTrace, Session
from spanscore.offline import OfflineScoring
from spanscore.offline.recordings import Recordings
from spanscore.otlp.files import Telemetry
from spanscore.sdk.measures import Measures, by_name, with_options
from spanscore.sdk.score_report import Report
from spanscore.sources import place

PathLike: TypeAlias = str | os.PathLike[str]
Recorded: TypeAlias = PathLike | Telemetry | Iterable[PathLike] | Iterable[AgentTrace]
"""Files or folders of OTLP, URLs of stored traces, what `spanscore.load` gives, or agent traces."""


def evaluate(
    traces: Recorded,
    *,
    metrics: Measures | None = None,
    judge: str | Judge | None = None,
    threshold: float | None = None,
    config: Settings | PathLike | None = None,
) -> Report:
    """Score recorded agent traces and their sessions, and wait for the scores; also inside a
    running event loop.

    `traces` is a file or folder of OTLP, the URL of a backend's stored traces, several of these,
    what `spanscore.load` gives, or agent traces. `metrics` are those to measure: names, functions
    that `@spanscore.metric` decorates, or a mapping from name to options; without it those of the
    configuration. `judge` is a model such as "gpt-4o-mini", or an object with `ask`. `threshold` is
    the score from which on the label is pass. `config` is a configuration file, or its settings;
    without it the defaults hold, and SPANSCORE_JUDGE_MODEL.

    Raises InputError where a file cannot be read or contains no agent trace, or a metric, model or
    threshold cannot be; ConfigError for the configuration; RetryableError where a backend cannot be
    reached. An error of a judge is no exception: it is an evaluation that failed.
    """
    return waited_for(
        lambda: evaluate_async(
            traces, metrics=metrics, judge=judge, threshold=threshold, config=config
        )
    )


async def evaluate_async(
    traces: Recorded,
    *,
    metrics: Measures | None = None,
    judge: str | Judge | None = None,
    threshold: float | None = None,
    config: Settings | PathLike | None = None,
) -> Report:
    """What `evaluate` does, for whoever has an event loop and other things to do in it
    meanwhile.
    """
    model = judge if isinstance(judge, str) else None
    named = None if metrics is None else by_name(metrics)
    settings = with_options(_settings(config, model), named or {})
    scoring = OfflineScoring.prepared(
        settings,
        metrics=named,
        model=model,
        threshold=threshold,
        judge=None if isinstance(judge, str) else judge,
    )
    notes: list[str] = []
    found: list[AgentTrace] = []
    evaluations: list[Evaluation] = []
    recorded = _recorded(traces, settings, notes.append)
    batches, given = (
        ([recorded], _nothing)
        if isinstance(recorded, list)
        else (recorded.batches(), recorded.given.of)
    )
    async for scored in scoring.run(batches, given):
        if isinstance(scored.subject, AgentTrace):
            found.append(scored.subject)
        evaluations += scored.evaluations
    return Report(tuple(found), tuple(evaluations), tuple(notes))


def _settings(config: Settings | PathLike | None, model: str | None) -> Settings:
    if isinstance(config, Settings):
        settings = config
    else:
        settings = configuration.default() if config is None else configuration.load(Path(config))
    return settings.model_copy(update={"judge": settings.judge.or_model(model)})


def _recorded(
    traces: Recorded, settings: Settings, note: Callable[[str], None]
) -> Recordings | list[AgentTrace]:
    scope, attributes = settings.assemble.session_scope, settings.evaluation.span_attributes
    stitch_off = settings.assemble.stitch_off
    if isinstance(traces, Telemetry):
        return Recordings.of(traces, scope, note, attributes=attributes, stitch_off=stitch_off)
    given: list[Any] = [traces] if isinstance(traces, str | os.PathLike) else list(traces)
    if all(isinstance(x, AgentTrace) for x in given):
        return given
    if not all(isinstance(x, str | os.PathLike) for x in given):
        wrong = next(x for x in given if not isinstance(x, str | os.PathLike))
        raise InputError(
            f"traces: {type(wrong).__name__} is neither a path nor an AgentTrace: give files,"
            " folders, what spanscore.load gives, or agent traces"
        )
    places = [place(x) if isinstance(x, str) else Path(x) for x in given]
    return Recordings(places, scope, note, attributes=attributes, stitch_off=stitch_off)


def _nothing(_subject: Session) -> Sequence[Evaluation]:
    """What others gave where only agent traces are known."""
    return ()
