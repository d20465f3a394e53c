"""A backend that fails at what it is sent: nothing is lost, and what is asked for arrives once."""

import json
import threading
from collections import Counter
from concurrent.futures import ThreadPoolExecutor

import grpc
import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2_grpc import TraceServiceStub

from spanscore.otlp.signal import SIGNALS, WIRE

pytestmark = pytest.mark.slow


class Backend(grpc.GenericRpcHandler):
    """Takes every signal; while `works` is not set it answers INTERNAL."""

    def __init__(self):
        self.works = threading.Event()
        self.spans = Counter()
        self.server = grpc.server(ThreadPoolExecutor(4), handlers=[self])
        self.port = self.server.add_insecure_port("127.0.0.1:0")
        self.server.start()

    def service(self, details):
        signal = next(x for x in SIGNALS if WIRE[x].service in details.method)

        def answer(body, context):
            if not self.works.is_set():
                context.abort(grpc.StatusCode.INTERNAL, "the disk is read-only")
            if signal == "traces":
                request = ExportTraceServiceRequest.FromString(body)
                self.spans.update(
                    x.span_id
                    for r in request.resource_spans
                    for s in r.scope_spans
                    for x in s.spans
                )
            return WIRE[signal].response().SerializeToString()

        return grpc.unary_unary_rpc_method_handler(answer)


@pytest.fixture
def backend():
    made = Backend()
    yield made
    made.server.stop(None)


def scores(running, *words):
    done = running.run("scores", *words)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_what_a_backend_failed_at_is_listed_and_sent_again_once(server, recording, backend):
    exporter = {
        "endpoint": f"127.0.0.1:{backend.port}",
        "tls": {"insecure": True},
        "retry_on_failure": {"initial_interval": "10ms", "max_fault_time": "100ms"},
    }
    running = server(export={"exporters": {"otlp_grpc": exporter}}).start()
    with grpc.insecure_channel(f"127.0.0.1:{running.grpc}") as channel:
        TraceServiceStub(channel).Export(recording("semconv/message-attributes").traces)
    running.wait_until(
        lambda state: (
            state["scores_undelivered"]["otlp_grpc"] > 0
            and not any(state["scores_to_export"].values())
        )
    )
    listed = [json.loads(line) for line in scores(running, "--undelivered", "--json").splitlines()]
    assert {(x["reason"], x["error"]) for x in listed} == {
        ("fault", "INTERNAL: the disk is read-only")
    }

    backend.works.set()
    scores(running, "--resend")
    running.wait_until(lambda state: not state["scores_undelivered"]["otlp_grpc"])
    assert running.stop() == 0
    assert backend.spans
    assert len(backend.spans) >= len(listed)
    assert set(backend.spans.values()) == {1}
    assert scores(running, "--undelivered") == "nothing is undelivered\n"
