"""What MLflow is asked and what is made of its answers; tests/live/ui holds them against a real
one.
"""

import base64
import json

import pytest
from aiohttp import web

from spanscore.errors import InputError

TRACE = f"{1:032x}"


def kept(name, value):
    return {"key": name, "value": value}


def span(*attributes):
    return {
        "trace_id": base64.b64encode(bytes.fromhex(TRACE)).decode(),
        "span_id": base64.b64encode(bytes.fromhex(f"{1:016x}")).decode(),
        "name": "chat",
        "start_time_unix_nano": 1_699_999_000 * 10**9,
        "end_time_unix_nano": 1_699_999_001 * 10**9,
        "attributes": list(attributes),
    }


@pytest.fixture
def mlflow(backend):
    """Call it with the spans of one trace; gives the bodies of searches."""

    def made(spans, state="OK", pages=1, experiment="0"):
        searches = []

        async def answer(request, body):
            if request.path.endswith("get-by-name"):
                is_known = request.query["experiment_name"] == "shop"
                return web.json_response(
                    {"experiment": {"experiment_id": "7"}}, status=200 if is_known else 404
                )
            if request.path.endswith("/search"):
                searches.append(body.decode())
                info = {
                    "trace_id": f"tr-{len(searches):032x}",
                    "request_time": "2023-11-14T21:56:40Z",
                }
                more = {"next_page_token": "more"} if len(searches) < pages else {}
                return web.json_response({"traces": [info], **more})
            location = {
                "type": "MLFLOW_EXPERIMENT",
                "mlflow_experiment": {"experiment_id": experiment},
            }
            located = {"trace_location": location} if experiment else {}
            info = {
                **located,
                "state": state,
                "tags": {"service.name": "shop", "mlflow.x": "y", "team": "a"},
            }
            return web.json_response({"trace": {"trace_info": info, "spans": spans}})

        backend.answer = answer
        return searches

    return made


def test_what_mlflow_parsed_is_text_again_and_what_it_added_is_gone(backend, mlflow, read):
    parsed = {
        "array_value": {
            "values": [{"kvlist_value": {"values": [kept("role", {"string_value": "user"})]}}]
        }
    }
    own = kept("mlflow.spanInputs", {"string_value": "x"})
    mlflow(
        [
            span(
                kept("gen_ai.input.messages", parsed),
                kept("gen_ai.usage.input_tokens", {"int_value": 3}),
                own,
            )
        ]
    )
    [found] = read(f"mlflow://127.0.0.1:{backend.port}?trace_id=1")
    assert found.spans[0].attributes == {
        "gen_ai.input.messages": '[{"role": "user"}]',
        "gen_ai.usage.input_tokens": 3,
    }


def test_a_span_that_mlflow_itself_recorded_stays_as_it_is(backend, mlflow, read):
    mlflow([span(kept("mlflow.spanInputs", {"string_value": "x"}))])
    [found] = read(f"mlflow://127.0.0.1:{backend.port}?trace_id=1")
    assert found.spans[0].attributes == {"mlflow.spanInputs": "x"}


def test_the_service_comes_from_the_tags_and_other_tags_do_not(backend, mlflow, read):
    mlflow([span()])
    [found] = read(f"mlflow://127.0.0.1:{backend.port}?trace_id=1")
    assert found.spans[0].resource.attributes == {"service.name": "shop"}


def test_a_trace_without_its_root_is_truncated(backend, mlflow, read):
    mlflow([span()], state="IN_PROGRESS")
    [found] = read(f"mlflow://127.0.0.1:{backend.port}?trace_id=1")
    assert "root span" in found.truncated


def test_an_experiment_is_known_by_its_name_and_pages_are_followed(backend, mlflow, read):
    searches = mlflow([span()], pages=2)
    read(f"mlflow://127.0.0.1:{backend.port}?experiment=shop&since=1d")
    assert len(searches) == 2
    assert '"experiment_id": "7"' in searches[0]
    assert "timestamp_ms >= 1699913600000" in searches[0]


@pytest.mark.parametrize(
    ("experiment", "is_read"), [("7", True), ("0", False), ("70", False), (None, False)]
)
@pytest.mark.parametrize("asked", ["experiment=shop", "experiment=7", "experiment=3&experiment=7"])
def test_a_trace_that_is_named_is_read_where_it_is_in_a_wanted_experiment(
    backend, mlflow, read, experiment, is_read, asked
):
    mlflow([span()], experiment=experiment)
    found = read(f"mlflow://127.0.0.1:{backend.port}?{asked}&trace_id=1")
    assert len(found) == is_read


def test_a_trace_that_is_named_is_of_the_default_experiment_where_none_is(backend, mlflow, read):
    mlflow([span()], experiment="7")
    assert read(f"mlflow://127.0.0.1:{backend.port}?trace_id=1") == []


def test_an_experiment_that_is_not_there_is_an_error(backend, mlflow, read):
    mlflow([])
    with pytest.raises(InputError, match="no experiment 'other'"):
        read(f"mlflow://127.0.0.1:{backend.port}?experiment=other")


@pytest.mark.parametrize(
    ("asked", "condition"),
    [
        ("service=shop", "tags.`service.name` = 'shop'"),
        ("errors=true", "span.status = 'ERROR'"),
        ("attribute.a.b=c d", "span.attributes.`a.b` LIKE '%c d%'"),
        ("errors=true&attribute.a=b", "span.status = 'ERROR'"),
    ],
)
def test_mlflow_is_asked_for_what_its_search_has(backend, mlflow, read, asked, condition):
    searches = mlflow([])
    read(f"mlflow://127.0.0.1:{backend.port}?{asked}")
    assert json.loads(searches[0])["filter"].partition(" AND ")[2] == condition


@pytest.mark.parametrize("asked", ["service=a'b", "attribute.a=b'", "attribute.a`b=c"])
def test_what_needs_an_escape_is_never_in_mlflows_filter(backend, mlflow, read, asked):
    searches = mlflow([])
    read(f"mlflow://127.0.0.1:{backend.port}?{asked}")
    assert " AND " not in json.loads(searches[0])["filter"]


def test_an_mlflow_that_cannot_search_spans_is_asked_without(backend, mlflow, read):
    searches = mlflow([span(kept("a", {"string_value": "b"}))])
    answer = backend.answer

    async def older(request, body):
        if b"span.attributes" in body:
            return web.json_response({"error_code": "INVALID_PARAMETER_VALUE"}, status=400)
        return await answer(request, body)

    backend.answer = older
    assert len(read(f"mlflow://127.0.0.1:{backend.port}?attribute.a=b&since=2020-01-01")) == 1
    assert len(searches) == 1
