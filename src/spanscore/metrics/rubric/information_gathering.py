"""Information gathering: was what is needed collected before acting, and what was said used again?"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import ClassVar

from spanscore.metrics._evidence import Evidence
from spanscore.metrics._words import MAX_TEXT_CHARS, content_words, listed, plain
from spanscore.metrics.rubric._criterion import Criterial, Criterion
from spanscore.metrics.rubric._turns import ruled
from spanscore.model.score import Outcome

_QUESTION = re.compile(r"[^.!?\n]{8,400}\?")
_MAX_QUESTIONS = 20
_MAX_TOLD = 500
_LEAST_WORDS = 2
_ALIKE = 0.8


@dataclass(frozen=True)
class InformationGathering(Criterial):
    """Whether the agent collected what it needed before it acted, and did not ask for what it had been told.

    >>> InformationGathering.criterion.display_name
    'Information gathering'
    """

    name: ClassVar[str] = "rubric.information_gathering"
    summary: ClassVar[str] = "Was what is needed collected before acting, and used again once told?"
    criterion: ClassVar[Criterion] = Criterion(
        id="information_gathering",
        display_name="Information gathering",
        description=(
            "Was what is needed collected before the agent acted, and was what the user had said used again? A "
            "question is redundant when its answer had been given or could be looked up with the tools on offer; it "
            "is not when the instructions demand it, as they may demand a confirmation."
        ),
        tier="process",
        weight=0.10,
        levels=(
            "Nothing of what was needed was collected before the agent acted.",
            "Most of what was needed was not collected.",
            "There are several gaps: facts that were missing when the agent acted, or that were told and forgotten.",
            "One fact that was required was missing when the agent acted, or one that was told was forgotten.",
            "There is one redundant question, or one minor miss without consequence.",
            "All that was needed was there before the agent acted, and nothing was asked twice.",
        ),
        no_occasion="nothing had to be asked or looked up, and nothing said before had to be used again",
        in_defaults=True,
    )

    def measure_by_rules(self, turns: Sequence[Evidence]) -> Outcome:
        """Counts the questions that the agent asks again.

        A question is a sentence of the final output that ends in a question mark and has two content words or more; it
        is asked again when one of an earlier turn shares four fifths of the words of both. None is 4 (whether all was
        asked that was needed cannot be told), one is 3, up to three are 2, more are 1.
        """
        told: list[tuple[int, frozenset[str]]] = []
        repeated: list[str] = []
        at_fault: list[int] = []
        for index, turn in enumerate(turns):
            asked = list(_questions(turn.trace.final_output or ""))
            for text, words in asked:
                first = next((place for place, before in told if _alike(words, before)), None)
                if first is not None:
                    repeated.append(f"[turn {index}] asks what was asked in [turn {first}]: {text}")
                    at_fault.append(index)
            told = [*told, *((index, words) for _, words in asked)][-_MAX_TOLD:]
        level = 4 if not repeated else 3 if len(repeated) == 1 else 2 if len(repeated) <= 3 else 1
        reason = listed(repeated) or "No question was asked twice"
        return ruled(self.criterion, level, f"{reason}.", at_fault, "question_repeated")


def _questions(text: str) -> Iterator[tuple[str, frozenset[str]]]:
    """The questions in `text` that say what they ask, each with its content words."""
    for found in islice(_QUESTION.finditer(text[:MAX_TEXT_CHARS]), _MAX_QUESTIONS):
        words = frozenset(content_words(plain(found[0])))
        if len(words) >= _LEAST_WORDS:
            yield found[0].strip(), words


def _alike(one: frozenset[str], other: frozenset[str]) -> bool:
    return len(one & other) >= _ALIKE * len(one | other)
