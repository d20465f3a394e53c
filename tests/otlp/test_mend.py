"""A request that does not decode loses only what cannot be saved."""

import pytest
from hypothesis import given, strategies as st
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from spanscore.otlp.check import Refusal, mend
from spanscore.otlp.signal import ExportLogsServiceRequest

CUT = "Zürich".encode()[:2]  # in the middle of a character, as an SDK that counts bytes cuts


def traces(*names):
    request = ExportTraceServiceRequest()
    by_scope = request.resource_spans.add().scope_spans.add()
    for name in names:
        by_scope.spans.add(name=name, trace_id=b"t" * 16).attributes.add(
            key="k"
        ).value.string_value = "placeholder"
    return request


def names(body):
    request = ExportTraceServiceRequest.FromString(body)
    return [x.name for r in request.resource_spans for s in r.scope_spans for x in s.spans]


def field(number, payload):
    """A length-delimited field; the payload must be shorter than 128 bytes."""
    return bytes([number << 3 | 2, len(payload)]) + payload


def request_of(*spans):
    return field(1, field(2, b"".join(field(2, span) for span in spans)))


def test_text_cut_within_a_character_is_kept_with_a_replacement():
    mended = mend("traces", request_of(field(5, CUT)))
    assert (names(mended.body), mended.refused, mended.replaced) == (["Z\ufffd"], [], 1)


def test_text_is_mended_at_any_depth():
    body = traces("a").SerializeToString().replace(b"placeholder", b"placeholde\xff")
    request = ExportTraceServiceRequest.FromString(mend("traces", body).body)
    value = request.resource_spans[0].scope_spans[0].spans[0].attributes[0].value
    assert value.string_value == "placeholde\ufffd"


def test_log_records_are_mended_too():
    mended = mend("logs", request_of(field(3, CUT)))
    record = (
        ExportLogsServiceRequest.FromString(mended.body)
        .resource_logs[0]
        .scope_logs[0]
        .log_records[0]
    )
    assert record.severity_text == "Z\ufffd"


def test_a_span_that_cannot_be_saved_is_taken_out_by_name():
    broken = field(5, b"broken") + b"\xff"
    mended = mend("traces", request_of(field(5, b"a"), broken, field(5, b"b")))
    assert (names(mended.body), mended.refused) == (
        ["a", "b"],
        [Refusal("broken", "it cannot be decoded")],
    )


def test_a_span_nested_beyond_any_measure_is_taken_out():
    value = b""
    for _ in range(20):
        value = field(5, field(1, value))
    for _ in range(40):  # lengths of more than a byte from here on
        inner = b"\x0a" + _varint(len(value)) + value
        value = b"\x2a" + _varint(len(inner)) + inner
    attribute = b"\x12" + _varint(len(value)) + value
    span = b"\x4a" + _varint(len(attribute)) + attribute
    scope = b"\x12" + _varint(len(span)) + span
    by_resource = b"\x12" + _varint(len(scope)) + scope
    mended = mend("traces", b"\x0a" + _varint(len(by_resource)) + by_resource)
    assert [x.reason for x in mended.refused] == ["it cannot be decoded"]


def _varint(number):
    return bytes([number]) if number < 128 else bytes([number & 127 | 128]) + _varint(number >> 7)


@pytest.mark.parametrize(
    "body", [b"\xff\xff\xff", b"\x0a\x05ab", b"\x0b", b"hello", b"\xfa" + b"\xff" * 8 + b"\x01"]
)
def test_what_is_no_request_at_all_is_refused(body):
    with pytest.raises(ValueError):  # noqa: PT011 - protobuf's faults have many texts
        mend("traces", body)


def test_a_sound_request_comes_back_as_it_is():
    body = traces("a", "b").SerializeToString()
    assert mend("traces", body).body == body


@pytest.mark.slow
@given(st.binary(max_size=300))
def test_any_bytes_are_mended_or_refused_with_a_value_error(body):
    try:
        mended = mend("traces", body)
    except ValueError:
        return
    ExportTraceServiceRequest.FromString(mended.body)


@given(st.integers(0), st.integers(0, 255))
def test_a_request_with_one_byte_changed_is_mended_or_refused_with_a_value_error(place, byte):
    body = bytearray(traces("a", "b", "c").SerializeToString())
    body[place % len(body)] = byte
    try:
        mended = mend("traces", bytes(body))
    except ValueError:
        return
    ExportTraceServiceRequest.FromString(mended.body)
