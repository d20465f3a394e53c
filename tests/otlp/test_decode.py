"""OTLP messages become the model's spans and log records, and back."""

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import AnyValue

from spanscore.model.span import Event, Link, LogRecord, Resource, Scope, Span
from spanscore.otlp import codec
from spanscore.otlp.signal import ExportLogsServiceRequest, LogRecord as LogMessage


def any_value(item):
    message = AnyValue()
    codec.put(message, item)
    return message


def log_record(**fields):
    return codec.log_record(LogMessage(**fields), Resource(), Scope())


def test_every_fact_of_a_span_is_read():
    request = ExportTraceServiceRequest()
    by_resource = request.resource_spans.add()
    codec.fill(by_resource.resource.attributes, {"service.name": "travel"})
    by_scope = by_resource.scope_spans.add()
    by_scope.scope.name, by_scope.scope.version = "lib", "1.0"
    message = by_scope.spans.add(
        trace_id=b"\x01" * 16,
        span_id=b"\x02" * 8,
        parent_span_id=b"\x03" * 8,
        name="chat",
        kind=3,
        start_time_unix_nano=10,
        end_time_unix_nano=20,
        dropped_attributes_count=4,
        dropped_events_count=5,
        dropped_links_count=6,
    )
    message.status.code, message.status.message = 2, "boom"
    codec.fill(message.attributes, {"a": 1})
    codec.fill(
        message.events.add(name="e", time_unix_nano=11, dropped_attributes_count=7).attributes,
        {"b": "x"},
    )
    codec.fill(
        message.links.add(trace_id=b"\x04" * 16, span_id=b"\x05" * 8).attributes, {"c": True}
    )
    assert list(codec.spans(request)) == [
        Span(
            trace_id="01" * 16,
            span_id="02" * 8,
            parent_span_id="03" * 8,
            name="chat",
            kind=3,
            start_ns=10,
            end_ns=20,
            status_code=2,
            status_message="boom",
            attributes={"a": 1},
            resource=Resource({"service.name": "travel"}),
            scope=Scope("lib", "1.0"),
            events=(Event("e", 11, {"b": "x"}, 7),),
            links=(Link("04" * 16, "05" * 8, {"c": True}),),
            dropped_attributes_count=4,
            dropped_events_count=5,
            dropped_links_count=6,
        )
    ]


def test_every_fact_of_a_log_record_is_read():
    request = ExportLogsServiceRequest()
    by_resource = request.resource_logs.add()
    codec.fill(by_resource.resource.attributes, {"service.name": "travel"})
    by_scope = by_resource.scope_logs.add()
    by_scope.scope.name = "lib"
    message = by_scope.log_records.add(
        trace_id=b"\x01" * 16,
        span_id=b"\x02" * 8,
        time_unix_nano=7,
        event_name="choice",
        severity_number=9,
        dropped_attributes_count=2,
    )
    codec.put(message.body, {"text": ["hi"]})
    codec.fill(message.attributes, {"a": 1.5})
    assert list(codec.log_records(request)) == [
        LogRecord(
            trace_id="01" * 16,
            span_id="02" * 8,
            time_ns=7,
            event_name="choice",
            body={"text": ["hi"]},
            attributes={"a": 1.5},
            resource=Resource({"service.name": "travel"}),
            scope=Scope("lib"),
            severity_number=9,
            dropped_attributes_count=2,
        )
    ]


def test_a_parent_of_zeros_is_no_parent():
    request = ExportTraceServiceRequest()
    request.resource_spans.add().scope_spans.add().spans.add(parent_span_id=bytes(8))
    assert next(codec.spans(request)).parent_span_id == ""


def test_the_event_name_of_a_log_record_may_be_an_attribute():
    message = LogMessage()
    codec.fill(message.attributes, {"event.name": "gen_ai.choice"})
    assert codec.log_record(message, Resource(), Scope()).event_name == "gen_ai.choice"


def test_an_event_name_that_is_not_text_is_no_event_name():
    message = LogMessage()
    codec.fill(message.attributes, {"event.name": 5})
    assert codec.log_record(message, Resource(), Scope()).event_name == ""


def test_a_log_record_without_a_time_has_the_time_it_was_observed():
    assert log_record(observed_time_unix_nano=8).time_ns == 8


def test_a_log_record_without_ids_has_empty_ids():
    assert log_record().trace_id == ""


@pytest.mark.parametrize(
    "value",
    ["", "text", 0, -1, 0.0, 1.5, True, False, b"", b"\x00", [], {}, [None, [1, {"a": []}]]],
)
def test_a_value_survives_encoding_and_decoding(value):
    read = codec.value(any_value(value))
    assert (read, type(read)) == (value, type(value))


def test_an_empty_value_is_none():
    assert codec.value(AnyValue()) is None


@pytest.mark.skipif(
    "string_value_strindex" not in AnyValue.DESCRIPTOR.fields_by_name,
    reason="opentelemetry-proto is older than it",
)
def test_an_index_into_the_table_of_profiles_is_none():
    assert codec.value(AnyValue(string_value_strindex=3)) is None


def test_of_a_key_that_comes_twice_the_last_counts():
    message = LogMessage()
    codec.fill(message.attributes, {"k": 1})
    codec.fill(message.attributes, {"k": 2})
    assert codec.attributes(message.attributes) == {"k": 2}


def test_an_integer_beyond_64_bits_is_encoded_as_text():
    assert any_value(2**64).string_value == str(2**64)


def test_a_value_nested_beyond_the_bound_is_left_out_when_encoding():
    deep = "deep"
    for _ in range(codec.MAX_DEPTH + 5):
        deep = [deep]
    assert "deep" not in str(any_value(deep))


def test_a_resource_has_no_attributes_under_names_that_are_spanscores_own():
    request = ExportTraceServiceRequest()
    group = request.resource_spans.add()
    codec.fill(
        group.resource.attributes, {"service.name": "shop", "spanscore.header.:tenant": "acme"}
    )
    group.scope_spans.add().spans.add()
    [span] = codec.spans(request)
    assert span.resource.attributes == {"service.name": "shop"}
