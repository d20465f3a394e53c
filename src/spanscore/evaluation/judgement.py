"""Judged metrics, staged or in shared calls."""

import asyncio
from collections import Counter, deque
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial

from spanscore.errors import JudgeAnswerError, JudgeTooLongError
from spanscore.evaluation.inquiry import (
    Case,
    Inquiry,
    PlannedCall,
    at_once,
    in_stages,
    items_of,
    together,
)
from spanscore.evaluation.outcomes import Attempt, outcome_of, shares
from spanscore.evaluation.questions import Batch, Item, Questions, Reading, dealt, quoted
from spanscore.judge.answer import Invalid, Parts
from spanscore.judge.config import Config
from spanscore.judge.port import Judge
from spanscore.judge.transcript import Renderer, Transcript
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
        self._render = render
        self._slots = slots
        self._is_staged = config.plan == "staged"
        self._max_calls = config.max_verdicts
        self._max_output_tokens = config.max_output_tokens

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
        inquiry = Inquiry(
            self._judge,
            subject,
            self._render,
            self._max_output_tokens,
            earlier=earlier,
            sample=sample,
            is_reused=self._takes_several(cases),
        )
        with Attempt("rendering the transcript") as attempt:
            await inquiry.transcript()
        if attempt.outcome is not None:
            for case in cases:
                case.outcome = attempt.outcome
            return cases
        async with asyncio.TaskGroup() as group:
            for sharing in self._sharing(cases):
                judged = partial(staged, sharing[0]) if self._is_staged else partial(fused, sharing)
                group.create_task(self._bounded(partial(judged, inquiry)))
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
        cases, most = self._cases(metrics, subject), self._max_output_tokens
        inquiry = Inquiry(self._judge, subject, self._render, most, earlier=earlier)
        found: list[PlannedCall] = []
        for sharing in self._sharing(cases):
            stages: Sequence[Questions] = sharing[0].metric.stages
            if not self._is_staged:
                stages = at_once(sharing, in_stages(sharing), most)
            for number, questions in enumerate(stages, start=1):
                found += inquiry.planned(sharing, number, questions)
        return found

    def _cases(self, metrics: Sequence[Judged], subject: AgentTrace | Session) -> list[Case]:
        return [Case(metric, subject, max_calls=self._max_calls) for metric in metrics]

    def _sharing(self, cases: Sequence[Case]) -> list[list[Case]]:
        """The cases in groups that share calls: those that ask the same models, or each alone."""
        if self._is_staged:
            return [[case] for case in cases]
        groups: dict[tuple[str, ...], list[Case]] = {}
        for case in cases:
            groups.setdefault(case.models, []).append(case)
        return list(groups.values())

    def _takes_several(self, cases: Sequence[Case]) -> bool:
        """Whether several calls will read the same transcript."""
        if self._is_staged:
            return sum(len(case.metric.stages) for case in cases) > 1
        asked = (x for case in cases for question in case.unanswered for x in case.items(question))
        return len(dealt([*dict.fromkeys(asked)], self._max_output_tokens)) > 1

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
            case.planned(stage)
            await answer([case], items_of([case], stage), inquiry)


async def fused(cases: Sequence[Case], inquiry: Inquiry) -> None:
    """Settle `cases`, which ask the same models, by calls that they share.

    One call asks all, if its answer can be that long. Else the first has the extraction and the
    metrics that need none of it, and another the metrics that do, as has what was missing of the
    first.
    """
    while unsettled := [case for case in cases if case.outcome is None]:
        stages: list[Questions] = []
        with Attempt("the questions of " + ", ".join(x.metric.name for x in unsettled)) as attempt:
            stages = in_stages(unsettled)
        if attempt.outcome is None and not (stages and items_of(unsettled, stages[0])):
            attempt.outcome = outcome_of(
                RuntimeError("the metric neither settles nor has a question left to ask")
            )
        if attempt.outcome is not None:
            for case in unsettled:
                case.outcome = attempt.outcome
            return
        for case in unsettled:  # the same, whether that takes one call or several
            case.planned(together(stages))
        questions, *_ = at_once(unsettled, stages, inquiry.max_output_tokens)
        await answer(unsettled, items_of(unsettled, questions), inquiry)


_MAX_PROBLEMS = 5
_BE_BRIEF = "It was cut off before it was complete. Be brief."


async def answer(cases: Sequence[Case], items: Sequence[Item], inquiry: Inquiry) -> None:
    """Have `items` answered for `cases`, which ask the same models, in as many calls as it takes.

    Afterwards each case has all of its answers, but for those that need another one that took a
    call of its own, or a Failure or Skip with what is missing.
    """
    pending = deque(dealt(items, inquiry.max_output_tokens))
    while pending:
        batch = pending.popleft()
        wanted = _answerable(batch.items, items, cases)
        if wanted:
            found = await _Asking(cases, inquiry, replace(batch, items=wanted)).made()
            pending.extendleft(reversed(found))


def _answerable(
    batch: Sequence[Item], items: Sequence[Item], cases: Sequence[Case]
) -> tuple[Item, ...]:
    """Those of `batch` that a case waits for, and whose needs are answered, or asked in the same
    call: all of `items` that ask for them.
    """
    whole, here = Counter(x.question.key for x in items), Counter[str]()
    found = []
    for item in batch:
        waiting = [*_asking(cases, item)]
        if waiting and all(
            0 < here[need] == whole[need] or all(need in case.answers for case in waiting)
            for need in item.question.needs
        ):
            found.append(item)
            here[item.question.key] += 1
    return tuple(found)


def _asking(cases: Iterable[Case], item: Item) -> Iterator[Case]:
    """The unsettled cases that need `item`."""
    return (case for case in cases if case.outcome is None and case.has_question(item.question))


class _Asking:
    """One call of the judge, and what becomes of it."""

    def __init__(self, cases: Sequence[Case], inquiry: Inquiry, batch: Batch) -> None:
        self._inquiry = inquiry
        self._batch = batch
        needed = {id(case) for item in batch.items for case in _asking(cases, item)}
        self._cases = [case for case in cases if id(case) in needed]

    async def made(self) -> list[Batch]:
        """Make the call. Returns the batches that follow it."""
        batch = self._batch
        with Attempt("rendering the transcript") as rendering:
            transcript = await self._inquiry.transcript(batch.places)
        if rendering.outcome is not None:
            return self._settled(rendering)
        hidden = set(batch.places) - transcript.shown_calls
        if not hidden:
            return await self._call(transcript)
        # nothing is asked of what the transcript has no room for
        kept = tuple(x for x in batch.items if x.place not in hidden)
        rest = tuple(x for x in batch.items if x.place in hidden)
        if kept:
            return [replace(batch, items=kept), replace(batch, items=rest, objection="")]
        if len(rest) > 1:
            return batch.halves()
        for case in self._cases:
            case.take({rest[0]: None})
        return []

    async def _call(self, transcript: Transcript) -> list[Batch]:
        call = self._inquiry.call(self._batch.items, transcript)
        with Attempt(f"asking for {', '.join(x.metric.name for x in self._cases)}") as attempt:
            quotes: dict[str, str] = {}
            for case in self._cases:
                case.shown(transcript)
                of_metric = case.metric.quotes(case.subject, case.answers)
                quotes |= quoted(case.answers) | {x: text for x, text in of_metric.items() if text}
            reading, model, attempt.usage = await self._inquiry.ask(
                call, transcript, quotes, self._batch.objection, self._cases[0].models
            )
        for case, usage in zip(self._cases, shares(attempt.usage, len(self._cases)), strict=True):
            case.usage += usage
        if attempt.outcome is None:
            return self._taken(reading, model)
        error = attempt.error
        is_too_long = isinstance(error, JudgeTooLongError)
        if is_too_long and self._inquiry.shorten(transcript):
            return [self._batch]
        is_too_much = is_too_long or (isinstance(error, JudgeAnswerError) and error.cut_off)
        less = self._less(is_in_parts=issubclass(call.schema, Parts)) if is_too_much else []
        return less or self._settled(attempt)

    def _settled(self, attempt: Attempt) -> list[Batch]:
        for case in self._cases:
            case.outcome = attempt.outcome
        return []

    def _less(self, *, is_in_parts: bool) -> list[Batch]:
        """The batches in place of one whose prompt, or answer, was too long; [] where there is
        nothing less.
        """
        if len(self._batch.items) > 1:
            return self._batch.halves()
        # else the judge has shown the model its error itself
        if is_in_parts and not self._batch.is_repeat:
            return [Batch(self._batch.items, is_repeat=True, objection=_BE_BRIEF)]
        return []

    def _taken(self, reading: Reading, model: str) -> list[Batch]:
        """Give valid answers to the cases. Returns the batches that repeat the rest."""
        self._give(reading, model)
        cut = tuple(item for item, x in reading.problems.items() if x.cut_off)
        if cut and not reading.answers:
            return self._less(is_in_parts=True) or self._refused(reading.problems)
        problems = {item: x for item, x in reading.problems.items() if not x.cut_off}
        rest = [Batch(cut, self._batch.is_repeat)] if cut else []
        if problems and self._batch.is_repeat:
            return [*self._refused(problems), *rest]
        texts = dict.fromkeys(f"{item.question.key}: {x.problem}" for item, x in problems.items())
        objection = " ".join(list(texts)[:_MAX_PROBLEMS])
        again = [Batch(tuple(problems), is_repeat=True, objection=objection)] if problems else []
        return again + rest

    def _give(self, reading: Reading, model: str) -> None:
        """Give each case the answers to its own questions."""
        for case in self._cases:
            own = {
                item: value
                for item, value in reading.answers.items()
                if case.has_question(item.question)
            }
            if own:
                case.take(own, dict.fromkeys(reading.remembered.get(item, model) for item in own))

    def _refused(self, problems: Mapping[Item, Invalid]) -> list[Batch]:
        """Fail the cases that need what got no valid answer twice."""
        for item, problem in problems.items():
            why = (
                f"The judge gave no valid answer on {item.question.key}, not even when asked again"
            )
            for case in _asking(self._cases, item):
                case.outcome = outcome_of(JudgeAnswerError(f"{why}: {problem.problem}"))
        return []
