"""OTLP's three signals, each as on the wire."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias, get_args

from google.protobuf.descriptor_pb2 import FieldDescriptorProto, FileDescriptorProto
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message import Message
from google.protobuf.message_factory import GetMessageClass
from opentelemetry.proto.collector.logs.v1 import logs_service_pb2
from opentelemetry.proto.collector.metrics.v1 import metrics_service_pb2
from opentelemetry.proto.collector.trace.v1 import trace_service_pb2
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
    """A pool with the installed log messages, to which the field is added.

    Frameworks pin older versions than 1.35, in which the field came. Without it the name of an
    event that is sent would be lost; the messages are the same on the wire.
    """
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

Signal: TypeAlias = Literal["traces", "logs", "metrics"]

SIGNALS: tuple[Signal, ...] = get_args(Signal)


@dataclass(frozen=True, slots=True)
class Wire:
    """How one signal travels.

    `request` and `response` are the message classes of an export, `service` is the full name of its
    gRPC service, `path` its HTTP path, `json_key` the top-level key of a request in OTLP/JSON, and
    `rejected` the field of the response's `partial_success` that counts what was refused.
    """

    request: type[Message]
    response: type[Message]
    service: str
    path: str
    json_key: str
    rejected: str

    def partial(self, rejected: int, message: str) -> Message:
        """The response that says `rejected` items were refused, and why; everything else was
        accepted.
        """
        answer: Any = self.response()  # the three response classes share a shape, but no type
        setattr(answer.partial_success, self.rejected, rejected)
        answer.partial_success.error_message = message
        return answer  # type: ignore[no-any-return]  # Any above


WIRE: dict[Signal, Wire] = {
    "traces": Wire(
        trace_service_pb2.ExportTraceServiceRequest,
        trace_service_pb2.ExportTraceServiceResponse,
        "opentelemetry.proto.collector.trace.v1.TraceService",
        "/v1/traces",
        "resourceSpans",
        "rejected_spans",
    ),
    "logs": Wire(
        ExportLogsServiceRequest,
        logs_service_pb2.ExportLogsServiceResponse,
        "opentelemetry.proto.collector.logs.v1.LogsService",
        "/v1/logs",
        "resourceLogs",
        "rejected_log_records",
    ),
    "metrics": Wire(
        metrics_service_pb2.ExportMetricsServiceRequest,
        metrics_service_pb2.ExportMetricsServiceResponse,
        "opentelemetry.proto.collector.metrics.v1.MetricsService",
        "/v1/metrics",
        "resourceMetrics",
        "rejected_data_points",
    ),
}
"""What each signal is called on the wire."""
