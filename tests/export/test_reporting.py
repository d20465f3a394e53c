"""spanscore's own metrics leave from time to time, and a receiver that is down disturbs nothing."""

import asyncio

import pytest
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest

from spanscore.errors import ConfigError
from spanscore.export.port import UndeliveredError
from spanscore.export.reporter import Reporting, exporter_config
from spanscore.telemetry import Meter, declared
from spanscore.telemetry.config import Otlp, Periodic


class Receiver:
    def __init__(self, *errors):
        self.errors = list(errors)
        self.got = []
        self.closed = False

    async def send(self, signal, body):
        if self.errors and (error := self.errors.pop(0)):
            raise error
        self.got.append((signal, ExportMetricsServiceRequest.FromString(body)))

    async def close(self):
        self.closed = True


def reporting(receiver, interval="1h"):
    config = Periodic.model_validate(
        {"interval": interval, "exporter": {"otlp": {"endpoint": "http://there:4318"}}}
    )
    return Reporting(config, Meter(), {"service.name": "spanscore"}, exporter=receiver)


async def test_metrics_are_sent_at_the_end_too():
    receiver = Receiver()
    await reporting(receiver).close()
    assert [signal for signal, _ in receiver.got] == ["metrics"]
    assert receiver.closed


async def test_metrics_are_sent_again_and_again():
    receiver = Receiver()
    running = asyncio.create_task(reporting(receiver, "1ns").run())
    while len(receiver.got) < 3:  # noqa: ASYNC110 # nothing tells it
        await asyncio.sleep(0)
    running.cancel()


async def test_what_is_sent_are_the_declared_names():
    receiver = Receiver()
    await reporting(receiver).send()
    found = {x.name for x in receiver.got[0][1].resource_metrics[0].scope_metrics[0].metrics}
    assert found
    assert found <= {x.name for x in declared.METRICS}


async def test_a_receiver_that_is_down_is_told_once_and_when_it_is_back(caplog):
    caplog.set_level("INFO")
    down = [UndeliveredError("refused")] * 3
    one = reporting(Receiver(*down))
    for _ in range(5):
        await one.send()
    assert caplog.messages == [
        "metrics to http://there:4318: not delivered: refused",
        "metrics to http://there:4318: delivered again",
    ]


@pytest.mark.parametrize(
    ("otlp", "endpoint", "metrics_endpoint"),
    [
        ({"endpoint": "http://there:4318"}, "http://there:4318", None),
        ({"endpoint": "there:4318"}, "http://there:4318", None),
        (
            {"endpoint": "https://there/otlp/v1/metrics"},
            "http://127.0.0.1:4318",
            "https://there/otlp/v1/metrics",
        ),
    ],
)
def test_the_path_is_added_unless_there_is_one(otlp, endpoint, metrics_endpoint):
    config = exporter_config(Otlp.model_validate(otlp))
    assert (config.endpoint, config.metrics_endpoint) == (endpoint, metrics_endpoint)


@pytest.mark.parametrize(
    ("otlp", "insecure"),
    [
        ({"endpoint": "http://there:4317"}, True),
        ({"endpoint": "https://there:4317"}, False),
        ({"endpoint": "there:4317"}, False),
        ({"endpoint": "there:4317", "insecure": True}, True),
    ],
)
def test_grpc_is_spoken_with_tls_unless_the_endpoint_says_otherwise(otlp, insecure):
    config = exporter_config(Otlp.model_validate({"protocol": "grpc", **otlp}))
    assert (config.endpoint, config.tls.insecure) == ("there:4317", insecure)


def test_a_certificate_that_is_not_there_is_told_at_the_start(tmp_path):
    otlp = {"protocol": "grpc", "endpoint": "there:4317", "certificate": str(tmp_path / "none.pem")}
    config = Periodic.model_validate({"exporter": {"otlp": otlp}})
    with pytest.raises(ConfigError, match=r"none\.pem"):
        Reporting(config, Meter(), {})
