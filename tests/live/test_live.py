"""Recordings sent to a running server give what a file of them gives, each score once."""

import random
import urllib.request
from collections import Counter

import grpc
import pytest
from opentelemetry.proto.collector.logs.v1.logs_service_pb2_grpc import LogsServiceStub
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2_grpc import TraceServiceStub

from spanscore.otlp import codec as otlp_json

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


def check(server, *recordings):
    """The server rebuilt what the files give, and exported each score once."""
    expected = [trace for recording in recordings for trace in recording.expected]
    server.wait_until_finished(len(expected))
    assert server.stop() == 0
    found = server.agent_traces([trace["id"] for trace in expected])
    assert [facts(x) for x in found] == [facts(x) for x in expected]
    spans = server.exported("spans")
    assert len({span["spanId"] for span in spans}) == len(spans)
    records = server.exported("logRecords")
    assert len(records) == len(spans)


def test_grpc_and_http_give_the_traces_of_the_files_and_each_score_once(
    server, recording, unjudged
):
    """The main job from end to end, in a process of its own."""
    by_grpc = [recording("semconv/message-attributes"), recording("openllmetry/indexed-messages")]
    by_protobuf, by_json = recording("openinference/openai"), recording("pydantic_ai/openai")
    running = server(evaluation=unjudged)
    running.is_forked = False
    running.start()
    export(running, [x.traces for x in by_grpc])
    body = by_protobuf.traces.SerializeToString()
    post(running, "/v1/traces", body, "application/x-protobuf")
    body = otlp_json.encode(by_json.traces).encode()
    post(running, "/v1/traces", body, "application/json")
    check(running, *by_grpc, by_protobuf, by_json)
    expected = [x for one in (*by_grpc, by_protobuf, by_json) for x in one.expected]
    scored = Counter(x["name"].rpartition(": ")[2] for x in running.exported("spans"))
    assert scored["coherence"] == len(expected)
    assert scored["agent_reliability"] == len({x["session_id"] for x in expected})


@pytest.mark.slow
def test_spans_one_by_one_shuffled_and_doubled_give_the_traces_of_the_file(server, recording):
    recorded, running = recording("openinference/langgraph"), server().stop_clock().start()
    requests = list(recorded.spans_one_by_one()) * 2
    random.Random(7).shuffle(requests)
    export(running, requests)
    running.run_clock()
    check(running, recorded)


@pytest.mark.slow
def test_logs_that_come_before_their_spans_are_joined(server, recording):
    recordings = [recording("semconv/message-events"), recording("semconv/operation-details")]
    running = server().stop_clock().start()
    for recorded in recordings:
        export(running, [recorded.logs], LogsServiceStub)
        export(running, [recorded.traces])
    running.run_clock()
    check(running, *recordings)


@pytest.mark.slow
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


@pytest.mark.slow
def test_a_request_sent_again_later_changes_nothing(server, recording, unjudged):
    recorded, running = recording("semconv/message-attributes"), server(evaluation=unjudged).start()
    export(running, [recorded.traces])
    running.wait_until_finished(TRACES_OF_A_RECORDING)
    export(running, [recorded.traces])
    running.wait_until_finished(2 * TRACES_OF_A_RECORDING)
    running.stop()
    assert len(running.exported("spans")) == SCORES


@pytest.mark.slow
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


@pytest.mark.slow
def test_spans_without_genai_are_let_go_unread(server):
    running = server().start()
    request = ExportTraceServiceRequest()
    request.resource_spans.add().scope_spans.add().spans.add(
        name="GET", trace_id=b"t" * 16, span_id=b"s" * 8
    )
    export(running, [request])
    running.wait_until(lambda state: state["counters"].get("traces_finished") == 1)
    assert running.state()["counters"]["traces_without_genai"] == 1
