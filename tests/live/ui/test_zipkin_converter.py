"""What the converter before the Zipkin of the tests makes of a span."""

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from zipkin.converter import converted


def converted_span(**facts):
    request = ExportTraceServiceRequest()
    group = request.resource_spans.add()
    group.resource.attributes.add(key="service.name").value.string_value = "shop"
    group.resource.attributes.add(key="host.name").value.string_value = "h1"
    scoped = group.scope_spans.add()
    scoped.scope.name = "spanscore"
    times = {"start_time_unix_nano": 5_000_999, "end_time_unix_nano": 7_000_001}
    span = scoped.spans.add(
        **{"trace_id": b"t" * 16, "span_id": b"s" * 8, "name": "chat", **times, **facts}
    )
    span.attributes.add(key="n").value.int_value = 3
    span.attributes.add(key="list").value.array_value.values.add().double_value = 0.5
    (found,) = converted(request)
    return found


def test_a_span_keeps_its_ids_and_name():
    found = converted_span(parent_span_id=b"p" * 8)
    assert (found["traceId"], found["id"], found["parentId"], found["name"]) == (
        "74" * 16,
        "73" * 8,
        "70" * 8,
        "chat",
    )


def test_a_root_has_no_parent():
    assert "parentId" not in converted_span()


def test_times_are_cut_to_microseconds_so_that_ends_that_meet_still_do():
    found = converted_span()
    assert (found["timestamp"], found["timestamp"] + found["duration"]) == (5000, 7000)


def test_a_span_of_no_length_has_the_shortest_that_zipkin_shows():
    assert converted_span(end_time_unix_nano=5_000_999)["duration"] == 1


def test_attributes_of_span_resource_and_scope_are_tags():
    found = converted_span()
    assert found["localEndpoint"] == {"serviceName": "shop"}
    assert found["tags"] == {
        "host.name": "h1",
        "otel.scope.name": "spanscore",
        "n": "3",
        "list": "[0.5]",
    }


def test_an_error_is_the_tag_that_zipkin_turns_red():
    assert converted_span(status={"code": 2, "message": "no"})["tags"]["error"] == "no"


def test_internal_is_no_kind_of_zipkins():
    assert ["kind" in converted_span(kind=kind) for kind in (1, 3)] == [False, True]


def test_an_event_is_an_annotation():
    found = converted_span(events=[{"time_unix_nano": 6_000_000, "name": "retry"}])
    assert found["annotations"] == [{"timestamp": 6000, "value": "retry"}]
