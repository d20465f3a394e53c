"""What is in Kafka is scored, once, whatever happens to servers and brokers."""

import urllib.request
from collections import defaultdict

import grpc
import pytest
from kafka_topics import as_json, attribute, trace_id_of, until
from opentelemetry.proto.collector.trace.v1.trace_service_pb2_grpc import TraceServiceStub

pytestmark = pytest.mark.kafka

CASE = "semconv/message-attributes"


def ids(requests):
    return {trace_id_of(x).hex() for x in requests}


def scored(*servers):
    """How many first scores each trace has, by server, trace and metric; a score that was sent
    twice is one.
    """
    found = defaultdict(set)
    for running in servers:
        for span in running.exported("spans"):
            is_first = attribute(span, "spanscore.revision") == "1"
            if is_first and attribute(span, "spanscore.scope") == "trace":
                name = span["name"].split(": ")[-1]
                found[running.folder.name, span["traceId"], name].add(span["spanId"])
    return {key: len(uids) for key, uids in found.items()}


def finished(running, traces):
    """Wait until all is scored, and these traces are among it."""
    running.wait_until_finished(len(traces))
    until(lambda: traces <= {trace_id for _, trace_id, _ in scored(running)})


@pytest.mark.parametrize("encoding", ["otlp_proto", "otlp_json"])
def test_messages_are_scored_and_committed_whether_keyed_or_not(
    server, recording, topics, unjudged, encoding
):
    settings = topics.settings(traces={"topics": [topics.spans], "encoding": encoding})
    running = server(**settings, evaluation=unjudged, assemble={"late_window": "1s"})
    running.stop_clock().start()  # a trace would be cut before its last spans have come
    requests = recording(CASE).copies(4)
    unkeyed = [x for x in requests if trace_id_of(x)[-1] % 2]
    encode = as_json if encoding == "otlp_json" else None
    topics.write([x for x in requests if x not in unkeyed], encode=encode)
    topics.write(unkeyed, encode=encode, keyed=False)
    running.wait_until(lambda x: x["counters"].get("receiver_requests", 0) == len(requests))
    running.run_clock()
    finished(running, ids(requests))
    until(lambda: topics.committed() == len(requests) + len(unkeyed))
    running.stop()
    assert set(scored(running).values()) == {1}


def test_spans_and_log_records_of_a_trace_come_together(server, recording, topics, unjudged):
    running = server(**topics.settings(), evaluation=unjudged).start()
    shop = recording("bedrock/shop")
    topics.write_bytes(shop.traces.SerializeToString())
    topics.write_bytes(shop.logs.SerializeToString(), topic=topics.logs)
    finished(running, {x["trace_ids"][0] for x in shop.expected})
    found = running.agent_traces([x["id"] for x in shop.expected])
    assert [x["final_output"] for x in found] == [x["final_output"] for x in shop.expected]
    assert [x["user_input"] for x in found] == [x["user_input"] for x in shop.expected]


def test_a_kill_costs_nothing_and_scores_nothing_twice(server, recording, topics, unjudged):
    running = server(**topics.settings(), evaluation=unjudged).stop_clock().start()
    requests = recording(CASE).copies(4)
    half = len(requests) // 2
    topics.write(requests[:half])
    running.wait_until(lambda x: x["counters"].get("receiver_requests", 0) == half)
    running.kill()
    topics.write(requests[half:])
    running.start()
    running.wait_until(lambda x: x["counters"].get("receiver_requests", 0) == len(requests))
    running.run_clock()
    finished(running, ids(requests))
    assert topics.committed() == 0  # late spans may still come
    running.stop()
    assert set(scored(running).values()) == {1}


def test_a_rebalance_loses_nothing(server, recording, topics, unjudged):
    requests = recording(CASE).copies(6)
    half = len(requests) // 2
    first, second = (server(**topics.settings(), evaluation=unjudged) for _ in range(2))
    first.start()
    topics.write(requests[:half])
    first.wait_until(lambda x: x["counters"].get("receiver_requests", 0) > half // 2)
    second.start()
    topics.write(requests[half:])
    until(lambda: ids(requests) <= {x for _, x, _ in scored(first, second)})
    second.stop()  # the first gets all of it again
    finished(first, ids(requests))
    assert set(scored(first).values()) == {1}


def test_a_message_that_cannot_be_read_is_put_aside(server, recording, topics, unjudged):
    running = server(**topics.settings(), evaluation=unjudged).start()
    topics.write_bytes(b"no protobuf", partition=0)
    requests = recording(CASE).copies(1)
    topics.write(requests)
    finished(running, ids(requests))
    running.stop()
    aside = running.run("quarantine").stdout
    assert aside.count("not an OTLP export request of traces") == 1


def test_partitions_that_are_added_are_read(server, recording, topics, unjudged):
    running = server(**topics.settings(), evaluation=unjudged).start()
    running.wait_until(lambda _: "reads 4 partitions" in (running.folder / "log").read_text())
    topics.add_partitions(topics.spans, 3)
    requests = recording(CASE).copies(1)
    for request in requests:
        key = trace_id_of(request).hex()
        topics.write_bytes(request.SerializeToString(), key=key, partition=2)
    finished(running, ids(requests))


def test_a_broker_that_is_away_stops_nothing_else(server, recording, topics, unjudged):
    running = server(**topics.settings(), evaluation=unjudged).start()
    requests = recording(CASE).copies(2)
    half = len(requests) // 2
    topics.write(requests[:half])
    running.wait_until(lambda x: x["counters"].get("receiver_requests", 0) == half)
    (broker,) = topics.cluster.brokers
    broker.kill()
    with grpc.insecure_channel(f"127.0.0.1:{running.grpc}") as channel:
        for request in requests[half:]:
            TraceServiceStub(channel).Export(request)
    running.wait_until(lambda x: "no broker answers" in x.get("notice", ""))
    with urllib.request.urlopen(f"http://127.0.0.1:{running.health}/readyz") as answer:
        assert "no broker answers" in answer.read().decode()
    broker.start()
    running.wait_until(lambda x: "notice" not in x)
    new = [x for x in recording(CASE).copies(3) if not ids([x]) & ids(requests)]
    topics.write(new)
    finished(running, ids([*requests, *new]))
