"""Spans of a trace out of requests in memory and in the journal."""

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from spanscore.assemble import fragments
from spanscore.assemble.backlog import Requests
from spanscore.model.span import headers_of, with_headers
from spanscore.otlp.signal import ExportLogsServiceRequest

ONE, TWO = b"1" * 16, b"2" * 16


@dataclass(frozen=True)
class Stored:
    row: int
    signal: str
    body: bytes
    headers: tuple = ()


def traces(*names, trace_id=ONE, parent=b""):
    request = ExportTraceServiceRequest()
    scope = request.resource_spans.add().scope_spans.add()
    for name in names:
        scope.spans.add(
            name=name, trace_id=trace_id, span_id=name.encode().ljust(8), parent_span_id=parent
        )
    return request


def journal(*requests):
    stored = {
        row: Stored(row, "traces", request.SerializeToString())
        for row, request in enumerate(requests)
    }
    return lambda rows: [stored[row] for row in rows]


def test_spans_come_from_memory_while_they_are_held():
    requests = Requests(journal(), max_bytes=1000)
    requests.put(0, "traces", traces("a", "b"), 100)
    spans, _ = requests.load(ONE, [0])
    assert [span.name for span in spans] == ["a", "b"]


def test_spans_that_had_to_make_room_are_read_again():
    first, second = traces("a"), traces("b")
    requests = Requests(journal(first, second), max_bytes=100)
    requests.put(0, "traces", first, 100)
    requests.put(1, "traces", second, 100)
    spans, _ = requests.load(ONE, [0, 1])
    assert [span.name for span in spans] == ["a", "b"]


def test_only_the_spans_of_the_trace_are_given():
    request = traces("mine")
    request.MergeFrom(traces("other", trace_id=TWO))
    requests = Requests(journal(), max_bytes=1000)
    requests.put(0, "traces", request, 100)
    assert [span.name for span in requests.load(ONE, [0])[0]] == ["mine"]


def test_log_records_are_given_beside_the_spans():
    request = ExportLogsServiceRequest()
    request.resource_logs.add().scope_logs.add().log_records.add(
        trace_id=ONE, event_name="gen_ai.choice"
    )
    requests = Requests(journal(), max_bytes=1000)
    requests.put(0, "logs", request, 100)
    assert [record.event_name for record in requests.load(ONE, [0])[1]] == ["gen_ai.choice"]


@pytest.mark.slow
def test_two_threads_that_ask_at_once_both_get_whole_traces():
    ids = [number.to_bytes(16, "big") for number in range(1, 400)]
    request = traces()
    for trace_id in ids:
        request.MergeFrom(traces("span", trace_id=trace_id))
    for _ in range(20):
        requests = Requests(journal(), max_bytes=1000)
        requests.put(0, "traces", request, 100)
        with ThreadPoolExecutor(4) as pool:
            found = list(
                pool.map(lambda trace_id, held=requests: held.load(trace_id, [0])[0], reversed(ids))
            )
        assert all(len(spans) == 1 for spans in found)


def test_a_request_is_taken_apart_by_trace():
    request = traces("a", "b")
    request.MergeFrom(traces("c", trace_id=TWO, parent=b"p" * 8))
    one, two = fragments.of_traces(request, 5, size_bytes=300)
    assert (one.key, one.items, one.size_bytes, one.has_root, one.parents) == (
        ONE,
        2,
        200,
        True,
        set(),
    )
    assert (two.key, two.items, two.row, two.has_root, two.parents) == (
        TWO,
        1,
        5,
        False,
        {b"p" * 8},
    )


def test_log_records_without_a_trace_belong_to_no_fragment():
    request = ExportLogsServiceRequest()
    request.resource_logs.add().scope_logs.add().log_records.add(event_name="x")
    assert fragments.of_logs(request, 1, size_bytes=10) == []


def test_a_parent_of_zeros_is_no_parent():
    (fragment,) = fragments.of_traces(traces("a", parent=bytes(8)), 1)
    assert (fragment.has_root, fragment.parents) == (True, set())


def test_what_spanscore_emitted_belongs_to_no_trace():
    request = traces("evaluation coherence: pass")
    request.resource_spans[0].scope_spans[0].scope.name = "spanscore"
    assert fragments.of_traces(request, 1) == []


@pytest.mark.parametrize("is_read_again", [False, True])
def test_spans_come_with_the_headers_of_their_request(is_read_again):
    headers = (("x-scope-orgid", "a"),)
    stored = Stored(1, "traces", traces("a").SerializeToString(), headers)
    requests = Requests(lambda _rows: [stored])
    if not is_read_again:
        requests.put(1, "traces", traces("a"), 10, headers)
    (span,), _ = requests.load(ONE, [1])
    assert headers_of(span.resource.attributes) == headers


def test_a_header_that_a_sender_made_up_is_not_believed():
    request = traces("a")
    made_up = with_headers({"service.name": "a"}, (("x-scope-orgid", "another"),))
    for key, value in made_up.items():
        request.resource_spans[0].resource.attributes.add(key=key).value.string_value = value
    requests = Requests(lambda _rows: [])
    requests.put(1, "traces", request, 10)
    (span,), _ = requests.load(ONE, [1])
    assert span.resource.attributes == {"service.name": "a"}
