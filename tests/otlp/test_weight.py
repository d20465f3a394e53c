"""What a request will cost is known before it is decoded."""

import json

import numpy as np
import pytest
from google.protobuf.message import Message
from hypothesis import given, strategies as st
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from spanscore.otlp import check


def messages_in(message):
    found = 0
    for field, content in message.ListFields():
        if field.message_type:
            found += sum(
                1 + messages_in(x) for x in ([content] if isinstance(content, Message) else content)
            )
    return found


def values_in(parsed):
    inside = (
        parsed.values() if isinstance(parsed, dict) else parsed if isinstance(parsed, list) else ()
    )
    return 1 + sum(map(values_in, inside))


def request_of(*attributes):
    request = ExportTraceServiceRequest()
    span = request.resource_spans.add().scope_spans.add().spans.add(name="chat")
    for key, text in attributes:
        span.attributes.add(key=key).value.string_value = text
    return request


JSON = st.recursive(
    st.none() | st.integers() | st.text(),
    lambda inner: st.lists(inner, max_size=5) | st.dictionaries(st.text(), inner, max_size=5),
    max_leaves=20,
)


@pytest.mark.slow
@given(st.lists(st.tuples(st.text(), st.text(max_size=40)), max_size=20), st.integers(0, 50))
def test_a_request_has_more_messages_than_a_limit_or_not(attributes, limit):
    request = request_of(*attributes)
    found = check.has_more_messages("traces", request.SerializeToString(), limit)
    assert found == (messages_in(request) > limit)


@given(st.binary())
def test_short_messages_are_counted_alike_with_numpy_and_without(body):
    with pytest.MonkeyPatch.context() as patching:
        patching.setattr(check.sys, "modules", {})
        without = check.short_messages(body)
        patching.setattr(check.sys, "modules", {"numpy": np})
        assert check.short_messages(body) == without


@pytest.mark.slow
@given(JSON, st.integers(1, 40))
def test_no_json_text_has_more_values_than_a_limit_unnoticed(parsed, limit):
    text = json.dumps(parsed).encode()
    assert check.has_more_values(text, limit) or values_in(parsed) <= limit


def test_json_inside_a_string_is_one_value():
    text = json.dumps({"arguments": json.dumps([[1, 2]] * 1000)}).encode()
    assert (check.json_values(text) > 1000, check.has_more_values(text, 10)) == (True, False)


@pytest.mark.parametrize(
    "text", [b"[" * 10**6, b"[" + b"{}," * 10**6, b'["",' * 10**6, b'"' + b"{" * 10**6]
)
def test_texts_made_of_brackets_have_more_values_than_a_limit(text):
    assert check.has_more_values(text, 1000)


@pytest.mark.parametrize("field", [b"\x0a\x00", b"\x0a\x02\x12\x00", b"\x0a\x04\x12\x02\x12\x00"])
def test_empty_messages_are_counted_however_deep_they_lie(field):
    assert check.has_more_messages("traces", field * 10_000, 9_999)


@given(st.binary(max_size=200))
def test_any_bytes_can_be_counted(body):
    assert check.has_more_messages("logs", body, 200) is False


def test_empty_messages_weigh_many_times_their_bytes_and_text_hardly_more():
    empty, text = b"\x0a\x00" * 1000, b"long text " * 1000
    assert (
        check.decoded_bytes(empty) > 20 * len(empty),
        check.decoded_bytes(text) < 2 * len(text),
    ) == (True, True)


def test_counting_stops_at_a_number_that_is_too_long_for_a_decoder():
    body = b"\x08" + b"\x80" * 20 + b"\x01" + b"\x0a\x00" * 1000
    assert check.has_more_messages("traces", body, 500) is False
