"""Answers of backends: delivered, refused or to be retried.

But for two: what is refused for its credentials is sent again, since it is safe in the store until
somebody renews a token, and so is, for a while, what a backend answers with a fault of its own. The
Collector drops both.
"""

import re
from typing import Any

from spanscore import rpc
from spanscore.errors import PermanentError
from spanscore.export.port import FaultError, UndeliveredError, UnsupportedSignalError
from spanscore.otlp.signal import WIRE, Signal
from spanscore.retry import retry_after_s

_RETRIED_HTTP = frozenset({429, 502, 503, 504})
_UNAUTHORISED_HTTP = frozenset({401, 403})
# 502 and 504: a gateway whose backend may have taken it
_REFUSED_BEFORE_TAKING_HTTP = frozenset({429, 503})
_UNSUPPORTED_HTTP = frozenset({404, 405, 501})
_FAULTS_BELOW_500_HTTP = frozenset({408, 425})  # Request Timeout and Too Early

_RETRIED_GRPC = frozenset(
    {"CANCELLED", "DEADLINE_EXCEEDED", "ABORTED", "OUT_OF_RANGE", "UNAVAILABLE", "DATA_LOSS"}
)
_RETRIED_WITH_WAIT = frozenset({"RESOURCE_EXHAUSTED"})
_FAULTS_GRPC = frozenset({"UNKNOWN", "INTERNAL", "RESOURCE_EXHAUSTED"})
_UNAUTHORISED_GRPC = frozenset({"UNAUTHENTICATED", "PERMISSION_DENIED"})

_CHECK_CREDENTIALS = "check the credentials in this exporter's headers, such as authorization"

_TLS_SETTINGS = re.compile(r" ssl:(?:<[^>]*>|\w+)")


def connection_problem(error: Exception) -> str:
    """The text of an HTTP client's error, without its TLS settings, which it prints on plain HTTP
    too.

    >>> connection_problem(
    ...     OSError("Cannot connect to host there:1 ssl:<ssl.SSLContext object at 0x7f> [Refused]")
    ... )
    'Cannot connect to host there:1 [Refused]'
    """
    return _TLS_SETTINGS.sub("", str(error)) or "no answer in time"


def http_error(
    status: int, retry_after: str | None, text: str, now_ns: int
) -> UndeliveredError | PermanentError:
    """The error for an HTTP answer that is not 2xx.

    `retry_after` is the header; `text` is for people.
    """
    what = f"HTTP {status}{': ' if text else ''}{text}"
    wait_s = retry_after_s(retry_after, now_ns)
    if status in _UNAUTHORISED_HTTP:
        return UndeliveredError(f"{what}; {_CHECK_CREDENTIALS}", requested_wait_s=wait_s)
    if status in _RETRIED_HTTP:
        return UndeliveredError(
            what, requested_wait_s=wait_s, maybe_delivered=status not in _REFUSED_BEFORE_TAKING_HTTP
        )
    # to https, or to a page where people log in: nothing is wrong with what was sent
    if status // 100 == 3:
        return UndeliveredError(
            f"{what}; configure the endpoint that answers instead of the one that redirects"
        )
    if status in _UNSUPPORTED_HTTP:
        return UnsupportedSignalError(what)
    if status // 100 == 5 or status in _FAULTS_BELOW_500_HTTP:
        return FaultError(what, requested_wait_s=wait_s)
    return PermanentError(what)


def grpc_error(code: str, details: bytes | None, text: str) -> UndeliveredError | PermanentError:
    """The error for a gRPC status by its name.

    `details` is the trailer `grpc-status-details-bin`.
    """
    what = f"{code}{': ' if text else ''}{text}"
    requested_wait_s = retry_info_s(details)
    if code in _UNAUTHORISED_GRPC:
        return UndeliveredError(f"{what}; {_CHECK_CREDENTIALS}", requested_wait_s=requested_wait_s)
    if code in _RETRIED_GRPC or (code in _RETRIED_WITH_WAIT and requested_wait_s is not None):
        # RetryInfo comes from a server that has read the request and put it off; anything else may
        # be a broken line.
        return UndeliveredError(
            what, requested_wait_s=requested_wait_s, maybe_delivered=requested_wait_s is None
        )
    if code == "UNIMPLEMENTED":
        return UnsupportedSignalError(what)
    return FaultError(what) if code in _FAULTS_GRPC else PermanentError(what)


def retry_info_s(details: bytes | None) -> float | None:
    """Seconds that the RetryInfo in a google.rpc.Status asks for; None where there is none."""
    return rpc.retry_after_s(rpc.read_status(details or b""))


def not_taken(signal: Signal, answer: Any) -> str | None:
    """What a backend did not take of a request, or warns of, by its answer; None for nothing."""
    partial = answer.partial_success
    rejected = getattr(partial, WIRE[signal].rejected)
    if not rejected and not partial.error_message:
        return None
    items = WIRE[signal].rejected.removeprefix("rejected_").replace("_", " ")
    return f"{rejected} {items} not taken: {partial.error_message or 'no reason given'}"
