"""Is an answer the expected one?

Asked of a judge, or held against it word by word where there is none.
"""

from dataclasses import dataclass
from typing import ClassVar

from spanscore.metrics._base import Judged, Judgement, Question, Threshold

_QUESTION = Question(
    "answer_correctness",
    """\
Is the agent's answer the expected one? Compare what the two say, not how: another language, other \
words, another order, another way to write a number, a date or a unit, more courtesy or further \
true detail cost nothing. What the expected answer states must be in the answer or follow from it. \
What contradicts it, names another value, leaves it open or offers several values where one is \
expected is wrong, however close the wording. The expected answer is right by definition: do not \
correct it from what you know. Where it is a refusal or a question, the answer must be one too.
Guide: 1.0 says all that is expected; 0.75 to 0.99 leaves out or blurs something minor; 0.4 to \
0.65 says a part of what matters, or a value that is not exact; 0.1 to 0.35 hardly touches it; 0 \
says something else, contradicts it, or refuses where an answer is expected.""",
    Judgement,
)


@dataclass(frozen=True)
class AnswerCorrectness(Judged):
    """How far the final output of a turn is the answer that a test expects of it; `expected` is
    that answer.
    """

    name: ClassVar[str] = "answer_correctness"
    summary: ClassVar[str] = "Is the answer the expected one?"
    needs: ClassVar[tuple[str, ...]] = ("final_output",)
    stages: ClassVar[tuple[tuple[Question, ...], ...]] = ((_QUESTION,),)

    threshold: Threshold = 0.7
    expected: str = ""
