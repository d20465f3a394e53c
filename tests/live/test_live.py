"""Recordings sent to a running server give what a file of them gives, each score once."""

import random
import urllib.request

import grpc
import pytest
from opentelemetry.proto.collector.logs.v1.logs_service_pb2_grpc import LogsServiceStub
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2_grpc import TraceServiceStub

from spanscore.otlp import json as otlp_json

TRACES_OF_A_RECORDING = 4
TRACE_METRICS, SESSION_METRICS, SESSIONS = 2, 1, 2
FIRST_TURNS = SESSIONS  # which cannot repeat anything
SCORES = TRACES_OF_A_RECORDING * TRACE_METRICS - FIRST_TURNS + SESSIONS * SESSION_METRICS


def post(server, path, body, content_type):
    request = urllib.request.Request(
        f"http://127.0.0.1:{server.http}{path}", body, {"content-type": content_type}
    )
    with urllib.request.urlopen(request) as answer:
        assert answer.status == 200


def export(server, requests, stub=TraceServiceStub):
    with grpc.insecure_channel(f"127.0.0.1:{server.grpc}") as channel:
        for request in requests:
            stub(channel).Export(request)


def facts(trace):
    """All of an AgentTrace but how it was known to be complete, which only a server says."""
    return {key: value for key, value in trace.items() if key != "completeness"}


def check(server, recording):
    """The server rebuilt what the file gives, and exported each score once."""
    server.wait_until_finished(TRACES_OF_A_RECORDING)
    assert server.stop() == 0
    ids = [trace["id"] for trace in recording.expected]
    assert [facts(x) for x in server.agent_traces(ids)] == [facts(x) for x in recording.expected]
    spans = server.exported("spans")
    assert len({span["spanId"] for span in spans}) == len(spans)
    records = server.exported("logRecords")
    assert len(records) == len(spans)


@pytest.mark.parametrize(
    "case",
    [
        "semconv/message-attributes",
        "openinference/langgraph",
        "openllmetry/indexed-messages",
        "pydantic_ai/openai",
    ],
)
def test_grpc_gives_the_traces_of_the_file(server, recording, case):
    recorded, running = recording(case), server().start()
    export(running, [recorded.traces])
    check(running, recorded)


def test_every_score_is_exported(server, recording, unjudged):
    running = server(evaluation=unjudged).start()
    export(running, [recording("semconv/message-attributes").traces])
    running.wait_until_finished(TRACES_OF_A_RECORDING)
    running.stop()
    assert len(running.exported("spans")) == SCORES


def test_http_protobuf_gives_the_traces_of_the_file(server, recording):
    recorded, running = recording("openinference/openai"), server().start()
    post(running, "/v1/traces", recorded.traces.SerializeToString(), "application/x-protobuf")
    check(running, recorded)


def test_http_json_gives_the_traces_of_the_file(server, recording):
    recorded, running = recording("pydantic_ai/openai"), server().start()
    post(running, "/v1/traces", otlp_json.encode(recorded.traces).encode(), "application/json")
    check(running, recorded)


def test_spans_one_by_one_shuffled_and_doubled_give_the_traces_of_the_file(server, recording):
    recorded, running = recording("openinference/langgraph"), server().stop_clock().start()
    requests = list(recorded.spans_one_by_one()) * 2
    random.Random(7).shuffle(requests)
    export(running, requests)
    running.run_clock()
    check(running, recorded)


@pytest.mark.parametrize("case", ["semconv/message-events", "semconv/operation-details"])
def test_logs_that_come_before_their_spans_are_joined(server, recording, case):
    recorded, running = recording(case), server().stop_clock().start()
    export(running, [recorded.logs], LogsServiceStub)
    export(running, [recorded.traces])
    running.run_clock()
    check(running, recorded)


def test_a_late_span_gives_the_next_revision(server, recording):
    recorded, running = recording("semconv/message-attributes"), server().start()
    spans = list(recorded.spans_one_by_one())
    late = next(
        x
        for x in spans
        if x.resource_spans[0].scope_spans[0].spans[0].name.startswith("execute_tool")
    )
    spans.remove(late)
    export(running, spans)
    running.wait_until_finished(TRACES_OF_A_RECORDING)
    export(running, [late])
    running.wait_until_finished(TRACES_OF_A_RECORDING + 1)
    running.stop()
    revisions = {
        attribute["value"]["intValue"]
        for span in running.exported("spans")
        for attribute in span["attributes"]
        if attribute["key"] == "spanscore.revision"
    }
    assert revisions == {"1", "2"}


def test_a_request_sent_again_later_changes_nothing(server, recording, unjudged):
    recorded, running = recording("semconv/message-attributes"), server(evaluation=unjudged).start()
    export(running, [recorded.traces])
    running.wait_until_finished(TRACES_OF_A_RECORDING)
    export(running, [recorded.traces])
    running.wait_until_finished(2 * TRACES_OF_A_RECORDING)
    running.stop()
    assert len(running.exported("spans")) == SCORES


def test_scores_sent_back_to_the_server_open_nothing(server, recording):
    first, second = server().start(), server().start()
    export(first, [recording("semconv/message-attributes").traces])
    first.wait_until_finished(TRACES_OF_A_RECORDING)
    first.stop()
    sent = [line for line in first.scores.read_text().splitlines() if "resourceSpans" in line]
    for line in sent:
        post(second, "/v1/traces", line.encode(), "application/json")
    assert second.state()["counters"]["receiver_requests"] == len(sent)
    assert second.state()["open_traces"] == 0


def test_spans_without_genai_are_let_go_unread(server):
    running = server().start()
    request = ExportTraceServiceRequest()
    request.resource_spans.add().scope_spans.add().spans.add(
        name="GET", trace_id=b"t" * 16, span_id=b"s" * 8
    )
    export(running, [request])
    running.wait_until(lambda state: state["counters"].get("traces_finished") == 1)
    assert running.state()["counters"]["traces_without_genai"] == 1
