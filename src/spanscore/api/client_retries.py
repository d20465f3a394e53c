"""What the clients make of an answer that is an error: what is raised, and how long they wait
before they ask again.
"""

import random
from collections.abc import Iterator
from typing import Any, Final

import grpc
from google.protobuf.descriptor_pb2 import MethodOptions

from spanscore.errors import (
    ConflictError,
    ExistsError,
    FieldError,
    InputError,
    NotFoundError,
    RetryableError,
    SpanscoreError,
    StateError,
)
from spanscore.rpc.status import Status, read_status

_TRIES: Final = 5
_STREAM_TRIES: Final = 9
_FIRST_WAIT_S: Final = 0.2
_LONGEST_WAIT_S: Final = 30.0
_ERRORS: Final[dict[grpc.StatusCode, type[SpanscoreError]]] = {
    grpc.StatusCode.NOT_FOUND: NotFoundError,
    grpc.StatusCode.ALREADY_EXISTS: ExistsError,
    grpc.StatusCode.FAILED_PRECONDITION: StateError,
    grpc.StatusCode.ABORTED: ConflictError,
    grpc.StatusCode.INVALID_ARGUMENT: InputError,
    grpc.StatusCode.UNAUTHENTICATED: InputError,
    grpc.StatusCode.PERMISSION_DENIED: InputError,
    grpc.StatusCode.UNAVAILABLE: RetryableError,
    grpc.StatusCode.DEADLINE_EXCEEDED: RetryableError,
    grpc.StatusCode.RESOURCE_EXHAUSTED: RetryableError,
}


def waits(method: Any, request: Any) -> Iterator[float | None]:
    """How long to wait after each try before the next; None after the last."""
    is_safe = method.GetOptions().idempotency_level == MethodOptions.NO_SIDE_EFFECTS
    if is_safe or "request_id" in request.DESCRIPTOR.fields_by_name:
        for number in range(_TRIES - 1):
            yield _FIRST_WAIT_S * 2**number
    yield None


class Breaks:
    """How often a stream has broken off since it gave something, and what it gave last."""

    def __init__(self) -> None:
        self._count = 0
        self._most = _TRIES - 1  # a server that has never answered is not waited for long
        self._last: Any = None

    def is_new(self, response: Any) -> bool:
        """Whether a response is not only what a stream that was asked for again begins with."""
        is_again, self._count, self._most = self._count > 0, 0, _STREAM_TRIES
        is_new, self._last = not is_again or response != self._last, response
        return is_new

    def wait_s(self, code: grpc.StatusCode, message: str | None, trailers: Any) -> float:
        """How long to wait before the stream is asked for again.

        Raises SpanscoreError where that is of no use.
        """
        status = status_of(trailers)
        if code is not grpc.StatusCode.UNAVAILABLE or self._count >= self._most:
            raise error_of(code, message, status)
        self._count += 1
        return pause_s(_FIRST_WAIT_S * 2 ** (self._count - 1), status)


def pause_s(usual_s: float, status: Status | None) -> float:
    """As long as the server asks for, else the usual time, a little more or less."""
    retry_after_s = status.retry_after_s if status is not None else None
    usual_s *= random.uniform(0.5, 1.5)  # noqa: S311
    return min(retry_after_s if retry_after_s is not None else usual_s, _LONGEST_WAIT_S)


def status_of(trailers: Any) -> Status | None:
    """The status, with its details, that the trailers of a call contain."""
    found = next((value for key, value in trailers or () if key == "grpc-status-details-bin"), None)
    return None if found is None else read_status(found)


def error_of(code: grpc.StatusCode, message: str | None, status: Status | None) -> SpanscoreError:
    """What is raised of a call that ended so."""
    text = message or code.name
    if status is not None and status.violations:
        first, *others = (FieldError(x.field, x.description) for x in status.violations)
        return FieldError(first.field, first.problem, others)
    return _ERRORS.get(code, SpanscoreError)(text)
