"""Statuses with details, and clients' metadata.

The package that publishes the messages of statuses (googleapis-common-protos) needs one major
version of protobuf, and so would change the one that an agent is installed with. They are in a pool
of their own: in the process's common one that package may have defined the same names.
"""

from typing import Any, Final, overload

from google.protobuf import any_pb2, duration_pb2, text_format
from google.protobuf.descriptor_pb2 import FileDescriptorProto
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.json_format import MessageToDict
from google.protobuf.message import DecodeError
from google.protobuf.message_factory import GetMessageClass

from spanscore.errors import InputError
from spanscore.model.span import tenant_problem

CHANNEL_OPTIONS: Final = (("grpc.max_receive_message_length", 256 * 2**20),)
"""Of a client's channel: an agent trace may be large."""

_FILE: Final = """
name: "google/rpc/status.proto" package: "google.rpc" syntax: "proto3"
dependency: "google/protobuf/any.proto" dependency: "google/protobuf/duration.proto"
message_type {
  name: "Status"
  field { name: "code" number: 1 label: LABEL_OPTIONAL type: TYPE_INT32 }
  field { name: "message" number: 2 label: LABEL_OPTIONAL type: TYPE_STRING }
  field { name: "details" number: 3 label: LABEL_REPEATED type: TYPE_MESSAGE
          type_name: ".google.protobuf.Any" }
}
message_type {
  name: "RetryInfo"
  field { name: "retry_delay" number: 1 label: LABEL_OPTIONAL type: TYPE_MESSAGE
          type_name: ".google.protobuf.Duration" }
}
message_type {
  name: "ErrorInfo"
  field { name: "reason" number: 1 label: LABEL_OPTIONAL type: TYPE_STRING }
  field { name: "domain" number: 2 label: LABEL_OPTIONAL type: TYPE_STRING }
  field { name: "metadata" number: 3 label: LABEL_REPEATED type: TYPE_MESSAGE
          type_name: ".google.rpc.ErrorInfo.MetadataEntry" }
  nested_type {
    name: "MetadataEntry" options { map_entry: true }
    field { name: "key" number: 1 label: LABEL_OPTIONAL type: TYPE_STRING }
    field { name: "value" number: 2 label: LABEL_OPTIONAL type: TYPE_STRING }
  }
}
message_type {
  name: "BadRequest"
  field { name: "field_violations" number: 1 label: LABEL_REPEATED type: TYPE_MESSAGE
          type_name: ".google.rpc.BadRequest.FieldViolation" }
  nested_type {
    name: "FieldViolation"
    field { name: "field" number: 1 label: LABEL_OPTIONAL type: TYPE_STRING }
    field { name: "description" number: 2 label: LABEL_OPTIONAL type: TYPE_STRING }
  }
}
"""

_POOL: Final = DescriptorPool()

for _needed in (any_pb2, duration_pb2):
    _POOL.AddSerializedFile(_needed.DESCRIPTOR.serialized_pb)
_POOL.AddSerializedFile(text_format.Parse(_FILE, FileDescriptorProto()).SerializeToString())


def _message_class(name: str) -> Any:
    return GetMessageClass(_POOL.FindMessageTypeByName(f"google.rpc.{name}"))


Status, RetryInfo, ErrorInfo, BadRequest = map(
    _message_class, ("Status", "RetryInfo", "ErrorInfo", "BadRequest")
)

STATUS_TRAILER: Final = "grpc-status-details-bin"
"""The trailer in which gRPC has a google.rpc.Status."""


def new_status(code: int, message: str, *details: Any, retry_after_s: float | None = None) -> Any:
    """A google.rpc.Status; its last detail says when to come back, if `retry_after_s` does."""
    made = Status(code=code, message=message)
    for detail in details:
        made.details.add().Pack(detail)
    if retry_after_s is not None:
        retry = RetryInfo()
        retry.retry_delay.FromNanoseconds(round(retry_after_s * 1e9))
        made.details.add().Pack(retry)
    return made


def read_status(data: bytes) -> Any | None:
    """The google.rpc.Status in `data`; None where that is none."""
    try:
        return Status.FromString(data)
    except DecodeError:
        return None


def detail_of(status: Any | None, kind: Any) -> Any | None:
    """The first detail of a kind; None where there is none that can be read."""
    found = kind()
    try:
        return found if status and any(x.Unpack(found) for x in status.details) else None
    except DecodeError:
        return None


def retry_after_s(status: Any | None) -> float | None:
    """When a status says to come back, in seconds from now; None where it does not.

    >>> retry_after_s(new_status(14, "full", retry_after_s=2.5))
    2.5
    """
    info = detail_of(status, RetryInfo)
    return None if info is None else max(0.0, info.retry_delay.ToNanoseconds() / 1e9)


def as_json(message: Any) -> dict[str, Any]:
    """A status or one of its details in protobuf's JSON mapping."""
    return MessageToDict(message, descriptor_pool=_POOL)


TENANT_HEADER: Final = "x-scope-orgid"
"""The header in which servers look for a tenant, unless their `tenancy.header` names another."""


def authorization(token: str, source: str) -> tuple[str, str]:
    """The metadata with a token, which `source` gave.

    Raises InputError, without the token, where it cannot be one.
    """
    given = token.strip()
    if not given:
        raise InputError(f"{source}: contains no token")
    if len(given.splitlines()) > 1:
        raise InputError(f"{source}: contains several lines; give one token, without its scopes")
    if not all("!" <= x <= "~" for x in given):
        raise InputError(
            f"{source}: contains blanks or what is not ASCII; give one token, without its scopes"
        )
    return "authorization", f"Bearer {given}"


def tenant_named(name: str, source: str, header: str = TENANT_HEADER) -> tuple[str, str]:
    """The metadata that name a tenant, which `source` gave.

    Raises InputError where it cannot be one.
    """
    if problem := tenant_problem(name):
        raise InputError(f"{source} {name[:80]!r}: {problem}")
    return header.lower(), name


@overload
def text_of(text: str) -> str: ...
@overload
def text_of(text: None) -> None: ...
def text_of(text: str | None) -> str | None:
    """`text` with "?" for lone surrogates, which a JSON string may hold and protobuf refuses."""
    return text if text is None or text.isascii() else text.encode(errors="replace").decode()
