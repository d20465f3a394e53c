"""The health checks say what a supervisor, a load balancer and gRPC's own clients need to know."""

import asyncio
import json
import socket
from datetime import datetime

import aiohttp
import grpc
import pytest
from grpc_health.v1 import health_pb2
from grpc_health.v1.health_pb2_grpc import HealthStub
from opentelemetry.proto.collector.trace.v1.trace_service_pb2_grpc import TraceServiceStub
from prometheus_client.parser import text_string_to_metric_families

from spanscore.errors import ConfigError
from spanscore.receive.config import Health
from spanscore.receive.server import HealthServer
from spanscore.telemetry import Meter, declared

SERVICES = [
    "",
    "opentelemetry.proto.collector.trace.v1.TraceService",
    "opentelemetry.proto.collector.logs.v1.LogsService",
    "opentelemetry.proto.collector.metrics.v1.MetricsService",
]


async def get(port, path="/"):
    async with (
        aiohttp.ClientSession() as session,
        session.get(f"http://127.0.0.1:{port}{path}") as answer,
    ):
        return answer.status, await answer.text()


async def while_draining(up, traces, ask):
    """What `ask` says while a request is still under way in a server that stops."""
    up.intake.gate.clear()
    export = asyncio.ensure_future(TraceServiceStub(up.channel).Export(traces()))
    await up.intake.entered.wait()
    stopping = asyncio.create_task(up.server.stop(5.0))
    said = await ask()
    up.intake.gate.set()
    await asyncio.gather(export, stopping)
    return said


async def grpc_status(up, service=""):
    return (
        await HealthStub(up.channel).Check(health_pb2.HealthCheckRequest(service=service))
    ).status


async def test_it_answers_as_the_collector_does(serve):
    async with serve() as up:
        status, text = await get(up.server.health_port)
    assert (status, json.loads(text)["status"]) == (200, "Server available")


async def test_it_says_since_when_it_is_up(serve):
    async with serve() as up:
        _, text = await get(up.server.health_port)
    shown = json.loads(text)
    assert datetime.fromisoformat(shown["upSince"])
    assert shown["uptime"].endswith("s")


async def test_it_shows_totals_and_what_the_intake_says(serve):
    async with serve() as up:
        up.meter.add(declared.RECEIVER_REQUESTS, 2, transport="grpc", signal="traces")
        up.meter.add(declared.RECEIVER_REQUESTS, 1, transport="http", signal="logs")
        shown = json.loads((await get(up.server.health_port))[1])
    assert (shown["open_traces"], shown["counters"]) == (3, {"receiver_requests": 3})


async def test_the_path_can_be_another(serve):
    async with serve(health={"path": "/health/status"}) as up:
        found = [(await get(up.server.health_port, path))[0] for path in ("/health/status", "/")]
    assert found == [200, 404]


@pytest.mark.parametrize("path", ["/readyz", "/livez"])
async def test_ready_and_live_are_200_while_requests_are_taken(serve, path):
    async with serve() as up:
        assert (await get(up.server.health_port, path))[0] == 200


@pytest.mark.parametrize(("path", "status"), [("/", 503), ("/readyz", 503), ("/livez", 200)])
async def test_while_it_drains_it_is_alive_and_not_ready(serve, traces, path, status):
    async with serve() as up:
        found = await while_draining(up, traces, lambda: get(up.server.health_port, path))
    assert found[0] == status


@pytest.mark.parametrize(
    ("path", "status"), [("/", 503), ("/readyz", 503), ("/livez", 200), ("/metrics", 200)]
)
async def test_while_the_journal_is_full_it_is_alive_and_not_ready(serve, path, status):
    async with serve() as up:
        up.intake.trouble = "the journal is full"
        found = await get(up.server.health_port, path)
    assert found[0] == status


async def test_what_is_not_ready_says_why(serve):
    async with serve() as up:
        up.intake.trouble = "the journal is full"
        state, ready = [(await get(up.server.health_port, path))[1] for path in ("/", "/readyz")]
    assert (json.loads(state)["status"], json.loads(state)["reason"]) == (
        "Server not available",
        "the journal is full",
    )
    assert ready == "the journal is full\n"


@pytest.mark.parametrize("service", SERVICES)
async def test_grpc_health_is_serving_overall_and_for_each_service(serve, service):
    async with serve() as up:
        assert await grpc_status(up, service) == health_pb2.HealthCheckResponse.SERVING


async def test_grpc_health_follows_what_is_wrong(serve, monkeypatch):
    monkeypatch.setattr("spanscore.receive.server._LOOK_EVERY_S", 0.001)
    async with serve() as up:
        up.intake.trouble = "the journal is full"
        while await grpc_status(up) == health_pb2.HealthCheckResponse.SERVING:  # noqa: ASYNC110 # no event tells it
            await asyncio.sleep(0)
        up.intake.trouble = None
        while await grpc_status(up) != health_pb2.HealthCheckResponse.SERVING:  # noqa: ASYNC110 # likewise
            await asyncio.sleep(0)


async def test_the_metrics_page_is_what_prometheus_reads(serve, traces):
    async with serve() as up:
        await TraceServiceStub(up.channel).Export(traces("a", "b"))
        _, page = await get(up.server.health_port, "/metrics")
    samples = {x.name: x for family in text_string_to_metric_families(page) for x in family.samples}
    accepted = samples["spanscore_receiver_accepted_spans_total"]
    assert (accepted.value, accepted.labels) == (2, {"transport": "grpc"})


async def test_refused_requests_are_counted_by_reason(serve, traces):
    async with serve() as up:
        up.intake.error = ZeroDivisionError()
        with pytest.raises(grpc.aio.AioRpcError):
            await TraceServiceStub(up.channel).Export(traces())
        async with up.http.post(
            "/v1/traces", data=b"", headers={"Content-Type": "text/plain"}
        ) as answer:
            await answer.read()
        found = next(
            x for x in up.meter.collect() if x.metric is declared.RECEIVER_REFUSED_REQUESTS
        )
    assert found.values == {("grpc", "traces", "fault"): 1, ("http", "traces", "not_otlp"): 1}


async def test_a_default_port_that_is_taken_is_not_the_end(monkeypatch, caplog):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        endpoint = f"127.0.0.1:{taken.getsockname()[1]}"
        monkeypatch.setattr("spanscore.receive.server.ELSEWHERE", "127.0.0.1:0")
        server = HealthServer(
            Health.model_construct(endpoint=endpoint, path="/", _fields_set=set()),
            *[None] * 2,
            Meter(),
            {},
        )
        await server.start()
        assert server.endpoint == "127.0.0.1:0"
        await server.stop()
    assert "receive.health.endpoint" in caplog.messages[0]


async def test_a_configured_port_that_is_taken_is_an_error_that_names_the_key():
    with socket.create_server(("127.0.0.1", 0)) as taken:
        health = Health(endpoint=f"127.0.0.1:{taken.getsockname()[1]}")
        with pytest.raises(ConfigError, match=r"receive\.health\.endpoint"):
            await HealthServer(health, None, None, Meter(), {}).start()


@pytest.mark.parametrize("path", ["/metrics", "health", "/livez"])
def test_a_path_that_cannot_be_is_refused(path):
    with pytest.raises(ValueError, match="path"):
        Health(path=path)


async def test_what_does_not_work_is_shown_while_requests_are_taken(serve):
    async with serve() as up:
        up.intake.notice = "the judge gives no answers: m: wrong key"
        found = [await get(up.server.health_port, path) for path in ("/readyz", "/")]
    (ready, told), (healthy, shown) = found
    assert (ready, healthy) == (200, 200)
    assert told == "ok\nthe judge gives no answers: m: wrong key\n"
    assert json.loads(shown)["notice"] == "the judge gives no answers: m: wrong key"
