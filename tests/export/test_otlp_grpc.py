"""OTLP over gRPC, against a real server on loopback."""

import asyncio
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager

import grpc
import pytest
import trustme
from google.rpc.error_details_pb2 import RetryInfo
from google.rpc.status_pb2 import Status

from spanscore.errors import ConfigError, PermanentError
from spanscore.export.config import GrpcConfig
from spanscore.export.otlp_grpc import GrpcExporter
from spanscore.export.port import UndeliveredError, UnsupportedSignalError
from spanscore.otlp.signal import WIRE


class Collector(grpc.GenericRpcHandler):
    """Takes trace requests; remembers bodies and metadata; `behave(context)` may refuse and returns
    the answer.
    """

    def __init__(self, behave):
        self.behave = behave
        self.bodies, self.metadata = [], []

    def service(self, call):
        if not call.method.endswith("TraceService/Export"):
            return None
        return grpc.unary_unary_rpc_method_handler(self.export)

    def export(self, body, context):
        self.metadata.append(dict(context.invocation_metadata()))
        answer = self.behave(context)
        self.bodies.append(body)
        return (answer or WIRE["traces"].response()).SerializeToString()


@asynccontextmanager
async def connected(behave=lambda context: None, credentials=None, authenticator=None, **settings):
    server = grpc.server(ThreadPoolExecutor(2))
    collector = Collector(behave)
    server.add_generic_rpc_handlers((collector,))
    add = (
        server.add_insecure_port
        if credentials is None
        else lambda at: server.add_secure_port(at, credentials)
    )
    port = add("127.0.0.1:0")
    server.start()
    tls = {} if credentials else {"tls": {"insecure": True}}
    config = GrpcConfig.model_validate({"endpoint": f"127.0.0.1:{port}", **tls, **settings})
    exporter = GrpcExporter(config, authenticator)
    try:
        yield exporter, collector
    finally:
        await exporter.close()
        await asyncio.to_thread(server.stop(0).wait)


async def test_a_request_arrives_as_it_was():
    async with connected() as (exporter, collector):
        assert await exporter.send("traces", b"\x0a\x02\x1a\x00") is None
    assert collector.bodies == [b"\x0a\x02\x1a\x00"]


async def test_headers_arrive():
    async with connected(headers={"Authorization": "Bearer t"}) as (exporter, collector):
        await exporter.send("traces", b"")
    assert collector.metadata[0]["authorization"] == "Bearer t"


async def test_an_endpoint_may_have_a_scheme():
    async with connected() as (exporter, collector):
        exporter._config = exporter._config.model_copy(
            update={"endpoint": "http://" + exporter._config.endpoint}
        )
        await exporter.send("traces", b"")
    assert collector.bodies == [b""]


async def test_partial_success_is_told():
    def partly(context):
        return WIRE["traces"].partial(2, "too old")

    async with connected(partly) as (exporter, _):
        assert await exporter.send("traces", b"") == "2 spans not taken: too old"


async def test_retry_info_is_read():
    def busy(context):
        answer = Status(code=grpc.StatusCode.RESOURCE_EXHAUSTED.value[0])
        info = RetryInfo()
        info.retry_delay.FromSeconds(7)
        answer.details.add().Pack(info)
        context.set_trailing_metadata((("grpc-status-details-bin", answer.SerializeToString()),))
        context.abort(grpc.StatusCode.RESOURCE_EXHAUSTED, "busy")

    async with connected(busy) as (exporter, _):
        with pytest.raises(UndeliveredError) as caught:
            await exporter.send("traces", b"")
    assert (caught.value.requested_wait_s, caught.value.maybe_delivered) == (7.0, False)


async def test_a_refusal_is_for_good():
    def refuse(context):
        context.abort(grpc.StatusCode.INVALID_ARGUMENT, "no")

    async with connected(refuse) as (exporter, _):
        with pytest.raises(PermanentError, match="INVALID_ARGUMENT: no"):
            await exporter.send("traces", b"")


async def test_a_signal_without_a_service_is_not_supported():
    async with connected() as (exporter, _):
        with pytest.raises(UnsupportedSignalError):
            await exporter.send("logs", b"")


async def test_where_nothing_listens_nothing_arrived():
    exporter = GrpcExporter(
        GrpcConfig.model_validate(
            {"endpoint": "127.0.0.1:1", "tls": {"insecure": True}, "timeout": "50ms"}
        )
    )
    with pytest.raises(UndeliveredError) as caught:
        await exporter.send("traces", b"")
    await exporter.close()
    await exporter.close()
    assert not caught.value.maybe_delivered


async def test_an_answer_that_does_not_come_leaves_it_open_whether_it_arrived():
    done = asyncio.Event()
    loop = asyncio.get_running_loop()

    def dawdle(context):
        context.add_callback(lambda: loop.call_soon_threadsafe(done.set))
        asyncio.run_coroutine_threadsafe(done.wait(), loop).result()

    async with connected(dawdle, timeout="200ms") as (exporter, _):
        with pytest.raises(UndeliveredError, match="DEADLINE_EXCEEDED") as caught:
            await exporter.send("traces", b"")
        await done.wait()
    assert caught.value.maybe_delivered


def server_credentials(ca, client_ca=None):
    issued = ca.issue_cert("scores.test")
    pair = issued.private_key_pem.bytes(), issued.cert_chain_pems[0].bytes()
    roots = client_ca.cert_pem.bytes() if client_ca else None
    return grpc.ssl_server_credentials([pair], roots, require_client_auth=client_ca is not None)


def trusting(ca, folder):
    file = folder / "ca.pem"
    ca.cert_pem.write_to_path(file)
    return {"ca_file": str(file), "server_name_override": "scores.test", "reload_interval": "0"}


async def test_tls_is_checked_against_the_ca_file(tmp_path):
    ca = trustme.CA()
    async with connected(credentials=server_credentials(ca), tls=trusting(ca, tmp_path)) as (
        exporter,
        collector,
    ):
        await exporter.send("traces", b"")
    assert collector.bodies == [b""]


async def test_a_server_that_asks_for_a_certificate_gets_ours(tmp_path):
    ca = trustme.CA()
    ours = tmp_path / "ours.pem"
    ca.issue_cert("spanscore@example.org").private_key_and_cert_chain_pem.write_to_path(ours)
    tls = {**trusting(ca, tmp_path), "cert_file": str(ours), "key_file": str(ours)}
    async with connected(credentials=server_credentials(ca, client_ca=ca), tls=tls) as (
        exporter,
        collector,
    ):
        await exporter.send("traces", b"")
    assert collector.bodies == [b""]


@pytest.mark.slow
async def test_renewed_files_are_used_from_the_next_request_on(tmp_path):
    ca, other = trustme.CA(), trustme.CA()
    tls = trusting(other, tmp_path)
    async with connected(credentials=server_credentials(ca), tls=tls, timeout="500ms") as (
        exporter,
        collector,
    ):
        with pytest.raises(UndeliveredError):
            await exporter.send("traces", b"")
        trusting(ca, tmp_path)
        await exporter.send("traces", b"")
    assert collector.bodies == [b""]


def test_a_certificate_that_is_not_there_is_said():
    with pytest.raises(ConfigError, match=r"nowhere\.pem: cannot be read"):
        GrpcExporter(GrpcConfig.model_validate({"tls": {"ca_file": "nowhere.pem"}}))


async def test_an_authenticator_has_the_last_word_on_headers():
    def show(given, received):
        return {**given, **dict(received), "authorization": "Bearer a"}

    async with connected(headers={"X-Own": "b"}, authenticator=show) as (exporter, collector):
        await exporter.send("traces", b"", (("x-scope-orgid", "c"),))
    (metadata,) = collector.metadata
    assert (metadata["authorization"], metadata["x-own"], metadata["x-scope-orgid"]) == (
        "Bearer a",
        "b",
        "c",
    )


@pytest.mark.parametrize("compression", ["gzip", "deflate", "zlib", "none", ""])
async def test_every_compression_is_understood(compression):
    async with connected(compression=compression) as (exporter, collector):
        await exporter.send("traces", b"\x0a\x02\x1a\x00")
    assert collector.bodies == [b"\x0a\x02\x1a\x00"]


async def test_pings_do_not_get_in_the_way():
    async with connected(
        keepalive={"time": "10s", "timeout": "1s", "permit_without_stream": True}
    ) as (exporter, _):
        assert await exporter.send("traces", b"") is None
