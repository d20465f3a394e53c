"""google.rpc.Status: an error over gRPC or HTTP, and in it RetryInfo: when its receiver is to come back."""

from dataclasses import dataclass

from google.protobuf.message import DecodeError

from spanscore.rpc.messages import message_class, new_file, register

RETRY_INFO_URL = "type.googleapis.com/google.rpc.RetryInfo"
"""The name by which a detail of a status is known to be a RetryInfo."""

register(
    new_file(
        "google/rpc/status.proto",
        "google.rpc",
        {"Status": ((1, "int32", "code"), (2, "string", "message"), (3, "repeated google.protobuf.Any", "details"))},
        "google/protobuf/any.proto",
    )
)
register(
    new_file(
        "google/rpc/error_details.proto",
        "google.rpc",
        {"RetryInfo": ((1, "google.protobuf.Duration", "retry_delay"),)},
        "google/protobuf/duration.proto",
    )
)

_Status = message_class("google.rpc.Status")
_RetryInfo = message_class("google.rpc.RetryInfo")


@dataclass(frozen=True, slots=True)
class Status:
    """What a status says. `retry_after_s`, in seconds, is None where it does not say when to come back."""

    code: int
    message: str
    retry_after_s: float | None = None


def write_status(status: Status) -> bytes:
    """`status` as protobuf.

    >>> read_status(write_status(Status(14, "full", retry_after_s=2.5)))
    Status(code=14, message='full', retry_after_s=2.5)
    """
    written = _Status(code=status.code, message=status.message)
    if status.retry_after_s is not None:
        info = _RetryInfo()
        info.retry_delay.FromNanoseconds(round(status.retry_after_s * 1e9))
        written.details.add(type_url=RETRY_INFO_URL, value=info.SerializeToString())
    return bytes(written.SerializeToString())


def read_status(data: bytes) -> Status | None:
    """The status in `data`; None where that is none. A RetryInfo of less than no time asks for none."""
    try:
        read = _Status.FromString(data)
        waits = [_RetryInfo.FromString(x.value) for x in read.details if x.type_url.endswith("/google.rpc.RetryInfo")]
    except DecodeError:
        return None
    delays_s = [max(0.0, x.retry_delay.seconds + x.retry_delay.nanos / 1e9) for x in waits]
    return Status(read.code, read.message, next(iter(delays_s), None))
