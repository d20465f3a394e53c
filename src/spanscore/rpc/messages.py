"""Statuses with details, and clients' metadata.

They are in a pool of their own: in the process's common one the same names may be there already,
from the packages that publish them, and protobuf refuses a second definition.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, overload

from google.protobuf import any_pb2, duration_pb2
from google.protobuf.descriptor_pb2 import FieldDescriptorProto, FileDescriptorProto
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message import DecodeError
from google.protobuf.message_factory import GetMessageClass

from spanscore.errors import InputError
from spanscore.model import headers

Field = tuple[int, str, str]
"""Number, type, name. A type is one of protobuf's own or a message's full name. Before it may stand
`repeated`, or `one` for the fields of which at most one is set.
"""

_SCALARS: Final = {
    "bool": FieldDescriptorProto.TYPE_BOOL,
    "bytes": FieldDescriptorProto.TYPE_BYTES,
    "int32": FieldDescriptorProto.TYPE_INT32,
    "string": FieldDescriptorProto.TYPE_STRING,
}

POOL: Final = DescriptorPool()

for _known in (any_pb2, duration_pb2):
    POOL.AddSerializedFile(_known.DESCRIPTOR.serialized_pb)


def _field(given: Field) -> FieldDescriptorProto:
    number, kind, name = given
    label, _, kind = kind.rpartition(" ")
    field = FieldDescriptorProto(name=name, number=number)
    field.label = field.LABEL_REPEATED if label == "repeated" else field.LABEL_OPTIONAL
    if kind in _SCALARS:
        field.type = _SCALARS[kind]
    else:
        field.type, field.type_name = field.TYPE_MESSAGE, f".{kind}"
    if label == "one":
        field.oneof_index = 0
    return field


def new_file(
    path: str, package: str, messages: Mapping[str, Sequence[Field]], *needed: str
) -> FileDescriptorProto:
    """A proto3 file with these messages, which needs the files `needed`.

    `Outer.Inner` stands after `Outer`; one whose name ends in `Entry` is an entry of a map.
    """
    file = FileDescriptorProto(name=path, package=package, syntax="proto3", dependency=needed)
    for name, fields in messages.items():
        outer, _, inner = name.rpartition(".")
        around = next(
            (x.nested_type for x in file.message_type if x.name == outer), file.message_type
        )
        message = around.add(name=inner)
        message.field.extend(map(_field, fields))
        if inner.endswith("Entry"):
            message.options.map_entry = True
        if any(kind.startswith("one ") for _, kind, _ in fields):
            message.oneof_decl.add(name="kind")
    return file


def add_service(
    file: FileDescriptorProto, name: str, methods: Mapping[str, tuple[str, str]]
) -> None:
    """Add a service to `file`: by method the types of request and response, `stream` before those
    that are streams.
    """
    service = file.service.add(name=name)
    for method, (request, response) in methods.items():
        service.method.add(
            name=method,
            input_type=f".{request.removeprefix('stream ')}",
            output_type=f".{response.removeprefix('stream ')}",
            client_streaming=request.startswith("stream "),
            server_streaming=response.startswith("stream "),
        )


def register(file: FileDescriptorProto) -> None:
    """Put `file` into the pool."""
    POOL.AddSerializedFile(file.SerializeToString())


def message_class(full_name: str) -> Any:
    """The class of a message in the pool."""
    return GetMessageClass(POOL.FindMessageTypeByName(full_name))


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
    if problem := headers.tenant_problem(name):
        raise InputError(f"{source} {name[:80]!r}: {problem}")
    return header.lower(), name


@overload
def text_of(text: str) -> str: ...
@overload
def text_of(text: None) -> None: ...
def text_of(text: str | None) -> str | None:
    """`text` with "?" for lone surrogates, which a JSON string may hold and protobuf refuses."""
    return text if text is None or text.isascii() else text.encode(errors="replace").decode()
