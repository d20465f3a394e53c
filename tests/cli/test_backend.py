"""OTEL_EXPORTER_OTLP_ENDPOINT as the SDKs read it."""

import socket

import pytest

from spanscore.cli.backend import from_environment


def _backend(endpoint, **variables):
    return from_environment({"OTEL_EXPORTER_OTLP_ENDPOINT": endpoint, **variables})


@pytest.mark.parametrize(
    ("endpoint", "protocol", "port"),
    [
        ("http://localhost:4317", "grpc", 4317),
        ("http://localhost:4318", "http", 4318),
        ("http://localhost:6006", "grpc", 6006),
        ("http://localhost", "grpc", 4317),
        ("localhost:4317", "grpc", 4317),
        ("https://backend.example", "grpc", 443),
        ("https://backend.example/api/public/otel", "http", 443),
        ("http://backend.example/otlp", "http", 80),
        ("http://localhost:9999/otlp/", "http", 9999),
    ],
)
def test_the_port_says_the_protocol_where_nothing_else_does(endpoint, protocol, port):
    backend = _backend(endpoint)
    assert (backend.protocol, backend.port) == (protocol, port)


def test_a_stated_protocol_is_the_protocol():
    assert _backend("http://localhost:6006", OTEL_EXPORTER_OTLP_PROTOCOL="http/protobuf").protocol == "http"


def test_what_is_said_of_traces_goes_before_what_is_said_of_all_signals():
    backend = _backend(
        "http://metrics.example:4317",
        OTEL_EXPORTER_OTLP_HEADERS="key=all",
        OTEL_EXPORTER_OTLP_TRACES_ENDPOINT="https://traces.example/base/v1/traces",
        OTEL_EXPORTER_OTLP_TRACES_HEADERS="key=traces",
    )
    assert backend.exporter() == {
        "otlp_http": {"endpoint": "https://traces.example/base", "headers": {"key": "traces"}}
    }


def test_traces_go_to_the_very_url_that_is_named_for_them():
    backend = _backend("", OTEL_EXPORTER_OTLP_TRACES_ENDPOINT="https://traces.example/ingest")
    assert backend.exporter()["otlp_http"]["traces_endpoint"] == "https://traces.example/ingest"


@pytest.mark.parametrize("endpoint", ["", "   ", "http://", "http://[::1", "http://localhost:port"])
def test_what_names_no_host_is_no_backend(endpoint):
    assert _backend(endpoint) is None


def test_scores_go_by_grpc_without_tls_to_an_http_url():
    exporter = _backend("http://[::1]:4317").exporter()
    assert exporter == {"otlp_grpc": {"endpoint": "[::1]:4317", "tls": {"insecure": True}, "headers": {}}}


def test_headers_are_decoded_and_no_reference_is_read_into_them():
    headers = "Authorization=Bearer%20a$b,x-project = demo"
    backend = _backend("http://localhost:4318/otlp/", OTEL_EXPORTER_OTLP_HEADERS=headers)
    assert backend.exporter() == {
        "otlp_http": {
            "endpoint": "http://localhost:4318/otlp",
            "headers": {"authorization": "Bearer a$$b", "x-project": "demo"},
        }
    }


def test_a_port_that_accepts_a_connection_listens():
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        assert _backend(f"http://127.0.0.1:{port}").listens()
    assert not _backend(f"http://127.0.0.1:{port}").listens()
