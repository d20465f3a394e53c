"""Answer is no echo: does the final output say more than the question over again?"""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import ClassVar

from spanscore.metrics._evidence import Evidence
from spanscore.metrics.check._check import Check, Finding, not_applicable, shown
from spanscore.model.score import Skip

_SIGN = re.compile(r"[\W_]+")
_ASKS = re.compile(r"[?\uff1f\u061f\xbf]|\d")
_LEAST_CHARS = 12
_CERTAIN_CHARS = 40
_REPEATING = re.compile(
    r"\b(?:repeat|echo|say|copy|print|quote|spell|verbatim|wiederhol|sag|répèt|dis|repit|repet|di)\w*|重复|复述|繰り返|言って",
    re.IGNORECASE,
)


@dataclass(frozen=True)
class AnswerIsNoEcho(Check):
    """Whether the final output is something else than the user's input, once or several times,
    letter for letter.

    Case, spaces and punctuation do not count. A short input that asks nothing, such as a greeting,
    may be answered by itself, and one that asks for a repetition must be: there the check does not
    apply.

    >>> AnswerIsNoEcho().threshold
    0.5
    """

    name: ClassVar[str] = "check.answer_is_no_echo"
    summary: ClassVar[str] = "Is the final output something else than the question over again?"
    needs: ClassVar[tuple[str, ...]] = ("user_input", "final_output")
    fine: ClassVar[str] = "The final output is not the user's input."

    def look(self, evidence: Evidence) -> Iterable[Finding] | Skip:
        """See `Check.look`."""
        request = evidence.trace.user_input or ""
        asked, answer = _letters(request), _letters(evidence.trace.final_output or "")
        if not _can_be_echoed(request, asked):
            return not_applicable(
                "The user's input is too short, or asks for words to be repeated."
            )
        if not answer or answer.replace(asked, ""):
            return ()
        return [
            Finding(
                "the final output is the user's input over again:"
                f" {shown(evidence.trace.final_output)}"
            )
        ]


def _can_be_echoed(request: str, letters: str) -> bool:
    if _REPEATING.search(request):
        return False
    return len(letters) >= (_LEAST_CHARS if _ASKS.search(request) else _CERTAIN_CHARS)


def _letters(text: str) -> str:
    return _SIGN.sub("", text[:20_000]).casefold()
