"""Starting, stopping, the health check, and the real exporters as clients."""

import asyncio
import logging
from pathlib import Path

import aiohttp
import grpc
import pytest
import yaml
from opentelemetry.exporter.otlp.proto.grpc.trace_exporter import OTLPSpanExporter as GrpcExporter
from opentelemetry.exporter.otlp.proto.http import Compression
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter as HttpExporter
from opentelemetry.proto.collector.trace.v1.trace_service_pb2_grpc import TraceServiceStub
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor

from spanscore.errors import ConfigError, RetryableError
from spanscore.receive import exports, status
from spanscore.receive.config import Config, split_endpoint
from spanscore.receive.exports import Exports
from spanscore.receive.server import Server
from spanscore.telemetry import Meter

PROTOBUF = {"Content-Type": "application/x-protobuf"}


def send_one_span(exporter):
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    provider.get_tracer("test").start_span("chat").end()
    provider.shutdown()


@pytest.mark.parametrize("compression", [None, grpc.Compression.Gzip])
async def test_the_grpc_exporter_of_the_sdk_is_understood(serve, compression):
    async with serve() as up:
        endpoint = f"http://127.0.0.1:{up.server.grpc_port}"
        await asyncio.to_thread(
            send_one_span, GrpcExporter(endpoint, insecure=True, compression=compression)
        )
    assert [x.name for x in up.intake.accepted[0][2].resource_spans[0].scope_spans[0].spans] == [
        "chat"
    ]


@pytest.mark.parametrize(
    "compression", [Compression.NoCompression, Compression.Gzip, Compression.Deflate]
)
async def test_the_http_exporter_of_the_sdk_is_understood(serve, compression):
    async with serve() as up:
        endpoint = f"http://127.0.0.1:{up.server.http_port}/v1/traces"
        await asyncio.to_thread(send_one_span, HttpExporter(endpoint, compression=compression))
    assert [x.name for x in up.intake.accepted[0][2].resource_spans[0].scope_spans[0].spans] == [
        "chat"
    ]


@pytest.mark.slow
async def test_the_exporter_of_the_sdk_sends_again_what_could_not_be_taken(serve):
    async with serve() as up:
        up.intake.error = RetryableError("not now", retry_after_s=0.01)
        up.intake.gate.clear()
        endpoint = f"http://127.0.0.1:{up.server.grpc_port}"
        sending = asyncio.create_task(
            asyncio.to_thread(send_one_span, GrpcExporter(endpoint, insecure=True))
        )
        await up.intake.entered.wait()
        up.intake.entered.clear()
        up.intake.gate.set()
        await up.intake.entered.wait()  # it came a second time
        up.intake.error = None
        await sending
    assert len(up.intake.accepted) == 1


async def test_a_request_under_way_is_finished_while_new_ones_are_told_to_come_back(serve, traces):
    async with serve() as up:
        up.intake.gate.clear()
        body = traces().SerializeToString()
        export = asyncio.ensure_future(TraceServiceStub(up.channel).Export(traces("under way")))
        await up.intake.entered.wait()
        stopping = asyncio.create_task(up.server.stop(5.0))
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await TraceServiceStub(up.channel).Export(traces("new"))
        async with up.http.post("/v1/traces", data=body, headers=PROTOBUF) as answer:
            http_status = answer.status
        up.intake.gate.set()
        await asyncio.gather(export, stopping)
    assert (caught.value.code(), http_status) == (grpc.StatusCode.UNAVAILABLE, 503)
    assert [x[2] for x in up.intake.accepted] == [traces("under way")]


async def test_an_http_request_under_way_is_finished(serve, traces):
    async def send():
        async with up.http.post(
            "/v1/traces", data=traces().SerializeToString(), headers=PROTOBUF
        ) as answer:
            return answer.status

    async with serve() as up:
        up.intake.gate.clear()
        sending = asyncio.create_task(send())
        await up.intake.entered.wait()
        stopping = asyncio.create_task(up.server.stop(5.0))
        up.intake.gate.set()
        await stopping
        assert await sending == 200


@pytest.mark.slow
async def test_a_request_that_takes_too_long_does_not_hold_the_stop_up(serve, traces, caplog):
    async with serve() as up:
        up.intake.gate.clear()
        export = asyncio.ensure_future(TraceServiceStub(up.channel).Export(traces()))
        await up.intake.entered.wait()
        await up.server.stop(0.01)
        with pytest.raises(grpc.aio.AioRpcError):
            await export
    assert "requests were still under way" in caplog.text


async def test_stopping_twice_is_stopping_once(serve):
    async with serve() as up:
        await up.server.stop(1.0)
        await up.server.stop(1.0)


async def test_after_the_stop_nothing_listens(serve):
    async with serve() as up:
        await up.server.stop(1.0)
        async with aiohttp.ClientSession() as session:
            with pytest.raises(aiohttp.ClientConnectorError):
                await session.get(f"http://127.0.0.1:{up.server.health_port}/")


@pytest.mark.parametrize("taken", ["grpc", "http", "health"])
async def test_an_endpoint_that_is_taken_is_refused_with_its_key(serve, taken):
    async with serve() as up:
        port = getattr(up.server, f"{taken}_port")
        with pytest.raises(
            ConfigError, match=f"receive.{taken}.endpoint: cannot listen on 127.0.0.1:{port}"
        ):
            async with serve(**{taken: {"endpoint": f"127.0.0.1:{port}"}}):
                pass


@pytest.mark.parametrize(
    ("host", "warned"),
    [("127.0.0.1", False), ("localhost", False), ("0.0.0.0", True)],  # noqa: S104 - what the warning is about
)
async def test_an_address_that_others_reach_is_warned_of(serve, caplog, host, warned):
    caplog.set_level(logging.WARNING)
    async with serve(http={"endpoint": f"{host}:0"}):
        pass
    assert ("no loopback address" in caplog.text) == warned


async def test_too_many_requests_at_once_are_told_to_come_back(monkeypatch):
    monkeypatch.setattr(exports, "_MAX_IN_FLIGHT", 1)
    admission = Exports(None, Meter(), max_bytes=2**20, max_elements=1000)
    with admission.working(), pytest.raises(RetryableError, match="busy"), admission.working():
        pass


async def test_a_request_that_crashes_the_decoder_is_put_aside(serve, traces, monkeypatch):
    def crash(signal, body):
        raise ZeroDivisionError

    monkeypatch.setattr(exports, "decode", crash)
    async with serve() as up:
        await TraceServiceStub(up.channel).Export(traces())
    assert [x[2] for x in up.intake.set_aside] == ["the decoder failed at it (ZeroDivisionError)"]


async def test_what_a_damaged_request_says_is_not_logged(serve, caplog):
    body = b'{"resourceSpans": "the words of a user"}'
    async with (
        serve() as up,
        up.http.post("/v1/traces", data=body, headers={"Content-Type": "application/json"}),
    ):
        pass
    assert caplog.messages[-1] == "traces: a request was put aside: resourceSpans: expected a list"


def test_a_server_can_be_made_where_no_event_loop_runs():
    class Idle:
        trouble = None
        notice = None

        def health(self):
            return {}

    assert Server(Config(), Idle(), Meter()).grpc_port == 0


@pytest.mark.parametrize(
    ("endpoint", "parts"),
    [
        ("127.0.0.1:4327", ("127.0.0.1", 4327)),
        ("[::1]:0", ("::1", 0)),
        ("spanscore.svc:4327", ("spanscore.svc", 4327)),
    ],
)
def test_an_endpoint_is_host_and_port(endpoint, parts):
    assert split_endpoint(endpoint) == parts


@pytest.mark.parametrize(
    "endpoint", ["4327", "127.0.0.1", "http://127.0.0.1:4327", "::1:4327", "host:99999", ""]
)
def test_anything_else_is_no_endpoint(endpoint):
    with pytest.raises(ValueError, match="is no endpoint: write host:port"):
        Config.model_validate({"grpc": {"endpoint": endpoint}})


def test_the_example_of_the_docs_spells_out_the_defaults():
    page = (Path(__file__).parents[2] / "docs" / "receiving.md").read_text()
    block = page.split("```yaml\n")[1].split("```")[0]
    assert Config.model_validate(yaml.safe_load(block)["receive"]) == Config()


def test_the_docs_name_every_status_of_the_table():
    page = (Path(__file__).parents[2] / "docs" / "receiving.md").read_text()
    assert [
        x for _, code, http in status.TABLE for x in (code.name, str(http)) if x not in page
    ] == []
