"""`spanscore.experiment`: an agent over cases, scored."""

import asyncio
import functools
import inspect
import itertools
import os
import sys
import time
import uuid
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeAlias

from pydantic import ValidationError

from spanscore import dialects, local_files, suites
from spanscore.config import Settings, explain
from spanscore.errors import InputError
from spanscore.judge import Judge, answers_file
from spanscore.model.score import Evaluation
from spanscore.model.trace import AgentTrace, Trial as Origin
from spanscore.rebuild import rebuild_all
from spanscore.sdk.captures import Capture, attached
from spanscore.sdk.in_process_settings import Measures, by_name, with_options
from spanscore.sdk.plain_turn import plain_turn
from spanscore.sdk.score_report import aligned, counted, cut, estimated, html_table, settings_of
from spanscore.stats import Estimate, posterior_pass_pow_k, rate
from spanscore.suites import Case, CaseResult, Run, Suite
from spanscore.suites.matches import Matched, Recording
from spanscore.suites.run import Prepared
from spanscore.threads import waiting

_HEADINGS = ("case", "status", "trials", "pass rate", "95 %", "pass^k", "95 %", "why not")
_LETTERS = {"pass": "P", "fail": "F", "error": "E"}
_MAX_CASE_CHARS, _MAX_REASON_CHARS = 40, 80


@dataclass(frozen=True, eq=False, repr=False)
class Experiment:
    """The result of `spanscore.experiment`: `run` is that of a suite, `traces` are the turns of all
    its trials.

    Printed, or shown in a notebook, it is a table of the cases.
    """

    run: Run
    traces: tuple[AgentTrace, ...]

    @property
    def evaluations(self) -> list[Evaluation]:
        """All scores of all trials."""
        return self.run.evaluations

    @property
    def passed(self) -> bool:
        """Whether every case passed."""
        return self.run.count("pass") == len(self.run.cases)

    @property
    def pass_rate(self) -> Estimate | None:
        """The share of trials that pass, as the mean over cases; None where no trial can be
        told.
        """
        return self.run.pass_rate

    def to_json(self) -> dict[str, Any]:
        """The run file: one JSON object, as `spanscore test --output` writes it."""
        return suites.to_json(self.run)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the run file, which `spanscore compare` and `spanscore report` read; only its owner
        can read it.

        Raises InputError where it cannot be written, OutputError where it does not fit.
        """
        local_files.write(Path(path), suites.as_text(self.to_json()).encode("utf-8", "replace"))

    def to_html(self, path: str | os.PathLike[str]) -> None:
        """Write a page that opens from disk: the cases, their trials, each turn's steps; errors as
        of `save`.
        """
        from spanscore import report  # noqa: PLC0415 - who wants a table alone does not wait for it
        from spanscore.report.results import of_run  # noqa: PLC0415 - likewise

        report.save(Path(path), of_run(self.to_json(), self.traces))

    def __repr__(self) -> str:
        lines = aligned([_HEADINGS, *map(_cells, self.run.cases)], str.ljust)
        return "\n".join([self._title(), "", *lines])

    def _repr_html_(self) -> str:
        return html_table(self._title(), _HEADINGS, map(_cells, self.run.cases))

    def _title(self) -> str:
        counts = ((self.run.count(x), y) for x, y in _COUNTED.items())
        shown = ", ".join(f"{n} {y}" for n, y in counts if n)
        rate_shown = " ".join(estimated(self.pass_rate))
        whole = f"; trials that pass: {rate_shown}" if self.pass_rate else ""
        return f"{self.run.suite.name}: {counted(len(self.run.cases), 'case')}, {shown}{whole}"


_COUNTED = {"pass": "passed", "fail": "failed", "error": "cannot be told"}


def _cells(case: CaseResult) -> tuple[str, ...]:
    """A case's row: of its trials a letter each, its rates with their intervals, and the first
    reason.
    """
    passing = rate(case.passed, case.n) if case.n else None
    all_of_k = posterior_pass_pow_k(case.n, case.passed, case.odds["k"]) if case.n else None
    letters = "".join(_LETTERS.get(x.status, "?") for x in case.trials)
    reason = next((x for x in case.reasons), "")
    return (
        cut(case.case.id, _MAX_CASE_CHARS),
        case.status,
        letters,
        *estimated(passing),
        *estimated(all_of_k),
        cut(reason, _MAX_REASON_CHARS),
    )


Steps: TypeAlias = Callable[[], object]
"""Called after each step."""

_LINES = 10


@contextmanager
def steps(what: str, total: int, *, shown: bool = True) -> Iterator[Steps]:
    """Show progress while the block runs; call what it gives after each of `total` steps."""
    if not shown or not total:
        yield lambda: None
    elif sys.stderr.isatty():
        from rich.console import Console  # noqa: PLC0415 - only a terminal needs it
        from rich.progress import Progress  # noqa: PLC0415 - only a terminal needs it

        with Progress(console=Console(stderr=True), transient=True) as bar:
            task = bar.add_task(what, total=total)
            yield lambda: bar.advance(task)
    else:
        numbers = itertools.count(1)
        yield lambda: _line(what, next(numbers), total)


def _line(what: str, number: int, total: int) -> None:
    """Write a line after each tenth of the steps."""
    if number * _LINES // total > (number - 1) * _LINES // total:
        print(f"spanscore: {what}: {number} of {total}", file=sys.stderr)  # noqa: T201 - as it says


Agent: TypeAlias = Callable[..., Any]
"""What answers a user: called with what the user says, and `session_id` where it has such a
parameter.
"""

_WAIT_S = 5.0
_MAX_ERROR_CHARS = 2_000


@dataclass(frozen=True, slots=True)
class AgentRuns:
    """Runs an agent. `stitch_off` is that of the configuration (`assemble.stitch`)."""

    agent: Agent
    suite: str
    run_id: str
    stitch_off: Collection[str] = ()

    async def all_of(
        self, cases: Sequence[Case], concurrency: int, done: Callable[[], object]
    ) -> list[Recording]:
        """A trial for each of `cases`, in their order, some at once; `done` is called after
        each.
        """
        room = asyncio.Semaphore(concurrency)
        attached().require_providers()

        async def one(case: Case) -> Recording:
            async with room:
                run = await self._trial(case)
            done()
            return run

        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(one(x)) for x in cases]
        return [x.result() for x in tasks]

    async def _trial(self, case: Case) -> Recording:
        session_id = uuid.uuid4().hex
        traces: list[AgentTrace] = []
        error: str | None = None
        for turn in case.conversation:
            question = turn.input or ""
            started_ns = time.time_ns()
            with attached().captures.running() as capture:
                answer, error = await self._answered(question, session_id)
                found = await asyncio.to_thread(_rebuilt, capture, self.stitch_off)
            traces += found or [
                # of an agent that emits no span: what the user said and what it returned
                plain_turn(
                    question,
                    None if answer is None else str(answer),
                    seed=uuid.uuid4().hex,
                    session_id=session_id if _takes(self.agent, "session_id") else None,
                    started_ns=started_ns,
                )
            ]
            if error is not None:
                break
        origin = Origin(self.suite, self.run_id, case.id, None if error is None else "fail")
        stamped = tuple(replace(x, trial=origin) for x in traces)
        return Recording(case, stamped, self.run_id, error=error)

    async def _answered(self, question: str, session_id: str) -> tuple[Any, str | None]:
        """What the agent answers, or what it raised."""
        options = {"session_id": session_id} if _takes(self.agent, "session_id") else {}
        call = functools.partial(self.agent, question, **options)
        try:
            answer = call() if _is_async(self.agent) else await asyncio.to_thread(call)
            return (await answer if inspect.isawaitable(answer) else answer), None
        except Exception as error:  # noqa: BLE001 - whatever it is, it is the agent's, and the trial has failed
            return None, f"{type(error).__name__}: {error}"[:_MAX_ERROR_CHARS]


def _rebuilt(capture: Capture, stitch_off: Collection[str]) -> list[AgentTrace]:
    return rebuild_all(*capture.telemetry(_WAIT_S), stitch_off=stitch_off)


def _is_async(agent: Agent) -> bool:
    call = agent.func if isinstance(agent, functools.partial) else agent
    of_object = getattr(call, "__call__", None)  # noqa: B004 - of an object that can be called
    return any(map(inspect.iscoroutinefunction, (call, of_object)))


def _takes(agent: Agent, name: str) -> bool:
    try:
        return name in inspect.signature(agent).parameters
    except (TypeError, ValueError):  # a callable written in C
        return False


Cases: TypeAlias = "Suite | str | os.PathLike[str] | Iterable[Case | Mapping[str, Any] | str]"
"""A suite, a suite's file, or cases: each a `Case`, its keys as a suite's file has them, or what
the user says.
"""

_ID_CHARS = 60


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

    An agent that is a coroutine function runs in the caller's event loop. `experiment` waits for
    it, also in a notebook. Raises InputError where a case, metric, file or model cannot be used.
    """
    if concurrency < 1:
        raise InputError(f"concurrency {concurrency}: give a whole number from 1 on")
    measured = by_name(metrics)
    suite = _suite(cases, agent)
    own_name = suite.name if name is None else name
    asked: dict[str, Any] = {"name": own_name, "metrics": (*suite.metrics, *measured)}
    asked["thresholds"] = {**suite.thresholds, **(thresholds or {})}
    suite = _with(suite, trials, asked)
    settings = with_options(settings_of(config), measured)
    if isinstance(judge, str):
        settings = settings.model_copy(update={"judge": settings.judge.with_model(judge)})
    own_id, started_ns = run_id or uuid.uuid4().hex, time.time_ns()
    wanted = [case for case in suite.cases for _ in range(suite.trials_of(case))]
    dialects.configure(settings.span_names)
    runs = AgentRuns(agent, suite.name, own_id, settings.assemble.stitch_off)
    with steps("running the agent", len(wanted), shown=progress) as done:
        ran = await runs.all_of(wanted, concurrency, done)
    prepared = Prepared(suite, Matched(recordings=_recordings(ran)), suite.name)
    own, kept = None if isinstance(judge, str) else judge, answers_file(settings.judge)
    with steps("scoring", prepared.trials, shown=progress) as done:
        found = await suites.run(
            prepared, settings, run_id=own_id, cache=kept, judge=own, done=done
        )
    found = replace(found, started_at_ns=started_ns)
    result = Experiment(found, tuple(trace for x in ran for trace in x.traces))
    if output is not None:
        result.save(output)
    return result


experiment = waiting(experiment_async)
"""Run an agent over cases, and wait for it; see `experiment_async`."""


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
        suite = _validated({"name": name, "cases": _with_ids(cases)})
    for case in suite.cases:
        if not case.conversation or any(x.input is None for x in case.conversation):
            raise InputError(
                f"case {case.id!r} has no input to give to the agent: set input, or that of each"
                " turn"
            )
    return suite


def _with(suite: Suite, trials: int | None, asked: dict[str, Any]) -> Suite:
    """The suite with what the caller asks for in place of its own. Raises InputError."""
    changed = suite.model_dump(exclude_unset=True) | asked
    if trials is not None:
        given = (x.model_dump(exclude_unset=True) for x in suite.cases)
        changed |= {"trials": trials, "cases": [x | {"trials": trials} for x in given]}
    return _validated(changed)


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


def _validated(data: Any) -> Suite:
    try:
        return Suite.model_validate(data)
    except ValidationError as error:
        lines = (explain(x, Suite, "the suite") for x in error.errors(include_url=False))
        raise InputError("\n".join(f"cases: {x}" for x in lines)) from None


def _recordings(ran: Sequence[Recording]) -> dict[str, list[Recording]]:
    """The trials of each case. One is a whole session where no other trial has turns in it."""
    sizes = Counter(trace.session_key for x in ran for trace in x.traces)
    found: dict[str, list[Recording]] = {}
    for run in ran:
        is_session = sizes[run.traces[0].session_key] == len(run.traces)
        found.setdefault(run.case.id, []).append(replace(run, is_session=is_session))
    return found
