"""OTEL_EXPORTER_OTLP_ENDPOINT as the SDKs read it."""

import socket

import pytest

from spanscore.cli.one_run import all_from_environment, exporters, from_environment
from spanscore.export.config import Config as Export


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
    assert (
        _backend("http://localhost:6006", OTEL_EXPORTER_OTLP_PROTOCOL="http/protobuf").protocol
        == "http"
    )


def test_what_is_said_of_traces_goes_before_what_is_said_of_all_signals():
    backend = _backend(
        "http://metrics.example:4317",
        OTEL_EXPORTER_OTLP_HEADERS="key=all",
        OTEL_EXPORTER_OTLP_TRACES_ENDPOINT="https://traces.example/base/v1/traces",
        OTEL_EXPORTER_OTLP_TRACES_HEADERS="key=traces",
    )
    assert backend.exporter(["traces"]) == (
        "otlp_http",
        {
            "endpoint": "https://traces.example/base",
            "headers": {"key": "traces"},
            "signals": ["traces"],
        },
    )


def test_traces_go_to_the_very_url_that_is_named_for_them():
    backend = _backend("", OTEL_EXPORTER_OTLP_TRACES_ENDPOINT="https://traces.example/ingest")
    assert backend.exporter(["traces"])[1]["traces_endpoint"] == "https://traces.example/ingest"


@pytest.mark.parametrize("endpoint", ["", "   ", "http://", "http://[::1", "http://localhost:port"])
def test_what_names_no_host_is_no_backend(endpoint):
    assert _backend(endpoint) is None


def test_scores_go_by_grpc_without_tls_to_an_http_url():
    kind, settings = _backend("http://[::1]:4317").exporter(["traces"])
    assert (kind, settings["endpoint"], settings["tls"]) == (
        "otlp_grpc",
        "[::1]:4317",
        {"insecure": True},
    )


def test_headers_are_decoded_and_no_reference_is_read_into_them():
    headers = "Authorization=Bearer%20a$b,x-project = demo"
    backend = _backend("http://localhost:4318/otlp/", OTEL_EXPORTER_OTLP_HEADERS=headers)
    kind, settings = backend.exporter(["traces"])
    assert (kind, settings["endpoint"]) == ("otlp_http", "http://localhost:4318/otlp")
    assert settings["headers"] == {"authorization": "Bearer a$$b", "x-project": "demo"}


def test_a_backend_of_all_signals_gets_all():
    [(name, settings)] = exporters(
        all_from_environment({"OTEL_EXPORTER_OTLP_ENDPOINT": "http://localhost:4318"})
    ).items()
    assert (name, settings["signals"]) == (
        "otlp_http/traces_logs_metrics",
        ["traces", "logs", "metrics"],
    )


def test_each_signal_goes_to_its_own_backend():
    found = exporters(
        all_from_environment(
            {
                "OTEL_EXPORTER_OTLP_ENDPOINT": "http://all.example:4317",
                "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "http://traces.example:4318/v1/traces",
                "OTEL_EXPORTER_OTLP_LOGS_ENDPOINT": "http://logs.example:4318/in",
            }
        )
    )
    assert {name: x["endpoint"] for name, x in found.items()} == {
        "otlp_http/traces": "http://traces.example:4318",
        "otlp_http/logs": "http://logs.example:4318/in",
        "otlp_grpc/metrics": "all.example:4317",
    }
    assert found["otlp_http/logs"]["logs_endpoint"] == "http://logs.example:4318/in"
    assert Export.model_validate({"exporters": found}).otlp_exporters.keys() == found.keys()


def test_a_backend_of_traces_alone_gets_nothing_else():
    found = exporters(
        all_from_environment(
            {"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "http://traces.example:4318/v1/traces"}
        )
    )
    assert [x["signals"] for x in found.values()] == [["traces"]]


def test_a_port_that_accepts_a_connection_listens():
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        assert _backend(f"http://127.0.0.1:{port}").listens()
    assert not _backend(f"http://127.0.0.1:{port}").listens()
