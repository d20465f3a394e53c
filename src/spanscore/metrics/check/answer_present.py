"""Answer present: is there a final output?"""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import ClassVar

from spanscore.metrics.check._check import Check, Evidence, Finding, not_applicable, shown
from spanscore.model.score import Skip

_NOTHING = frozenset(("none", "null", "undefined", "nil", "nan", "[object object]"))
_WHICH = re.compile(r"\b(?:which|how (?:many|much)|any)\b", re.IGNORECASE)
_MAX_REQUEST_CHARS = 20_000
_QUOTES = "`\"'*"
_STACK_TRACE = re.compile(
    r"Traceback \(most recent call last\)|panic: |goroutine \d+ \[|Unhandled exception\b|Exception"
    r" in thread \""
    r"|(?:[\w.]+\.)?\w*(?:Error|Exception): [^\n]{0,300}\n\s+at "
)


@dataclass(frozen=True)
class AnswerPresent(Check):
    """Whether the final output is an answer at all.

    Found are an output that is empty, one that is nothing but `None`, `null`, `undefined`, `nil`,
    `NaN` or `[object Object]`, as programs print a value that is not there, and one that begins
    with a program's stack trace. Does not apply where `None` may be the answer: to a question of
    which, or how many.

    >>> AnswerPresent.needs
    ('final_output',)
    """

    name: ClassVar[str] = "check.answer_present"
    summary: ClassVar[str] = "Is the final output more than nothing, `None` or a stack trace?"
    needs: ClassVar[tuple[str, ...]] = ("final_output",)
    fine: ClassVar[str] = "There is an answer."

    def look(self, evidence: Evidence) -> Iterable[Finding] | Skip:
        """See `Check.look`."""
        output = (evidence.trace.final_output or "").strip()
        bare = output.strip(_QUOTES).casefold()
        request = (evidence.trace.user_input or "")[:_MAX_REQUEST_CHARS]
        if bare == "none" and _WHICH.search(request):
            return not_applicable("None may be the answer to what the user asked.")
        if not output:
            return [Finding("the final output is empty")]
        if bare in _NOTHING:
            return [Finding(f"the final output is only {shown(output)}")]
        if _STACK_TRACE.match(output):
            return [Finding(f"the final output is a stack trace: {shown(output)}")]
        return []
