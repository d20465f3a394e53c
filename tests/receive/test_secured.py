"""TLS, mutual TLS and bearer tokens on both servers, and what happens when files are renewed."""

import ssl

import aiohttp
import grpc
import pytest
import trustme
from opentelemetry.proto.collector.trace.v1.trace_service_pb2_grpc import TraceServiceStub

from spanscore.errors import ConfigError
from spanscore.receive.auth import UnauthenticatedError, open_authenticators
from spanscore.receive.config import BearerToken

AUTH = {"authenticator": "bearertokenauth"}
ONE_TOKEN = {"bearertokenauth": BearerToken.model_validate({"token": "right"})}


class Certificates:
    """An authority, and what it issued to a server and a client, as files."""

    def __init__(self, folder):
        self.folder = folder
        self.ca = trustme.CA()
        self.ca_file = folder / "ca.pem"
        self.ca.cert_pem.write_to_path(self.ca_file)
        self.cert_file, self.key_file = folder / "server.pem", folder / "server.key"
        self.renew(self.ca)
        self.client = self.ca.issue_cert("agent@example.org")
        self.client_file = folder / "client.pem"
        self.client.private_key_and_cert_chain_pem.write_to_path(self.client_file)

    def renew(self, ca):
        issued = ca.issue_cert("localhost", "127.0.0.1")
        self.key_file.write_bytes(issued.private_key_pem.bytes())
        self.cert_file.write_bytes(b"".join(x.bytes() for x in issued.cert_chain_pems))

    def settings(self, **more):
        files = {"cert_file": str(self.cert_file), "key_file": str(self.key_file)}
        return {"tls": {**files, "reload_interval": "0", **more}}

    def channel(self, port, ca=None, *, with_certificate=False):
        """A gRPC channel of its own that trusts `ca`."""
        key, chain = self.client.private_key_pem.bytes(), self.client.cert_chain_pems[0].bytes()
        given = {"private_key": key, "certificate_chain": chain} if with_certificate else {}
        credentials = grpc.ssl_channel_credentials((ca or self.ca).cert_pem.bytes(), **given)
        return grpc.aio.secure_channel(
            f"localhost:{port}", credentials, options=[("grpc.use_local_subchannel_pool", 1)]
        )

    def context(self, ca=None, *, with_certificate=False):
        context = ssl.create_default_context(cadata=(ca or self.ca).cert_pem.bytes().decode())
        if with_certificate:
            context.load_cert_chain(self.client_file)
        return context


@pytest.fixture
def certificates(tmp_path):
    return Certificates(tmp_path)


async def export(channel, request, **options):
    async with channel:
        return await TraceServiceStub(channel).Export(request, timeout=10, **options)


async def post(up, request, context=None, **headers):
    scheme = "http" if context is None else "https"
    url = f"{scheme}://localhost:{up.server.http_port}/v1/traces"
    body, given = request.SerializeToString(), {"Content-Type": "application/x-protobuf", **headers}
    async with (
        aiohttp.ClientSession() as session,
        session.post(url, data=body, headers=given, ssl=context) as answer,
    ):
        return answer.status


async def test_grpc_is_taken_over_tls(serve, traces, certificates):
    async with serve(grpc=certificates.settings()) as up:
        await export(certificates.channel(up.server.grpc_port), traces())
        assert len(up.intake.accepted) == 1


async def test_http_is_taken_over_tls(serve, traces, certificates):
    async with serve(http=certificates.settings()) as up:
        assert await post(up, traces(), certificates.context()) == 200


async def test_grpc_clients_without_a_certificate_are_turned_away(serve, traces, certificates):
    async with serve(grpc=certificates.settings(client_ca_file=str(certificates.ca_file))) as up:
        with pytest.raises(grpc.aio.AioRpcError):
            await export(certificates.channel(up.server.grpc_port), traces())
        await export(certificates.channel(up.server.grpc_port, with_certificate=True), traces())
        assert len(up.intake.accepted) == 1


async def test_http_clients_without_a_certificate_are_turned_away(serve, traces, certificates):
    async with serve(http=certificates.settings(client_ca_file=str(certificates.ca_file))) as up:
        with pytest.raises((aiohttp.ClientError, ConnectionError)):
            await post(up, traces(), certificates.context())
        assert await post(up, traces(), certificates.context(with_certificate=True)) == 200


async def test_grpc_uses_a_renewed_certificate(serve, traces, certificates):
    async with serve(grpc=certificates.settings()) as up:
        newer = trustme.CA()
        certificates.renew(newer)
        await export(certificates.channel(up.server.grpc_port, newer), traces())


async def test_http_uses_a_renewed_certificate(serve, traces, certificates):
    async with serve(http=certificates.settings()) as up:
        newer = trustme.CA()
        certificates.renew(newer)
        assert await post(up, traces(), certificates.context(newer)) == 200


async def test_a_half_written_certificate_leaves_the_old_one_in_use(serve, traces, certificates):
    async with serve(grpc=certificates.settings(), http=certificates.settings()) as up:
        certificates.cert_file.write_text("-----BEGIN CERTIFICATE-----\nMII")
        await export(certificates.channel(up.server.grpc_port), traces())
        assert await post(up, traces(), certificates.context()) == 200


@pytest.mark.parametrize("protocol", ["grpc", "http"])
async def test_a_certificate_that_cannot_be_used_is_refused_at_the_start(
    serve, certificates, protocol
):
    certificates.cert_file.write_text("no certificate")
    with pytest.raises(
        ConfigError, match=rf"receive\.{protocol}\.tls: .*server\.pem.*: cannot be used"
    ):
        async with serve(**{protocol: certificates.settings()}):
            pass


async def test_only_a_known_token_may_send_by_grpc(serve, traces):
    async with serve(grpc={"auth": AUTH}, extensions=ONE_TOKEN) as up:
        for given in ((), (("authorization", "Bearer wrong"),), (("authorization", "right"),)):
            with pytest.raises(grpc.aio.AioRpcError) as refused:
                await TraceServiceStub(up.channel).Export(traces(), metadata=given)
            assert refused.value.code() is grpc.StatusCode.UNAUTHENTICATED
        await TraceServiceStub(up.channel).Export(
            traces(), metadata=(("authorization", "Bearer right"),)
        )
        assert len(up.intake.accepted) == 1


async def test_only_a_known_token_may_send_by_http(serve, traces):
    async with serve(
        http={"auth": AUTH}, extensions={"bearertokenauth": BearerToken(tokens=["a", "right"])}
    ) as up:
        assert await post(up, traces()) == 401
        assert await post(up, traces(), Authorization="Bearer wrong") == 401
        assert await post(up, traces(), Authorization="Bearer right") == 200


async def test_tokens_of_a_file_follow_the_file(serve, traces, tmp_path, monkeypatch):
    monkeypatch.setattr("spanscore.receive.auth._LOOK_EVERY_S", 0.0)
    file = tmp_path / "tokens"
    file.write_text("old\n")
    async with serve(
        http={"auth": AUTH}, extensions={"bearertokenauth": BearerToken(filename=file)}
    ) as up:
        file.write_text("newer\nsecond\n")
        assert await post(up, traces(), Authorization="Bearer old") == 401
        assert await post(up, traces(), Authorization="Bearer second") == 200


async def test_tokens_that_cannot_be_told_make_senders_come_back(serve, traces, monkeypatch):
    def fail(self):
        raise OSError("the disk is away")

    async with serve(grpc={"auth": AUTH}, extensions=ONE_TOKEN) as up:
        monkeypatch.setattr("spanscore.local_files.Watched.get", fail)
        with pytest.raises(grpc.aio.AioRpcError) as refused:
            await TraceServiceStub(up.channel).Export(
                traces(), metadata=(("authorization", "Bearer right"),)
            )
        assert refused.value.code() is grpc.StatusCode.UNAVAILABLE


def test_a_file_of_tokens_that_is_empty_is_refused(tmp_path):
    file = tmp_path / "tokens"
    file.write_text("\n")
    with pytest.raises(
        ConfigError, match=r"extensions.bearertokenauth.filename: .*tokens: no token in it"
    ):
        open_authenticators({"bearertokenauth": BearerToken(filename=file)})


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("token secret", "line 2: after the token only scopes=… and tenant=… may stand, each once"),
        ("token scopes=", "line 2: after the token"),
        ("token scopes=read scopes=read", "line 2: after the token"),
        ("token scopes=read,all", "line 2: scopes are read, write and admin"),
        ("token tenant=", "line 2: after the token"),
        ("token tenant=acme tenant=acme", "line 2: after the token"),
        ("token tenant=a/b", "line 2: tenant=a/b: a tenant is 1 to 128 printable ASCII characters"),
        ("token tenant=ümlaut", "line 2: tenant=ümlaut: a tenant is"),
        (f"token tenant={'a' * 129}", f"line 2: tenant={'a' * 40}: a tenant is"),
        (
            "first tenant=acme",
            "line 2: this token is given before, with other scopes or another tenant; give it once",
        ),
        ("first scopes=read", "line 2: this token is given before"),
    ],
)
def test_a_line_of_a_file_of_tokens_that_is_wrong_is_named_without_its_token(tmp_path, line, said):
    file = tmp_path / "tokens"
    file.write_text(f"first\n{line}\n")
    with pytest.raises(ConfigError, match=said) as caught:
        open_authenticators({"bearertokenauth": BearerToken(filename=file)}, has_tenants=True)
    assert "secret" not in str(caught.value)


def test_a_tenant_of_a_token_is_refused_at_the_start_of_a_server_without_tenants(tmp_path):
    file = tmp_path / "tokens"
    file.write_text("first\nsecond tenant=acme\n")
    with pytest.raises(
        ConfigError,
        match=r"tokens: line 2: tenant=… needs `tenancy\.enabled: true` in the configuration",
    ):
        open_authenticators({"bearertokenauth": BearerToken(filename=file)})


def test_a_line_that_begins_with_a_number_sign_is_a_comment_and_no_token(tmp_path):
    file = tmp_path / "tokens"
    file.write_text("# of the teams\n#off scopes=read\n  # later: c\nright\n", encoding="utf-8")
    known = open_authenticators({"bearertokenauth": BearerToken(filename=file)})["bearertokenauth"]
    assert known.shown.text == b"right"
    for text in ("#", "#off"):
        with pytest.raises(UnauthenticatedError):
            known.check([f"Bearer {text}"], "read")


def test_a_file_of_nothing_but_comments_has_no_token(tmp_path):
    file = tmp_path / "tokens"
    file.write_text("# none yet\n", encoding="utf-8")
    with pytest.raises(ConfigError, match="no token in it"):
        open_authenticators({"bearertokenauth": BearerToken(filename=file)})


def test_a_line_names_scopes_and_tenant_of_a_token_in_any_order(tmp_path):
    file = tmp_path / "tokens"
    file.write_text(
        "a\nb tenant=acme\nc tenant=acme scopes=read\nd scopes=read tenant=acme\nb tenant=acme\n"
    )
    known = open_authenticators({"bearertokenauth": BearerToken(filename=file)}, has_tenants=True)[
        "bearertokenauth"
    ]
    found = [known.check([f"Bearer {x}"], "read") for x in "abcd"]
    assert [x.tenant for x in found] == [None, "acme", "acme", "acme"]
    assert [len(x.scopes) for x in found] == [3, 3, 1, 1]


async def test_a_token_that_may_only_read_sends_nothing(serve, traces, tmp_path):
    file = tmp_path / "tokens"
    file.write_text("right scopes=read")
    async with serve(
        http={"auth": AUTH}, extensions={"bearertokenauth": BearerToken(filename=file)}
    ) as up:
        assert await post(up, traces(), Authorization="Bearer right") == 401


@pytest.mark.parametrize(
    ("settings", "said"), [({}, "give token"), ({"token": ""}, "a token is empty")]
)
def test_an_authenticator_without_a_token_is_refused(settings, said):
    with pytest.raises(ValueError, match=said):
        BearerToken(**settings)


async def test_an_exposed_address_with_tls_and_tokens_is_not_warned_of(serve, certificates, caplog):
    http = {"endpoint": "0.0.0.0:0", "auth": AUTH, **certificates.settings()}
    async with serve(http=http, extensions=ONE_TOKEN):
        assert "no loopback address" not in caplog.text


async def test_the_headers_that_exporters_need_are_kept_where_metadata_are_included(serve, traces):
    wanted = {"x-scope-orgid"}
    async with serve(
        headers=wanted, grpc={"include_metadata": True}, http={"include_metadata": True}
    ) as up:
        await TraceServiceStub(up.channel).Export(
            traces(), metadata=(("x-scope-orgid", "a"), ("other", "b"))
        )
        assert await post(up, traces(), **{"X-Scope-OrgID": "c", "Other": "d"}) == 200
    assert up.intake.headers == [(("x-scope-orgid", "a"),), (("x-scope-orgid", "c"),)]


async def test_without_metadata_no_header_is_kept(serve, traces):
    async with serve(headers={"x-scope-orgid"}) as up:
        await TraceServiceStub(up.channel).Export(traces(), metadata=(("x-scope-orgid", "a"),))
        assert await post(up, traces(), **{"X-Scope-OrgID": "c"}) == 200
    assert up.intake.headers == [(), ()]


def test_an_exporter_shows_the_first_token():
    show = open_authenticators({"bearertokenauth": BearerToken(tokens=["first", "second"])})[
        "bearertokenauth"
    ]
    assert show({"x": "y"}, ()) == {"x": "y", "authorization": "Bearer first"}


def test_an_exporter_shows_the_token_that_the_file_has_now(tmp_path, monkeypatch):
    monkeypatch.setattr("spanscore.receive.auth._LOOK_EVERY_S", 0.0)
    file = tmp_path / "tokens"
    file.write_text("old\n")
    show = open_authenticators({"bearertokenauth": BearerToken(filename=file)})["bearertokenauth"]
    file.write_text("newer\n")
    assert show({}, ()) == {"authorization": "Bearer newer"}


@pytest.mark.parametrize("value", ["ä", "x" * 1025, "a\tb"])
async def test_a_header_that_could_not_be_sent_on_is_left_out(serve, traces, value):
    async with serve(headers={"x-scope-orgid"}, http={"include_metadata": True}) as up:
        assert await post(up, traces(), **{"X-Scope-OrgID": value}) == 200
    assert up.intake.headers == [()]
