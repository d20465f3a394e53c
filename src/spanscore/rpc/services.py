"""The health and reflection services of gRPC servers."""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Sequence
from typing import Any, Final

import grpc
from google.protobuf import descriptor_pool

from spanscore.rpc.messages import POOL, Field, add_service, message_class, new_file, register

SERVICE: Final = "grpc.health.v1.Health"
_UNKNOWN, _SERVING, _NOT_SERVING, _SERVICE_UNKNOWN = range(4)
_STATUSES: Final = ("UNKNOWN", "SERVING", "NOT_SERVING", "SERVICE_UNKNOWN")

_file = new_file(
    "grpc/health/v1/health.proto",
    "grpc.health.v1",
    {"HealthCheckRequest": ((1, "string", "service"),), "HealthCheckResponse": ()},
)
_response = _file.message_type[1]
_enum = _response.enum_type.add(name="ServingStatus")
for _number, _name in enumerate(_STATUSES):
    _enum.value.add(name=_name, number=_number)
_status = _response.field.add(
    name="status", number=1, type_name=".grpc.health.v1.HealthCheckResponse.ServingStatus"
)
_status.type, _status.label = _status.TYPE_ENUM, _status.LABEL_OPTIONAL
_names = ("grpc.health.v1.HealthCheckRequest", "grpc.health.v1.HealthCheckResponse")
add_service(_file, "Health", {"Check": _names, "Watch": (_names[0], f"stream {_names[1]}")})
register(_file)

_Request, _Response = map(message_class, _names)


class Health:
    """The status of each service of one server. Belongs to one event loop."""

    def __init__(self) -> None:
        self._statuses: dict[str, int] = {}
        self._changed = asyncio.Condition()
        self._ends = False

    async def show(self, service: str, *, serving: bool) -> None:
        """Have checks and watches say whether `service` takes requests; "" stands for the whole
        server.
        """
        if not self._ends:
            await self._set({service: _SERVING if serving else _NOT_SERVING})

    async def end(self) -> None:
        """Have all say, from now on, that nothing takes requests any more."""
        self._ends = True
        await self._set(dict.fromkeys(self._statuses, _NOT_SERVING))

    async def _set(self, statuses: dict[str, int]) -> None:
        if statuses.items() <= self._statuses.items():
            return
        async with self._changed:
            self._statuses |= statuses
            self._changed.notify_all()

    def handlers(self) -> Any:
        """What a gRPC server is given, so that it answers checks."""
        as_message = {
            "request_deserializer": _Request.FromString,
            "response_serializer": _Response.SerializeToString,
        }
        methods = {
            "Check": grpc.unary_unary_rpc_method_handler(self._check, **as_message),
            "Watch": grpc.unary_stream_rpc_method_handler(self._watch, **as_message),
        }
        return grpc.method_handlers_generic_handler(SERVICE, methods)

    async def _check(self, request: Any, context: Any) -> Any:
        status = self._statuses.get(request.service)
        if status is None:
            await context.abort(
                grpc.StatusCode.NOT_FOUND, f"there is no service {request.service[:200]!r} here"
            )
        return _Response(status=status)

    async def _watch(self, request: Any, _context: Any) -> AsyncIterator[Any]:
        shown = None
        while True:
            async with self._changed:
                while self._status(request.service) == shown:
                    await self._changed.wait()
                shown = self._status(request.service)
            yield _Response(status=shown)

    def _status(self, service: str) -> int:
        return self._statuses.get(service, _SERVICE_UNKNOWN)


async def check(channel: Any, service: str, timeout_s: float) -> str:
    """What a server says of `service`: SERVING or another status. Raises grpc.RpcError."""
    ask = channel.unary_unary(
        f"/{SERVICE}/Check",
        request_serializer=_Request.SerializeToString,
        response_deserializer=_Response.FromString,
    )
    answer = await ask(_Request(service=service), timeout=timeout_s)
    return _STATUSES[answer.status] if answer.status < len(_STATUSES) else _STATUSES[_UNKNOWN]


_VERSIONS: Final = ("v1", "v1alpha")
_MESSAGES: Final[dict[str, Sequence[Field]]] = {
    "ServerReflectionRequest": (
        (1, "string", "host"),
        (3, "one string", "file_by_filename"),
        (4, "one string", "file_containing_symbol"),
        (5, "one {}.ExtensionRequest", "file_containing_extension"),
        (6, "one string", "all_extension_numbers_of_type"),
        (7, "one string", "list_services"),
    ),
    "ExtensionRequest": ((1, "string", "containing_type"), (2, "int32", "extension_number")),
    "ServerReflectionResponse": (
        (1, "string", "valid_host"),
        (2, "{}.ServerReflectionRequest", "original_request"),
        (4, "one {}.FileDescriptorResponse", "file_descriptor_response"),
        (5, "one {}.ExtensionNumberResponse", "all_extension_numbers_response"),
        (6, "one {}.ListServiceResponse", "list_services_response"),
        (7, "one {}.ErrorResponse", "error_response"),
    ),
    "FileDescriptorResponse": ((1, "repeated bytes", "file_descriptor_proto"),),
    "ExtensionNumberResponse": (
        (1, "string", "base_type_name"),
        (2, "repeated int32", "extension_number"),
    ),
    "ListServiceResponse": ((1, "repeated {}.ServiceResponse", "service"),),
    "ServiceResponse": ((1, "string", "name"),),
    "ErrorResponse": ((1, "int32", "error_code"), (2, "string", "error_message")),
}

for _version in _VERSIONS:
    _package = f"grpc.reflection.{_version}"
    _reflection_file = new_file(
        f"grpc/reflection/{_version}/reflection.proto",
        _package,
        {
            name: [(number, kind.format(_package), field) for number, kind, field in fields]
            for name, fields in _MESSAGES.items()
        },
    )
    _types = (
        f"stream {_package}.ServerReflectionRequest",
        f"stream {_package}.ServerReflectionResponse",
    )
    add_service(_reflection_file, "ServerReflection", {"ServerReflectionInfo": _types})
    register(_reflection_file)


def reflection_handlers(
    services: Iterable[str], *, load: Callable[[], object] = lambda: None
) -> tuple[Any, ...]:
    """What a gRPC server is given, so that it answers reflection for `services`, by full name, and
    for itself.

    `load` is called before each answer: the protos of the services must be imported by then.
    """
    listed = sorted(
        {*services, *(f"grpc.reflection.{version}.ServerReflection" for version in _VERSIONS)}
    )
    return tuple(_handlers(f"grpc.reflection.{version}", listed, load) for version in _VERSIONS)


def _handlers(package: str, services: Sequence[str], load: Callable[[], object]) -> Any:
    request_class = message_class(f"{package}.ServerReflectionRequest")
    response_class = message_class(f"{package}.ServerReflectionResponse")

    async def info(requests: AsyncIterator[Any], _context: Any) -> AsyncIterator[Any]:
        async for request in requests:
            load()
            yield response_class(
                valid_host=request.host,
                original_request=request,
                **_answer(request, services, package),
            )

    handler = grpc.stream_stream_rpc_method_handler(
        info,
        request_deserializer=request_class.FromString,
        response_serializer=response_class.SerializeToString,
    )
    return grpc.method_handlers_generic_handler(
        f"{package}.ServerReflection", {"ServerReflectionInfo": handler}
    )


def _answer(request: Any, services: Sequence[str], package: str) -> dict[str, Any]:
    """The one field that answers `request`, with its value."""
    try:
        match request.WhichOneof("kind"):
            case "list_services":
                return {
                    "list_services_response": {"service": [{"name": name} for name in services]}
                }
            case "file_by_filename":
                return _files(lambda pool: pool.FindFileByName(request.file_by_filename))
            case "file_containing_symbol":
                return _files(
                    lambda pool: pool.FindFileContainingSymbol(request.file_containing_symbol)
                )
    except KeyError:
        return _error(package, grpc.StatusCode.NOT_FOUND, "there is no such file or symbol here")
    return _error(
        package, grpc.StatusCode.UNIMPLEMENTED, "only services, files and symbols are known here"
    )


def _error(package: str, code: grpc.StatusCode, message: str) -> dict[str, Any]:
    error = message_class(f"{package}.ErrorResponse")
    return {"error_response": error(error_code=code.value[0], error_message=message)}


def _files(find: Callable[[Any], Any]) -> dict[str, Any]:
    """The file that `find` finds in a pool, with all that it needs.

    Raises KeyError where no pool has one.
    """
    try:
        found = find(POOL)
    except KeyError:
        found = find(descriptor_pool.Default())
    return {
        "file_descriptor_response": {
            "file_descriptor_proto": [x.serialized_pb for x in _needed(found, set())]
        }
    }


def _needed(file: Any, seen: set[str]) -> Iterator[Any]:
    if file.name not in seen:
        seen.add(file.name)
        yield file
        for other in file.dependencies:
            yield from _needed(other, seen)
