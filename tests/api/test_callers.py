"""Who calls: the tenant that a token or a header names is the one that a method gets, over each
protocol.
"""

import asyncio
import base64
import contextlib
import json
import urllib.error
import urllib.parse
import urllib.request
from dataclasses import dataclass

import grpc
import pytest
from serving import serving

from spanscore.api.caller import Caller, Refusal
from spanscore.api.client import AsyncClient, Client
from spanscore.api.http_server import http_server
from spanscore.api.server import Server
from spanscore.api.servicer import Servicer, methods, needs
from spanscore.api.v1 import score_pb2, score_service_pb2 as pb
from spanscore.api.v1.score_service_pb2_grpc import ScoreServiceStub
from spanscore.config import Api
from spanscore.errors import FieldError, InputError, NotFoundError
from spanscore.receive.auth import Config, Tenancy, Token, UnauthenticatedError, open_authenticators
from spanscore.receive.config import BearerToken
from spanscore.receive.server import Listener
from spanscore.rpc import BadRequest, ErrorInfo, detail_of, read_status

TOKENS = "of-acme tenant=acme\nof-blue tenant=blue scopes=read\nof-nobody\n"
HEADER = "x-scope-orgid"
GET = pb.GetScoreRequest(name="scores/1")


class Scores(Servicer):
    """Gives a score that is named after the tenant who asks."""

    service = pb.DESCRIPTOR.services_by_name["ScoreService"]

    @needs("read")
    async def get_score(self, request, call):
        return score_pb2.Score(metric=call.tenant)

    def __getattr__(self, _name):
        """What stands for the methods that are not asked here."""
        return self.get_score


@pytest.fixture
def tokens(tmp_path):
    file = tmp_path / "tokens"
    file.write_text(TOKENS)
    return open_authenticators({"bearertokenauth": BearerToken(filename=file)}, has_tenants=True)[
        "bearertokenauth"
    ]


def asked(tokens, *headers, **tenancy):
    """The tenant as which a method is called with these headers."""
    caller = Caller(tokens, Tenancy(Config(**{"enabled": True, **tenancy})))
    method = next(x for x in methods(Scores()) if x.path.endswith("GetScore"))
    return asyncio.run(
        caller.call(method, GET, lambda name: [y for x, y in headers if x == name])
    ).metric


def bearer(token):
    return "authorization", f"Bearer {token}"


def test_a_caller_who_shows_several_tokens_is_refused(tokens):
    with pytest.raises(Refusal, match="several headers `authorization`: send one") as refused:
        asked(tokens, bearer("of-acme"), bearer("of-nobody"), (HEADER, "blue"))
    assert refused.value.code is grpc.StatusCode.UNAUTHENTICATED


@pytest.mark.parametrize(
    ("headers", "tenant"),
    [
        ([bearer("of-acme")], "acme"),
        ([bearer("of-acme"), (HEADER, "acme")], "acme"),
        ([bearer("of-nobody"), (HEADER, "blue")], "blue"),
        ([bearer("of-nobody"), (HEADER, "any other")], "any other"),
    ],
)
def test_a_method_is_called_as_the_tenant_of_the_token_else_of_the_header(tokens, headers, tenant):
    assert asked(tokens, *headers) == tenant


REFUSED = [
    ([bearer("of-acme"), (HEADER, "blue")], "PERMISSION_DENIED", "OTHER_TENANT"),
    ([bearer("of-nobody")], "UNAUTHENTICATED", "TENANT_MISSING"),
    ([bearer("of-nobody"), (HEADER, "a/b")], "UNAUTHENTICATED", "TENANT_MISSING"),
    ([bearer("of-nobody"), (HEADER, "")], "UNAUTHENTICATED", "TENANT_MISSING"),
    (
        [bearer("of-nobody"), (HEADER, "acme"), (HEADER, "blue")],
        "UNAUTHENTICATED",
        "TENANT_MISSING",
    ),
    ([bearer("wrong"), (HEADER, "acme")], "UNAUTHENTICATED", "TOKEN_INVALID"),
    ([(HEADER, "acme")], "UNAUTHENTICATED", "TOKEN_INVALID"),
]


@pytest.mark.parametrize(("headers", "code", "reason"), REFUSED)
def test_a_caller_who_is_no_tenant_is_refused(tokens, headers, code, reason):
    with pytest.raises(Refusal) as raised:
        asked(tokens, *headers)
    info = detail_of(raised.value.status, ErrorInfo)
    assert (raised.value.code.name, info.reason) == (code, reason)


class Revocable:
    """Knows each token until it is revoked."""

    is_revoked = False

    def check(self, _headers, _scope):
        if self.is_revoked:
            raise UnauthenticatedError("this token is not known here")
        return Token(b"any")


def test_a_method_that_goes_on_is_told_when_its_callers_token_is_revoked():
    tokens = Revocable()
    call = Caller(tokens)._admit(lambda _name: (), "read")
    call.admit()
    tokens.is_revoked = True
    with pytest.raises(UnauthenticatedError):
        call.admit()


def test_a_refusal_shows_nothing_of_the_tenant_that_the_token_is_for(tokens):
    with pytest.raises(Refusal) as raised:
        asked(tokens, bearer("of-acme"), (HEADER, "blue"))
    assert "acme" not in raised.value.status.message


def test_without_tokens_the_header_decides():
    assert asked(None, (HEADER, "blue")) == "blue"


def test_the_header_has_the_configured_name(tokens):
    assert (
        asked(
            tokens, bearer("of-nobody"), ("x-tenant", "blue"), (HEADER, "acme"), header="X-Tenant"
        )
        == "blue"
    )


def test_who_names_no_tenant_is_the_configured_one(tokens):
    assert asked(tokens, bearer("of-nobody"), default="common") == "common"


def test_without_tenants_a_header_means_nothing(tokens):
    assert asked(tokens, bearer("of-nobody"), (HEADER, "acme"), enabled=False) == ""


@dataclass
class Asking:
    """Asks a running server for a score, over one protocol; gives the score's metric, or the
    refusal's code.
    """

    caller: Caller

    async def over_grpc(self, headers):
        server = Server(Api(endpoint="127.0.0.1:0"), None)
        server.servicers, server.caller = [Scores()], self.caller
        await server.start()
        try:
            async with grpc.aio.insecure_channel(f"127.0.0.1:{server.port}") as channel:
                found = await ScoreServiceStub(channel).GetScore(GET, metadata=headers)
        except grpc.RpcError as error:
            return error.code().name.lower()
        finally:
            await server.stop(0)
        return found.metric

    async def over_http(self, headers):
        server = Listener(lambda: http_server([Scores()], self.caller, only_local=True))
        await server.start("127.0.0.1:0", "api.http.endpoint")
        try:
            return await asyncio.to_thread(self._post, server.port, dict(headers))
        finally:
            await server.stop()

    @staticmethod
    def _post(port, headers):
        url = f"http://127.0.0.1:{port}/spanscore.v1.ScoreService/GetScore"
        body, headers = b'{"name": "scores/1"}', {**headers, "content-type": "application/json"}
        with contextlib.closing(_opened(urllib.request.Request(url, body, headers))) as answer:
            found = json.loads(answer.read())
        return found.get("metric") or found.get("code")


def _opened(request):
    try:
        return urllib.request.urlopen(request, timeout=60)
    except urllib.error.HTTPError as error:
        return error


@pytest.mark.parametrize("protocol", ["over_grpc", "over_http"])
@pytest.mark.parametrize(
    ("headers", "answer"),
    [
        ([bearer("of-blue")], "blue"),
        ([bearer("of-nobody"), (HEADER, "blue")], "blue"),
        ([bearer("of-blue"), (HEADER, "acme")], "permission_denied"),
        ([bearer("of-nobody")], "unauthenticated"),
    ],
)
def test_over_each_protocol_the_same_tenant_is_answered(tokens, protocol, headers, answer):
    caller = Caller(tokens, Tenancy(Config(enabled=True)))
    assert asyncio.run(getattr(Asking(caller), protocol)(headers)) == answer


def test_a_client_asks_as_a_tenant():
    caller = Caller(None, Tenancy(Config(enabled=True)))

    async def ask():
        server = Server(Api(endpoint="127.0.0.1:0"), None)
        server.servicers, server.caller = [Scores()], caller
        await server.start()
        endpoint = f"127.0.0.1:{server.port}"

        def score():
            with Client(endpoint, tenant="blue") as client:
                return client.scores.GetScore(GET)

        try:
            async with AsyncClient(endpoint, tenant="acme") as client:
                return (await client.scores.GetScore(GET)).metric, (
                    await asyncio.to_thread(score)
                ).metric
        finally:
            await server.stop(0)

    assert asyncio.run(ask()) == ("acme", "blue")


LONG = [
    NotFoundError("é" * 5000),
    NotFoundError("%" * 5000),
    FieldError("f" * 5000, "p" * 5000),
    FieldError("\U0001f600" * 5000, "\ud800" * 5000),
    FieldError("a", "b", [FieldError(f"field{x}", "ü" * 20) for x in range(500)]),
]


@pytest.mark.parametrize("error", LONG)
def test_an_error_of_any_length_arrives_over_grpc_with_its_code_and_details(error):
    class Failing(Scores):
        @needs("read")
        async def get_score(self, _request, _call):
            raise error

    with (
        serving(Failing()) as endpoint,
        grpc.insecure_channel(endpoint) as channel,
        pytest.raises(grpc.RpcError) as refused,
    ):
        ScoreServiceStub(channel).GetScore(GET)
    trailers = dict(refused.value.trailing_metadata())
    escaped = urllib.parse.quote(refused.value.details())
    details = trailers["grpc-status-details-bin"]
    assert len(escaped) + len(base64.b64encode(details)) < 7800
    bad = detail_of(read_status(details), BadRequest)
    assert (bad is not None) is isinstance(error, FieldError)


def test_a_client_refuses_what_can_be_no_tenant():
    with pytest.raises(
        InputError, match="tenant 'a/b': a tenant is 1 to 128 printable ASCII characters"
    ):
        Client(tenant="a/b")
