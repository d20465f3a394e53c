"""The three signals that OTLP carries, and what each is called on the wire."""

from dataclasses import dataclass
from typing import Any, Literal, TypeAlias, get_args

from google.protobuf.message import Message
from opentelemetry.proto.collector.logs.v1 import logs_service_pb2
from opentelemetry.proto.collector.metrics.v1 import metrics_service_pb2
from opentelemetry.proto.collector.trace.v1 import trace_service_pb2

from spanscore.otlp.logs import ExportLogsServiceRequest

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
