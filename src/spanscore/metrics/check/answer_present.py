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
_NOTHING = frozenset(
    ("none", "null", "undefined", "nil", "nan", "[object object]", "(no content)", "(empty)")
)
_QUOTES = "`\"'*"
_SMILEY = re.compile(r"[:;=]['\-]?[()|/\[\]]+|\(:")
_ASKS_FOR_SIGNS = re.compile(
    r"punctuation|\b(?:signs?|stars?|rat(?:e|ing)|symbols?|characters?|marks?|ascii)\b",
    re.IGNORECASE,
)
_MODELS_OWN = re.compile(
    r"<(think(?:ing)?|tool_calls?|function_calls?)>.*?(?:</\1>|\Z)|<\|[\w ]{1,40}\|>|</?s>",
    re.DOTALL,
)
"""What a model writes for itself and for programs: its thinking, tool calls, and <|im_end|>."""
_GAVE_UP = re.compile(r"agent stopped due to [\w ]{1,60}\.?", re.IGNORECASE)
"""What agent frameworks return in place of an answer when they end a loop."""
_OF_ERRORS = frozenset(
    ("error", "message", "code", "status", "status_code", "detail", "details", "type", "success")
)
_TECHNICAL_ERROR = re.compile(
    r"(?:fatal |internal )?(?:server )?error\b[^\n]{0,200}"
    r"(?:status code|https? \d{3}|\b50\d\b|ECONN|undefined|null pointer)[^\n]{0,200}"
    r"|internal server error\.?",
    re.IGNORECASE,
)
_MAX_SIGNS = 10  # more may be a line or a picture
_OF_PROGRAMS = re.compile(
    r"json|javascript|typescript|python|\bruby\b|\bsql\b|typeof|console\.log", re.IGNORECASE
)
_PART_OF_PROGRAM = re.compile(
    r"\b(?:functions?|methods?|variables?|expressions?|scripts?|snippets?|arrays?|loops?|lambdas?|"
    r"source code|(?:this|following) code|code (?:above|below)|funktion|ausdruck|skript|fonction|"
    r"función|funzione)\b|[a-z_]\((?!e?s\))|[=!]=|函数|变量|表达式|代码|関数|変数|コード",
    re.IGNORECASE,
)
_DEED_OF_PROGRAM = re.compile(
    r"\b(?:result of|value of|returns?|prints?|outputs?|evaluates?|evaluated|yields?|logs?|"
    r"liefert|ergibt|renvoie|affiche|devuelve|imprime|restituisce|stampa)\b|返回|打印|输出|返す|出力",
    re.IGNORECASE,
)
_SETTING = re.compile(
    r"\b(?:default|initial) values?\b|\bconfig\w*|\benvironment variable|\benv var|"
    r"\b(?:fields?|attributes?|propert(?:y|ies)|parameters?)\b",
    re.IGNORECASE,
)
"""What programs may leave without a value."""
_UNDEFINED_SUM = re.compile(
    r"\d\s?[/÷:]\s?0(?![\d.:/])|\b(?:tan|log|ln|sqrt|a(?:rc)?(?:sin|cos))\b|square root|infinity|"
    r"\bby (?:zero|0)\b",
    re.IGNORECASE,
)
_NONE_OF_THEM = re.compile(
    r"\b(?:which|what|any|anything|how many|who|whom|list|(?:show|find|display|get)(?: me)? all|"
    r"(?:is|are) there|do (?:i|we|you) have|does \w+ have)\b",
    re.IGNORECASE,
)
_STACK_TRACE = re.compile(
    r"Traceback \(most recent call last\)|panic: |goroutine \d+ \[|Unhandled exception\b|Exception"
    r" in thread \""
    r"|(?:[\w.]+\.)?\w*(?:Error|Exception): [^\n]{0,300}\n\s+at "
)
_SPEAKS_OF_ERRORS = re.compile(
    r"error|exception|traceback|stack ?trace|\bapis?\b (?:respond|return|answer)|raise|"
    r"throw|fehler|erreur|excepci|"
    r"\b(?:the|my|a|last|latest|server|build) logs?\b(?! ?in\b)|错误|异常|报错|エラー|例外",
    re.IGNORECASE,
)
_FAILS = re.compile(
    r"wrong|fail|crash|broke|\bbugs?\b|happen|schief|kaputt|abst[uü]rz|passiert|panne|plant|fall[aó]|"
    r"失败|失敗|不具合",
    re.IGNORECASE,
)
_FAILING_PROGRAM = re.compile(
    r"\b(?:scripts?|jobs?|workflows?|process|containers?|builds?|compil\w*|deploy\w*|pipelines?|"
    r"unit tests?|tests|functions?|skript|(?:my|this|the) (?:code|program|notebook|query))\b|"
    r"程序|脚本|代码|构建|プログラム|スクリプト|コード|ビルド",
    re.IGNORECASE,
)
_WHAT_WENT_WRONG = re.compile(
    r"(?:and |so )?(?:what(?: went|['\u2019]s| is| was) wrong|what happened|"
    r"was ist (?:schiefgelaufen|schief gelaufen|schiefgegangen|passiert))\W{0,5}",
    re.IGNORECASE,
)
_BARE_ERROR = re.compile(
    r"(?:(?:[\w.]+\.)?[A-Z]\w*(?:Error|Exception|Timeout)|Exception)"
    r"(?:: [^\n]{0,500}|\([^\n]{0,500}\))?"
)


@dataclass(frozen=True)
class AnswerPresent(Check):
    """Whether the final output is an answer at all.

    Found are an output without a letter, digit or symbol in it, of at most ten characters; one that
    is nothing but `None`, `null`, `undefined`, `nil` or `NaN`, as programs print a value that is
    not there, or `(no content)`; nothing but a model's thinking (`<think>…</think>`), tool calls
    (`<tool_call>…`) or marks (`<|im_end|>`); "Agent stopped due to iteration limit"; and one that
    is a program's stack trace, bare exception, technical error or JSON object of an error. It may
    be the answer where the user's input asks for signs, contains such a word, asks what a part of a
    program returns or prints, or for a setting, speaks of errors, asks why a program failed or just
    "What went wrong?", or asks which or how many there are. Whether an answer is right, kind or to
    the point is not looked at.

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
        output = (evidence.trace.final_output or "").strip()
        fault = _fault(output, evidence.trace.user_input or "")
        if fault:
            yield Finding(f"the final output is {fault}")


def _fault(output: str, request: str) -> str | None:
    """What an output is in place of an answer; None where it may be one."""
    if not output:
        return "empty"
    if output in _EMPTY_STRUCTURES:
        return None
    if _is_without_words(output, request) or _is_nothing(output, request):
        return f"only {shown(output)}"
    if _MODELS_OWN.search(output) and not _MODELS_OWN.sub("", output).strip():
        return (
            None
            if output in request
            else f"only a model's thinking, marks or tool calls: {shown(output)}"
        )
    if _is_error(output) and not _asks_for_an_error(request):
        return f"a program's error: {shown(output)}"
    return None


def _is_nothing(output: str, request: str) -> bool:
    word = output.strip(_QUOTES).casefold()
    parts = set(word[:_MAX_READ_CHARS].split())
    if word not in _NOTHING and not (parts and parts <= _NOTHING - {"nil"}):
        return False
    return not _may_be_the_answer(word, request)


def _is_without_words(output: str, request: str) -> bool:
    """Whether an output is a few marks of punctuation that nobody asked for."""
    if _SMILEY.fullmatch(output) or _ASKS_FOR_SIGNS.search(request):
        return False
    signs = "".join(output[:_MAX_READ_CHARS].split())
    if len(signs) > _MAX_SIGNS:
        return False
    return not any(unicodedata.category(x)[0] in "LNS" for x in signs)


def _may_be_the_answer(output: str, request: str) -> bool:
    word = output.casefold()
    if re.search(rf"(?<![a-z]){re.escape(word)}(?![a-z])", request.casefold()):
        return True
    if word in {"none", "nil"} and _requests_some(request):
        return True
    if word in {"nan", "undefined"} and _UNDEFINED_SUM.search(request):
        return True
    return _asks_about_a_program(request)


def _asks_about_a_program(request: str) -> bool:
    """Whether a request names a language of programs or a setting, or what a part of a program
    returns.
    """
    if _OF_PROGRAMS.search(request) or _SETTING.search(request):
        return True
    return bool(_PART_OF_PROGRAM.search(request) and _DEED_OF_PROGRAM.search(request))


def _asks_for_an_error(request: str) -> bool:
    """Whether a request speaks of errors as programs report them, or asks why a program fails."""
    if _SPEAKS_OF_ERRORS.search(request) or _WHAT_WENT_WRONG.fullmatch(request.strip()):
        return True
    return bool(_FAILS.search(request) and _FAILING_PROGRAM.search(request))


def _requests_some(request: str) -> bool:
    """Whether a request asks which of something there are: a single "What is …" does not."""
    found = {x.casefold() for x in _NONE_OF_THEM.findall(request)}
    return bool(found - {"what"})


def _is_error(output: str) -> bool:
    beginning = output[:_MAX_READ_CHARS]
    if (
        _STACK_TRACE.match(output)
        or _BARE_ERROR.fullmatch(beginning)
        or _TECHNICAL_ERROR.fullmatch(beginning)
        or _GAVE_UP.fullmatch(beginning)
    ):
        return True
    return output.startswith("{") and _is_error_object(beginning)


def _is_error_object(text: str) -> bool:
    """Whether a text is a JSON object that holds an error and nothing else."""
    try:
        value = loads(text)
    except ValueError:
        return False
    if not isinstance(value, dict) or not _OF_ERRORS.issuperset(value):
        return False
    return "error" in value or value.get("status") == "error"
