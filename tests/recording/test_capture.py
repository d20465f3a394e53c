"""What a framework exports is kept as it was sent, and says nothing of the machine it was sent
from.
"""

import gzip
import urllib.request
from pathlib import Path

import grpc
import pytest
from capture_server import CaptureServer
from scrub import Scrubber

from spanscore.otlp import codec
from spanscore.otlp.signal import WIRE

WIRE_TRACES = WIRE["traces"]


@pytest.fixture
def capture():
    server = CaptureServer()
    yield server
    server.close()


def request(name="chat", **attributes):
    shown = [{"key": key, "value": {"stringValue": value}} for key, value in attributes.items()]
    span = {"traceId": "01" * 16, "spanId": "02" * 8, "name": name, "attributes": shown}
    resource = {
        "attributes": [
            {"key": key, "value": {"stringValue": "x"}} for key in ("service.name", "host.name")
        ]
    }
    spans = {"resourceSpans": [{"resource": resource, "scopeSpans": [{"spans": [span]}]}]}
    return codec.from_object("traces", spans)


def post(url, content, **headers):
    named = {key.replace("_", "-"): value for key, value in headers.items()}
    with urllib.request.urlopen(urllib.request.Request(url, content, named)) as answer:
        return answer.status


def names(kept):
    return [z.name for x in kept.resource_spans for y in x.scope_spans for z in y.spans]


@pytest.mark.slow
def test_protobuf_over_http_is_kept(capture):
    post(
        f"{capture.http_url}/v1/traces",
        request().SerializeToString(),
        content_type="application/x-protobuf",
    )
    assert capture.kept("traces") == request()


@pytest.mark.slow
def test_gzipped_json_over_http_is_kept(capture):
    content = gzip.compress(codec.encode(request()).encode())
    post(
        f"{capture.http_url}/v1/traces",
        content,
        content_type="application/json",
        content_encoding="gzip",
    )
    assert capture.kept("traces") == request()


@pytest.mark.slow
def test_grpc_is_kept(capture):
    with grpc.insecure_channel(capture.grpc_url.removeprefix("http://")) as channel:
        method = f"/{WIRE_TRACES.service}/Export"
        channel.unary_unary(
            method, lambda x: x.SerializeToString(), WIRE_TRACES.response.FromString
        )(request())
    assert capture.kept("traces") == request()


@pytest.mark.slow
def test_requests_are_kept_in_their_order(capture):
    for name in ("first", "second"):
        post(f"{capture.http_url}/a/prefix/v1/traces", request(name).SerializeToString())
    assert names(capture.kept("traces")) == ["first", "second"]


@pytest.mark.slow
def test_metrics_are_taken_and_thrown_away(capture):
    assert post(f"{capture.http_url}/v1/metrics", b"") == 200


def scrubbed(**attributes):
    message = request(**attributes)
    Scrubber({Path("/somewhere/cache/x/work"): "/app"}).scrub(message)
    return message


def test_of_the_resource_only_what_names_service_and_sdk_stays():
    assert [x.key for x in scrubbed().resource_spans[0].resource.attributes] == ["service.name"]


def test_paths_are_replaced_in_attributes():
    (span,) = (
        scrubbed(code="/somewhere/cache/x/work/agent.py").resource_spans[0].scope_spans[0].spans
    )
    assert [x.value.string_value for x in span.attributes] == ["/app/agent.py"]


def test_a_longer_name_that_begins_alike_stays():
    assert Scrubber({Path("/somewhere"): "/app"}).text("/somewhere_else") == "/somewhere_else"


def test_the_home_folder_is_replaced():
    assert str(Path.home()) not in Scrubber({}).text(f"{Path.home()}/x")


def test_attributes_of_the_machine_are_dropped():
    (span,) = (
        scrubbed(**{"process.command": "python", "kept": "x"})
        .resource_spans[0]
        .scope_spans[0]
        .spans
    )
    assert [x.key for x in span.attributes] == ["kept"]
