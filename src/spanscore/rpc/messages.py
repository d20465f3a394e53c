"""The messages' descriptors, as grpc and googleapis publish them, and the classes made of them.

They are in a pool of their own: in the process's common one the same names may be there already,
from the packages that publish them, and protobuf refuses a second definition.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from google.protobuf import any_pb2, duration_pb2
from google.protobuf.descriptor_pb2 import FieldDescriptorProto, FileDescriptorProto
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message_factory import GetMessageClass

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
