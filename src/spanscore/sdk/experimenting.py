"""`spanscore.experiment`: runs an agent over cases, some times each, and scores what its
instrumentation emitted.
"""

import os
import time
import uuid
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeAlias

from pydantic import ValidationError

from spanscore import config as configuration
from spanscore import suites
from spanscore.config import Settings
from spanscore.config_errors import explain
from spanscore.errors import InputError
from spanscore.judge import Judge, answers_file
from spanscore.looping import waited_for
from spanscore.sdk.agent_runs import Agent, AgentRun, AgentRuns
from spanscore.sdk.experiment_result import Experiment
from spanscore.sdk.measures import Measures, by_name, with_options
from spanscore.sdk.progress import Steps, steps
from spanscore.suites import Case, Suite
from spanscore.suites.matches import Matched, Recording
from spanscore.suites.run import Prepared

Cases: TypeAlias = "Suite | str | os.PathLike[str] | Iterable[Case | Mapping[str, Any] | str]"
"""A suite, a suite's file, or cases: each a `Case`, its keys as a suite's file has them, or what
the user says.
"""

_ID_CHARS = 60


def experiment(
    cases: Cases,
    agent: Agent,
    *,
    trials: int | None = None,
    name: str | None = None,
    metrics: Measures = (),
    thresholds: Mapping[str, float] | None = None,
    judge: str | Judge | None = None,
    config: Settings | str | os.PathLike[str] | None = None,
    concurrency: int = 1,
    run_id: str | None = None,
    output: str | os.PathLike[str] | None = None,
    progress: bool = True,
) -> Experiment:
    """Run `agent` over `cases` and score each trial; the result is what `spanscore test` gives of
    recorded traces.

    `agent` is called with what the user says, for each turn of a case, and with `session_id`,
    another one for each trial, where it has a parameter of that name; it may be a coroutine
    function. Its answer is read from its traces, and from what it returns where it emits none. One
    that raises has failed the trial. `trials` is how often each case is run, `name` the suite's,
    which is compared: without it a suite's own, else the agent's. `metrics` are measured besides:
    names, functions that `@spanscore.metric` decorates, or a mapping from name to options.
    `thresholds` are the least scores that decide. `judge` is a model, or an object with `ask`.
    `concurrency` is how many trials run at once: more than one only for an agent that can be called
    so. `output` is the file for `spanscore compare`.

    Works in a notebook too. Raises InputError where a case, metric, file or model cannot be used.
    """
    return waited_for(
        lambda: experiment_async(
            cases,
            agent,
            trials=trials,
            name=name,
            metrics=metrics,
            thresholds=thresholds,
            judge=judge,
            config=config,
            concurrency=concurrency,
            run_id=run_id,
            output=output,
            progress=progress,
        )
    )


async def experiment_async(
    cases: Cases,
    agent: Agent,
    *,
    trials: int | None = None,
    name: str | None = None,
    metrics: Measures = (),
    thresholds: Mapping[str, float] | None = None,
    judge: str | Judge | None = None,
    config: Settings | str | os.PathLike[str] | None = None,
    concurrency: int = 1,
    run_id: str | None = None,
    output: str | os.PathLike[str] | None = None,
    progress: bool = True,
) -> Experiment:
    """What `experiment` does, in the caller's event loop, in which an agent that is a coroutine
    function then runs.
    """
    if concurrency < 1:
        raise InputError(f"concurrency {concurrency}: give a whole number from 1 on")
    measured = by_name(metrics)
    suite = _with(_suite(cases, agent), name, trials, measured, thresholds or {})
    settings = with_options(_settings(config, judge), measured)
    own_id, started_ns = run_id or uuid.uuid4().hex, time.time_ns()
    wanted = [case for case in suite.cases for _ in range(suite.trials_of(case))]
    runs = AgentRuns(agent, suite.name, own_id, concurrency, settings.assemble.stitch_off)
    with steps("running the agent", len(wanted), shown=progress) as done:
        ran = await runs.all_of(wanted, done)
    prepared = Prepared(suite, Matched(recordings=_recordings(ran)), suite.name)
    with steps("scoring", prepared.trials, shown=progress) as done:
        found = await _scored(prepared, settings, judge, own_id, done)
    found = replace(found, started_at_ns=started_ns)
    result = Experiment(found, tuple(trace for x in ran for trace in x.traces))
    if output is not None:
        result.save(output)
    return result


async def _scored(
    prepared: Prepared, settings: Settings, judge: str | Judge | None, run_id: str, done: Steps
) -> suites.Run:
    own = None if isinstance(judge, str) else judge
    kept = answers_file(settings.judge)
    return await suites.run(prepared, settings, run_id=run_id, cache=kept, judge=own, done=done)


def _suite(cases: Cases, agent: Agent) -> Suite:
    """The suite that the cases make up, named after the agent where it has no name.

    Raises InputError.
    """
    if isinstance(cases, str | os.PathLike):
        suite = suites.load(Path(cases))
    elif isinstance(cases, Suite):
        suite = cases
    else:
        name = str(getattr(agent, "__name__", "agent"))
        suite = _validated(Suite.model_validate, {"name": name, "cases": _with_ids(cases)})
    for case in suite.cases:
        if not case.conversation or any(x.input is None for x in case.conversation):
            raise InputError(
                f"case {case.id!r} has no input to give to the agent: set input, or that of each"
                " turn"
            )
    return suite


def _with(
    suite: Suite,
    name: str | None,
    trials: int | None,
    metrics: Iterable[str],
    thresholds: Mapping[str, float],
) -> Suite:
    """The suite with what the caller asks for in place of, or besides, its own.

    Raises InputError.
    """
    changed: dict[str, Any] = {
        "metrics": (*suite.metrics, *metrics),
        "thresholds": {**suite.thresholds, **thresholds},
    }
    if name is not None:
        changed["name"] = name
    if trials is not None:
        changed["trials"] = trials
        changed["cases"] = [
            x.model_dump(exclude_unset=True) | {"trials": trials} for x in suite.cases
        ]
    return _validated(Suite.model_validate, suite.model_dump(exclude_unset=True) | changed)


def _with_ids(cases: Iterable[Case | Mapping[str, Any] | str]) -> list[Any]:
    """Each case with an id: its own, else one by what the user says, which stays the same from run
    to run.
    """
    found: list[Any] = []
    taken: Counter[str] = Counter()
    for given in cases:
        case = {"input": given} if isinstance(given, str) else given
        if isinstance(case, Mapping) and "id" not in case:
            name = " ".join(str(case.get("input") or "case").split())[:_ID_CHARS]
            taken[name] += 1
            case = {"id": name if taken[name] == 1 else f"{name} ({taken[name]})", **case}
        found.append(case)
    return found


def _validated(make: Callable[[Any], Suite], data: Any) -> Suite:
    try:
        return make(data)
    except ValidationError as error:
        lines = [
            f"cases: {explain(x, Suite, 'the suite')}" for x in error.errors(include_url=False)
        ]
        raise InputError("\n".join(lines)) from None


def _settings(
    config: Settings | str | os.PathLike[str] | None, judge: str | Judge | None
) -> Settings:
    if isinstance(config, Settings):
        settings = config
    else:
        settings = configuration.default() if config is None else configuration.load(Path(config))
    if not isinstance(judge, str):
        return settings
    return settings.model_copy(update={"judge": settings.judge.with_model(judge)})


def _recordings(ran: Sequence[AgentRun]) -> dict[str, list[Recording]]:
    """The trials of each case. One is a whole session where no other trial has turns in it."""
    sizes = Counter(trace.session_key for x in ran for trace in x.traces)
    found: dict[str, list[Recording]] = {}
    for run in ran:
        is_session = sizes[run.traces[0].session_key] == len(run.traces)
        found.setdefault(run.case.id, []).append(
            Recording(run.case, run.traces, run.run_id, is_session, run.error)
        )
    return found
