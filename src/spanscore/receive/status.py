"""Errors to statuses of OTLP over gRPC and HTTP."""

import math
from dataclasses import dataclass
from typing import Any, Final

from grpc import StatusCode

from spanscore.errors import PermanentError, RetryableError
from spanscore.rpc import as_json, new_status

TABLE: Final[tuple[tuple[type[Exception], StatusCode, int], ...]] = (
    (RetryableError, StatusCode.UNAVAILABLE, 503),
    (PermanentError, StatusCode.INVALID_ARGUMENT, 400),
    (Exception, StatusCode.UNAVAILABLE, 503),
)
"""Error class, gRPC code, HTTP status; the first class that fits counts.

The last row is what keeps data: a collector drops for good what is answered UNKNOWN or INTERNAL,
which is what gRPC makes of an exception that escapes, and a fault of ours may pass.
"""

_RETRY_AFTER_FAULT_S: Final = 5.0
"""When to come back after a fault nobody foresaw: late enough not to meet it in a tight loop."""


@dataclass(frozen=True, slots=True)
class Answer:
    """What a client receives. `retry_after_s` is None where it must not try again."""

    grpc_code: StatusCode
    http_status: int
    message: str
    retry_after_s: float | None = None

    @property
    def headers(self) -> dict[str, str]:
        """The HTTP headers that say when to try again: whole seconds, at least one."""
        return (
            {}
            if self.retry_after_s is None
            else {"Retry-After": str(max(1, math.ceil(self.retry_after_s)))}
        )

    def status(self) -> bytes:
        """The google.rpc.Status: gRPC's `grpc-status-details-bin`, and the body of an HTTP
        error.
        """
        return bytes(self._status().SerializeToString())

    def status_object(self) -> dict[str, Any]:
        """`status` in protobuf's JSON mapping."""
        return as_json(self._status())

    def _status(self) -> Any:
        code: int = self.grpc_code.value[0]
        return new_status(code, self.message, retry_after_s=self.retry_after_s)


def answer(error: Exception) -> Answer:
    """What a client receives for `error`. The text of an error that nobody foresaw stays inside."""
    code, http_status = next((code, http) for kind, code, http in TABLE if isinstance(error, kind))
    if isinstance(error, RetryableError):
        return Answer(code, http_status, str(error), error.retry_after_s)
    if isinstance(error, PermanentError):
        return Answer(code, http_status, str(error))
    return Answer(
        code,
        http_status,
        "spanscore met a fault of its own and logged it: try again",
        _RETRY_AFTER_FAULT_S,
    )
