"""The configuration of telemetry takes what the collector's takes, and says what has moved."""

import pytest

from spanscore import config
from spanscore.errors import ConfigError
from spanscore.telemetry.config import readers

COLLECTORS = """
telemetry:
  logs: \
{level: warn, encoding: json, sampling: {enabled: true, tick: 10s, initial: 10, thereafter: 100}}
  resource: {deployment.environment.name: production}
  metrics:
    readers:
      - periodic:
          interval: 10000
          exporter:
            otlp:
              protocol: http/protobuf
              endpoint: https://collector:4318
              headers: [{name: authorization, value: "Bearer abc"}]
      - pull: {exporter: {prometheus: {host: "::1", port: 8888}}}
"""
ENDPOINT = "OTEL_EXPORTER_OTLP_METRICS_ENDPOINT"


def test_the_collectors_keys_are_known():
    metrics = config.parse(COLLECTORS, environ={}).telemetry.metrics
    (periodic,) = metrics.periodic
    assert (periodic.interval, periodic.exporter.otlp.headers[0].name) == (
        10 * 10**9,
        "authorization",
    )


def test_a_page_of_its_own_is_named_by_its_key():
    metrics = config.parse(COLLECTORS, environ={}).telemetry.metrics
    assert metrics.scraped == {"telemetry.metrics.readers.1.pull.exporter.prometheus": "[::1]:8888"}


def test_by_default_nothing_is_sent():
    assert config.parse("", environ={}).telemetry.metrics.readers == []


@pytest.mark.parametrize("key", ["level: debug", "encoding: json"])
def test_what_has_moved_says_where_to(key):
    with pytest.raises(
        ConfigError, match=r"telemetry: \w+ has moved: write it under telemetry\.logs"
    ):
        config.parse(f"telemetry: {{{key}}}", environ={})


@pytest.mark.parametrize(
    "reader", ["{}", "{periodic: {exporter: {otlp: {}}}, pull: {exporter: {prometheus: {}}}}"]
)
def test_a_reader_is_one_thing(reader):
    with pytest.raises(ConfigError, match="either periodic or pull"):
        config.parse(f"telemetry: {{metrics: {{readers: [{reader}]}}}}", environ={})


def test_the_environment_is_followed():
    environ = {
        ENDPOINT: "http://collector:4318/v1/metrics",
        "OTEL_EXPORTER_OTLP_HEADERS": "x-key=a%20b",
        "OTEL_METRIC_EXPORT_INTERVAL": "5000",
        "OTEL_EXPORTER_OTLP_METRICS_TIMEOUT": "2000",
    }
    (periodic,) = config.default(environ).telemetry.metrics.periodic
    otlp = periodic.exporter.otlp
    assert (otlp.endpoint, periodic.interval, otlp.timeout) == (
        "http://collector:4318/v1/metrics",
        5 * 10**9,
        2 * 10**9,
    )
    assert [(x.name, x.value.get_secret_value()) for x in otlp.headers] == [("x-key", "a b")]


def test_the_file_comes_before_the_environment():
    text = (
        "telemetry: {metrics: {readers: [{periodic: {exporter: {otlp: {endpoint: 'http://a'}}}}]}}"
    )
    (periodic,) = config.parse(text, environ={ENDPOINT: "http://b"}).telemetry.metrics.periodic
    assert periodic.exporter.otlp.endpoint == "http://a"


@pytest.mark.parametrize(
    "environ",
    [
        {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://b"},
        {ENDPOINT: "http://b", "OTEL_METRICS_EXPORTER": "none"},
        {ENDPOINT: "http://b", "OTEL_SDK_DISABLED": "true"},
    ],
)
def test_the_environment_must_ask_for_metrics(environ):
    assert readers(environ) == []
