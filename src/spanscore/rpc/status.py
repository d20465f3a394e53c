"""google.rpc.Status: an error over gRPC or HTTP; when to come back, why, and which fields are
wrong.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from google.protobuf.message import DecodeError

from spanscore.rpc.messages import message_class, new_file, register

RETRY_INFO_URL = "type.googleapis.com/google.rpc.RetryInfo"
"""The name by which a detail of a status is known to be a RetryInfo."""

register(
    new_file(
        "google/rpc/status.proto",
        "google.rpc",
        {
            "Status": (
                (1, "int32", "code"),
                (2, "string", "message"),
                (3, "repeated google.protobuf.Any", "details"),
            )
        },
        "google/protobuf/any.proto",
    )
)
_details = new_file(
    "google/rpc/error_details.proto",
    "google.rpc",
    {
        "RetryInfo": ((1, "google.protobuf.Duration", "retry_delay"),),
        "ErrorInfo": (
            (1, "string", "reason"),
            (2, "string", "domain"),
            (3, "repeated google.rpc.ErrorInfo.MetadataEntry", "metadata"),
        ),
        "ErrorInfo.MetadataEntry": ((1, "string", "key"), (2, "string", "value")),
        "BadRequest": ((1, "repeated google.rpc.BadRequest.FieldViolation", "field_violations"),),
        "BadRequest.FieldViolation": ((1, "string", "field"), (2, "string", "description")),
    },
    "google/protobuf/duration.proto",
)
register(_details)

_Status = message_class("google.rpc.Status")
_RetryInfo = message_class("google.rpc.RetryInfo")
_ErrorInfo = message_class("google.rpc.ErrorInfo")
_BadRequest = message_class("google.rpc.BadRequest")


@dataclass(frozen=True, slots=True)
class ErrorInfo:
    """Why, for programs: `reason` in UPPER_SNAKE_CASE, and of which `domain` it is a reason."""

    reason: str
    domain: str
    metadata: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class FieldViolation:
    """What is wrong with one field of the request, by its path."""

    field: str
    description: str


@dataclass(frozen=True, slots=True)
class Status:
    """What a status says.

    `retry_after_s`, in seconds, is None where it does not say when to come back.
    """

    code: int
    message: str
    retry_after_s: float | None = None
    info: ErrorInfo | None = None
    violations: tuple[FieldViolation, ...] = ()


def details(status: Status) -> Iterator[tuple[str, Any]]:
    """The details of `status`: full name and message of each."""
    if status.info is not None:
        info = status.info
        yield (
            "google.rpc.ErrorInfo",
            _ErrorInfo(reason=info.reason, domain=info.domain, metadata=dict(info.metadata)),
        )
    if status.violations:
        named = [{"field": x.field, "description": x.description} for x in status.violations]
        yield "google.rpc.BadRequest", _BadRequest(field_violations=named)
    if status.retry_after_s is not None:
        retry = _RetryInfo()
        retry.retry_delay.FromNanoseconds(round(status.retry_after_s * 1e9))
        yield "google.rpc.RetryInfo", retry


def describe_details(status: Status) -> dict[str, dict[str, Any]]:
    """The same details as JSON, by full name."""
    found: dict[str, dict[str, Any]] = {}
    if status.info is not None:
        info = status.info
        found["google.rpc.ErrorInfo"] = {
            "reason": info.reason,
            "domain": info.domain,
            "metadata": dict(info.metadata),
        }
    if status.violations:
        named = [{"field": x.field, "description": x.description} for x in status.violations]
        found["google.rpc.BadRequest"] = {"fieldViolations": named}
    if status.retry_after_s is not None:
        found["google.rpc.RetryInfo"] = {"retryDelay": f"{status.retry_after_s:g}s"}
    return found


def write_status(status: Status) -> bytes:
    """`status` as protobuf.

    >>> read_status(write_status(Status(14, "full", retry_after_s=2.5)))
    Status(code=14, message='full', retry_after_s=2.5, info=None, violations=())
    """
    written = _Status(code=status.code, message=status.message)
    for name, detail in details(status):
        written.details.add(
            type_url=f"type.googleapis.com/{name}", value=detail.SerializeToString()
        )
    return bytes(written.SerializeToString())


def read_status(data: bytes) -> Status | None:
    """The status in `data`; None where that is none.

    A RetryInfo of less than no time asks for none.
    """
    try:
        read = _Status.FromString(data)
        waits = _read_details(read, "RetryInfo", _RetryInfo)
        infos = _read_details(read, "ErrorInfo", _ErrorInfo)
        bad = _read_details(read, "BadRequest", _BadRequest)
    except DecodeError:
        return None
    delays_s = [max(0.0, x.retry_delay.seconds + x.retry_delay.nanos / 1e9) for x in waits]
    known = [ErrorInfo(x.reason, x.domain, dict(x.metadata)) for x in infos]
    violations = tuple(
        FieldViolation(x.field, x.description) for some in bad for x in some.field_violations
    )
    return Status(
        read.code, read.message, next(iter(delays_s), None), next(iter(known), None), violations
    )


def _read_details(status: Any, name: str, kind: Any) -> list[Any]:
    return [
        kind.FromString(x.value)
        for x in status.details
        if x.type_url.endswith(f"/google.rpc.{name}")
    ]
