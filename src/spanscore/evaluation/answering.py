"""Have a set of items answered: valid answers are taken, the rest is repeated, in smaller calls
where necessary.
"""

from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence

from spanscore.errors import JudgeAnswerError, JudgeTooLongError
from spanscore.evaluation.asking import Item, Reading, quoted
from spanscore.evaluation.attempt import Attempt, outcome_of
from spanscore.evaluation.batches import Batch, dealt
from spanscore.evaluation.case import Case
from spanscore.evaluation.inquiry import Inquiry
from spanscore.evaluation.usage import shares
from spanscore.judge.parts import Invalid, Parts
from spanscore.judge.transcript import Transcript

_MAX_PROBLEMS = 5
_BE_BRIEF = "It was cut off before it was complete. Be brief."


async def answer(cases: Sequence[Case], items: Sequence[Item], inquiry: Inquiry) -> None:
    """Have `items` answered for `cases`, which ask the same models, in as many calls as it takes.

    Afterwards each case has all of its answers, or a Failure or Skip with what is missing.
    """
    pending = deque(dealt(items, inquiry.max_output_tokens))
    while pending:
        batch = pending.popleft()
        wanted = tuple(item for item in batch.items if any(_asking(cases, item)))
        if wanted:
            found = await _Asking(
                cases, inquiry, Batch(wanted, batch.is_repeat, batch.objection)
            ).made()
            pending.extendleft(reversed(found))


def _asking(cases: Iterable[Case], item: Item) -> Iterator[Case]:
    """The unsettled cases that need `item`."""
    return (case for case in cases if case.outcome is None and case.has_question(item.question))


class _Asking:
    """One call of the judge, and what becomes of it."""

    def __init__(self, cases: Sequence[Case], inquiry: Inquiry, batch: Batch) -> None:
        self._inquiry = inquiry
        self._batch = batch
        self._cases = [
            case
            for case in cases
            if any(True for item in batch.items for _ in _asking([case], item))
        ]

    async def made(self) -> list[Batch]:
        """Make the call. Returns the batches that follow it."""
        with Attempt("rendering the transcript") as rendering:
            transcript = await self._inquiry.transcript(self._batch.places)
        if rendering.outcome is not None:
            return self._settled(rendering)
        hidden = tuple(
            x
            for x in self._batch.items
            if x.place is not None and x.place not in transcript.shown_calls
        )
        if hidden:
            return self._without(hidden)
        return await self._call(transcript)

    def _without(self, hidden: tuple[Item, ...]) -> list[Batch]:
        """The batches in place of one that the transcript has no room for: nothing of what it does
        not show.
        """
        if hidden != self._batch.items:
            shown = tuple(item for item in self._batch.items if item not in set(hidden))
            return [
                Batch(shown, self._batch.is_repeat, self._batch.objection),
                Batch(hidden, self._batch.is_repeat),
            ]
        if len(hidden) > 1:
            return list(self._batch.halves())
        for case in self._cases:
            case.take({hidden[0]: None})
        return []

    async def _call(self, transcript: Transcript) -> list[Batch]:
        call = self._inquiry.transcripts.call(self._batch.items, transcript)
        with Attempt(f"asking for {', '.join(x.metric.name for x in self._cases)}") as attempt:
            quotes: dict[str, str] = {}
            for case in self._cases:
                quotes |= {**quoted(case.answers), **case.metric.quotes(case.subject, case.answers)}
            reading, model, attempt.usage = await self._inquiry.ask(
                call, transcript, quotes, self._batch.objection, self._cases[0].models
            )
        for case, usage in zip(self._cases, shares(attempt.usage, len(self._cases)), strict=True):
            case.usage += usage
        if attempt.outcome is None:
            return self._taken(reading, model)
        if isinstance(attempt.error, JudgeTooLongError) and self._inquiry.transcripts.shorten(
            transcript
        ):
            return [self._batch]
        if _is_too_much(attempt.error) and (
            less := self._less(is_in_parts=issubclass(call.schema, Parts))
        ):
            return less
        return self._settled(attempt)

    def _settled(self, attempt: Attempt) -> list[Batch]:
        for case in self._cases:
            case.outcome = attempt.outcome
        return []

    def _less(self, *, is_in_parts: bool) -> list[Batch]:
        """The batches in place of one whose prompt, or answer, was too long; [] where there is
        nothing less.
        """
        if len(self._batch.items) > 1:
            return list(self._batch.halves())
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
        return [
            *(
                [Batch(tuple(problems), is_repeat=True, objection=_objection(problems))]
                if problems
                else []
            ),
            *rest,
        ]

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
            for case in _asking(self._cases, item):
                problem_text = (
                    f"The judge gave no valid answer on {item.question.key}, not even when asked"
                    " again"
                )
                case.outcome = outcome_of(JudgeAnswerError(f"{problem_text}: {problem.problem}"))
        return []


def _is_too_much(error: Exception | None) -> bool:
    return isinstance(error, JudgeTooLongError) or (
        isinstance(error, JudgeAnswerError) and error.cut_off
    )


def _objection(problems: Mapping[Item, Invalid]) -> str:
    texts = dict.fromkeys(f"{item.question.key}: {x.problem}" for item, x in problems.items())
    return " ".join(list(texts)[:_MAX_PROBLEMS])
