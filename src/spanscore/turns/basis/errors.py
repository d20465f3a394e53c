"""Find in what a tool returned that it failed; the rules are narrow, since data that mentions
errors is no error.
"""

import re
from typing import Any

from spanscore.model.json import Json, printed

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
