"""OTLP's messages of log records, which have `event_name` also where opentelemetry-proto is older
than that field.

Frameworks pin older versions than 1.35, in which the field came. Without it the name of an event
that is sent would be lost, so the messages are made anew with it then, in a pool of their own; they
are the same on the wire.
"""

from typing import TYPE_CHECKING, Any, Final

from google.protobuf.descriptor_pb2 import FieldDescriptorProto, FileDescriptorProto
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message_factory import GetMessageClass
from opentelemetry.proto.collector.logs.v1 import logs_service_pb2
from opentelemetry.proto.common.v1 import common_pb2
from opentelemetry.proto.logs.v1 import logs_pb2
from opentelemetry.proto.resource.v1 import resource_pb2

_EVENT_NAME_NUMBER: Final = 12


def _pool() -> DescriptorPool:
    """The pool in which the log messages have `event_name`."""
    if "event_name" in logs_pb2.LogRecord.DESCRIPTOR.fields_by_name:
        return logs_pb2.DESCRIPTOR.pool
    return with_event_name()


def with_event_name() -> DescriptorPool:
    """A pool with the installed log messages, to which the field is added."""
    pool = DescriptorPool()
    for module in (common_pb2, resource_pb2, logs_pb2, logs_service_pb2):
        file = FileDescriptorProto.FromString(module.DESCRIPTOR.serialized_pb)
        for message in file.message_type:
            if message.name == "LogRecord" and all(
                x.number != _EVENT_NAME_NUMBER for x in message.field
            ):
                _add_event_name(message)
        pool.AddSerializedFile(file.SerializeToString())
    return pool


def _add_event_name(message: Any) -> None:
    message.field.add(
        name="event_name",
        json_name="eventName",
        number=_EVENT_NAME_NUMBER,
        type=FieldDescriptorProto.TYPE_STRING,
        label=FieldDescriptorProto.LABEL_OPTIONAL,
    )


def _message(pool: DescriptorPool, descriptor: Any) -> Any:
    return GetMessageClass(pool.FindMessageTypeByName(descriptor.full_name))


if TYPE_CHECKING:
    ExportLogsServiceRequest = logs_service_pb2.ExportLogsServiceRequest
    LogRecord = logs_pb2.LogRecord
else:
    _POOL = _pool()
    ExportLogsServiceRequest = _message(_POOL, logs_service_pb2.ExportLogsServiceRequest.DESCRIPTOR)
    LogRecord = _message(_POOL, logs_pb2.LogRecord.DESCRIPTOR)
