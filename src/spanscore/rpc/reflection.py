"""grpc.reflection, in both its versions: a client such as grpcurl asks for the services and for
their protos.
"""

from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Sequence
from typing import Any, Final

import grpc
from google.protobuf import descriptor_pool

from spanscore.rpc.messages import POOL, Field, add_service, message_class, new_file, register

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
    _file = new_file(
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
    add_service(_file, "ServerReflection", {"ServerReflectionInfo": _types})
    register(_file)


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
