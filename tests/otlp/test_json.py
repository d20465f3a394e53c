"""OTLP/JSON both ways, with protobuf's own parser as the oracle where OTLP does not differ from
it.
"""

import base64
import json as stdlib_json
import math

import pytest
from google.protobuf import json_format
from hypothesis import given, settings, strategies as st
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import AnyValue

from spanscore.model.span import Resource, Scope
from spanscore.otlp import codec
from spanscore.otlp.signal import ExportLogsServiceRequest

VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**63 - 1)
    | st.floats(allow_nan=False)
    | st.text()
    | st.binary(max_size=20),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3)
    ),
    max_leaves=8,
)
ATTRIBUTES = st.dictionaries(st.text(max_size=8), VALUES, max_size=4)


def any_value(item):
    message = AnyValue()
    codec.put(message, item)
    return message


@st.composite
def trace_requests(draw):
    request = ExportTraceServiceRequest()
    by_resource = request.resource_spans.add(schema_url=draw(st.text(max_size=5)))
    codec.fill(by_resource.resource.attributes, draw(ATTRIBUTES))
    by_scope = by_resource.scope_spans.add()
    by_scope.scope.name = draw(st.text(max_size=5))
    for _ in range(draw(st.integers(0, 3))):
        span = by_scope.spans.add(
            trace_id=draw(st.binary(min_size=16, max_size=16)),
            span_id=draw(st.binary(min_size=8, max_size=8)),
            parent_span_id=draw(st.sampled_from([b"", b"12345678"])),
            name=draw(st.text(max_size=9)),
            kind=draw(st.integers(0, 5)),
            start_time_unix_nano=draw(st.integers(0, 2**64 - 1)),
            flags=draw(st.integers(0, 2**32 - 1)),
        )
        codec.fill(span.attributes, draw(ATTRIBUTES))
        codec.fill(span.events.add(name="event", time_unix_nano=1).attributes, draw(ATTRIBUTES))
        span.links.add(trace_id=b"t" * 16, span_id=b"s" * 8)
        span.status.code = draw(st.integers(0, 2))
    return request


def span_json(**fields):
    return stdlib_json.dumps({"resourceSpans": [{"scopeSpans": [{"spans": [fields]}]}]})


def parsed_span(**fields):
    return codec.parse("traces", span_json(**fields)).resource_spans[0].scope_spans[0].spans[0]


@pytest.mark.slow
@settings(max_examples=40)
@given(trace_requests())
def test_a_request_survives_printing_and_parsing(request):
    assert codec.parse("traces", codec.encode(request)) == request


@pytest.mark.slow
@settings(max_examples=40)
@given(trace_requests())
def test_protobufs_own_parser_reads_what_is_printed_once_ids_are_base64(request):
    shown = codec.to_object(request)
    for span in (
        span for r in shown["resourceSpans"] for s in r["scopeSpans"] for span in s.get("spans", ())
    ):
        for owner in (span, *span.get("links", ())):
            for key in ("traceId", "spanId", "parentSpanId"):
                if key in owner:
                    owner[key] = base64.b64encode(bytes.fromhex(owner[key])).decode()
    assert json_format.ParseDict(shown, ExportTraceServiceRequest()) == request


@pytest.mark.slow
@settings(max_examples=40)
@given(trace_requests())
def test_the_names_of_the_proto_file_are_read_as_well(request):
    shown = json_format.MessageToDict(request, preserving_proto_field_name=True)
    for span in (
        span
        for r in shown["resource_spans"]
        for s in r["scope_spans"]
        for span in s.get("spans", ())
    ):
        for owner in (span, *span.get("links", ())):
            for key in ("trace_id", "span_id", "parent_span_id"):
                if key in owner:
                    owner[key] = base64.b64decode(owner[key]).hex()
    assert codec.from_object("traces", shown) == request


@pytest.mark.slow
@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(),
        lambda x: (
            st.lists(x)
            | st.dictionaries(
                st.sampled_from(
                    [
                        "resourceSpans",
                        "scopeSpans",
                        "spans",
                        "attributes",
                        "value",
                        "traceId",
                        "kind",
                        "events",
                    ]
                ),
                x,
            )
        ),
        max_leaves=12,
    )
)
def test_any_json_is_read_or_refused_with_a_value_error(document):
    try:
        codec.from_object("traces", document)
    except ValueError as error:
        assert "expected" in str(error)  # noqa: PT017 - either outcome is right, the message is what counts


def test_metrics_survive_printing_and_parsing():
    request = ExportMetricsServiceRequest()
    metric = request.resource_metrics.add().scope_metrics.add().metrics.add(name="latency")
    point = metric.histogram.data_points.add(
        count=3, sum=math.inf, bucket_counts=[1, 2], explicit_bounds=[0.5]
    )
    point.exemplars.add(as_double=0.1, span_id=b"12345678", trace_id=b"1" * 16)
    assert codec.parse("metrics", codec.encode(request)) == request


def test_logs_survive_printing_and_parsing():
    request = ExportLogsServiceRequest()
    record = (
        request.resource_logs.add()
        .scope_logs.add()
        .log_records.add(event_name="gen_ai.choice", trace_id=b"1" * 16)
    )
    codec.put(record.body, {"message": [{"role": "user", "n": 2**40}]})
    assert codec.parse("logs", codec.encode(request)) == request


def test_ids_are_printed_as_lower_case_hex():
    request = ExportTraceServiceRequest()
    request.resource_spans.add().scope_spans.add().spans.add(trace_id=b"\xab" * 16)
    assert '"traceId":"abababababababababababababababab"' in codec.encode(request)


def test_64_bit_integers_are_printed_as_strings():
    request = ExportTraceServiceRequest()
    request.resource_spans.add().scope_spans.add().spans.add(end_time_unix_nano=5)
    assert '"endTimeUnixNano":"5"' in codec.encode(request)


def test_enums_are_printed_as_integers():
    request = ExportTraceServiceRequest()
    request.resource_spans.add().scope_spans.add().spans.add(kind=3)
    assert '"kind":3' in codec.encode(request)


def test_not_a_number_is_printed_as_protobuf_prints_it():
    assert codec.to_object(any_value(math.nan)) == {"doubleValue": "NaN"}


@pytest.mark.parametrize("text", ["ABABABABABABABAB", "abababababababab", "q6urq6urq6s="])
def test_an_id_is_read_from_hex_of_any_case_and_from_padded_base64(text):
    assert parsed_span(spanId=text).span_id == b"\xab" * 8


@pytest.mark.parametrize("text", ["xyz", "abc", 7, [], "!="])
def test_an_id_that_is_no_id_is_read_as_empty(text):
    assert parsed_span(spanId=text).span_id == b""


@pytest.mark.parametrize(
    ("number", "read"), [(0.5, 0.5), (2, 2.0), ("1e3", 1000.0), ("-Infinity", -math.inf)]
)
def test_a_double_is_read_from_a_number_or_a_string(number, read):
    span = parsed_span(attributes=[{"key": "k", "value": {"doubleValue": number}}])
    assert span.attributes[0].value.double_value == read


@pytest.mark.parametrize("number", [5, "5", 5.0])
def test_an_integer_is_read_from_a_number_or_a_string(number):
    assert parsed_span(startTimeUnixNano=number).start_time_unix_nano == 5


@pytest.mark.parametrize(
    ("kind", "number"), [(3, 3), ("3", 3), ("SPAN_KIND_CLIENT", 3), ("SPAN_KIND_OF_THE_FUTURE", 0)]
)
def test_an_enum_is_read_from_its_number_or_its_name(kind, number):
    assert parsed_span(kind=kind).kind == number


def test_unknown_fields_are_ignored():
    assert parsed_span(name="chat", inventedLater={"deep": [1]}).name == "chat"


def test_null_stands_for_the_default():
    assert parsed_span(name=None, attributes=None, status=None).name == ""


def test_a_lone_surrogate_becomes_the_replacement_character():
    assert parsed_span(name="a\ud800b").name == "a\ufffdb"


def test_bytes_are_read_from_base64_of_either_alphabet():
    span = parsed_span(attributes=[{"key": "k", "value": {"bytesValue": "-_8="}}])
    assert span.attributes[0].value.bytes_value == b"\xfb\xff"


def test_an_attribute_without_a_value_is_kept():
    assert codec.attributes(parsed_span(attributes=[{"key": "k"}]).attributes) == {"k": None}


def test_a_value_nested_beyond_the_bound_is_read_as_none_from_there_on():
    value = {"stringValue": "deep"}
    for _ in range(codec.MAX_DEPTH + 5):
        value = {"arrayValue": {"values": [value]}}
    read = codec.value(parsed_span(attributes=[{"key": "k", "value": value}]).attributes[0].value)
    depth = 0
    while read:
        read, depth = read[0], depth + 1
    assert (read, depth) == (None, codec.MAX_DEPTH)


def test_json_nested_beyond_any_measure_is_refused():
    with pytest.raises(ValueError, match="nested"):
        codec.parse("traces", '{"resourceSpans":' + "[" * 100_000)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        (
            {"name": 5},
            r"resourceSpans\[0\].scopeSpans\[0\].spans\[0\].name: expected text, found 5",
        ),
        ({"startTimeUnixNano": -1}, r"spans\[0\].startTimeUnixNano: expected an integer from 0"),
        ({"startTimeUnixNano": True}, "expected an integer"),
        ({"startTimeUnixNano": "9" * 5000}, "expected an integer"),
        ({"attributes": {"k": "v"}}, r"spans\[0\].attributes: expected a list, found {'k'"),
        ({"attributes": ["k"]}, r"attributes\[0\]: expected an object"),
        ({"status": 2}, r"spans\[0\].status: expected an object"),
        (
            {"attributes": [{"value": {"doubleValue": "x"}}]},
            r"attributes\[0\].value.doubleValue: expected a number",
        ),
        ({"attributes": [{"value": {"doubleValue": True}}]}, "expected a number, found True"),
        ({"attributes": [{"value": {"boolValue": "true"}}]}, "expected true or false"),
        ({"attributes": [{"value": {"bytesValue": "*"}}]}, "expected base64"),
    ],
)
def test_a_value_of_the_wrong_type_is_refused_with_its_place(fields, message):
    with pytest.raises(ValueError, match=message):
        parsed_span(**fields)


@pytest.mark.slow
@settings(max_examples=40)
@given(trace_requests())
def test_decoding_what_json_carried_gives_the_same_spans(request):
    read = codec.parse("traces", codec.encode(request))
    assert list(codec.spans(read)) == list(codec.spans(request))


@pytest.mark.slow
@given(ATTRIBUTES)
def test_attributes_survive_encoding_and_decoding(attributes):
    request = ExportTraceServiceRequest()
    message = request.resource_spans.add().scope_spans.add().spans.add()
    codec.fill(message.attributes, attributes)
    assert codec.span(message, Resource(), Scope()).attributes == attributes
