"""A scripted Tempo, after the documentation of its HTTP API: no release of it can be had from a
package registry.
"""

import pytest
from aiohttp import web

from spanscore.errors import InputError
from spanscore.otlp import codec as otlp_json
from spanscore.sources import tempo as source
from spanscore.sources.port import Query
from spanscore.sources.tempo import trace_ql

SECOND_NS = 10**9


class Tempo:
    """Answers searches by time alone; its TraceQL is held against the text that is expected."""

    def __init__(self, backend, request_of, spans, *, status=0, message="", v2=True):
        self.status, self.message, self.v2 = status, message, v2
        self.searches, self._request_of, self._traces = [], request_of, {}
        for span in spans:
            self._traces.setdefault(span.trace_id, []).append(span)
        backend.answer = self.answer

    async def answer(self, request, _body):
        if request.path == "/api/search":
            return self._search(request.query)
        spans = self._traces.get(request.path.rpartition("/")[2])
        is_v2 = request.path.startswith("/api/v2/")
        if spans is None or (is_v2 and not self.v2):
            return web.Response(status=404)
        made = self._request_of(spans)
        if request.headers["Accept"] == "application/json":
            trace = {
                "trace": otlp_json.to_object(made),
                "status": "PARTIAL" if self.status else "COMPLETE",
            }
            return web.json_response(trace)
        body = made.SerializeToString()
        if is_v2:
            body = (
                field(1, body)
                + field(2, b"metrics")
                + bytes([3 << 3, self.status])
                + field(4, self.message.encode())
            )
        return web.Response(body=body, content_type="application/protobuf")

    def _search(self, query):
        self.searches.append(query)
        low, high = int(query["start"]), int(query["end"])
        if high - low > 25 * 3600:
            return web.Response(
                status=400, text="range specified by start and end exceeds the maximum"
            )
        found = [
            {"traceID": x[0].trace_id.lstrip("0"), "startTimeUnixNano": str(x[0].start_ns)}
            for x in self._traces.values()
            if low <= x[0].start_ns // SECOND_NS < high
        ]
        return web.json_response({"traces": found[: int(query["limit"])]})


def field(number, content):
    size, length = len(content), b""
    while size > 127:
        length, size = length + bytes([size & 127 | 128]), size >> 7
    return bytes([number << 3 | 2]) + length + bytes([size]) + content


@pytest.fixture
def tempo(backend, request_of):
    return lambda spans, **how: Tempo(backend, request_of, spans, **how)


@pytest.mark.parametrize("v2", [True, False])
def test_traces_come_as_they_were_sent_the_oldest_first(backend, tempo, make_span, read, v2):
    spans = [make_span(1, 1, started_s=60, count=3), make_span(2, 2, started_s=90)]
    tempo(spans, v2=v2)
    found = read(f"tempo://127.0.0.1:{backend.port}?until=0s")
    assert [list(x.spans) for x in found] == [[spans[1]], [spans[0]]]


def test_all_traces_are_found_where_there_are_more_than_an_answer_has(
    backend, tempo, make_span, read, monkeypatch
):
    monkeypatch.setattr(source, "_PAGE", 5)
    tempo([make_span(x, x, started_s=60 + x * 7) for x in range(1, 60)])
    found = read(f"tempo://127.0.0.1:{backend.port}?until=0s&service=shop")
    assert [int(x.trace_id, 16) for x in found] == list(range(59, 0, -1))


def test_more_traces_at_one_moment_than_a_search_gives_are_an_error(
    backend, tempo, make_span, read, monkeypatch
):
    monkeypatch.setattr(source, "_PAGE", 5)
    tempo([make_span(x, x) for x in range(1, 9)])
    with pytest.raises(InputError, match="give conditions that fewer fulfil"):
        read(f"tempo://127.0.0.1:{backend.port}?until=0s")


def test_no_search_is_longer_than_tempo_allows(backend, tempo, make_span, read):
    tempo([make_span(1, 1, started_s=5 * 24 * 3600)])
    assert len(read(f"tempo://127.0.0.1:{backend.port}?since=7d&until=0s")) == 1


def test_the_limit_keeps_the_newest(backend, tempo, make_span, read):
    tempo([make_span(x, x, started_s=60 + x) for x in range(1, 30)])
    found = read(f"tempo://127.0.0.1:{backend.port}?until=0s&limit=2")
    assert [int(x.trace_id, 16) for x in found] == [2, 1]


def test_a_trace_that_tempo_calls_partial_is_truncated(backend, tempo, make_span, read):
    tempo([make_span()], status=1, message="too large")
    [found] = read(f"tempo://127.0.0.1:{backend.port}?trace_id=1")
    assert found.truncated == "Tempo says that it is partial: too large"


def test_of_a_longer_answer_the_beginning_is_read_as_json(
    backend, tempo, make_span, read, monkeypatch
):
    monkeypatch.setattr("spanscore.sources.http.MAX_TRACE_BYTES", 20_000)
    tempo([make_span(1, x) for x in range(1, 1000)])
    [found] = read(f"tempo://127.0.0.1:{backend.port}?trace_id=1")
    assert 10 < len(found.spans) < 200
    assert "longer than" in found.truncated


def test_a_trace_that_is_gone_is_passed_over(backend, tempo, make_span, read):
    tempo([make_span()])
    assert [
        x.trace_id for x in read(f"tempo://127.0.0.1:{backend.port}?trace_id=2&trace_id=1")
    ] == [f"{1:032x}"]


@pytest.mark.parametrize("body", [b"\xff\xff\xff", b"\x0a\x7f", b"\x0a\x02\xff\xff", b"\x0b"])
def test_an_answer_that_does_not_decode_is_an_error_with_the_trace(backend, read, body):
    async def answer(_request, _body):
        return web.Response(body=body, content_type="application/protobuf")

    backend.answer = answer
    with pytest.raises(InputError, match=r"trace 0+1 cannot be decoded"):
        read(f"tempo://127.0.0.1:{backend.port}?trace_id=1")


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        (Query(), "{ }"),
        (Query(service='a"b\\'), '{ resource.service.name = "a\\"b\\\\" }'),
        (
            Query(service="s", attributes={"session.id": "x"}, errors=True),
            (
                '{ resource.service.name = "s" && status = error } && { resource.service.name = "s"'
                ' && .session.id = "x" }'
            ),
        ),
        (Query(attributes={"count": "3"}), '{ (.count = "3" || .count = 3) }'),
        (Query(attributes={"with space": "x"}), '{ ."with space" = "x" }'),
        (Query(min_duration_ns=2 * SECOND_NS), "{ traceDuration >= 2000000000ns }"),
    ],
)
def test_conditions_are_asked_for_in_trace_ql(query, expected):
    assert trace_ql(query) == expected
