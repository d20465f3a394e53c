"""What a judge would be asked about a trace, without asking: for `eval --dry-run`."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from pydantic import BaseModel

from spanscore.evaluate.asking import Call, Questions, distinct
from spanscore.evaluate.judging import Case
from spanscore.judge.port import Prompt

_LATER = "(what the judge answers before)"


@dataclass(frozen=True, slots=True)
class PlannedCall:
    """A call that a judge would get.

    `models` are the metric's own, () for the judge's configured ones. `placeholders`: how many times, at most, the
    prompt quotes one and the same answer that is not there yet; unless it is 0 the call may turn out not to be needed.
    """

    metrics: tuple[str, ...]
    stage: int
    prompt: Prompt
    schema: type[BaseModel]
    models: tuple[str, ...]
    placeholders: int


def staged_calls(cases: Sequence[Case], transcript: str) -> list[PlannedCall]:
    """The calls of `judging.staged` for each case, repairs and second askings apart."""
    return [
        _planned([case], number, stage, transcript)
        for case in cases
        for number, stage in enumerate(case.metric.stages, start=1)
    ]


def fused_calls(cases: Sequence[Case], transcript: str) -> list[PlannedCall]:
    """The calls of `judging.fused` for cases that ask the same models, repairs and second askings apart."""
    calls: list[PlannedCall] = []
    answered: set[str] = set()
    everything = distinct(question for case in cases for stage in case.metric.stages for question in stage)
    while ready := tuple(x for x in everything if x.key not in answered and answered.issuperset(x.needs)):
        calls.append(_planned([x for x in cases if x.of(ready)], len(calls) + 1, ready, transcript))
        answered |= {x.key for x in ready}
    return calls


def _planned(cases: Sequence[Case], stage: int, questions: Questions, transcript: str) -> PlannedCall:
    needed = Counter(key for question in questions for key in question.needs)
    quotes = dict.fromkeys(needed, _LATER)
    for case in cases:
        quotes |= {name: text or _LATER for name, text in case.metric.quotes(case.trace, {}).items()}
    call = Call(questions)
    names = tuple(case.metric.name for case in cases)
    return PlannedCall(
        names,
        stage,
        call.prompt(transcript, quotes),
        call.schema,
        cases[0].models,
        placeholders=max(needed.values(), default=0),
    )
