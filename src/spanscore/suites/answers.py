"""Asks the judge whether an answer is the expected one; each interaction by itself, with nothing of another's."""

import asyncio
import functools
from dataclasses import replace
from typing import NamedTuple

from spanscore.evaluate.attempt import Attempt
from spanscore.evaluate.judging import Case, staged
from spanscore.evaluate.unjudged import no_judge
from spanscore.judge.config import RULES, Config
from spanscore.judge.excerpt import excerpt
from spanscore.judge.port import Judge
from spanscore.metrics.expected_answer import AnswerCorrectness
from spanscore.metrics.session.agentic import Interaction
from spanscore.model.score import Evaluator, Failure, JudgeUsage, Outcome, Score

_NOBODY = Evaluator("CODE", "agentic", "1")


class Ruling(NamedTuple):
    """What came of one answer, who judged it, and what that cost."""

    outcome: Outcome
    evaluator: Evaluator
    usage: JudgeUsage = JudgeUsage()


class Answers:
    """The judge of answers. Belongs to one event loop."""

    def __init__(self, judge: Judge | None, config: Config, model: str | None = None) -> None:
        """`judge` None: no answer can be judged. `model` is asked in place of the judge's own."""
        self._judge = None if model == RULES else judge
        self._model = model
        self._excerpt = functools.partial(excerpt, max_tokens=config.max_transcript_tokens, rules=config.redact.rules)

    async def rule(self, interaction: Interaction) -> Ruling | None:
        """Judge the interaction's answer; None where none is expected."""
        if interaction.expected_answer is None:
            return None
        metric = AnswerCorrectness(expected=interaction.expected_answer, model=self._model)
        if self._judge is None:
            return Ruling(no_judge(metric.name), _NOBODY)
        case = Case(metric, interaction.trace)
        with Attempt("comparing an answer") as attempt:
            texts = {
                "User input": interaction.trace.user_input,
                "Answer of the agent": interaction.trace.final_output,
                "Expected answer": interaction.expected_answer,
            }
            shown = await asyncio.to_thread(self._excerpt, texts)
            await staged(case, self._judge, shown.text)
            attempt.outcome = case.outcome
            if shown.elided and isinstance(case.outcome, Score):
                metadata = {**case.outcome.metadata, **shown.metadata}
                attempt.outcome = replace(case.outcome, metadata=metadata)
        return Ruling(attempt.outcome or _none(), case.evaluator, case.usage)


def summed(rulings: list[Ruling]) -> tuple[Evaluator, JudgeUsage]:
    """Who judged the answers of a conversation, and what all of them cost together."""
    evaluator = next((x.evaluator for x in rulings), _NOBODY)
    return evaluator, sum((x.usage for x in rulings), JudgeUsage())


def _none() -> Failure:
    return Failure("NoOutcomeError", "the judge gave no outcome")
