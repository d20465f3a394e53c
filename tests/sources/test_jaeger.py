import json
import logging

import pytest
from aiohttp import web

from spanscore.errors import InputError
from spanscore.otlp import codec as otlp_json
from spanscore.sources import port


class Jaeger:
    """Answers as Jaeger's query service does, of spans that a test gives; `v3` False: as one from
    before API v3.
    """

    def __init__(self, backend, request_of, spans, *, v3=True, errors=()):
        self.v3, self.errors, self._request_of = v3, errors, request_of
        self.traces = {}
        for span in spans:
            self.traces.setdefault(span.trace_id, []).append(span)
        backend.answer = self.answer

    async def answer(self, request, _body):
        path, query = request.path, request.query
        if path == "/api/services":
            names = {x.resource.service_name for spans in self.traces.values() for x in spans}
            return web.json_response({"data": sorted(names)})
        if path == "/api/traces":
            found = [x for x in self.traces.values() if any(_matches(span, query) for span in x)]
            newest = sorted(found, key=lambda x: -x[0].start_ns)[: int(query["limit"])]
            return web.json_response({"data": [_as_jaeger(x) for x in newest]})
        spans = self.traces.get(path.rpartition("/")[2])
        return self._of_v3(spans) if path.startswith("/api/v3/") else self._of_one(spans)

    def _of_v3(self, spans):
        if not self.v3:
            return web.Response(text="<html>", content_type="text/html")
        if spans is None:
            return web.json_response({"error": {"httpCode": 404}}, status=404)
        return web.json_response({"result": otlp_json.to_object(self._request_of(spans))})

    def _of_one(self, spans):
        if spans is None:
            return web.json_response(
                {"data": None, "errors": [{"code": 404, "msg": "trace not found"}]}, status=404
            )
        return web.json_response({"data": [_as_jaeger(spans)], "errors": self.errors})


def _matches(span, query):
    tags = json.loads(query.get("tags", "{}"))
    is_in_time = int(query["start"]) <= span.start_ns // 1000 <= int(query["end"])
    has_tags = all(str(span.attributes.get(name)) == value for name, value in tags.items())
    return is_in_time and has_tags and span.resource.service_name == query["service"]


def _as_jaeger(spans):
    processes = {
        f"p{i}": {"serviceName": x.resource.service_name, "tags": []} for i, x in enumerate(spans)
    }
    types = {bool: "bool", int: "int64", float: "float64", str: "string"}
    listed = [
        {
            "traceID": x.trace_id,
            "spanID": x.span_id,
            "operationName": x.name,
            "startTime": x.start_ns // 1000,
            "duration": (x.end_ns - x.start_ns) // 1000,
            "processID": f"p{i}",
            "references": [],
            "tags": [
                {"key": "span.kind", "type": "string", "value": "internal"},
                {"key": "otel.scope.name", "type": "string", "value": x.scope.name},
                {"key": "otel.scope.version", "type": "string", "value": x.scope.version},
                *([{"key": "error", "type": "bool", "value": True}] if x.status_code == 2 else []),
                *({"key": k, "type": types[type(v)], "value": v} for k, v in x.attributes.items()),
            ],
            "logs": [],
        }
        for i, x in enumerate(spans)
    ]
    return {"traceID": spans[0].trace_id, "spans": listed, "processes": processes}


@pytest.fixture
def jaeger(backend, request_of):
    return lambda spans, **how: Jaeger(backend, request_of, spans, **how)


@pytest.mark.parametrize("v3", [True, False])
def test_traces_come_as_they_were_sent_the_oldest_first(backend, jaeger, make_span, read, v3):
    spans = [
        make_span(1, 1, started_s=60, count=3, share=0.5, cached=True),
        make_span(2, 2, started_s=90),
    ]
    jaeger(spans, v3=v3)
    found = read(f"jaeger://127.0.0.1:{backend.port}?service=shop")
    assert [list(x.spans) for x in found] == [[spans[1]], [spans[0]]]


def test_all_traces_are_read_where_there_are_more_than_an_answer_has(
    backend, jaeger, make_span, read
):
    jaeger([make_span(x, x, started_s=60 + x * 7) for x in range(1, 90)])
    found = read(f"jaeger://127.0.0.1:{backend.port}")
    assert [int(x.trace_id, 16) for x in found] == list(range(89, 0, -1))


@pytest.mark.slow
def test_the_limit_keeps_the_newest_of_all_services(backend, jaeger, make_span, read):
    jaeger([make_span(x, x, started_s=60 + x, service=f"service-{x % 3}") for x in range(1, 90)])
    found = read(f"jaeger://127.0.0.1:{backend.port}?limit=4")
    assert [int(x.trace_id, 16) for x in found] == [4, 3, 2, 1]


@pytest.mark.parametrize(
    ("query", "wanted"),
    [
        ("errors=true", [2]),
        ("attribute.session.id=a", [3, 1]),
        ("attribute.session.id=a&attribute.count=3", [1]),
        ("min_duration=5s", [3]),
        ("since=70s", [2, 1]),
        ("since=1d&until=70s", [3]),
        ("service=stock", [3]),
        (f"trace_id={2:x}", [2]),
    ],
)
def test_every_condition_holds_of_what_is_read(backend, jaeger, make_span, read, query, wanted):
    jaeger(
        [
            make_span(1, 1, started_s=60, **{"session.id": "a", "count": 3}),
            make_span(2, 2, started_s=65, status=2),
            make_span(3, 3, started_s=80, took_s=9, service="stock", **{"session.id": "a"}),
        ]
    )
    found = read(f"jaeger://127.0.0.1:{backend.port}?{query}")
    assert [int(x.trace_id, 16) for x in found] == wanted


def test_what_jaeger_is_asked_for_and_what_is_filtered_here_is_said(
    backend, jaeger, make_span, read, caplog
):
    caplog.set_level(logging.INFO, "spanscore.sources")
    jaeger([make_span()])
    read(f"jaeger://me:secret@127.0.0.1:{backend.port}?service=shop&attribute.a=b&errors=true")
    assert (
        "filtered by the backend: since, service, attribute.a; filtered here: errors" in caplog.text
    )
    assert "secret" not in caplog.text


def test_a_trace_of_which_jaeger_reports_an_error_is_truncated(backend, jaeger, make_span, read):
    jaeger([make_span()], v3=False, errors=[{"code": 500, "msg": "shard failed", "traceID": "1"}])
    [found] = read(f"jaeger://127.0.0.1:{backend.port}?trace_id=1")
    assert "shard failed" in found.truncated


@pytest.mark.slow
def test_a_trace_with_as_many_spans_as_a_storage_gives_at_most_is_truncated(
    backend, jaeger, make_span, read
):
    jaeger([make_span(1, x) for x in range(1, port.MAX_TRACE_SPANS + 1)])
    [found] = read(f"jaeger://127.0.0.1:{backend.port}?trace_id=1")
    assert "give no more" in found.truncated


def test_of_a_larger_trace_the_first_spans_are_read(backend, jaeger, make_span, read, monkeypatch):
    monkeypatch.setattr(port, "MAX_TRACE_SPANS", 10)
    jaeger([make_span(1, x, started_s=100 - x) for x in range(1, 31)])
    [found] = read(f"jaeger://127.0.0.1:{backend.port}?trace_id=1")
    assert [int(x.span_id, 16) for x in found.spans] == list(range(1, 11))
    assert "30 spans, of which the first 10" in found.truncated


@pytest.mark.slow
@pytest.mark.parametrize("v3", [True, False])
def test_of_a_longer_answer_the_beginning_is_read(
    backend, jaeger, make_span, read, monkeypatch, v3
):
    monkeypatch.setattr("spanscore.sources.http.MAX_TRACE_BYTES", 20_000)
    jaeger([make_span(1, x) for x in range(1, 1000)], v3=v3)
    [found] = read(f"jaeger://127.0.0.1:{backend.port}?trace_id=1")
    assert 10 < len(found.spans) < 200
    assert "longer than" in found.truncated


def test_a_trace_that_is_gone_is_passed_over(backend, jaeger, make_span, read):
    jaeger([make_span(1, 1)])
    assert [
        x.trace_id for x in read(f"jaeger://127.0.0.1:{backend.port}?trace_id=2&trace_id=1")
    ] == [f"{1:032x}"]


def test_an_answer_that_is_not_jaegers_is_an_error_with_the_place(backend, read):
    async def answer(_request, _body):
        return web.Response(text="<html>", content_type="text/html")

    backend.answer = answer
    with pytest.raises(InputError, match="is no JSON"):
        read(f"jaeger://127.0.0.1:{backend.port}")
