"""Which messages of a partition are done, and what each is made of."""

import sys

import pytest
from hypothesis import given, strategies as st
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from spanscore.config import parse
from spanscore.errors import ConfigError
from spanscore.receive.config import Config
from spanscore.receive.kafka import PartitionOffsets, by_trace, header, is_keyed, lag, trace_ids
from spanscore.receive.server import Server
from spanscore.telemetry import Meter

A, B = b"a" * 16, b"b" * 16


def spans(*ids, scope="one"):
    request = ExportTraceServiceRequest()
    group = request.resource_spans.add(resource={}, schema_url="s")
    scoped = group.scope_spans.add(scope={"name": scope})
    for number, trace_id in enumerate(ids):
        scoped.spans.add(trace_id=trace_id, name=str(number))
    return request


def names(part):
    return [x.name for g in part.resource_spans for s in g.scope_spans for x in s.spans]


@given(st.permutations(range(5, 15)))
def test_what_is_committed_never_passes_a_message_that_is_needed(order):
    offsets = PartitionOffsets(5)
    for offset in range(5, 15):
        offsets.take(offset)
    left = set(order)
    for offset in order:
        offsets.finish(offset)
        left.remove(offset)
        assert offsets.committable == min(left, default=15)


def test_offsets_that_a_compacted_topic_lacks_are_passed():
    offsets = PartitionOffsets()
    for offset in (3, 9):
        offsets.take(offset)
    offsets.finish(3)
    assert offsets.committable == 9


def test_nothing_is_committed_before_anything_is_read():
    offsets = PartitionOffsets(7)
    assert offsets.committable == offsets.committed == 7


def test_a_trace_is_keyed_by_its_id_in_hex_alone():
    assert is_keyed(A.hex().encode(), {A})
    assert is_keyed(A.hex().upper().encode(), {A})
    assert not is_keyed(A, {A})
    assert not is_keyed(None, {A})
    assert not is_keyed(A.hex().encode(), {A, B})


def test_a_request_is_split_by_trace_with_its_resources_and_scopes():
    parts = by_trace("traces", spans(A, B, A))
    assert {key: names(part) for key, part in parts.items()} == {A: ["0", "2"], B: ["1"]}
    assert parts[B].resource_spans[0].schema_url == "s"
    assert parts[B].resource_spans[0].scope_spans[0].scope.name == "one"


def test_a_request_of_one_trace_stays_as_it_is():
    assert by_trace("traces", spans(A, A)) == {A: spans(A, A)}


def test_log_records_without_a_trace_are_apart():
    request = ExportLogsServiceRequest()
    scoped = request.resource_logs.add().scope_logs.add()
    for trace_id in (A, b"", b"short"):
        scoped.log_records.add(trace_id=trace_id)
    assert trace_ids("logs", request) == {A, b""}
    assert len(by_trace("logs", request)[b""].resource_logs[0].scope_logs[0].log_records) == 2


def test_the_name_of_a_header_may_be_in_any_case():
    assert header([("X-Scope-OrgID", b"acme"), ("other", b""), ("x", None)], "x-scope-orgid") == [
        b"acme"
    ]


def test_the_lag_is_what_is_not_read_yet():
    offsets = PartitionOffsets(5)
    offsets.take(5)
    known = {("t", 0): offsets, ("t", 1): PartitionOffsets()}
    assert lag({("t", 0): 10, ("t", 1): 10, ("t", 2): 10}, known) == {("t", "0"): 4.0}


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("receive: {kafka: {traces: {topics: [otlp_logs]}}}", "must name a topic"),
        ("receive: {kafka: {traces: {topics: []}, logs: {topics: []}}}", "must name a topic"),
        ("receive: {kafka: {brokers: []}}", "receive.kafka.brokers"),
        ("receive: {kafka: {auth: {sasl: {mechanism: GSSAPI}}}}", "auth.sasl.mechanism"),
        (
            "{mode: inline, receive: {kafka: {}}, export: {exporters: {otlp_grpc: {}}}}",
            "mode: inline cannot be used with receive.kafka",
        ),
    ],
)
def test_what_cannot_be_is_refused(text, problem):
    with pytest.raises(ConfigError, match=problem):
        parse(text)


def test_a_server_without_the_package_names_the_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "confluent_kafka", None)
    for name in ("kafka", "kafka_clients"):
        monkeypatch.delitem(sys.modules, f"spanscore.receive.{name}", raising=False)
    with pytest.raises(ConfigError, match=r"spanscore\[kafka\]"):
        Server(Config.model_validate({"kafka": {}}), None, Meter())
