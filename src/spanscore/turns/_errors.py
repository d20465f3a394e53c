"""Tell from what a tool returned that it failed; the rules are narrow, since data that mentions errors is no error."""

import re
from typing import Any

from spanscore.model.json import Json, dumps

_DOING = (
    "executing|calling|invoking|running|fetching|retrieving|getting|reading|writing|opening|loading|parsing|processing"
    "|connecting|sending|creating|updating|deleting"
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
      | (?:an\s+)?(?:unexpected\s+)?error\s+(?:has\s+)?occurred\b  # An error occurred while running the tool
      | (?:an\s+)?error\s+while\s
      | error\s+(?:{_DOING})\b(?:[^:\n]{{0,120}}:|[^.:\n]{{0,60}}\.?\s*$)  # Error executing tool search: …
      | error\s+in\s+(?:tool|function|code)\b
      | (?:tool|function)\s+(?:[\w.-]+\s+)?(?:execution\s+|call\s+)?failed\s*[:.]  # Tool execution failed: …
      | MCP\s+error\s+-?\d                                       # MCP error -32602: …
      | HTTP(?:/\d(?:\.\d)?)?\s+(?:error\s+)?[45]\d\d              # HTTP 500 Internal Server Error
        (?:\s*[:-]|\s+(?:{_REASONS})\b|\s*$)
      | [45]\d\d\s+(?:client|server)\s+error\s*:                 # 404 Client Error: Not Found for url: …
      | \[(?:Errno|WinError)\ \d+\]                              # [Errno 2] No such file or directory
      | Traceback\ \(most\ recent\ call\ last\)
      | (?-i:[A-Za-z_][\w.]{{0,80}}(?:Error|Exception)\s*[:(])   # ValueError: …, TimeoutError(…)
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


def inferred_error(result: Json) -> str | None:
    """The error that a result tells; None for one that tells none.

    Text is an error when it starts as one and is no log, in which a later line starts with a level. An object is an
    error when it has a non-empty `error` and besides it only keys that describe a status, or null; when it has a true
    `isError`; or when its `status`, `success`, `ok` or `error` say that it failed, and its `error`, `message` or
    `detail` why. Anything else is data.

    >>> inferred_error("ERROR: upstream timeout"), inferred_error("The error rate is 2 %")
    ('ERROR: upstream timeout', None)
    >>> inferred_error({"error": "no such city"}), inferred_error({"error": "±2", "result": 5})
    ('no such city', None)
    """
    if isinstance(result, str):
        return result if _STARTS.match(result) and not _LEVEL.search(result[:_LOOKED_AT_CHARS]) else None
    if not isinstance(result, dict) or _TELLING.isdisjoint(result):
        return None
    why = next((x for x in map(result.get, _WHY) if _says_something(x)), None)
    if result.get("isError") is True or result.get("is_error") is True:
        return _printed(_content(result) if why is None else why)
    if _says_something(result.get("error")) and all(x is None or key in _STATUS_KEYS for key, x in result.items()):
        return _printed(result["error"])
    if why is not None and (_is_failed(result) or result.get("error") is True):
        return _printed(why)
    return None


def _is_failed(result: dict[str, Any]) -> bool:
    status = result.get("status")
    failed = isinstance(status, str) and status.lower() in _FAILED
    return failed or result.get("success") is False or result.get("ok") is False


def _content(result: dict[str, Any]) -> Any:
    """The text of the content that an MCP server returns."""
    content = result.get("content")
    texts = [x.get("text") for x in content if isinstance(x, dict)] if isinstance(content, list) else []
    said = [x for x in texts if isinstance(x, str)]
    return "\n".join(said) if said else result


def _says_something(value: Any) -> bool:
    return isinstance(value, (str, dict)) and bool(value)


def _printed(value: Any) -> str:
    return value if isinstance(value, str) else dumps(value)
