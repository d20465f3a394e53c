"""One judged metric on one subject: the answers had so far, what they cost, and the outcome once
there is one.
"""

import random
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from spanscore.evaluation.asking import Item, Questions, prompt_hash
from spanscore.evaluation.attempt import Attempt
from spanscore.evaluation.models_named import named
from spanscore.metrics import Judged, OfCalls, Question
from spanscore.model.score import Evaluator, Failure, JudgeUsage, Outcome, Score
from spanscore.model.trace import AgentTrace, Session


class Case:
    """One judged metric on one subject.

    Of a question about tool calls one by one at most `max_calls` calls are put to the judge: a
    sample that is drawn by the subject's id, so that another run, or another replica, draws the
    same.
    """

    def __init__(
        self, metric: Judged, subject: AgentTrace | Session, *, max_calls: int | None = None
    ) -> None:
        self.metric = metric
        self.subject = subject
        self.answers: dict[str, Any] = {}
        self.outcome: Outcome | None = None
        self.usage = JudgeUsage()
        self._calls = len(subject.tool_calls or ()) if isinstance(subject, AgentTrace) else 0
        self._drawn = drawn(self._calls, max_calls, subject.id)
        self._of_calls: dict[Question, dict[int, Any]] = {}
        self._planned: list[Questions] = []
        self._answering: dict[str, None] = {}

    @property
    def models(self) -> tuple[str, ...]:
        """The models to ask, as `Judge.ask` takes them."""
        return (self.metric.model,) if self.metric.model else ()

    @property
    def answering(self) -> tuple[str, ...]:
        """The models that gave the answers, in the order in which they first did."""
        return tuple(self._answering)

    @property
    def model(self) -> str | None:
        """The models that gave the answers, as a score names them; before there is one, the
        metric's own.
        """
        return named(self._answering) if self._answering else self.metric.model

    @property
    def evaluator(self) -> Evaluator:
        """Who judged: a model, or nobody where the metric needed no answer."""
        if not self._planned:
            return Evaluator("CODE", self.metric.name, self.metric.version)
        hashed = prompt_hash(tuple(self._planned), self.model)
        return Evaluator("LLM", "judge", self.metric.version, model=self.model, prompt_hash=hashed)

    @property
    def has_failed(self) -> bool:
        """Whether the judge gave no usable answer."""
        return self.outcome is None or isinstance(self.outcome, Failure)

    def ready(self) -> list[Question]:
        """The unanswered questions whose needs are answered."""
        return [
            question
            for stage in self.metric.stages
            for question in stage
            if question.key not in self.answers and self.answers.keys() >= set(question.needs)
        ]

    def has_question(self, question: Question) -> bool:
        """Whether this metric asks `question`."""
        return any(question.key == x.key for stage in self.metric.stages for x in stage)

    def items(self, question: Question) -> list[Item]:
        """What is to be answered of `question`: it, or it about every call that was drawn."""
        return [Item(question, x) for x in self._drawn] if question.of_calls else [Item(question)]

    def planned(self, questions: Questions) -> None:
        """Record, for the provenance, that `questions` are asked in one call."""
        self._planned.append(questions)

    def answered_by(self, models: Iterable[str]) -> None:
        """Record, for the provenance, that these models gave answers."""
        self._answering |= dict.fromkeys(models)

    def answered_first_by(self, models: Iterable[str]) -> None:
        """As `answered_by`, of models that were asked before."""
        self._answering = dict.fromkeys(models) | self._answering

    def take(self, answers: Mapping[Item, Any], models: Iterable[str] = ()) -> None:
        """Take in answers of these models, None for a call that cannot be shown, and settle if they
        allow it.
        """
        self.answered_by(models)
        for item, answer in answers.items():
            if item.place is None:
                self.answers[item.question.key] = answer
            else:
                self._of_calls.setdefault(item.question, {})[item.place] = answer
        for question, by_place in self._of_calls.items():
            if len(by_place) == len(self._drawn):
                given = {x: by_place[x] for x in self._drawn if by_place[x] is not None}
                self.answers[question.key] = OfCalls(given, self._calls, len(self._drawn))
        with Attempt(self.metric.name) as attempt:
            attempt.outcome = self.metric.settle(self.subject, self.answers)
        self.outcome = attempt.outcome

    def note(self, facts: Mapping[str, Any]) -> None:
        """Put `facts` on the score, if there is one."""
        if facts and isinstance(self.outcome, Score):
            score = self.outcome
            self.outcome = Score(
                score.value, score.reason, {**score.metadata, **facts}, score.label
            )


def items_of(cases: Sequence[Case], questions: Questions) -> list[Item]:
    """What is to be answered of `questions`, each of which one of `cases` asks, or several that
    draw the same calls.
    """
    return [
        item
        for x in questions
        for item in next(case for case in cases if case.has_question(x)).items(x)
    ]


def drawn(count: int, most: int | None, seed: str) -> Sequence[int]:
    """The places of at most `most` of `count` calls, in order: each set is as likely, and `seed`
    decides which.

    >>> drawn(3, 5, "a trace's id")
    range(0, 3)
    """
    if most is None or count <= most:
        return range(count)
    return sorted(random.Random(seed).sample(range(count), most))  # noqa: S311 - no secret: the same sample each time
