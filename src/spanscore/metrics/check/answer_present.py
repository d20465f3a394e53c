"""Answer present: is there a final output that is more than nothing?"""

import re
import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

from spanscore.metrics._evidence import Evidence
from spanscore.metrics.check._check import Check, Finding, shown
from spanscore.model.json import loads

_MAX_READ_CHARS = 2_000
_EMPTY_STRUCTURES = frozenset(("{}", "[]"))  # which programs ask for
_NOTHING = frozenset(("none", "null", "undefined", "nil", "nan", "[object object]"))
_OF_ERRORS = frozenset(
    ("error", "message", "code", "status", "status_code", "detail", "details", "type", "success")
)
_TECHNICAL_ERROR = re.compile(
    r"(?:fatal |internal )?(?:server )?error\b[^\n]{0,200}"
    r"(?:status code|https? \d{3}|\b50\d\b|ECONN|undefined|null pointer)[^\n]{0,200}"
    r"|internal server error\.?",
    re.IGNORECASE,
)
_NONE_OF_THEM = re.compile(r"\b(?:which|what|any|anything|how many|who|whom|list)\b", re.IGNORECASE)
_STACK_TRACE = re.compile(
    r"Traceback \(most recent call last\)|panic: |goroutine \d+ \[|Unhandled exception\b|Exception"
    r" in thread \""
    r"|(?:[\w.]+\.)?\w*(?:Error|Exception): [^\n]{0,300}\n\s+at "
)
_SPEAKS_OF_ERRORS = re.compile(
    r"error|exception|traceback|raise|throw|fehler|erreur|excepci|错误|异常|エラー|例外",
    re.IGNORECASE,
)
_BARE_ERROR = re.compile(
    r"(?:[\w.]+\.)?[A-Z]\w*(?:Error|Exception|Timeout)(?:: [^\n]{0,500}|\([^\n]{0,500}\))?"
)


@dataclass(frozen=True)
class AnswerPresent(Check):
    """Whether the final output is an answer at all.

    Found are an output without a letter, digit or sign in it; one that is nothing but `None`,
    `null`, `undefined`, `nil` or `NaN`, as programs print a value that is not there; and one that
    is a program's stack trace, bare exception, technical error or JSON object of an error. Where
    the user speaks of such a word, or asks which or how many there are, it may be the answer.
    Whether an answer is right, kind or to the point is not looked at.

    >>> AnswerPresent.needs
    ('final_output',)
    """

    name: ClassVar[str] = "check.answer_present"
    summary: ClassVar[str] = "Is the final output more than nothing, `None` or a stack trace?"
    needs: ClassVar[tuple[str, ...]] = ("final_output",)
    weighs: ClassVar[tuple[str, ...]] = ("user_input",)
    fine: ClassVar[str] = "There is an answer."

    def look(self, evidence: Evidence) -> Iterator[Finding]:
        """See `Check.look`."""
        trace = evidence.trace
        output = (trace.final_output or "").strip()
        request = trace.user_input or ""
        if output in _EMPTY_STRUCTURES:
            return
        if not any(unicodedata.category(x)[0] in "LNS" for x in output[:_MAX_READ_CHARS]):
            yield Finding(
                "the final output is empty"
                if not output
                else f"the final output is only {shown(output)}"
            )
        elif output.casefold() in _NOTHING:
            if not _may_be_the_answer(output, request):
                yield Finding(f"the final output is only {shown(output)}")
        elif _is_error(output) and not _SPEAKS_OF_ERRORS.search(request):
            yield Finding(f"the final output is a program's error: {shown(output)}")


def _may_be_the_answer(output: str, request: str) -> bool:
    if output.casefold() in request.casefold():
        return True
    return output.casefold() in {"none", "nil"} and _asks_for_some(request)


def _asks_for_some(request: str) -> bool:
    """Whether a request asks which of something there are: a single "What is …" does not."""
    found = {x.casefold() for x in _NONE_OF_THEM.findall(request)}
    return bool(found - {"what"})


def _is_error(output: str) -> bool:
    beginning = output[:_MAX_READ_CHARS]
    if (
        _STACK_TRACE.match(output)
        or _BARE_ERROR.fullmatch(beginning)
        or _TECHNICAL_ERROR.fullmatch(beginning)
    ):
        return True
    return output.startswith("{") and _is_error_object(beginning)


def _is_error_object(text: str) -> bool:
    """Whether a text is a JSON object that holds an error and nothing else."""
    try:
        value = loads(text)
    except ValueError:
        return False
    return isinstance(value, dict) and "error" in value and _OF_ERRORS.issuperset(value)
