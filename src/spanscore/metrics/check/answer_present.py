"""Answer present: is there a final output?"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

from spanscore.metrics.check._check import Check, Evidence, Finding, shown

_NOTHING = frozenset(("none", "null", "undefined", "nil", "nan", "[object object]"))
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
    with a program's stack trace. What the user asked for does not count.

    >>> AnswerPresent.needs
    ('final_output',)
    """

    name: ClassVar[str] = "check.answer_present"
    summary: ClassVar[str] = "Is the final output more than nothing, `None` or a stack trace?"
    needs: ClassVar[tuple[str, ...]] = ("final_output",)
    fine: ClassVar[str] = "There is an answer."

    def look(self, evidence: Evidence) -> Iterator[Finding]:
        """See `Check.look`."""
        output = (evidence.trace.final_output or "").strip()
        if not output:
            yield Finding("the final output is empty")
        elif output.strip(_QUOTES).casefold() in _NOTHING:
            yield Finding(f"the final output is only {shown(output)}")
        elif _STACK_TRACE.match(output):
            yield Finding(f"the final output is a stack trace: {shown(output)}")
