"""Tell from what a tool returned that it failed; the rules are narrow, since data that mentions errors is no error."""

import re
from typing import Any

from spanscore.model.json import Json, printed

_DOING = (
    "executing|calling|invoking|running|fetching|retrieving|getting|reading|writing|opening|loading|parsing|processing"
    "|connecting|sending|creating|updating|deleting|searching|listing|saving|validating"
)
_REASONS = (
    r"bad\ request|unauthorized|forbidden|not\ found|method\ not\ allowed|conflict|too\ many\ requests"
    r"|internal\ server\ error|not\ implemented|bad\ gateway|service\ unavailable|gateway\ time-?out|error"
)
_STARTS = re.compile(
    rf"""\s*+(?:
        (?:fatal\s+|tool\s+|unexpected\s+)?(?:error|exception)\s*[:!]  # ERROR: upstream timeout
      | error\s+-\s                                              # Error - no such city
      | error\s+code\s*:\s*\d                                    # Error code: 404 - …
      | (?:api\s+error:|error)\s+\(?[45]\d\d\)?(?::|\s*$|\s+(?:{_REASONS}|\{{))  # Error (500): …, API Error: 500 …
      | (?:an\s+)?(?:unexpected\s+)?error\s+(?:has\s+)?occurred\b  # An error occurred while running the tool
      | (?:an\s+)?error\s+(?:(?:while|when)\s+)?(?:{_DOING})\b
        (?:[^:\n]{{0,120}}:|[^.:\n]{{0,60}}\.?\s*$)              # Error executing tool search: …
      | error\s+in\s+(?:tool|function|code)\b
      | (?:tool|function)\s+(?:[\w.-]+\s+)?(?:execution\s+|call\s+)?failed(?:\s*:|\.?\s*$)  # Tool execution failed: …
      | (?:I\ )?encountered\ (?:an\ )?error(?:\ while\ trying\ to\ use\ the\ tool\.|:)  # CrewAI, LlamaIndex
      | You\ tried\ to\ use\ the\ tool\ [^\n]{{1,120}},\ but\ it\ doesn't\ exist\.   # CrewAI
      | Failed\ to\ invoke\ tool\ `[^`\n]{{1,120}}`              # Haystack
      | Tool\ '[^'\n]{{1,120}}'\ not\ found\.\ Available\ tools:   # Haystack
      | [\w.-]{{1,120}}\ is\ not\ a\ valid\ tool,\ try\ one\ of\ \[  # LangChain
      | <tool_use_error>                                        # Claude Code
      | MCP\s+error\s+-?\d+:                                    # MCP error -32602: …
      | HTTP(?:/\d(?:\.\d)?)?\s+(?:error\s+)?[45]\d\d              # HTTP 500 Internal Server Error
        (?:\s*[:-]|\s+(?:{_REASONS})\b|\s*$)
      | [45]\d\d\s+(?:client|server)\s+error:\ [^\n]{{0,120}}\ for\ url:  # requests
      | (?:client|server)\ error\ '[45]\d\d\ [^'\n]{{0,120}}'\ for\ url\ '  # httpx
      | Request\ failed\ with\ status\ code\ [45]\d\d\s*$        # axios
      | \[(?:Errno|WinError)\ \d+\]                              # [Errno 2] No such file or directory
      | Traceback\ \(most\ recent\ call\ last\):
      | (?-i:[A-Za-z_][\w.]{{0,80}}(?:Error|Exception)(?:\s*:|\())   # ValueError: …, TimeoutError(…)
    )""",
    re.VERBOSE | re.IGNORECASE,
)
_LEVEL = re.compile(r"\n[ \t]*(?:error|warn(?:ing)?|info|debug|fatal|trace|notice)\b\s*[:\s\]-]", re.IGNORECASE)
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
_TELLING = frozenset({*_WHY, "isError", "is_error"})
_FAILED = frozenset({"error", "failed", "failure"})
_SUCCEEDED = frozenset({"ok", "success", "succeeded", "complete", "completed", "done"})
_NOTHING = frozenset({"none", "null", "no", "no error", "no errors", "false", "n/a", "0"})  # of an error, in text


def inferred_error(result: Json) -> str | None:
    """The error that a result tells; None for one that tells none.

    Text is an error when it starts as one and is no log, in which a later line starts with a level. An object is an
    error when it has a true `isError`; or else, unless it says that it succeeded, when it has an `error` that says
    something and besides it only keys that describe a status, or null; or when its `status`, `success`, `ok` or `error`
    say that it failed, and its `error`, `message` or `detail` why. Anything else is data.

    >>> inferred_error("ERROR: upstream timeout"), inferred_error("The error rate is 2 %")
    ('ERROR: upstream timeout', None)
    >>> inferred_error({"error": "no such city"}), inferred_error({"error": "±2", "result": 5})
    ('no such city', None)
    """
    if isinstance(result, str):
        if _STARTS.match(result) is None or _LEVEL.search(result.lstrip()[:_LOOKED_AT_CHARS]):
            return None
        return result
    if not isinstance(result, dict) or _TELLING.isdisjoint(result):
        return None
    return _told(result)


def _told(result: dict[str, Any]) -> str | None:
    """The error that an object tells."""
    why = next((x for x in map(result.get, _WHY) if _says_something(x)), None)
    if result.get("isError") is True or result.get("is_error") is True:
        return printed(_content(result) if why is None else why)
    if _is_status(result, succeeded=True):
        return None
    if _says_something(result.get("error")) and all(x is None or key in _STATUS_KEYS for key, x in result.items()):
        return printed(result["error"])
    if why is not None and (_is_status(result, succeeded=False) or result.get("error") is True):
        return printed(why)
    return None


def _is_status(result: dict[str, Any], *, succeeded: bool) -> bool:
    """Whether an object says by its status that it succeeded; or that it did not."""
    status = result.get("status")
    told = isinstance(status, str) and status.lower() in (_SUCCEEDED if succeeded else _FAILED)
    return told or result.get("success") is succeeded or result.get("ok") is succeeded


def _content(result: dict[str, Any]) -> Any:
    """The text of the content that an MCP server returns."""
    content = result.get("content")
    texts = [x.get("text") for x in content if isinstance(x, dict)] if isinstance(content, list) else []
    said = [x for x in texts if isinstance(x, str)]
    return "\n".join(said) if said else result


def _says_something(value: Any) -> bool:
    if isinstance(value, str):
        return bool(value.strip()) and value.strip().lower().rstrip(".") not in _NOTHING
    return isinstance(value, dict) and bool(value)
