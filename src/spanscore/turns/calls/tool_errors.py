"""Find the error in a tool's result, unless the error belongs to what the tool looked up: to a log,
a page or a job that failed.

The tool's name alone does not decide, since a tool that reads logs fails as any other does. What it
returned has to show that it is data.
"""

import re
from collections.abc import Iterator
from itertools import islice

from spanscore.model.json import Json
from spanscore.model.tool_names import effect, name_words
from spanscore.turns.basis.errors import inferred_error

_FAILING_WORDS = (
    "batch build ci delivery deploy deployment import job payment pipeline process refund run sync"
    " task test transaction transfer upload workflow"
)
_FAILING = frozenset(_FAILING_WORDS.split())
"""What fails itself, so that a look-up that returns its state has not failed."""
_STATES = frozenset({"status", "state", "result", "details", "info"})
_OF_MANY = frozenset({"list", "search", "find", "query"})
_OF_AN_ANSWER_WORDS = (
    "status error message detail details error_message errorMessage code type success ok"
    " status_code statusCode error_code errorCode isError is_error reason title instance"
    " request_id requestId trace_id traceId correlation_id timestamp time path url method tool"
    " retryable retry_after retryAfter hint help suggestion documentation_url stack traceback"
)
_OF_AN_ANSWER = frozenset(_OF_AN_ANSWER_WORDS.split())
"""Keys of an object that reports a failed call; other keys belong to what was looked up."""

_DOCUMENTS_WORDS = (
    "article articles cat doc docs document documents faq fetch file forum grep guide head kb"
    " knowledge page pages search stackoverflow tail url web website wiki"
)
_DOCUMENTS = frozenset(_DOCUMENTS_WORDS.split())
_COMMANDS = frozenset({"command", "cmd"})
_READS = r"(?:cat|tail|head|z?grep|rg|less|zcat|journalctl|(?:kubectl|docker)\s+logs)\b"
_SHELL = re.compile(
    rf"\s*(?:sudo\s+)?{_READS}[^;&|\n]*(?:\|\s*(?:{_READS}|(?:sort|uniq|cut)\b)[^;&|\n]*)*"
)
"""A command that only prints what is in files, or parts of it."""
_NO_COMMAND = re.compile(r"'[^']*'|\"[^\"]*\"|\b2>(?:&1|/dev/null)")
_TIME = re.compile(
    r"[ \t]*\[?(?:\d{4}-\d\d-\d\d[T ]\d\d:\d\d|\d\d:\d\d:\d\d|[A-Z][a-z]{2} [ \d]\d \d\d:\d\d)"
)
_SIGNATURE = re.compile(
    r"mcp error|http\W{0,3}[45]\d\d|\b(?:code|status|returned|error)\W{0,3}[45]\d\d\b|"
    r"internal (?:server )?error|time(?:d)?[- ]?out|\bE(?:CONN|NOTFOUND|AI_|TIMEDOUT|PIPE|AGAIN|"
    r"ACCES|PERM|NOENT|ISDIR|HOST|NET|MFILE)|request failed|"
    r"connect\w*\b[^\n]{0,80}\b(?:refused|lost|failed|reset|closed)|could not connect|"
    r"unavailable|unreachable|expired|hang up|max retries|gateway|validation error|"
    r"tool\w*\s+(?:\w+\s+)?(?:failed|error)|error (?:while )?(?:executing|calling|running|fetching|"
    r"invoking|reading|retrieving|searching)|command failed|exit code|\bspawn\b|tool_use_error|"
    r"no such|not found|not exist|denied|unauthorized|forbidden|invalid|missing|required|"
    r"not allowed|outside|rate.?limit|too many requests|quota|api.?key",
    re.IGNORECASE,
)
"""Words by which a tool, or the service that it calls, reports that it could not answer."""

_WORD = re.compile(r"\w+")
_LEAST_LINES = 4
_LEAST_TIMED_LINES = 2
_MAX_CHARS = 4_000
_MAX_VALUES = 50


def error_in(name: str, arguments: Json, result: Json) -> str | None:
    r"""The error that a tool's result contains; None where there is none, or where a look-up
    returned it as what it had looked up.

    An error was looked up if one of these holds:

    - the query contains the error's first words;
    - lines behind the first begin with times, as a log's do;
    - a page or a file has several lines, or a shell command that reads printed more than one, and
      neither the first nor the last line reports that there was no answer;
    - the `status` of one job or the like is `failed`, and the object records something else of it.

    >>> error_in("read_log", {}, "Error 500: upstream timed out")
    'Error 500: upstream timed out'
    >>> error_in("bash", {"command": "tail app.log"}, "Error: disk full\nNo space left")
    >>> error_in("get_job", {}, {"id": 9, "status": "failed", "error": "out of memory"})
    """
    error = inferred_error(result)
    if error is None:
        return None
    if isinstance(result, str):
        is_shell = _is_reading_command(arguments)
        if not (is_shell or effect(name) in {"reads", "works"}):
            return error
        return None if _is_quoted(name, arguments, result, is_shell=is_shell) else error
    return None if _is_state(name, result) else error


def _is_reading_command(arguments: Json) -> bool:
    if not isinstance(arguments, dict):
        return False
    commands = {key: arguments[key] for key in _COMMANDS & arguments.keys()}
    return any(_SHELL.fullmatch(_NO_COMMAND.sub("", x)) for x in _texts(commands))


def _is_quoted(name: str, arguments: Json, text: str, *, is_shell: bool) -> bool:
    """Whether a text that begins like an error was looked up."""
    text = text[:_MAX_CHARS].strip()
    if _has_first_words(list(_texts(arguments)), text):
        return True
    lines = [x for x in text.splitlines() if x.strip()]
    if sum(_TIME.match(x) is not None for x in lines[1:]) >= _LEAST_TIMED_LINES:
        return True
    if _SIGNATURE.search(lines[0]) or _SIGNATURE.search(lines[-1]):
        return False
    if is_shell:
        return len(lines) > 1
    return (
        not _DOCUMENTS.isdisjoint(name_words(name))
        and len(lines) >= _LEAST_LINES
        and not lines[1].startswith((" ", "\t", "<", "{"))  # a stack, or an answer's body
    )


def _has_first_words(query: list[str], text: str) -> bool:
    """Whether any text of a query contains the first two words of a result."""
    first = " ".join(_WORD.findall(text.lower())[:2])
    return any(f" {first} " in f" {' '.join(_WORD.findall(x.lower()))} " for x in query)


def _is_state(name: str, result: Json) -> bool:
    """Whether an object is the state of one thing that failed, and records more of that thing."""
    if not isinstance(result, dict) or result.get("status") not in {"failed", "failure"}:
        return False
    words = name_words(name)
    if effect(name) != "reads" or not _OF_MANY.isdisjoint(words):
        return False
    thing = words[-2:-1] if words[-1] in _STATES else words[-1:]
    return not _FAILING.isdisjoint(thing) and any(
        value is not None and key not in _OF_AN_ANSWER for key, value in result.items()
    )


def _texts(arguments: Json) -> Iterator[str]:
    """The texts among the arguments, and in their lists."""
    values = arguments.values() if isinstance(arguments, dict) else [arguments]
    for value in islice(values, _MAX_VALUES):
        listed = value if isinstance(value, list) else [value]
        yield from (x[:_MAX_CHARS] for x in islice(listed, _MAX_VALUES) if isinstance(x, str))
