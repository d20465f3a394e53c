"""How judged metrics ask a judge: staged (each metric on its own, stage by stage) or fused (all in shared calls)."""

from collections.abc import Sequence
from typing import Any

from spanscore.errors import JudgeAnswerError
from spanscore.evaluate.asking import Call, Questions, distinct, prompt_hash, quoted
from spanscore.evaluate.attempt import Attempt, outcome_of
from spanscore.judge.port import Judge
from spanscore.metrics import Judged, Question
from spanscore.model.score import Evaluator, JudgeUsage, Outcome
from spanscore.model.trace import AgentTrace


class Case:
    """One judged metric on one trace: the answers had so far, what they cost, and the outcome once there is one."""

    def __init__(self, metric: Judged, trace: AgentTrace) -> None:
        self.metric = metric
        self.trace = trace
        self.answers: dict[str, Any] = {}
        self.outcome: Outcome | None = None
        self.usage = JudgeUsage()
        self._asked: list[Questions] = []
        self._model: str | None = metric.model

    @property
    def models(self) -> tuple[str, ...]:
        """The models to ask, as `Judge.ask` takes them."""
        return (self.metric.model,) if self.metric.model else ()

    @property
    def evaluator(self) -> Evaluator:
        """Who judged: a model, or nobody where the metric needed no answer."""
        if not self._asked:
            return Evaluator("CODE", self.metric.name, self.metric.version)
        digest = prompt_hash(tuple(self._asked), self._model)
        return Evaluator("LLM", "judge", self.metric.version, model=self._model, prompt_hash=digest)

    def ready(self) -> list[Question]:
        """The unanswered questions whose needs are answered."""
        return [
            question
            for stage in self.metric.stages
            for question in stage
            if question.key not in self.answers and self.answers.keys() >= set(question.needs)
        ]

    def of(self, questions: Questions) -> Questions:
        """Those of `questions` that this metric asks."""
        own = {question.key for stage in self.metric.stages for question in stage}
        return tuple(x for x in questions if x.key in own)

    def asked(self, questions: Questions) -> None:
        """Take down, for the provenance, that `questions` were asked together."""
        self._asked.append(questions)

    def hear(self, answers: dict[str, Any], model: str) -> str | None:
        """Take in answers and settle if they allow it. Returns the metric's objection to them, if it has one."""
        self._model = model
        self.answers.update(answers)
        with Attempt(self.metric.name) as attempt:
            objection = self.metric.objection(self.trace, self.answers)
            if objection is not None:
                return objection
            attempt.outcome = self.metric.settle(self.trace, self.answers)
        self.outcome = attempt.outcome
        return None


async def staged(case: Case, judge: Judge, transcript: str) -> None:
    """Settle `case` by one call for each stage of its metric."""
    for stage in case.metric.stages:
        if case.outcome is None:
            await _ask([case], stage, judge, transcript)


async def fused(cases: Sequence[Case], judge: Judge, transcript: str) -> None:
    """Settle `cases`, which ask the same models, by calls that they share.

    Each call asks all that can be asked by then. The first has the extraction and the metrics that need none of it,
    the second the metrics that do; the project's own metrics need no third.
    """
    while unsettled := [case for case in cases if case.outcome is None]:
        with Attempt("the questions of " + ", ".join(x.metric.name for x in unsettled)) as attempt:
            questions = distinct(question for case in unsettled for question in case.ready())
        if attempt.outcome is None and not questions:
            attempt.outcome = outcome_of(RuntimeError("the metric neither settles nor has a question left to ask"))
        if attempt.outcome is not None:
            for case in unsettled:
                case.outcome = attempt.outcome
            return
        await _ask(unsettled, questions, judge, transcript)


async def _ask(cases: Sequence[Case], questions: Questions, judge: Judge, transcript: str, objection: str = "") -> None:
    """Ask `questions` in one call for all of `cases`, and once more what a metric objects to.

    `objection` is what was wrong with the answer before; then a further one is the end.
    """
    call = Call(questions)
    with Attempt(f"asking for {', '.join(x.metric.name for x in cases)}") as attempt:
        quotes: dict[str, str] = {}
        for case in cases:
            quotes |= {**quoted(case.answers), **case.metric.quotes(case.trace, case.answers)}
        answer = await judge.ask(call.prompt(transcript, quotes, objection), call.schema, models=cases[0].models)
        attempt.usage += answer.usage
    for case, usage in zip(cases, shares(attempt.usage, len(cases)), strict=True):
        case.asked(questions)
        case.usage += usage
        case.outcome = attempt.outcome
    if attempt.outcome is not None:
        return
    answers = call.read(answer.value)
    for case in cases:
        own = case.of(questions)
        objected = case.hear({x.key: answers[x.key] for x in own}, answer.model)
        if objected is None:
            continue
        if objection:
            case.outcome = outcome_of(JudgeAnswerError(f"{objected} It had been asked twice."))
        else:
            await _ask([case], own, judge, transcript, objected)


def shares(usage: JudgeUsage, count: int) -> list[JudgeUsage]:
    """`usage` in `count` parts as equal as whole numbers allow, whose sum it is: what a shared call costs each metric.

    >>> [x.input_tokens for x in shares(JudgeUsage(calls=1, input_tokens=11), 3)]
    [4, 4, 3]
    """

    def part(total: int, place: int) -> int:
        return total // count + (place < total % count)

    cost_usd = None if usage.cost_usd is None else usage.cost_usd / count
    return [
        JudgeUsage(
            part(usage.calls, place),
            part(usage.input_tokens, place),
            part(usage.output_tokens, place),
            cost_usd,
            part(usage.cached, place),
        )
        for place in range(count)
    ]
