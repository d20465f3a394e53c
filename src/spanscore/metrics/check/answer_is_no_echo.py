"""Answer is no echo: does the final output say more than the question over again?"""

import itertools
import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import ClassVar

from spanscore.metrics._evidence import Evidence
from spanscore.metrics.check._check import Check, Finding, not_applicable, shown, user_texts
from spanscore.model.score import Skip
from spanscore.model.trace import AgentTrace

_SIGN = re.compile(r"[\W_]+")
_QUESTION = re.compile(r"[?\uff1f\u061f\xbf]|\d")
_MAX_CHARS = 20_000
_LEAST_CHARS = 12
_CERTAIN_CHARS = 40
_REPEATING = re.compile(
    r"\b(?:repeat\w*|echo\w*|say|copy|print|quote|spell\w*|verbatim|wiederhol\w*|sage?|répèt\w*|"
    r"dis|dites|repit\w*|repet\w*|di|dime|diga)\b|重复|复述|繰り返|言って",
    re.IGNORECASE,
)
_WORKS_ON_TEXTS = re.compile(
    r"(?<!not )(?<!never )(?<!n't )(?:"
    r"\b(?:translate|proofread|spell-?check|übersetz(?:e|t|en)?|tradu(?:ce|cir|zca|ci|is|isez|ire))\b"
    r"|\b(?:re-?format|format|correct|rewrite|rephrase|normali[sz]e|transcribe|anonymi[sz]e|redact|"
    r"clean(?: up)?) (?:the|this|these|my|all|any|each|every|everything|what|whatever) "
    r"(?!(?:\w+ ){0,2}(?:answer|response|output|repl|result|final|date|price|number|amount|user\b))"
    r"|\b(?:correct|check|fix) (?:the |my |all )?(?:grammar|spelling|texts?)\b"
    r"|\b(?:korrigier|formatier|corrig)(?:en?|er|ez|t|ir|i) "
    r"(?:d[eiau][ersn]|alle|meine?n?|was|l[aeo]s?|il|mon|ma|mes|mis?|tout)\b"
    r"|\b(?:repeat|echo)(?: back)? (?:what|whatever|all|everything|every)\b)"
    r"|\b(?:spell(?:ing)?[- ]?checker|grammar checker|proofreader|"
    r"corrected (?:text|version|sentence)s?)\b"
    r"|\b(?:translator|übersetzer|traductor|traducteur|traduttore)\b|翻译|校对|翻訳|校正",
    re.IGNORECASE,
)


@dataclass(frozen=True)
class AnswerIsNoEcho(Check):
    """Whether the final output is something else than the user's input, once or several times,
    letter for letter.

    Case, spaces and punctuation do not count. A short input that asks nothing, such as a greeting,
    may be answered by itself, and one that asks for a repetition must be: there the check does not
    apply. Nor does it where the agent's instructions, or the user earlier in the conversation, have
    it translate, correct or format a text ("correct the grammar", "format this"), which may come
    out as it was; a word on the form of the answers ("format the answer") is no such request.

    >>> AnswerIsNoEcho().threshold
    0.5
    """

    name: ClassVar[str] = "check.answer_is_no_echo"
    summary: ClassVar[str] = "Is the final output something else than the question over again?"
    needs: ClassVar[tuple[str, ...]] = ("user_input", "final_output")
    weighs: ClassVar[tuple[str, ...]] = ("system_instructions", "history")
    fine: ClassVar[str] = "The final output is not the user's input."

    def look(self, evidence: Evidence) -> Iterable[Finding] | Skip:
        """See `Check.look`."""
        request = evidence.trace.user_input or ""
        requested, answer = _letters(request), _letters(evidence.trace.final_output or "")
        if not _can_be_echoed(request, requested):
            return not_applicable(
                "The user's input is too short, or asks for words to be repeated."
            )
        if not answer or answer.replace(requested, ""):
            return ()
        if _works_on_texts(evidence.trace):
            return not_applicable("The agent is to work on what the user writes.")
        return [
            Finding(
                "the final output is the user's input over again:"
                f" {shown(evidence.trace.final_output)}"
            )
        ]


def _works_on_texts(trace: AgentTrace) -> bool:
    """Whether the instructions, or what the user said, have the agent give a text back."""
    texts = itertools.chain((trace.system_instructions or "",), user_texts(trace))
    return any(_WORKS_ON_TEXTS.search(text[:_MAX_CHARS]) for text in texts)


def _can_be_echoed(request: str, letters: str) -> bool:
    if _REPEATING.search(request):
        return False
    return len(letters) >= (_LEAST_CHARS if _QUESTION.search(request) else _CERTAIN_CHARS)


def _letters(text: str) -> str:
    return _SIGN.sub("", text[:_MAX_CHARS]).casefold()
