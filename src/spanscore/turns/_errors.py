"""Tell from what a tool returned that it failed; the rules are narrow, since data that mentions errors is no error."""

import re
from typing import Any

from spanscore.model.json import Json, dumps

_STARTS = re.compile(
    r"""\s*(?:
        (?:fatal\s+)?(?:error|exception)\s*[:!]            # ERROR: upstream timeout
      | error\s+-\s                                        # Error - no such city
      | [A-Za-z_][\w.]{0,80}(?:Error|Exception)\s*[:(]     # ValueError: …, TimeoutError(…)
      | Traceback\ \(most\ recent\ call\ last\)
      | (?:an\s+)?error\s+(?:occurred|executing|calling|invoking|running|while)\b
    )""",
    re.VERBOSE | re.IGNORECASE,
)
_STATUS_KEYS = frozenset(
    {"error", "message", "detail", "details", "status", "code", "type", "success", "ok", "status_code", "error_code"}
)
_FAILED = frozenset({"error", "failed", "failure"})


def inferred_error(result: Json) -> str | None:
    """The error that a result tells; None for one that tells none.

    Text is an error when it starts as one. An object is an error when it has a non-empty `error` and besides it only
    keys that describe a status; when it has a true `isError`; or when its `status`, `success` or `ok` say that it
    failed and `error`, `message` or `detail` say why.

    >>> inferred_error("ERROR: upstream timeout"), inferred_error("The error rate is 2 %")
    ('ERROR: upstream timeout', None)
    >>> inferred_error({"error": "no such city"}), inferred_error({"error": "±2", "result": 5})
    ('no such city', None)
    """
    if isinstance(result, str):
        return result if _STARTS.match(result) else None
    if not isinstance(result, dict):
        return None
    told = next((x for x in map(result.get, ("error", "message", "detail")) if _says_something(x)), None)
    if result.get("isError") is True or result.get("is_error") is True:
        return _printed(result if told is None else told)
    if _says_something(result.get("error")) and _STATUS_KEYS.issuperset(result):
        return _printed(result["error"])
    failed = result.get("status") in _FAILED if isinstance(result.get("status"), str) else False
    if told is not None and (failed or result.get("success") is False or result.get("ok") is False):
        return _printed(told)
    return None


def _says_something(value: Any) -> bool:
    return isinstance(value, (str, dict)) and bool(value)


def _printed(value: Any) -> str:
    return value if isinstance(value, str) else dumps(value)
