import asyncio
import ssl
from types import SimpleNamespace

import pytest
import trustme
from aiohttp import ClientConnectorError, web

from spanscore.errors import InputError, RetryableError
from spanscore.sources.http import Http, failure
from spanscore.sources.location import Connection

CREDENTIALS = {"user": "me", "password": "secret"}


@pytest.fixture
def ask(backend, monkeypatch):
    """Call it to GET from a backend that answers with these statuses in turn; gives the answer and
    the waits.
    """

    def asked(*statuses, headers=None, body="text", max_bytes=2**20, **connection):
        answers = iter(statuses)
        waits = []

        async def answer(_request, _body):
            return web.Response(status=next(answers), text=body, headers=headers)

        async def sleep(seconds):
            waits.append(seconds)

        async def run():
            http = Http(
                Connection(f"http://127.0.0.1:{backend.port}", **connection),
                "Jaeger",
                sleep=sleep,
                chance=lambda: 0.5,
            )
            try:
                return await http.get("/x", {"a": "1"})
            finally:
                await http.close()

        backend.answer = answer
        monkeypatch.setattr("spanscore.sources.http.MAX_TRACE_BYTES", max_bytes)
        return asyncio.run(run()), waits

    return asked


@pytest.mark.parametrize("status", [429, 500, 502, 503, 504])
def test_a_backend_that_is_busy_or_fails_is_asked_again_after_longer_and_longer_waits(ask, status):
    answer, waits = ask(status, status, status, 200)
    assert (answer.status, waits) == (200, [0.5, 1.0, 2.0])


def test_the_wait_that_the_backend_asks_for_is_kept_within_a_minute(ask):
    assert ask(429, 200, headers={"Retry-After": "7"})[1] == [7.0]
    assert ask(503, 200, headers={"Retry-After": "86400"})[1] == [60.0]


def test_after_the_last_try_the_error_names_the_backend_and_what_it_said(ask):
    with pytest.raises(
        RetryableError, match=r"Jaeger at http://127.*/x answered HTTP 503: text \(tried 2 times\)"
    ):
        ask(503, 503, retries=1)


@pytest.mark.parametrize(
    ("status", "hint"), [(401, "credentials"), (403, "may not"), (404, "address"), (400, "text")]
)
def test_what_asking_again_does_not_mend_is_an_error_at_once(ask, status, hint):
    with pytest.raises(InputError, match=hint):
        ask(status)


def test_no_redirect_is_followed_with_credentials(ask, backend):
    with pytest.raises(InputError, match="redirects to http://elsewhere"):
        ask(302, headers={"Location": "http://elsewhere"}, **CREDENTIALS)
    assert len(backend.asked) == 1


def test_user_password_and_headers_are_sent(ask, backend):
    ask(200, **CREDENTIALS)
    assert backend.asked[0].headers["Authorization"] == "Basic bWU6c2VjcmV0"


def test_of_a_long_answer_only_the_beginning_is_read(ask):
    answer, _ = ask(200, body="x" * 1000, max_bytes=100)
    assert (len(answer.body), answer.is_cut) == (100, True)


def get_once(url, **connection):
    async def run():
        http = Http(Connection(url, retries=0, **connection), "Jaeger")
        try:
            await http.get("/x")
        finally:
            await http.close()

    asyncio.run(run())


def test_no_connection_is_an_error_that_may_pass_and_has_the_reason():
    with pytest.raises(
        RetryableError,
        match=r"cannot connect to 127\.0\.0\.1:1 \(Connection refused\); is it running",
    ):
        get_once("http://127.0.0.1:1")


def test_an_unknown_host_is_said_to_be_one():
    key = SimpleNamespace(host="nowhere", port=80, ssl=True)
    error = ClientConnectorError(key, OSError(-2, "Name or service not known"))
    assert failure(error) == ("cannot connect to nowhere:80 (Name or service not known)", "")


def test_tls_against_plain_http_is_an_error_that_says_so(backend):
    with pytest.raises(RetryableError, match=r"by TLS \(.*SSL.*plain HTTP"):
        get_once(f"https://127.0.0.1:{backend.port}")


def test_an_untrusted_certificate_is_an_error_that_names_the_option_for_it():
    async def run():
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        trustme.CA().issue_cert("127.0.0.1").configure_cert(context)
        server = await asyncio.start_server(
            lambda _reader, writer: writer.close(), "127.0.0.1", 0, ssl=context
        )
        port = server.sockets[0].getsockname()[1]
        http = Http(Connection(f"https://127.0.0.1:{port}", retries=0), "Jaeger")
        try:
            await http.get("/x")
        finally:
            await http.close()
            server.close()

    with pytest.raises(RetryableError, match=r"not trusted \(.*certificate.*ca_file="):
        asyncio.run(run())


def test_a_file_of_certificates_that_is_not_there_is_named(tmp_path):
    with pytest.raises(InputError, match=r"ca\.pem: cannot be used for TLS"):
        Http(Connection("https://there", ca_file=tmp_path / "ca.pem"), "Jaeger")
