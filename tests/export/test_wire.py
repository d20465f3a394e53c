"""Parts of messages as bytes read as protobuf's own messages do."""

import pytest
from hypothesis import given, strategies as st
from opentelemetry.proto.trace.v1.trace_pb2 import ScopeSpans, Span

from spanscore.export import wording
from spanscore.export.wording import ByResource
from spanscore.otlp.signal import SIGNALS, WIRE

REASON = wording.text_attribute(Span, "reason")
VALUE = wording.Double(Span, "value")


@given(st.text(alphabet=st.characters(exclude_categories=["Cs"])))
def test_a_text_reads_as_it_was(text):
    assert Span.FromString(REASON(text)).attributes[0].value.string_value == text


@pytest.mark.parametrize("length", [0, 1, 100, 127, 128, 16383, 16384, 10**6])
def test_a_text_of_any_length_reads_as_it_was(length):
    assert Span.FromString(REASON("é" * length)).attributes[0].value.string_value == "é" * length


def test_a_lone_surrogate_is_replaced():
    assert Span.FromString(REASON("a\ud800b")).attributes[0].value.string_value == "a\ufffdb"


def test_an_empty_text_is_there_all_the_same():
    assert Span.FromString(REASON("")).attributes[0].value.HasField("string_value")


@given(st.floats(allow_nan=False) | st.integers(-(2**53), 2**53))
def test_a_number_reads_as_it_was(number):
    assert Span.FromString(VALUE(number)).attributes[0].value.double_value == number


@pytest.mark.parametrize("length", [0, 127, 128, 16383, 16384, 2**21])
def test_a_field_reads_as_it_was_whatever_its_length(length):
    span = Span(name="x" * length)
    field = ScopeSpans.DESCRIPTOR.fields_by_name["spans"].number
    whole = b"".join(wording.delimited(field, [span.SerializeToString()]))
    assert ScopeSpans.FromString(whole).spans[0] == span


def test_parts_are_one_message_in_whatever_order():
    parts = [
        REASON("because"),
        wording.attributes(Span, {"shared": True}),
        VALUE(0.5),
        Span(name="x").SerializeToString(),
    ]
    one, other = Span.FromString(b"".join(parts)), Span.FromString(b"".join(reversed(parts)))
    assert (one.name, {x.key for x in one.attributes}) == (
        other.name,
        {x.key for x in other.attributes},
    )


@pytest.mark.parametrize("signal", SIGNALS)
def test_a_request_of_any_signal_has_its_items_under_resource_and_scope(make, signal):
    groups = ByResource()
    groups.of({"service.name": "shop"}).append(b"")
    request = WIRE[signal].request.FromString(groups.request())
    ((_, (group,)),) = request.ListFields()
    (_, resource), (_, (scoped,)) = group.ListFields()
    (_, scope), (_, items) = scoped.ListFields()
    assert (make.attributes(resource), scope.name, len(items)) == (
        {"service.name": "shop"},
        "spanscore",
        1,
    )
