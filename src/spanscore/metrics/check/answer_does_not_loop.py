"""Answer does not loop: does the final output get beyond one passage that it repeats?"""

import itertools
import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import ClassVar

from spanscore.metrics._evidence import Evidence
from spanscore.metrics.check._check import Check, Finding, not_applicable, shown
from spanscore.model.score import Skip

_MAX_CHARS = 100_000
_MAX_WORDS = 2_000
_LONGEST_PASSAGE = 40
_LEAST_TIMES = 8
_LEAST_WORDS = 60  # songs and laughter are shorter
_LEAST_SHARE = 0.5
_LEAST_CHARACTERS = 150  # where a character counts as a word
_REPETITION_WANTED = re.compile(
    r"\d{1,4}|\btimes\b|\b(?:forever|for ever|endless(?:ly)?|non-?stop|over and over|laugh)\b|"
    r"repeat|again and again|wiederhol|répèt|repit|mehrmals|"
    r"(?:zwei|drei|vier|fünf|sechs|sieben|acht|neun|zehn|hundert|tausend)\s?mal\b|"
    r"veces|fois|遍|回|"
    r"\b(?:sing|chorus|refrain|lyrics|mantra|chants?|gedicht|chanson|poème|canci[oó]n|poema)\b|"
    r"\b(?:write|compose|recite|make|give)\b.{0,40}\b(?:song|poem|rhyme)s?\b|(?-i:\bLied\b)|"
    r"歌|诗|詩|"
    r"\b(?:csv|json|rows|tabelle|zeilen)\b|\btables? of\b|"
    r"\b(?:tabla|tableau) (?:de|des) (?:datos|valores|ceros|données|valeurs|zéros)\b|"
    r"\b(?:list|table)\b.{0,40}\b(?:results?|values?|records?|entries|logs?|tests|numbers|data|"
    r"columns?|lines)\b|\b(?:show|print|display|get)\b.{0,40}\blogs?\b",
    re.IGNORECASE,
)
# Chinese and Japanese are written without spaces: there a character counts as a word.
_CHARACTER = re.compile(r"[\u3040-\u30ff\u3400-\u9fff]")
_WORD = re.compile(r"[\u3040-\u30ff\u3400-\u9fff]|[^\s\u3040-\u30ff\u3400-\u9fff]+")


@dataclass(frozen=True)
class AnswerDoesNotLoop(Check):
    """Whether the final output is mostly one passage that follows itself, as models fall into under
    bad settings.

    Found is a passage of 1 to 40 words, letters among them, that follows itself eight times or
    more, over sixty words or more, and makes up half of the output. The first 2,000 words are
    looked at. In Chinese and Japanese each character counts as a word, and 150 of them are needed.
    Does not apply where the user's input has a number or asks for a repetition, a song, or a table
    or list of data: then it may have been asked for. Nor is a passage found that a tool returned
    several times over.

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
        if _REPETITION_WANTED.search(evidence.trace.user_input or ""):
            return not_applicable("The user may have asked for a repetition.")
        output = (evidence.trace.final_output or "")[:_MAX_CHARS].casefold()
        words = [x[0] for x in itertools.islice(_WORD.finditer(output), _MAX_WORDS)]
        for period in range(1, min(_LONGEST_PASSAGE, len(words) // _LEAST_TIMES) + 1):
            times, end = _longest_run(words, period)
            passage = " ".join(words[end - period : end])
            least = _LEAST_CHARACTERS if _CHARACTER.search(passage) else _LEAST_WORDS
            is_most = times * period >= max(least, _LEAST_SHARE * len(words))
            if times >= _LEAST_TIMES and is_most and any(map(str.isalpha, passage)):
                if _was_returned(evidence, words[end - period : end]):
                    return ()
                return [Finding(f"{shown(passage)} follows itself {times} times")]
        return ()


def _was_returned(evidence: Evidence, passage: list[str]) -> bool:
    """Whether a tool returned a passage several times over, so that the answer shows data."""
    text = "".join(passage)
    return any(
        "".join(_WORD.findall(x[:_MAX_CHARS].casefold())).count(text) > 1
        for x in evidence.raw_results
    )


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
