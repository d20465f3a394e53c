"""What was acknowledged is scored, once, whatever happens to the process."""

import contextlib
import os
import signal
from pathlib import Path

import grpc
import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2_grpc import TraceServiceStub

pytestmark = pytest.mark.slow

CONVERSATIONS = 4
DEADLINE_S = 300


def attribute(span, key):
    return next(iter(next(x["value"] for x in span["attributes"] if x["key"] == key).values()))


def traces_of(requests):
    return {request.resource_spans[0].scope_spans[0].spans[0].trace_id for request in requests}


def test_every_trace_acknowledged_before_a_kill_is_scored_once(server, recording):
    # a slow sender's trace would be cut before its last spans were sent
    running = server().stop_clock().start()
    requests = recording("semconv/message-attributes").copies(CONVERSATIONS)
    half = len(requests) // 2
    with grpc.insecure_channel(f"127.0.0.1:{running.grpc}") as channel:
        for request in requests[:half]:
            TraceServiceStub(channel).Export(request)
    running.kill()
    running.start()
    with grpc.insecure_channel(f"127.0.0.1:{running.grpc}") as channel:
        for request in requests[half:]:
            TraceServiceStub(channel).Export(request)
    running.run_clock()
    expected = len(traces_of(requests))
    running.wait_until_finished(expected)
    running.stop()
    scored = [
        (span["traceId"], span["name"].split(":")[0])
        for span in running.exported("spans")
        if attribute(span, "spanscore.scope") == "trace"
        and attribute(span, "spanscore.revision") == "1"
    ]
    assert len({trace_id for trace_id, _ in scored}) == expected
    assert len(set(scored)) == len(scored)


@pytest.mark.parametrize("when", ["before", "after"])
def test_a_kill_while_scores_are_committed_scores_none_twice(server, recording, when):
    running = server()
    running.program = str(Path(__file__).with_name("killed.py"))
    (running.folder / "kill").write_text(f"spanscore.scoring Scoring commit {when}")
    running.start()
    requests = recording("semconv/message-attributes").copies(CONVERSATIONS)
    with (
        grpc.insecure_channel(f"127.0.0.1:{running.grpc}") as channel,
        contextlib.suppress(grpc.RpcError),  # it may be killed while some are on their way
    ):
        for request in requests:
            TraceServiceStub(channel).Export(request)
    assert running.process.wait(DEADLINE_S) == -signal.SIGKILL
    running.start()
    with grpc.insecure_channel(f"127.0.0.1:{running.grpc}") as channel:
        for request in requests:
            TraceServiceStub(channel).Export(request)
    running.wait_until(lambda state: not state["open_traces"] and not state["waiting_traces"])
    running.wait_until_finished(0)
    running.stop()
    spans = running.exported("spans")
    assert len({span["spanId"] for span in spans}) == len(spans)
    assert len({span["traceId"] for span in spans}) == len(traces_of(requests))


def test_stopping_keeps_an_unfinished_trace_for_the_next_start(server, recording):
    running = server().stop_clock().start()
    with grpc.insecure_channel(f"127.0.0.1:{running.grpc}") as channel:
        TraceServiceStub(channel).Export(recording("semconv/message-attributes").traces)
    assert running.stop() == 0
    running.start()
    assert running.state()["open_traces"] == 4
    running.run_clock()
    running.wait_until_finished(4)


def test_a_full_journal_sends_the_sender_away_to_come_back(server, tmp_path):
    running = (
        server(journal={"path": str(tmp_path / "small.db"), "max_bytes": 100}).stop_clock().start()
    )
    request = ExportTraceServiceRequest()
    span = (
        request.resource_spans.add()
        .scope_spans.add()
        .spans.add(trace_id=b"t" * 16, span_id=b"s" * 8)
    )
    span.name = os.urandom(100).hex()
    with grpc.insecure_channel(f"127.0.0.1:{running.grpc}") as channel:
        TraceServiceStub(channel).Export(request)  # an empty journal takes whatever comes
        span.trace_id = b"u" * 16
        try:
            TraceServiceStub(channel).Export(request)
            code = grpc.StatusCode.OK
        except grpc.RpcError as error:
            code = error.code()
    assert code is grpc.StatusCode.UNAVAILABLE
