"""What a judge would be asked about a trace, without asking: for `eval --dry-run`."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from pydantic import BaseModel

from spanscore.evaluation.asking import Questions, distinct
from spanscore.evaluation.batches import Batch, dealt
from spanscore.evaluation.case import Case, items_of
from spanscore.evaluation.inquiry import Transcripts
from spanscore.judge.port import Prompt

_LATER = "(what the judge answers before)"


@dataclass(frozen=True, slots=True)
class PlannedCall:
    """A call that a judge would get.

    `models` are the metric's own, () for the judge's configured ones. `placeholders`: how many
    times, at most, the prompt quotes one and the same answer that is not there yet; unless it is 0
    the call may turn out not to be needed.
    """

    metrics: tuple[str, ...]
    stage: int
    prompt: Prompt
    schema: type[BaseModel]
    models: tuple[str, ...]
    placeholders: int


class Planner:
    """Plans the calls about what `transcripts` show, with answers of `max_output_tokens` at most.

    Repairs, second askings and the calls of a judge that cannot read or write as much left out,
    these are the calls.
    """

    def __init__(self, transcripts: Transcripts, max_output_tokens: int) -> None:
        self._transcripts = transcripts
        self._max_output_tokens = max_output_tokens

    def staged(self, cases: Sequence[Case]) -> list[PlannedCall]:
        """The calls of `judging.staged` for each case."""
        return [
            call
            for case in cases
            for number, stage in enumerate(case.metric.stages, start=1)
            for call in self._calls([case], number, stage)
        ]

    def fused(self, cases: Sequence[Case]) -> list[PlannedCall]:
        """The calls of `judging.fused` for cases that ask the same models."""
        calls: list[PlannedCall] = []
        answered: set[str] = set()
        stage = 0
        everything = distinct(
            question for case in cases for stage in case.metric.stages for question in stage
        )
        while ready := tuple(
            x for x in everything if x.key not in answered and answered.issuperset(x.needs)
        ):
            stage += 1
            calls += self._calls(cases, stage, ready)
            answered |= {x.key for x in ready}
        return calls

    def _calls(self, cases: Sequence[Case], stage: int, questions: Questions) -> list[PlannedCall]:
        batches = dealt(items_of(cases, questions), self._max_output_tokens)
        return [self._planned(cases, stage, batch) for batch in batches]

    def _planned(self, cases: Sequence[Case], stage: int, batch: Batch) -> PlannedCall:
        transcript = self._transcripts.showing(batch.places)
        call = self._transcripts.call(batch.items, transcript)
        asking = [case for case in cases if any(map(case.has_question, call.questions))]
        needed = Counter(key for question in call.questions for key in question.needs)
        quotes = dict.fromkeys(needed, _LATER)
        for case in asking:
            quotes |= {
                name: text or _LATER for name, text in case.metric.quotes(case.subject, {}).items()
            }
        return PlannedCall(
            tuple(case.metric.name for case in asking),
            stage,
            call.prompt(transcript.text, quotes),
            call.schema,
            asking[0].models,
            placeholders=max(needed.values(), default=0),
        )
