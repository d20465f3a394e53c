"""Answer does not loop: does the final output get beyond one passage that it repeats?"""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import ClassVar

from spanscore.metrics._evidence import Evidence
from spanscore.metrics.check._check import Check, Finding, not_applicable, shown
from spanscore.model.score import Skip

_MAX_WORDS = 2_000
_LONGEST_PASSAGE = 40
_LEAST_TIMES = 8
_LEAST_WORDS = 60  # songs and laughter are shorter
_LEAST_SHARE = 0.5
_TOLD_TO = re.compile(
    r"\d{1,4}|\btimes\b|repeat|again and again|wiederhol|répèt|repit|mal\b|veces|fois|遍|回"
)


@dataclass(frozen=True)
class AnswerDoesNotLoop(Check):
    """Whether the final output is mostly one passage that follows itself, as models fall into under
    bad settings.

    Found is a passage of 1 to 40 words, letters among them, that follows itself eight times or
    more, over sixty words or more, and makes up half of the output. The first 2,000 words are
    looked at. Does not apply where the user's input has a number or asks for a repetition: then it
    may have been asked for.

    >>> AnswerDoesNotLoop.name
    'check.answer_does_not_loop'
    """

    name: ClassVar[str] = "check.answer_does_not_loop"
    summary: ClassVar[str] = "Does the final output get beyond one passage that it repeats?"
    needs: ClassVar[tuple[str, ...]] = ("final_output",)
    weighs: ClassVar[tuple[str, ...]] = ("user_input",)
    fine: ClassVar[str] = "No passage follows itself again and again."

    def look(self, evidence: Evidence) -> Iterable[Finding] | Skip:
        """See `Check.look`."""
        if _TOLD_TO.search(evidence.trace.user_input or ""):
            return not_applicable("The user may have asked for a repetition.")
        words = (evidence.trace.final_output or "")[:100_000].casefold().split()[:_MAX_WORDS]
        for period in range(1, min(_LONGEST_PASSAGE, len(words) // _LEAST_TIMES) + 1):
            times, end = _longest_run(words, period)
            passage = " ".join(words[end - period : end])
            is_most = times * period >= max(_LEAST_WORDS, _LEAST_SHARE * len(words))
            if times >= _LEAST_TIMES and is_most and any(map(str.isalpha, passage)):
                return [Finding(f"{shown(passage)} follows itself {times} times")]
        return ()


def _longest_run(words: list[str], period: int) -> tuple[int, int]:
    """How many times, at most, a passage of `period` words stands in a row, and where the last of
    these ends.
    """
    longest = run = end = 0
    for place in range(period, len(words)):
        run = run + 1 if words[place] == words[place - period] else 0
        if run > longest:
            longest, end = run, place + 1
    return longest // period + 1, end
