"""Tell a failed look-up from one that returned what was looked up: a log, a page or a job that
speaks of an error.
"""

import re
from collections.abc import Iterator
from itertools import islice

from spanscore.model.json import Json
from spanscore.model.tool_names import effect, name_words
from spanscore.turns.basis.errors import inferred_error

_ERRONEOUS_WORDS = (
    "alert alerts ci comment comments crash crashes email emails error errors event events"
    " exception exceptions failed failure failures inbox incident incidents issue issues journal"
    " log logs mail mails message messages stacktrace test tests thread threads ticket tickets"
    " trace traces transcript"
)
_ERRONEOUS = frozenset(_ERRONEOUS_WORDS.split())
"""What is looked up by a tool whose name has such a word often begins as an error does."""

_FAILING_WORDS = (
    "batch build builds ci delivery deploy deployment deployments import job jobs"
    " payment payments pipeline pipelines process refund run runs sync task tasks test tests"
    " transaction transactions transfer upload workflow workflows"
)
_FAILING = frozenset(_FAILING_WORDS.split())
"""What fails itself, so that a look-up that returns its state has not failed."""

_DOCUMENTS_WORDS = (
    "article articles cat doc docs document documents faq fetch file forum grep guide head kb"
    " knowledge page pages search stackoverflow tail url web website wiki"
)
_DOCUMENTS = frozenset(_DOCUMENTS_WORDS.split())
_SHELL = re.compile(
    r"\s*(?:sudo\s+)?(?:cat|tail|head|z?grep|rg|less|zcat|journalctl|(?:kubectl|docker)\s+logs)\b"
)
_OF_ERRORS = re.compile(
    r"error|exception|traceback|crash|fail|fehler|erreur|\b[45]\d\d\b|\.log\b|\blogs?\b|"
    r"stack.?trace|(?-i:\bE[A-Z]{5,}\b)|错误|异常|エラー|例外",
    re.IGNORECASE,
)
_NO_ACCESS = re.compile(
    r"no such|not found|not exist|denied|unauthorized|forbidden|invalid|missing|required|"
    r"not allowed|outside|rate.?limit|too many requests|quota|api.?key",
    re.IGNORECASE,
)
"""Why a text could not be read."""

_WORD = re.compile(r"\w+")
_LEAST_LINES = 4
_MAX_CHARS = 4_000
_MAX_VALUES = 50


def error_in(name: str, arguments: Json, result: Json) -> str | None:
    """The error that a tool's result contains; None where there is none, or where a look-up
    returned it as what it had looked up.

    That is so where the query has the error's first words; where the tool, by its name, or the
    query is about logs, messages or errors, unless the text says that it could not be read; where
    a page or a file goes on for lines; and where the `status` of a job and the like is `failed`.

    >>> error_in("get_weather", {}, "Error 500: upstream timed out")
    'Error 500: upstream timed out'
    >>> error_in("read_log", {}, "Error 500: upstream timed out")
    >>> error_in("get_job", {}, {"status": "failed", "error": "out of memory"})
    """
    error = inferred_error(result)
    if error is None or not _looks_up(name, arguments):
        return error
    words = frozenset(name_words(name))
    if isinstance(result, str):
        return None if _is_quoted(words, arguments, result) else error
    return None if _is_state(words, result) else error


def _looks_up(name: str, arguments: Json) -> bool:
    if effect(name) in {"reads", "works"}:
        return True
    return any(map(_SHELL.match, _texts(arguments)))


def _is_quoted(words: frozenset[str], arguments: Json, text: str) -> bool:
    """Whether a text that starts as an error is what was looked up."""
    text = text[:_MAX_CHARS].strip()
    asked = list(_texts(arguments))
    if _has_first_words(asked, text):
        return True
    lines = [x for x in text.splitlines() if x.strip()]
    is_cut_off = len(lines) < _LEAST_LINES and _NO_ACCESS.search(text) is not None
    if not _ERRONEOUS.isdisjoint(words) or any(map(_OF_ERRORS.search, asked)):
        return not is_cut_off
    return (
        not _DOCUMENTS.isdisjoint(words)
        and len(lines) >= _LEAST_LINES
        and not lines[1].startswith((" ", "\t", "<", "{"))  # a stack, or an answer's body
    )


def _has_first_words(asked: list[str], text: str) -> bool:
    first = " ".join(_WORD.findall(text.lower())[:2])
    return any(f" {first} " in f" {' '.join(_WORD.findall(x.lower()))} " for x in asked)


def _is_state(words: frozenset[str], result: Json) -> bool:
    """Whether an object is the state of something that failed."""
    is_failed = isinstance(result, dict) and result.get("status") in {"failed", "failure"}
    return is_failed and not (_FAILING | _ERRONEOUS).isdisjoint(words)


def _texts(arguments: Json) -> Iterator[str]:
    """The texts among the arguments, and in their lists."""
    values = arguments.values() if isinstance(arguments, dict) else [arguments]
    for value in islice(values, _MAX_VALUES):
        listed = value if isinstance(value, list) else [value]
        yield from (x[:_MAX_CHARS] for x in islice(listed, _MAX_VALUES) if isinstance(x, str))
