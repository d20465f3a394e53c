"""A suite run over recorded traces."""

import asyncio
import difflib
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from spanscore import config
from spanscore.config import Settings
from spanscore.embed import open_embedder
from spanscore.errors import InputError
from spanscore.evaluation import Engine, Overrides
from spanscore.judge import Cache, Judge, open_judge, redactor
from spanscore.metrics.session.agentic import Agentic
from spanscore.model.score import Evaluation
from spanscore.model.trace import AgentTrace
from spanscore.suites.matches import AttributesOf, Matched, Recording, match, own_attributes
from spanscore.suites.report import Run, result, unmatched
from spanscore.suites.suite import Suite, load
from spanscore.suites.trial import Answers, Trial, Trying
from spanscore.threads import waiting

_MAX_TRIALS_AT_ONCE = 64
"""More would wait for the judge's own limit, each with its transcript in memory."""


@dataclass(frozen=True, slots=True)
class Prepared:
    """A suite with its recordings, checked and ready to be scored; `name` stands in front of error
    messages.
    """

    suite: Suite
    matched: Matched
    name: str = "suite"

    @property
    def trials(self) -> int:
        """How many trials there are to score."""
        return sum(map(len, self.matched.recordings.values()))


def prepare(
    suite: Suite,
    traces: Sequence[AgentTrace],
    *,
    attributes_of: AttributesOf = own_attributes,
    skip_unmatched: bool = False,
    only_match: bool = False,
    name: str = "suite",
) -> Prepared:
    """Match recordings to cases and refuse what cannot be right.

    `name` stands in front of error messages.

    Raises InputError, with a line for each thing that is wrong: a case that nothing matches (unless
    `skip_unmatched`), fewer trials than are wanted, an expected tool that there is not, k above n
    for the unbiased form. Of these only the first is looked for with `only_match`.
    """
    try:
        matched = match(suite, traces, attributes_of)
    except InputError as error:
        raise InputError(f"{name}: {error}") from None
    problems = (
        []
        if skip_unmatched
        else [*map(matched.in_words, matched.unmatched), *_missing_sessions(matched, traces)]
    )
    problems += [] if only_match else [*_unknown_tools(suite, traces), *_too_few(suite, matched)]
    if not matched.recordings and not problems:
        problems = ["none of its cases is in what was recorded"]
    if problems:
        raise InputError("\n".join(f"{name}: {x}" for x in problems))
    return Prepared(suite, matched, name)


async def run(
    prepared: Prepared,
    settings: Settings,
    *,
    model: str | None = None,
    run_id: str | None = None,
    cache: Cache | None = None,
    judge: Judge | None = None,
    certified: Callable[[Evaluation], bool] | None = None,
    done: Callable[[], object] = lambda: None,
) -> Run:
    """Score all trials.

    `settings` say who judges, or `model` in their place; `done` is called after each trial.

    `judge` is asked in place of the one that `settings` describe. `certified` is as an engine has
    it. `cache` keeps the judge's answers
    beyond this run; None: they are kept in memory. Raises InputError where the suite or the
    configuration names what there is not.
    """
    suite, started_ns = prepared.suite, time.time_ns()
    settings, recordings = with_judge(settings, model), prepared.matched.recordings
    try:
        judge = judge or open_judge(settings.judge, cache)
        engine = Engine(
            settings.evaluation.without_rules(),  # a suite says itself what is measured
            judge,
            open_embedder(settings.embedding, redact=redactor(settings.judge)),
            judge_config=settings.judge,
            certified=certified,
            clock_ns=time.time_ns,
        )
        configured = [x for x in settings.evaluation.named() if x != Agentic.name]
        Overrides(metrics=suite.measured()).rubric(settings.evaluation.rubric)
    except InputError as error:
        raise InputError(f"{prepared.name}: {error}") from None
    has_rubric = settings.evaluation.rubric is not None
    answers = Answers(judge, settings.judge, model)
    trying = Trying(suite, engine, answers, metrics=configured, rubric=has_rubric, model=model)
    room = asyncio.Semaphore(_MAX_TRIALS_AT_ONCE)
    own_id = run_id or uuid.uuid4().hex

    async def one(recording: Recording) -> Trial:
        async with room:
            trial = await trying.score(recording)
        done()
        return trial

    async def all_of(case_id: str) -> list[Trial]:
        return await asyncio.gather(*map(one, recordings[case_id]))

    ids = [x.id for x in suite.cases if x.id in recordings]
    trials = dict(zip(ids, await asyncio.gather(*map(all_of, ids)), strict=True))
    results = (
        result(suite, x, trials[x.id], own_id) if x.id in trials else unmatched(suite, x)
        for x in suite.cases
    )
    return Run(suite, own_id, started_ns, tuple(results))


async def run_suite_async(
    suite: Suite | str | Path,
    traces: Sequence[AgentTrace],
    *,
    settings: Settings | None = None,
    model: str | None = None,
    skip_unmatched: bool = False,
) -> Run:
    """Run a suite, or the one in a YAML file, over agent traces.

    `settings` say who judges (by default SPANSCORE_JUDGE_MODEL, or nobody), `model` names another
    model. Raises InputError as `load` and `prepare`.

    `run_suite` waits for it, also inside a running event loop.
    """
    read = suite if isinstance(suite, Suite) else load(Path(suite))
    prepared = prepare(read, traces, skip_unmatched=skip_unmatched)
    return await run(prepared, settings or config.default(), model=model)


run_suite = waiting(run_suite_async)
"""Run a suite over agent traces, and wait for it; see `run_suite_async`."""


def with_judge(settings: Settings, model: str | None) -> Settings:
    """The settings, with a judge where `model` asks for one and none is configured."""
    return settings.model_copy(update={"judge": settings.judge.or_model(model)})


def _missing_sessions(matched: Matched, traces: Sequence[AgentTrace]) -> Iterator[str]:
    """A session in a case's list that nothing was recorded in: without it the case would have one
    trial less.
    """
    there = {x.session_id for x in traces}
    for case_id, recordings in matched.recordings.items():
        listed = recordings[0].case.session_id
        for session_id in listed if len(listed) > 1 else ():
            if session_id not in there:
                yield (
                    f"case {case_id!r}: nothing is recorded in the session {session_id!r}; leave it"
                    " out of its list"
                )


def _unknown_tools(suite: Suite, traces: Sequence[AgentTrace]) -> Iterator[str]:
    """An expected tool that no recording offers or calls, and that the suite does not declare, is a
    slip of the pen.
    """
    known = {*suite.tools}
    known |= {tool.name for trace in traces for tool in trace.available_tools or ()}
    known |= {call.name for trace in traces for call in trace.tool_calls or ()}
    for case in suite.cases:
        for name in dict.fromkeys(x for x in case.tool_names() if x not in known):
            near = difflib.get_close_matches(name, known, n=1)
            listed = f"known are {', '.join(sorted(known)[:20]) or 'none'};"
            hint = f"did you mean {near[0]!r}?" if near else listed
            yield (
                f"case {case.id!r}: no recording offers or calls a tool {name!r}; {hint} "
                "where it is right all the same, list it under tools"
            )


def _too_few(suite: Suite, matched: Matched) -> Iterator[str]:
    """A case of which less is recorded than is wanted, or than the unbiased form needs."""
    for case in suite.cases:
        found = len(matched.recordings.get(case.id, ()))
        wanted, k = suite.trials_of(case), suite.attempts(case)
        if not found:
            continue
        what, n = "recorded trials", found
        if suite.agentic.unit == "interaction":
            what = "interactions of its conversation"
            n = sum(not x.is_empty for x in case.expectations)
        if found < wanted:
            yield (
                f"case {case.id!r}: the suite wants {wanted} trials and the recordings hold"
                f" {found}; record more"
            )
        elif suite.agentic.statistics == "unbiased" and k > n > 0:
            yield (
                f"case {case.id!r}: k is {k} and n ({what}) is {n}; the unbiased form is for k up"
                " to n, so lower k"
            )
