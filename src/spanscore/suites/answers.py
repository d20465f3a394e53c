"""Asks the judge whether an answer is the expected one; each interaction by itself, with nothing of
another's.
"""

from collections.abc import Collection, Sequence

from spanscore.evaluation.attempt import Attempt
from spanscore.evaluation.case import Case
from spanscore.evaluation.inquiry import Inquiry, Transcripts
from spanscore.evaluation.judging import staged
from spanscore.evaluation.measured import Measured, given
from spanscore.evaluation.unjudged import no_judge
from spanscore.judge.config import Config
from spanscore.judge.excerpt import excerpt
from spanscore.judge.port import Judge
from spanscore.judge.transcript import Transcript
from spanscore.metrics.expected_answer import AnswerCorrectness
from spanscore.metrics.session.agentic import Interaction
from spanscore.model.score import Evaluator, JudgeUsage
from spanscore.model.trace import AgentTrace, Session

_NOBODY = Evaluator("CODE", "agentic", "1")


class Answers:
    """The judge of answers. Belongs to one event loop."""

    def __init__(self, judge: Judge | None, config: Config, model: str | None = None) -> None:
        """`judge` None: no answer can be judged. `model` is asked in place of the judge's own."""
        self._judge = judge
        self._model = model
        self._config = config

    async def rule(self, interaction: Interaction) -> Measured | None:
        """Judge the interaction's answer; None where none is expected."""
        if interaction.expected_answer is None:
            return None
        metric = AnswerCorrectness(expected=interaction.expected_answer, model=self._model)
        if self._judge is None:
            return Measured(no_judge(metric.name), _NOBODY)
        case = Case(metric, interaction.trace)
        with Attempt("comparing an answer") as attempt:
            transcripts = Transcripts(interaction.trace, _Shown(interaction, self._config))
            inquiry = Inquiry(self._judge, transcripts, self._config.max_output_tokens)
            await staged(case, inquiry)
            case.note((await inquiry.transcript()).metadata)
            attempt.outcome = case.outcome
        return Measured(given(attempt.outcome, "the judge"), case.evaluator, case.usage)


class _Shown:
    """Renders of an interaction what an answer is judged by: the input, the answer and the expected
    one.
    """

    def __init__(self, interaction: Interaction, config: Config) -> None:
        self._expected = interaction.expected_answer
        self._config = config

    def __call__(
        self,
        subject: AgentTrace | Session,
        *,
        max_tokens: int | None = None,
        earlier: Sequence[AgentTrace] = (),
        focus: Collection[int] | None = None,
    ) -> Transcript:
        """See `Renderer`; neither the turns before nor tool calls have a part in it."""
        del earlier, focus
        trace = subject.traces[-1] if isinstance(subject, Session) else subject
        texts = {
            "User input": trace.user_input,
            "Answer of the agent": trace.final_output,
            "Expected answer": self._expected,
        }
        longest = max_tokens or self._config.max_transcript_tokens
        return excerpt(texts, max_tokens=longest, rules=self._config.redact.rules)


def summed(rulings: list[Measured]) -> tuple[Evaluator, JudgeUsage]:
    """Who judged the answers of a conversation, and what all of them cost together."""
    evaluator = next((x.evaluator for x in rulings), _NOBODY)
    return evaluator, sum((x.usage for x in rulings), JudgeUsage())
