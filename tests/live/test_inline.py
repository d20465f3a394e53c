"""Inline mode: all that came in leaves, once; the agent's root leaves with its scores on it."""

import grpc
import pytest
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2_grpc import MetricsServiceStub
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2_grpc import TraceServiceStub

pytestmark = pytest.mark.slow

TRACES = 4


def export(server, requests, stub=TraceServiceStub):
    with grpc.insecure_channel(f"127.0.0.1:{server.grpc}") as channel:
        for request in requests:
            stub(channel).Export(request)


def attributes(span):
    return {x["key"]: x["value"] for x in span.get("attributes", [])}


def received(recorded):
    return sorted(
        span.span_id.hex()
        for request in recorded.spans_one_by_one()
        for span in request.resource_spans[0].scope_spans[0].spans
    )


def passed_on(server):
    return [
        span for span in server.exported("spans") if "spanscore.emitted" not in attributes(span)
    ]


def test_every_span_leaves_once_and_the_root_with_its_scores(server, recording):
    recorded, running = (
        recording("semconv/message-attributes"),
        server(mode="inline").stop_clock().start(),
    )
    export(running, recorded.spans_one_by_one())
    running.run_clock()
    running.wait_until_finished(TRACES)
    assert running.stop() == 0
    spans = passed_on(running)
    assert sorted(span["spanId"] for span in spans) == received(recorded)
    roots = [span for span in spans if not span.get("parentSpanId")]
    assert all("spanscore.coherence.score" in attributes(root) for root in roots)


def test_trace_scores_on_the_root_are_not_sent_as_spans_too(server, recording, unjudged):
    recorded, running = (
        recording("semconv/message-attributes"),
        server(mode="inline", evaluation=unjudged).start(),
    )
    export(running, [recorded.traces])
    running.wait_until_finished(TRACES)
    running.stop()
    emitted = [
        attributes(span)
        for span in running.exported("spans")
        if "spanscore.emitted" in attributes(span)
    ]
    names = {x["gen_ai.evaluation.name"]["stringValue"] for x in emitted}
    assert names == {"loop_detection", "agent_reliability"}


def test_a_root_whose_time_is_up_leaves_without_scores_and_they_follow(server, recording):
    settings = {"mode": "inline", "inline": {"max_delay": "0"}}
    recorded, running = (
        recording("semconv/message-attributes"),
        server(**settings).stop_clock().start(),
    )
    export(running, [recorded.traces])
    running.wait_until(lambda state: not state["held_roots"])
    running.run_clock()
    running.wait_until_finished(TRACES)
    running.stop()
    assert sorted(span["spanId"] for span in passed_on(running)) == received(recorded)
    assert not any("spanscore.coherence.score" in attributes(span) for span in passed_on(running))
    emitted = [
        attributes(x) for x in running.exported("spans") if "spanscore.emitted" in attributes(x)
    ]
    assert "coherence" in {x["gen_ai.evaluation.name"]["stringValue"] for x in emitted}


def test_spans_without_genai_leave_at_once(server):
    slow = {"complete_after": "1h", "idle_after": "1h", "session_idle_after": "1h"}
    running = server(mode="inline", assemble=slow).start()
    request = ExportTraceServiceRequest()
    request.resource_spans.add().scope_spans.add().spans.add(
        name="GET", trace_id=b"t" * 16, span_id=b"s" * 8
    )
    export(running, [request])
    running.wait_until(lambda state: state["counters"].get("exporter_sent_requests"))
    assert [span["name"] for span in running.exported("spans")] == ["GET"]


def test_metrics_are_passed_on(server):
    running = server(mode="inline").start()
    request = ExportMetricsServiceRequest()
    request.resource_metrics.add().scope_metrics.add().metrics.add(name="requests")
    export(running, [request], MetricsServiceStub)
    running.wait_until(lambda state: state["counters"].get("exporter_sent_requests"))
    assert '"requests"' in running.scores.read_text()


def test_roots_held_back_leave_after_a_kill(server, recording):
    recorded, running = (
        recording("semconv/message-attributes"),
        server(mode="inline").stop_clock().start(),
    )
    export(running, [recorded.traces])
    running.kill()
    running.run_clock()
    running.start()
    running.wait_until_finished(TRACES)
    running.stop()
    assert {span["spanId"] for span in passed_on(running)} == set(received(recorded))


def test_an_agent_under_an_http_server_leaves_with_its_scores(server, recording):
    recorded, running = recording("semconv/message-attributes"), server(mode="inline").start()
    groups = [scoped for group in recorded.traces.resource_spans for scoped in group.scope_spans]
    for agent in [span for scoped in groups for span in scoped.spans if not span.parent_span_id]:
        trace_id = agent.trace_id
        http = (
            recorded.traces.resource_spans[0]
            .scope_spans.add()
            .spans.add(name="POST /chat", trace_id=trace_id, span_id=b"http" + trace_id[:4])
        )
        http.start_time_unix_nano, http.end_time_unix_nano = (
            agent.start_time_unix_nano,
            agent.end_time_unix_nano,
        )
        agent.parent_span_id = http.span_id
    export(running, [recorded.traces])
    running.wait_until_finished(TRACES)
    running.stop()
    scored = [x["name"] for x in passed_on(running) if "spanscore.coherence.score" in attributes(x)]
    assert scored == ["invoke_agent travel-assistant"] * TRACES
