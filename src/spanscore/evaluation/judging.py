"""How judged metrics ask a judge: staged (each metric on its own, stage by stage) or fused (all in
shared calls).
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from functools import partial

from spanscore.evaluation.answering import answer
from spanscore.evaluation.asking import Questions, distinct
from spanscore.evaluation.attempt import Attempt, outcome_of
from spanscore.evaluation.case import Case, items_of
from spanscore.evaluation.inquiry import Inquiry, Transcripts
from spanscore.evaluation.planning import PlannedCall, Planner
from spanscore.judge.config import Config
from spanscore.judge.port import Judge
from spanscore.judge.transcript import Renderer
from spanscore.metrics import Judged
from spanscore.model.trace import AgentTrace, Session


class Judging:
    """A judge as it is configured, and what it is shown of a subject: settles the judged metrics on
    it.

    No more than `slots` allow wait for the judge at once.
    """

    def __init__(
        self, judge: Judge, config: Config, render: Renderer, slots: asyncio.Semaphore
    ) -> None:
        self._judge = judge
        self._config = config
        self._render = render
        self._slots = slots

    async def settled(
        self,
        metrics: Sequence[Judged],
        subject: AgentTrace | Session,
        earlier: Sequence[AgentTrace] = (),
        *,
        sample: int = 0,
    ) -> list[Case]:
        """A case for each of `metrics` on `subject`, with its outcome; `earlier` are its session's
        turns before it.

        `sample` says which of several answers is wanted.
        """
        cases = self._cases(metrics, subject)
        transcripts = Transcripts(subject, self._render, earlier)
        stages = [len(case.metric.stages) for case in cases]
        calls = max(stages, default=0) if self._config.plan == "fused" else sum(stages)
        inquiry = Inquiry(
            self._judge, transcripts, self._config.max_output_tokens, sample, is_reused=calls > 1
        )
        with Attempt("rendering the transcript") as attempt:
            await inquiry.transcript()
        if attempt.outcome is not None:
            for case in cases:
                case.outcome = attempt.outcome
            return cases
        async with asyncio.TaskGroup() as group:
            if self._config.plan == "fused":
                for sharing in by_models(cases):
                    group.create_task(self._bounded(partial(fused, sharing, inquiry)))
            else:
                for case in cases:
                    group.create_task(self._bounded(partial(staged, case, inquiry)))
        transcript = await inquiry.transcript()
        for case in cases:
            case.note(transcript.metadata)
        return cases

    def planned(
        self,
        metrics: Sequence[Judged],
        subject: AgentTrace | Session,
        earlier: Sequence[AgentTrace] = (),
    ) -> list[PlannedCall]:
        """The calls of `settled`, without making them."""
        cases = self._cases(metrics, subject)
        planner = Planner(
            Transcripts(subject, self._render, earlier), self._config.max_output_tokens
        )
        if self._config.plan == "staged":
            return planner.staged(cases)
        return [call for sharing in by_models(cases) for call in planner.fused(sharing)]

    def _cases(self, metrics: Sequence[Judged], subject: AgentTrace | Session) -> list[Case]:
        return [Case(metric, subject, max_calls=self._config.max_verdicts) for metric in metrics]

    async def _bounded(self, judged: Callable[[], Awaitable[None]]) -> None:
        """Wait for a place, and only then begin: who is cancelled before leaves nothing behind that
        was never run.
        """
        async with self._slots:
            await judged()


async def staged(case: Case, inquiry: Inquiry) -> None:
    """Settle `case` by one call for each stage of its metric, or more where the judge cannot answer
    it in one.
    """
    for stage in case.metric.stages:
        if case.outcome is None:
            await _answered([case], stage, inquiry)


async def fused(cases: Sequence[Case], inquiry: Inquiry) -> None:
    """Settle `cases`, which ask the same models, by calls that they share.

    Each call asks all that can be asked by then. The first has the extraction and the metrics that
    need none of it, the second the metrics that do; the project's own metrics need no third.
    """
    while unsettled := [case for case in cases if case.outcome is None]:
        with Attempt("the questions of " + ", ".join(x.metric.name for x in unsettled)) as attempt:
            questions = distinct(question for case in unsettled for question in case.ready())
        if attempt.outcome is None and not questions:
            attempt.outcome = outcome_of(
                RuntimeError("the metric neither settles nor has a question left to ask")
            )
        if attempt.outcome is not None:
            for case in unsettled:
                case.outcome = attempt.outcome
            return
        await _answered(unsettled, questions, inquiry)


async def _answered(cases: Sequence[Case], questions: Questions, inquiry: Inquiry) -> None:
    """Have `questions` answered for those of `cases` that ask them."""
    for case in cases:
        case.planned(questions)
    await answer(cases, items_of(cases, questions), inquiry)


def by_models(cases: Sequence[Case]) -> list[list[Case]]:
    """The cases in groups that ask the same models."""
    groups: dict[tuple[str, ...], list[Case]] = {}
    for case in cases:
        groups.setdefault(case.models, []).append(case)
    return list(groups.values())
