"""What Phoenix is asked and what is made of its answers; tests/live/ui holds them against a real
one.
"""

import json

import pytest
from aiohttp import web

from spanscore.errors import InputError
from spanscore.sources import phoenix as source

TIME = "2023-11-14T21:56:40.123456+00:00"


def span(number=1, kind="LLM", **attributes):
    return {
        "context": {"trace_id": f"{1:032x}", "span_id": f"{number:016x}"},
        "parent_id": None,
        "name": "chat",
        "span_kind": kind,
        "start_time": TIME,
        "end_time": TIME,
        "status_code": "ERROR",
        "status_message": "no",
        "attributes": attributes,
        "events": [
            {"name": "exception", "timestamp": TIME, "attributes": {"exception.type": "ValueError"}}
        ],
    }


@pytest.fixture
def phoenix(backend):
    """Call it with the spans of one trace; gives the parameters of each request."""

    def made(spans):
        asked = []

        async def answer(request, _body):
            asked.append((request.path, dict(request.query)))
            if request.path.endswith("/traces"):
                return web.json_response(
                    {"data": [{"trace_id": f"{1:032x}", "start_time": TIME}], "next_cursor": None}
                )
            start, size = int(request.query.get("cursor", 0)), int(request.query["limit"])
            more = str(start + size) if start + size < len(spans) else None
            return web.json_response({"data": spans[start : start + size], "next_cursor": more})

        backend.answer = answer
        return asked

    return made


def attributes(read, backend):
    [found] = read(f"phoenix://127.0.0.1:{backend.port}?trace_id=1")
    return found.spans[0].attributes


def test_a_span_has_what_phoenix_keeps_in_whole_microseconds(backend, phoenix, read):
    phoenix([span()])
    [[found]] = [x.spans for x in read(f"phoenix://127.0.0.1:{backend.port}?trace_id=1")]
    assert (found.start_ns, found.status_code, found.status_message) == (
        1_699_999_000_123_456_000,
        2,
        "no",
    )
    assert found.events[0].attributes == {"exception.type": "ValueError"}


def test_the_kind_of_openinference_is_with_its_attributes_again(backend, phoenix, read):
    phoenix([span(**{"input.value": "x"})])
    assert attributes(read, backend) == {"input.value": "x", "openinference.span.kind": "LLM"}


def test_what_phoenix_makes_of_genai_attributes_is_left_out(backend, phoenix, read):
    phoenix(
        [
            span(
                **{
                    "gen_ai.request.model": "m",
                    "llm.model_name": "m",
                    "output.value": '{"id": "1"}',
                }
            )
        ]
    )
    assert attributes(read, backend) == {"gen_ai.request.model": "m"}


def test_openinference_with_content_beside_bare_genai_attributes_stays(backend, phoenix, read):
    given = {"gen_ai.request.model": "m", "llm.input_messages.0.message.content": "hello"}
    phoenix([span(**given)])
    assert attributes(read, backend) == {**given, "openinference.span.kind": "LLM"}


def test_json_that_phoenix_parsed_is_text_again(backend, phoenix, read):
    phoenix([span(kind="UNKNOWN", **{"metadata.a.b": 1, "metadata.c": "d"})])
    assert json.loads(attributes(read, backend)["metadata"]) == {"a": {"b": 1}, "c": "d"}


def test_all_pages_of_a_trace_are_read(backend, phoenix, read):
    phoenix([span(x) for x in range(1, 500)])
    [found] = read(f"phoenix://127.0.0.1:{backend.port}?trace_id=1")
    assert (len(found.spans), found.truncated) == (499, "")


def test_a_trace_with_more_spans_than_are_read_is_truncated(backend, phoenix, read, monkeypatch):
    monkeypatch.setattr(source, "MAX_TRACE_SPANS", 400)
    phoenix([span(x) for x in range(1, 500)])
    [found] = read(f"phoenix://127.0.0.1:{backend.port}?trace_id=1")
    assert len(found.spans) == 400
    assert "more than 400 spans" in found.truncated


def test_conditions_that_phoenix_knows_are_asked_of_it(backend, phoenix, read):
    asked = phoenix([span()])
    read(f"phoenix://127.0.0.1:{backend.port}?project=a/b&since=1d&errors=true&min_duration=2s")
    assert asked[0][1] == {
        "limit": "1000",
        "start_time": "2023-11-13T22:13:20+00:00",
        "error": "true",
        "min_latency_ms": "1999",
    }


def test_a_service_is_refused_since_phoenix_keeps_none(read):
    with pytest.raises(InputError, match="choose by project=NAME"):
        read("phoenix://127.0.0.1:1?service=shop")


def test_a_span_that_cannot_be_read_is_an_error(backend, phoenix, read):
    phoenix([{"name": "x"}])
    with pytest.raises(InputError, match="cannot be read"):
        read(f"phoenix://127.0.0.1:{backend.port}?trace_id=1")
