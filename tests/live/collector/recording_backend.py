"""A tracing backend that keeps what it is sent: `python recording_backend.py PORT FILE`, a line for
each request.
"""

import base64
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import grpc
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceResponse
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import (
    ExportMetricsServiceResponse,
)
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceResponse

METHODS = {
    "/opentelemetry.proto.collector.trace.v1.TraceService/Export": (
        "traces",
        ExportTraceServiceResponse(),
    ),
    "/opentelemetry.proto.collector.logs.v1.LogsService/Export": (
        "logs",
        ExportLogsServiceResponse(),
    ),
    "/opentelemetry.proto.collector.metrics.v1.MetricsService/Export": (
        "metrics",
        ExportMetricsServiceResponse(),
    ),
}


class Recorder(grpc.GenericRpcHandler):
    """Answers every export with success once its bytes are in the file."""

    def __init__(self, path):
        self._file = path.open("ab", buffering=0)

    def service(self, details):
        signal, response = METHODS[details.method]

        def export(body, _context):
            self._file.write(signal.encode() + b" " + base64.b64encode(body) + b"\n")
            return response.SerializeToString()

        return grpc.unary_unary_rpc_method_handler(export)


def main():
    server = grpc.server(
        ThreadPoolExecutor(1), options=[("grpc.max_receive_message_length", 64 << 20)]
    )
    server.add_generic_rpc_handlers([Recorder(Path(sys.argv[2]))])
    server.add_insecure_port(f"127.0.0.1:{sys.argv[1]}")
    server.start()
    server.wait_for_termination()


if __name__ == "__main__":
    main()
