"""Is an answer the expected one? Asked of a judge, or held against it word by word where there is none."""

from dataclasses import dataclass
from typing import ClassVar

from spanscore.metrics._base import Judged, Judgement, Question, Threshold
from spanscore.metrics._evidence import Evidence
from spanscore.metrics._vocabulary import Vocabulary
from spanscore.metrics._words import content_words, counted, listed, phrases, plain
from spanscore.model.score import Outcome, Score

_QUESTION = Question(
    "answer_correctness",
    """\
Is the agent's answer the expected one? Compare what the two say, not how: another language, other words, another \
order, another way to write a number, a date or a unit, more courtesy or further true detail cost nothing. What the \
expected answer states must be in the answer or follow from it. What contradicts it, names another value, leaves it \
open or offers several values where one is expected is wrong, however close the wording. The expected answer is right \
by definition: do not correct it from what you know. Where it is a refusal or a question, the answer must be one too.
Guide: 1.0 says all that is expected; 0.75 to 0.99 leaves out or blurs something minor; 0.4 to 0.65 says a part of \
what matters, or a value that is not exact; 0.1 to 0.35 hardly touches it; 0 says something else, contradicts it, or \
refuses where an answer is expected.""",
    Judgement,
)
_MAX_SCORE_OF_WORDS = 0.9
"""Of an answer that has all words but not the phrase: nobody has understood either of the two."""
_DOUBTFUL = 0.5
_NEGATIONS = phrases(
    "no\nnot\nnever\nnone\nnobody\nnothing\ncannot\nwithout\nunable\ncan't\nwon't\nisn't\ndidn't\ndoesn't"
)
_DIRECTIONS = phrases("from\nto\nbefore\nafter\nthan\nmore\nless\nfewer\nabove\nbelow\nover\nunder\nbuy\nsell")


@dataclass(frozen=True)
class AnswerCorrectness(Judged):
    """How far the final output of a turn is the answer that a test expects of it; `expected` is that answer."""

    name: ClassVar[str] = "answer_correctness"
    summary: ClassVar[str] = "Is the answer the expected one?"
    needs: ClassVar[tuple[str, ...]] = ("final_output",)
    stages: ClassVar[tuple[tuple[Question, ...], ...]] = ((_QUESTION,),)

    threshold: Threshold = 0.7
    expected: str = ""

    def measure_by_rules(self, evidence: Evidence) -> Outcome:
        """By the words of both, without case and punctuation.

        1.0 where the answer holds the expected one word for word, or is it. Else 0.9 times the share of the expected
        content words that the answer holds in some form ("two" is 2); and at most 0.5 where a number is missing, where
        a sentence that shares words denies something and the expected answer does not, or the other way round, or
        where the order may matter (from, to, before, more, …). An expected answer of nothing but common words, such as
        "yes", must be how the answer begins. It compares words and understands neither: keep expected answers to the
        words and numbers that must be there, or configure a model.
        """
        expected, answer = plain(self.expected), evidence.answer
        words = content_words(expected)
        if _begins(answer, expected) if not words else _flat(expected) in _flat(answer):
            if _denies(expected) == _denies(_around(evidence.trace.final_output or "", words)):
                return _scored(1.0, "The answer holds the expected one word for word.")
            return _scored(_DOUBTFUL, "The answer holds the expected one, but denies something around it.")
        if not words:
            return _scored(0.0, f"The answer does not begin with {self.expected[:80]!r}.")
        said = Vocabulary(answer.split())
        missing = [x for x in words if not said.holds(x)]
        value = _MAX_SCORE_OF_WORDS * (1 - len(missing) / len(words))
        doubts = [f"missing: {listed(missing)}"] if missing else []
        doubts += _doubts(expected, evidence.trace.final_output or "", words, missing)
        if len(doubts) > bool(missing):
            value = min(value, _DOUBTFUL)
        return _scored(
            value, f"{counted(len(words) - len(missing), 'word')} of {len(words)} are there; {listed(doubts)}"
        )


def _scored(value: float, reason: str) -> Score:
    return Score(round(value, 4), f"{reason.rstrip('; ')} (by rules, which compare words)", {"by_rules": True})


def _doubts(expected: str, answer: str, words: list[str], missing: list[str]) -> list[str]:
    """Why an answer may be wrong though it has the words."""
    found = []
    if any(x.isdigit() for x in missing):
        found.append("a number is not the expected one")
    if not missing or len(missing) < len(words):
        if _denies(expected) != _denies(_around(answer, words)):
            found.append("only one of the two denies something")
        if any(x in expected for x in _DIRECTIONS):
            found.append("the order of the words may matter")
    return found


def _flat(plain_text: str) -> str:
    return f" {' '.join(plain_text.split())} "


def _begins(answer: str, expected: str) -> bool:
    return bool(expected.split()) and _flat(answer).startswith(_flat(expected))


def _denies(plain_text: str) -> bool:
    flat = _flat(plain_text)
    return any(x in flat for x in map(_flat, _NEGATIONS))


def _around(answer: str, words: list[str]) -> str:
    """The sentences of `answer` that hold any of `words`, as `plain` gives them; all of it for no words."""
    sentences = [plain(x) for x in answer.replace("!", ".").replace("?", ".").replace("\n", ".").split(". ")]
    return " ".join(x for x in sentences if not words or any(map(Vocabulary(x.split()).holds, words)))
