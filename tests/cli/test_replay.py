"""Recorded spans sent again: the same facts at another time."""

import asyncio
import gzip
import threading
from concurrent import futures
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import grpc
import pytest
from opentelemetry.proto.collector.trace.v1 import trace_service_pb2, trace_service_pb2_grpc

from spanscore.cli import demo
from spanscore.cli.one_run import from_environment
from spanscore.errors import InputError
from spanscore.otlp import codec

_NOW_NS = 1_800_000_000 * 10**9
_FOLDER = demo.recordings() / "pydantic-ai"


class GrpcBackend(trace_service_pb2_grpc.TraceServiceServicer):
    """Keeps what it is sent."""

    def __init__(self):
        self.requests = []
        self.server = grpc.server(futures.ThreadPoolExecutor(1))
        trace_service_pb2_grpc.add_TraceServiceServicer_to_server(self, self.server)
        self.endpoint = f"http://127.0.0.1:{self.server.add_insecure_port('127.0.0.1:0')}"
        self.server.start()

    def Export(self, request, context):  # noqa: N802 - gRPC names it
        self.requests.append(request)
        return trace_service_pb2.ExportTraceServiceResponse()

    def stop(self):
        self.server.stop(0)


class HttpBackend:
    """Keeps what is posted to its /v1/traces."""

    def __init__(self):
        self.requests = requests = []

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self):
                body = gzip.decompress(self.rfile.read(int(self.headers["content-length"])))
                requests.append(trace_service_pb2.ExportTraceServiceRequest.FromString(body))
                self.send_response(200 if self.path == "/v1/traces" else 404)
                self.end_headers()

            def log_message(self, *args):
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.endpoint = f"http://127.0.0.1:{self.server.server_port}"
        self._thread = threading.Thread(target=self.server.serve_forever)
        self._thread.start()

    def stop(self):
        self.server.shutdown()
        self.server.server_close()
        self._thread.join()


@pytest.fixture(
    params=[(GrpcBackend, "grpc"), (HttpBackend, "http/protobuf")], ids=["grpc", "http"]
)
def listening(request):
    kind, protocol = request.param
    fake = kind()
    environ = {
        "OTEL_EXPORTER_OTLP_ENDPOINT": fake.endpoint,
        "OTEL_EXPORTER_OTLP_PROTOCOL": protocol,
    }
    yield fake.requests, from_environment(environ)
    fake.stop()


def _spans(requests):
    return sorted(
        (span for request in requests for span in codec.spans(request)),
        key=lambda span: span.span_id,
    )


@pytest.mark.slow
def test_the_recorded_requests_are_sent_as_they_are(listening):
    received, backend = listening
    recorded = demo.recorded_requests(_FOLDER, _NOW_NS)
    assert asyncio.run(demo.send(recorded, backend))
    assert received == recorded


def test_the_last_recorded_span_ends_now():
    assert max(span.end_ns for span in _spans(demo.recorded_requests(_FOLDER, _NOW_NS))) == _NOW_NS


def test_a_second_replay_has_other_trace_ids_but_as_many():
    first, second = (
        {span.trace_id for span in _spans(demo.recorded_requests(_FOLDER, _NOW_NS))}
        for _ in range(2)
    )
    assert (len(first), len(second), first & second) == (4, 4, set())


def test_a_second_replay_has_other_span_ids():
    first, second = (
        {span.span_id for span in _spans(demo.recorded_requests(_FOLDER, _NOW_NS))}
        for _ in range(2)
    )
    assert first.isdisjoint(second)


def test_a_replay_has_the_same_tree():
    spans = _spans(demo.recorded_requests(_FOLDER, _NOW_NS))
    within = {(span.trace_id, span.span_id) for span in spans}
    assert sum(not span.parent_span_id for span in spans) == 4
    assert all(
        (span.trace_id, span.parent_span_id) in within for span in spans if span.parent_span_id
    )


def test_a_folder_without_a_recording_is_bad_input(tmp_path):
    with pytest.raises(InputError, match="no recording"):
        demo.recorded_requests(tmp_path, _NOW_NS)
