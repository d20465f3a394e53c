"""The error in a tool's result."""

import re
from collections.abc import Iterator
from itertools import islice
from typing import Any

from spanscore.model.json import Json, printed
from spanscore.model.tool_names import effect, name_words

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

    The tool's name alone does not decide, since a tool that reads logs fails as any other does.

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


_DOING = (
    "executing|calling|invoking|running|fetching|retrieving|getting|reading|writing|opening|loading|parsing|processing"
    "|connecting|sending|creating|updating|deleting|searching|listing|saving|validating"
)
_REASONS = (
    r"bad request|unauthorized|forbidden|not found|method not allowed|conflict|too many requests"
    r"|internal server error|not implemented|bad gateway|service unavailable|gateway"
    r" time-?out|error"
)
# but not in 3 of 500 requests
_OCCURRED = r"error\s+(?:has\s+)?occurred\b(?!\s+(?:in\s+|on\s+line\s+)?\d)"
_WHILE = rf"error\s+(?:(?:while|when)\s+)?(?:{_DOING})\b(?:[^:\n]{{0,120}}:|[^.:\n]{{0,60}}\.?\s*$)"
_FAILED_AT = r"\s+(?:[\w.-]+\s+)?(?:execution\s+|call\s+)?failed(?:\s*:|\.?\s*$)"
_FORMS = (
    r"error\s*[:!]",  # ERROR: upstream timeout
    r"exception\s*[:!]",
    r"fatal\s+(?:error|exception)\s*[:!]",
    r"tool\s+(?:error|exception)\s*[:!]",
    r"unexpected\s+(?:error|exception)\s*[:!]",
    r"error\s+-\s",  # Error - no such city
    r"error\s+code\s*:\s*\d",  # Error code: 404 - …
    rf"error\s+\(?[45]\d\d\)?(?::|\s*$|\s+(?:{_REASONS}|\{{))",  # Error (500): …
    rf"api\s+error:\s+\(?[45]\d\d\)?(?::|\s*$|\s+(?:{_REASONS}|\{{))",  # API Error: 500 …
    _OCCURRED,
    rf"unexpected\s+{_OCCURRED}",
    rf"an\s+(?:unexpected\s+)?{_OCCURRED}",  # An error occurred while running the tool
    _WHILE,  # Error executing tool search: …
    rf"an\s+{_WHILE}",
    r"error\s+in\s+(?:tool|function|code)\b",
    rf"tool{_FAILED_AT}",  # Tool execution failed: …
    rf"function{_FAILED_AT}",
    r"i encountered (?:an )?error(?: while trying to use the tool\.|:)",  # CrewAI
    r"encountered (?:an )?error(?: while trying to use the tool\.|:)",  # LlamaIndex
    r"you tried to use the tool [^\n]{1,120}, but it doesn't exist\.",  # CrewAI
    r"action '[^'\n]{1,120}' don't exist, these are the only available actions:",  # CrewAI
    r"failed to invoke tool `[^`\n]{1,120}`",  # Haystack
    r"tool '[^'\n]{1,120}' not found\. available tools:",  # Haystack
    r"tool (?:execution|input validation) error(?::|\s*$)",  # LangChain
    r"input validation error: ",  # MCP's Python SDK
    r"output validation error: ",
    r"unknown tool: [\w.-]{1,120}\s*$",  # MCP's Python SDK, Strands
    r"tool \"[\w.-]{1,120}\" not found in registry\.",  # Gemini CLI
    r"execution error in [\w.-]{1,120}: ",  # DSPy
    r"code execution failed at line '",  # smolagents
    r"tool input validation failed for [\w.-]{1,120}\.",  # Mastra
    # LlamaIndex
    r"tool with name [\w.-]{1,120} not found\. please select a tool that is available\.",
    r"could not find function to call\.\s*$",  # Agno
    r"model tried to call unavailable tool '",  # AI SDK
    r"failed to parse function arguments: ",  # Codex
    r"<tool_use_error>",  # Claude Code
    r"mcp\s+error\s+-?\d+:",  # MCP error -32602: …
    # HTTP 404
    rf"http(?:/\d(?:\.\d)?)?\s+(?:error\s+)?[45]\d\d(?:\s*[:-]|\s+(?:{_REASONS})\b|\s*$)",
    r"4\d\d\s+client\s+error: [^\n]{0,120} for url:",  # requests
    r"5\d\d\s+server\s+error: [^\n]{0,120} for url:",
    r"client error '[45]\d\d [^'\n]{0,120}' for url '",  # httpx
    r"server error '[45]\d\d [^'\n]{0,120}' for url '",
    r"request failed with status code [45]\d\d\s*$",  # axios
    r"traceback \(most recent call last\):",
    r"exception in thread \"",
)
"""How an error begins, in any case: each form with its first letter, so that most are passed over
by that alone.
"""

_STARTS = re.compile(
    r"\s*+(?:"
    + "|".join(f"[{x[0]}{x[0].upper()}](?i:{x[1:]})" for x in _FORMS)
    + r"|\[(?i:errno|winerror) \d+\]"  # [Errno 2] No such file or directory
    + r"|[\w.-]{1,120} is not a valid tool, try one of \["  # LangChain
    # ValueError: …
    + r"|[A-Za-z_][\w.]{0,80}(?:Error|Exception)(?<!NoError)(?<!NoException)(?:\s*:|\()"
    + r"|(?:[a-z_]\w{0,40}\.){1,8}[A-Z]\w{0,80}(?:Error|Exception)\s*$)"  # java.io.EOFException
)
_RETRY = "\n\nFix the errors and try again."  # how Pydantic AI ends its message to the model
_STATES_NO_ERROR = re.compile(r"[\w\s]{1,40}:\s*([\w/-][\w /-]{0,12})\.?\s*(?:\([^()]{0,40}\)\s*)?")
_LEVEL = re.compile(
    r"\n[ \t]*(?:error|warn(?:ing)?|info|debug|fatal|trace|notice)\b\s*[:\s\]-]", re.IGNORECASE
)
_LOOKED_AT_CHARS = 4000
_WHY = ("error", "message", "detail", "error_message", "errorMessage")
_STATUS_KEYS = frozenset(
    {
        *_WHY,
        "details",
        "status",
        "code",
        "type",
        "success",
        "ok",
        "status_code",
        "statusCode",
        "error_code",
        "errorCode",
    }
)
_ERROR_KEYS = frozenset({*_WHY, "isError", "is_error"})
_FAILED = frozenset({"error", "failed", "failure"})
_SUCCEEDED = frozenset({"ok", "success", "succeeded", "complete", "completed", "done"})
# of an error, in text
_NOTHING = frozenset({"none", "null", "no", "no error", "no errors", "false", "n/a", "0", "-"})


def inferred_error(result: Json) -> str | None:
    """The error that a result contains; None for one that contains none.

    Text is an error when it starts as one and neither states that there was none, nor is a log, in
    which a later line starts with a level. An object is an error when it has a true `isError`; or
    else, unless its status is success, when it has an `error` that is not empty and besides it only
    keys that describe a status, or null; or when its `status`, `success`, `ok` or `error` record
    that it failed, and its `error`, `message` or `detail` why. Anything else is data.

    >>> inferred_error("ERROR: upstream timeout"), inferred_error("The error rate is 2 %")
    ('ERROR: upstream timeout', None)
    >>> inferred_error({"error": "no such city"}), inferred_error({"error": "±2", "result": 5})
    ('no such city', None)
    """
    if isinstance(result, str):
        is_error = _STARTS.match(result) is not None or result.endswith(_RETRY)
        return result if is_error and not _is_data(result) else None
    if not isinstance(result, dict) or _ERROR_KEYS.isdisjoint(result):
        return None
    return _error_of(result)


def _is_data(text: str) -> bool:
    """Whether a text that starts as an error is a log, or states that there is none."""
    if _LEVEL.search(text.lstrip()[:_LOOKED_AT_CHARS]):
        return True
    stated = _STATES_NO_ERROR.fullmatch(text)
    return stated is not None and not _is_stated(stated[1])


def _error_of(result: dict[str, Any]) -> str | None:
    """The error that an object contains."""
    why = next((x for x in map(result.get, _WHY) if _is_stated(x)), None)
    if result.get("isError") is True or result.get("is_error") is True:
        return printed(_content(result) if why is None else why)
    if _is_status(result, succeeded=True):
        return None
    if _is_stated(result.get("error")) and all(
        x is None or key in _STATUS_KEYS for key, x in result.items()
    ):
        return printed(result["error"])
    if why is not None and (_is_status(result, succeeded=False) or result.get("error") is True):
        return printed(why)
    return None


def _is_status(result: dict[str, Any], *, succeeded: bool) -> bool:
    """Whether an object's status is success; or failure."""
    status = result.get("status")
    is_named = isinstance(status, str) and status.lower() in (_SUCCEEDED if succeeded else _FAILED)
    return is_named or result.get("success") is succeeded or result.get("ok") is succeeded


def _content(result: dict[str, Any]) -> Any:
    """The text of the content that an MCP server returns."""
    content = result.get("content")
    texts = (
        [x.get("text") for x in content if isinstance(x, dict)] if isinstance(content, list) else []
    )
    found = [x for x in texts if isinstance(x, str)]
    return "\n".join(found) if found else result


def _is_stated(value: Any) -> bool:
    if isinstance(value, str):
        return bool(value.strip()) and value.strip().lower().rstrip(".") not in _NOTHING
    return isinstance(value, dict) and bool(value)
