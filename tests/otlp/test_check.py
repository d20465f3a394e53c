"""Spans that no trace can hold are refused by name, and the rest is kept."""

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from spanscore.otlp import check
from spanscore.otlp.check import Refusal

GOOD = {"trace_id": b"t" * 16, "span_id": b"s" * 8}


def request_of(*spans):
    request = ExportTraceServiceRequest()
    by_scope = request.resource_spans.add().scope_spans.add()
    for fields in spans:
        by_scope.spans.add(**fields)
    return request


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"trace_id": b""}, "it has no trace id"),
        ({"trace_id": bytes(16)}, "its trace id is all zeros"),
        ({"trace_id": b"t" * 15}, "its trace id has 15 bytes, not 16"),
        ({"span_id": b""}, "it has no span id"),
        ({"span_id": bytes(8)}, "its span id is all zeros"),
        ({"span_id": b"s" * 9}, "its span id has 9 bytes, not 8"),
    ],
)
def test_a_span_with_an_invalid_id_is_refused(fields, reason):
    assert check.remove_damaged(request_of({**GOOD, "name": "chat", **fields})) == [
        Refusal("chat", reason)
    ]


def test_the_other_spans_stay_in_their_order():
    bad = {"span_id": b"s" * 8}
    request = request_of(bad, {**GOOD, "name": "a"}, bad, bad, {**GOOD, "name": "b"}, bad)
    check.remove_damaged(request)
    assert [x.name for x in request.resource_spans[0].scope_spans[0].spans] == ["a", "b"]


def test_a_sound_request_is_left_alone():
    request = request_of(GOOD, GOOD)
    assert (check.remove_damaged(request), request) == ([], request_of(GOOD, GOOD))


def test_the_description_names_the_first_few_and_counts_the_rest():
    text = check.describe([Refusal(f"span {i}", "why") for i in range(10)])
    assert text.startswith("10 spans refused, the rest is kept: 'span 0' (why); 'span 1' (why)")
    assert text.endswith("; and 7 more")


def test_a_long_name_is_cut():
    assert len(check.describe([Refusal("n" * 10_000, "why")])) < 150


@pytest.mark.slow
def test_of_very_many_damaged_spans_the_sound_ones_stay_in_their_order():
    request = request_of(
        *[{**GOOD, "name": str(i)} if i % 3 else {"name": str(i)} for i in range(30_000)]
    )
    refused = check.remove_damaged(request)
    assert [int(x.name) for x in request.resource_spans[0].scope_spans[0].spans] == [
        i for i in range(30_000) if i % 3
    ]
    assert [int(x.name) for x in refused] == list(range(0, 30_000, 3))
