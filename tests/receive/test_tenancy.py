"""Whose a request is: by its token or header, over both protocols; and what is refused."""

import grpc
import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2_grpc import TraceServiceStub
from pydantic import ValidationError

from spanscore.errors import ConfigError
from spanscore.receive.auth import Config, Tenancy, UnauthenticatedError, open_authenticators
from spanscore.receive.config import BearerToken

ON = {"enabled": True}
HEADER = "x-scope-orgid"
AUTH = {"auth": {"authenticator": "bearertokenauth"}}


@pytest.fixture
def tokens(tmp_path):
    """An extension that knows a token of a tenant's, and one that is no tenant's."""
    file = tmp_path / "tokens"
    file.write_text("of-acme tenant=acme\nof-all\n", encoding="utf-8")
    return {"bearertokenauth": BearerToken(filename=file)}


async def over_grpc(up, request, *metadata):
    """Send a request with this metadata; its status."""
    try:
        await TraceServiceStub(up.channel).Export(request, metadata=metadata, timeout=10)
    except grpc.aio.AioRpcError as error:
        return error.code().name
    return "OK"


async def over_http(up, request, *headers):
    """Send a request with these headers, in whatever case; its status, as gRPC would name it."""
    given = [("Content-Type", "application/x-protobuf"), *((x.title(), y) for x, y in headers)]
    async with up.http.post(
        "/v1/traces", data=request.SerializeToString(), headers=given
    ) as answer:
        return {200: "OK", 401: "UNAUTHENTICATED"}[answer.status]


BOTH = pytest.mark.parametrize("send", [over_grpc, over_http])


@BOTH
async def test_without_tenancy_a_header_names_nobody(serve, traces, send):
    async with serve() as up:
        assert await send(up, traces(), (HEADER, "acme")) == "OK"
        assert up.intake.headers == [()]


@BOTH
async def test_the_header_names_the_tenant(serve, traces, send):
    async with serve(tenancy=ON) as up:
        assert await send(up, traces(), (HEADER, "acme")) == "OK"
        assert up.intake.headers == [((":tenant", "acme"),)]


@BOTH
async def test_another_header_may_be_the_one_that_names_it(serve, traces, send):
    async with serve(tenancy=ON | {"header": "X-Team"}) as up:
        assert await send(up, traces(), ("x-team", "acme")) == "OK"
        assert up.intake.headers == [((":tenant", "acme"),)]


@BOTH
async def test_the_header_is_kept_for_the_exporters_beside_the_tenant(serve, traces, send):
    protocol = {"grpc": {"include_metadata": True}, "http": {"include_metadata": True}}
    async with serve(tenancy=ON, headers={HEADER}, **protocol) as up:
        await send(up, traces(), (HEADER, "acme"))
        assert up.intake.headers == [((":tenant", "acme"), (HEADER, "acme"))]


@BOTH
async def test_who_names_no_tenant_is_refused(serve, traces, send):
    async with serve(tenancy=ON) as up:
        assert await send(up, traces()) == "UNAUTHENTICATED"
        assert up.intake.accepted == []


@BOTH
async def test_who_names_no_tenant_is_of_the_default_one(serve, traces, send):
    async with serve(tenancy=ON | {"default": "everybody"}) as up:
        assert await send(up, traces()) == "OK"
        assert up.intake.headers == [((":tenant", "everybody"),)]


@BOTH
@pytest.mark.parametrize("name", ["", "a/b", "x" * 129])
async def test_what_is_no_tenants_name_is_refused(serve, traces, send, name):
    async with serve(tenancy=ON) as up:
        assert await send(up, traces(), (HEADER, name)) == "UNAUTHENTICATED"


@BOTH
async def test_two_tenants_are_none(serve, traces, send):
    async with serve(tenancy=ON) as up:
        assert await send(up, traces(), (HEADER, "acme"), (HEADER, "blue")) == "UNAUTHENTICATED"


@BOTH
@pytest.mark.parametrize(
    ("token", "named", "found"),
    [
        ("of-acme", None, "acme"),
        ("of-acme", "acme", "acme"),
        ("of-acme", "blue", None),
        ("of-all", "blue", "blue"),
        ("of-all", None, None),
        ("unknown", "acme", None),
    ],
)
async def test_a_tenants_token_decides_and_any_other_leaves_it_to_the_header(
    serve, traces, send, tokens, token, named, found
):
    headers = [("authorization", f"Bearer {token}"), *([] if named is None else [(HEADER, named)])]
    async with serve(tenancy=ON, extensions=tokens, grpc=AUTH, http=AUTH) as up:
        status = await send(up, traces(), *headers)
        assert (status, up.intake.headers) == (
            ("UNAUTHENTICATED", []) if found is None else ("OK", [((":tenant", found),)])
        )


@BOTH
@pytest.mark.parametrize("others", [["of-acme"], ["unknown"], ["of-all"]])
async def test_who_shows_several_tokens_is_refused(serve, traces, send, tokens, others):
    shown = [("authorization", f"Bearer {x}") for x in ("of-acme", *others)]
    async with serve(tenancy=ON, extensions=tokens, grpc=AUTH, http=AUTH) as up:
        assert await send(up, traces(), *shown) == "UNAUTHENTICATED"


@BOTH
async def test_what_cannot_be_decoded_is_put_aside_with_its_tenants_name(serve, send):
    class Broken:
        def SerializeToString(self):  # noqa: N802 - as protobuf has it
            return b"\xff\xff"

    async with serve(tenancy=ON) as up:
        if send is over_http:
            await send(up, Broken(), (HEADER, "acme"))
        else:
            export = up.channel.unary_unary(
                "/opentelemetry.proto.collector.trace.v1.TraceService/Export"
            )
            await export(b"\xff\xff", metadata=((HEADER, "acme"),))
        [(_, _, reason)] = up.intake.set_aside
        assert reason.startswith("of tenant acme: ")


@pytest.mark.parametrize(
    ("values", "told"),
    [
        ([], "no tenant: name one in the header x-scope-orgid, or show a tenant's token"),
        (
            ["a/b"],
            "the header x-scope-orgid: 'a/b': a tenant is 1 to 128 printable ASCII characters",
        ),
        (["ac\tme"], "the header x-scope-orgid: 'ac\\tme': a tenant is"),
        (["a", "b"], "the header x-scope-orgid names several tenants: send it once"),
        ([b"\xe4"], "the header x-scope-orgid: 'ä': a tenant is"),
    ],
)
def test_a_refusal_says_what_to_do(values, told):
    with pytest.raises(UnauthenticatedError) as refused:
        Tenancy(Config(enabled=True)).of(None, values)
    assert str(refused.value).startswith(told)


def test_a_header_that_names_it_twice_names_it():
    assert Tenancy(Config(enabled=True)).of(None, ["acme", "acme"]) == "acme"


@pytest.mark.parametrize(
    "given",
    [
        {"default": "a/b"},
        {"header": "no header"},
        {"header": "X-Team-Bin"},
        {"default": ""},
        {"tenant": "acme"},
    ],
)
def test_what_cannot_be_configured_is_refused(given):
    with pytest.raises(ValidationError):
        Config.model_validate(given)


def test_a_token_of_a_tenant_needs_tenancy(tokens):
    with pytest.raises(ConfigError, match=r"needs `tenancy\.enabled: true`"):
        open_authenticators(tokens)
