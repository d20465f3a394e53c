"""OTLP over HTTP, against a real server on loopback."""

import asyncio
import ssl
from contextlib import asynccontextmanager

import pytest
import trustme
from aiohttp import web
from google.rpc.status_pb2 import Status

from spanscore.errors import ConfigError, PermanentError
from spanscore.export.config import HttpConfig
from spanscore.export.otlp_http import HttpExporter
from spanscore.export.port import UndeliveredError, UnsupportedSignalError
from spanscore.otlp.signal import WIRE
from spanscore.receive.http_requests import decompress


def accepted(request):
    return web.Response(content_type="application/x-protobuf")


@asynccontextmanager
async def connected(answer=accepted, context=None, authenticator=None, **settings):
    """An exporter, and the list of (path, headers, body) that its server got; `context` is the
    server's TLS.
    """
    got = []

    async def handle(request):
        got.append((request.path, request.headers, await request.read()))
        answered = answer(request)
        return await answered if asyncio.iscoroutine(answered) else answered

    app = web.Application()
    app.router.add_post("/{path:.*}", handle)
    runner = web.AppRunner(app)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0, ssl_context=context)
    await site.start()
    url = f"{'https' if context else 'http'}://127.0.0.1:{site._server.sockets[0].getsockname()[1]}"
    exporter = HttpExporter(HttpConfig.model_validate({"endpoint": url, **settings}), authenticator)
    try:
        yield exporter, got
    finally:
        await exporter.close()
        await exporter.close()
        await runner.cleanup()


@pytest.mark.parametrize("signal", ["traces", "logs", "metrics"])
async def test_each_signal_has_its_path(signal):
    async with connected() as (exporter, got):
        assert await exporter.send(signal, b"body") is None
    assert got[0][0] == f"/v1/{signal}"


async def test_the_body_is_protobuf_and_compressed():
    async with connected() as (exporter, got):
        await exporter.send("traces", b"body" * 100)
    _, headers, body = got[0]
    # The server has decompressed it already, as the header told it to.
    assert (headers["Content-Type"], headers["Content-Encoding"], body) == (
        "application/x-protobuf",
        "gzip",
        b"body" * 100,
    )


async def test_compression_can_be_switched_off():
    async with connected(compression="none") as (exporter, got):
        await exporter.send("traces", b"body")
    assert ("Content-Encoding" in got[0][1], got[0][2]) == (False, b"body")


async def test_headers_arrive():
    async with connected(headers={"authorization": "Bearer t"}) as (exporter, got):
        await exporter.send("traces", b"")
    assert got[0][1]["Authorization"] == "Bearer t"


async def test_a_signal_can_have_a_url_of_its_own():
    async with connected() as (exporter, got):
        exporter._urls = HttpExporter(
            HttpConfig.model_validate(
                {"traces_endpoint": exporter._urls["traces"].replace("/v1/traces", "/mine")}
            )
        )._urls
        await exporter.send("traces", b"")
    assert got[0][0] == "/mine"


async def test_partial_success_is_told():
    def partly(request):
        body = WIRE["logs"].partial(2, "too old").SerializeToString()
        return web.Response(body=body, content_type="application/x-protobuf")

    async with connected(partly) as (exporter, _):
        assert await exporter.send("logs", b"") == "2 log records not taken: too old"


async def test_an_answer_that_is_no_otlp_is_an_answer():
    async with connected(lambda request: web.Response(text="thanks")) as (exporter, _):
        assert await exporter.send("logs", b"") is None


async def test_retry_after_is_read():
    async with connected(
        lambda request: web.Response(status=503, headers={"Retry-After": "9"})
    ) as (exporter, _):
        with pytest.raises(UndeliveredError) as caught:
            await exporter.send("traces", b"")
    assert caught.value.requested_wait_s == 9.0


async def test_a_refusal_says_what_the_server_said():
    def refuse(request):
        body = Status(code=3, message="bad span").SerializeToString()
        return web.Response(status=400, body=body, content_type="application/x-protobuf")

    async with connected(refuse) as (exporter, _):
        with pytest.raises(PermanentError, match="HTTP 400: bad span"):
            await exporter.send("traces", b"")


async def test_a_path_that_is_not_there_is_an_unsupported_signal():
    async with connected(lambda request: web.Response(status=404)) as (exporter, _):
        with pytest.raises(UnsupportedSignalError, match="HTTP 404"):
            await exporter.send("metrics", b"")


async def test_redirects_are_not_followed():
    async with connected(lambda request: web.Response(status=307, headers={"Location": "/x"})) as (
        exporter,
        got,
    ):
        with pytest.raises(UndeliveredError, match="HTTP 307"):
            await exporter.send("traces", b"")
    assert len(got) == 1


async def test_where_nothing_listens_nothing_arrived():
    exporter = HttpExporter(HttpConfig.model_validate({"endpoint": "http://127.0.0.1:1"}))
    with pytest.raises(UndeliveredError) as caught:
        await exporter.send("traces", b"")
    await exporter.close()
    assert not caught.value.maybe_delivered


async def test_an_answer_that_does_not_come_leaves_it_open_whether_it_arrived():
    gate = asyncio.Event()

    async def dawdle():
        await gate.wait()
        return web.Response()

    async with connected(lambda request: dawdle(), timeout="200ms") as (exporter, got):
        with pytest.raises(UndeliveredError, match="no answer in time") as caught:
            await exporter.send("traces", b"")
        gate.set()
    assert (caught.value.maybe_delivered, len(got)) == (True, 1)


def test_a_certificate_that_is_not_there_is_said():
    with pytest.raises(ConfigError, match=r"nowhere\.pem: cannot be used"):
        HttpExporter(HttpConfig.model_validate({"tls": {"ca_file": "nowhere.pem"}}))


def server_context(ca, client_ca=None):
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    ca.issue_cert("127.0.0.1").configure_cert(context)
    if client_ca is not None:
        client_ca.configure_trust(context)
        context.verify_mode = ssl.CERT_REQUIRED
    return context


def trusting(ca, folder):
    file = folder / "ca.pem"
    ca.cert_pem.write_to_path(file)
    return {"ca_file": str(file), "reload_interval": "0"}


async def test_tls_is_checked_against_the_ca_file(tmp_path):
    ca = trustme.CA()
    async with connected(context=server_context(ca), tls=trusting(ca, tmp_path)) as (exporter, got):
        await exporter.send("traces", b"")
    assert len(got) == 1


async def test_a_server_that_asks_for_a_certificate_gets_ours(tmp_path):
    ca = trustme.CA()
    ours = tmp_path / "ours.pem"
    ca.issue_cert("spanscore@example.org").private_key_and_cert_chain_pem.write_to_path(ours)
    tls = {**trusting(ca, tmp_path), "cert_file": str(ours)}
    async with connected(context=server_context(ca, client_ca=ca), tls=tls) as (exporter, got):
        await exporter.send("traces", b"")
    assert len(got) == 1


async def test_renewed_files_are_used_from_the_next_request_on(tmp_path):
    ca = trustme.CA()
    async with connected(context=server_context(ca), tls=trusting(trustme.CA(), tmp_path)) as (
        exporter,
        got,
    ):
        with pytest.raises(UndeliveredError):
            await exporter.send("traces", b"")
        trusting(ca, tmp_path)
        await exporter.send("traces", b"")
    assert len(got) == 1


@pytest.mark.parametrize("compression", ["deflate", "zlib"])
async def test_deflate_is_understood(compression):
    async with connected(compression=compression) as (exporter, got):
        await exporter.send("traces", b"body" * 100)
    assert (got[0][1]["Content-Encoding"], got[0][2]) == ("deflate", b"body" * 100)


@pytest.mark.parametrize("compression", ["zstd", "snappy", "x-snappy-framed", "lz4"])
async def test_every_compression_of_a_collectors_http_receiver_is_understood(compression):
    got = []

    async def handle(request):
        got.append(decompress(request.headers["Content-Encoding"], await request.read(), 1000))
        return web.Response(content_type="application/x-protobuf")

    runner = web.ServerRunner(web.Server(handle, auto_decompress=False))
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    url = f"http://127.0.0.1:{runner.addresses[0][1]}"
    exporter = HttpExporter(
        HttpConfig.model_validate({"endpoint": url, "compression": compression})
    )
    await exporter.send("traces", b"body" * 100)
    await exporter.close()
    await runner.cleanup()
    assert got == [b"body" * 100]


async def test_an_authenticator_has_the_last_word_on_headers():
    def show(given, received):
        return {**given, **dict(received), "authorization": "Bearer a"}

    async with connected(headers={"X-Own": "b"}, authenticator=show) as (exporter, got):
        await exporter.send("traces", b"", (("x-scope-orgid", "c"),))
    headers = got[0][1]
    assert (headers["Authorization"], headers["X-Own"], headers["X-Scope-OrgID"]) == (
        "Bearer a",
        "b",
        "c",
    )
