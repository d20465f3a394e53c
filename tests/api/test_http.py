"""The services as JSON over HTTP, asked as curl would by the OpenAPI document."""

import asyncio
import contextlib
import gzip
import json
import socket
import ssl
import threading
import urllib.error
import urllib.request
from concurrent.futures import ThreadPoolExecutor

import pytest
import trustme

from spanscore.api import connect_services
from spanscore.api.caller import Caller
from spanscore.api.http_server import MAX_REQUEST_BYTES, Limits, http_server, openapi_document
from spanscore.api.runs import RunService
from spanscore.api.scores import ScoreService
from spanscore.api.server import Server, services, start_http
from spanscore.api.servicer import methods, needs
from spanscore.api.v1 import score_pb2, score_service_pb2 as pb
from spanscore.config import Api
from spanscore.errors import ConfigError, FieldError, NotFoundError, RetryableError
from spanscore.receive.auth import open_authenticators
from spanscore.receive.config import BearerToken, Tls
from spanscore.receive.server import Listener
from spanscore.receive.tls import http_context

LIST = "/spanscore.v1.ScoreService/ListScores"


class Scores(ScoreService):
    """Answers as its test wants; the requests are noted."""

    def __init__(self, error=None):
        self.asked = []
        self._error = error

    @needs("read")
    async def get_score(self, request, call):
        raise NotFoundError(request.name)

    @needs("read")
    async def list_scores(self, request, call):
        self.asked.append((request, call))
        if self._error:
            raise self._error
        return pb.ListScoresResponse(scores=[score_pb2.Score(metric="coherence", value=0.5)])


@contextlib.contextmanager
def _serving(servicer=None, tokens=None, limits=None, tls=None):
    """The URL of a server that runs in a thread of its own."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()

    def wait_for(coroutine):
        return asyncio.run_coroutine_threadsafe(coroutine, loop).result()

    server = None
    try:
        asked = [servicer or Scores()], Caller(tokens), limits
        server = Listener(lambda: http_server(*asked, only_local=True))
        wait_for(server.start("127.0.0.1:0", "api.http.endpoint", tls))
        yield f"{'https' if tls else 'http'}://localhost:{server.port}"
    finally:
        if server is not None:
            wait_for(server.stop())
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()


def _ask(url, body=b"{}", context=None, **headers):
    """Status, and what the JSON of the answer is; None without one."""
    headers = {"content-type": "application/json"} | {
        name.replace("_", "-"): x for name, x in headers.items()
    }
    request = urllib.request.Request(url, data=body, headers=headers)
    try:
        with urllib.request.urlopen(request, timeout=60, context=context) as answer:
            return answer.status, json.loads(answer.read() or "null")
    except urllib.error.HTTPError as error:
        return error.code, json.loads(error.read() or "null")


def test_a_method_is_asked_and_answers_in_json():
    servicer = Scores()
    with _serving(servicer) as url:
        status, answer = _ask(url + LIST, b'{"pageSize": 3, "filter": "value > 0"}')
    assert (status, answer) == (200, {"scores": [{"metric": "coherence", "value": 0.5}]})
    assert (servicer.asked[0][0].page_size, servicer.asked[0][0].filter) == (3, "value > 0")


@pytest.mark.parametrize(
    ("path", "status"), [("/nothing", 404), ("/openapi.json", 200), ("/healthz", 200)]
)
def test_an_answer_that_needs_no_body_reaches_whoever_sends_one(path, status):
    with _serving() as url:
        host, _, port = url.removeprefix("http://").partition(":")
        body = b" " * (MAX_REQUEST_BYTES - 1)
        for _ in range(5):
            with socket.create_connection((host, int(port)), timeout=60) as connection:
                connection.sendall(
                    f"POST {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n"
                    f"Content-Length: {len(body)}\r\n\r\n".encode()
                )
                connection.sendall(body)
                assert connection.makefile("rb").readline().split()[1] == str(status).encode()


@pytest.mark.parametrize("method", ["GET", "HEAD", "OPTIONS", "DELETE"])
def test_a_method_is_a_post_alone(method):
    with _serving() as url:
        asked = f"{url}{LIST}?connect=v1&encoding=json&message=%7B%22pageSize%22%3A3%7D"
        request = urllib.request.Request(asked, method=method)
        with pytest.raises(urllib.error.HTTPError) as refused:
            urllib.request.urlopen(request, timeout=60)
    assert (refused.value.code, refused.value.headers["allow"]) == (405, "POST")


def test_what_is_no_method_is_refused_with_its_reason():
    with _serving() as url:
        status, error = _ask(f"{url}/spanscore.v1.ScoreService/ListScore")
    assert (status, error["details"][0]["debug"]["reason"]) == (404, "NO_SUCH_METHOD")


def test_an_error_has_its_details_as_messages_and_as_json():
    with _serving(Scores(FieldError("filter", "is odd"))) as url:
        status, error = _ask(url + LIST)
    assert (status, error["code"], error["message"]) == (400, "invalid_argument", "filter: is odd")
    described = {x["type"]: x["debug"] for x in error["details"]}
    assert described["google.rpc.BadRequest"] == {
        "fieldViolations": [{"field": "filter", "description": "is odd"}]
    }
    assert described["google.rpc.ErrorInfo"]["domain"] == "spanscore"


def test_an_error_is_short_however_long_the_name_of_its_field():
    with _serving(Scores(FieldError("labels." + "\ud800" * 10**6, "is odd"))) as url:
        status, error = _ask(url + LIST)
    assert (status, len(json.dumps(error)) < 20_000) == (400, True)


@pytest.mark.parametrize(
    "body",
    [
        b'{"filter": "\\ud800"}',
        b'{"pageSize": ' + b"[" * 1000 + b"]" * 1000 + b"}",
        b'{"\\ud800": 1}',
        b'{"filter": ',
        b"{" * 5000,
        b'{"filter": "\xff"}',
    ],
)
def test_whatever_cannot_be_read_is_an_error_with_details(body):
    with _serving() as url:
        status, error = _ask(url + LIST, body)
    assert (status, error["details"][0]["type"]) == (400, "google.rpc.ErrorInfo")


def test_others_are_answered_while_a_large_request_is_read(monkeypatch):
    is_reading, is_answered = threading.Event(), threading.Event()

    def check_slowly(_text, _message):
        is_reading.set()
        assert is_answered.wait(60)

    monkeypatch.setattr(connect_services, "check_shape", check_slowly)
    with _serving() as url, ThreadPoolExecutor() as threads:
        body = json.dumps({"filter": " " * 70_000}).encode()
        large = threads.submit(_ask, url + LIST, body)
        assert is_reading.wait(60)
        assert _ask(url + "/healthz")[0] == 200
        is_answered.set()
        assert large.result()[0] == 200


def test_a_large_request_that_is_wrong_is_refused_with_its_fields():
    with _serving() as url:
        status, error = _ask(url + LIST, json.dumps({"page": " " * 70_000}).encode())
    found = {x["type"]: x["debug"] for x in error["details"]}["google.rpc.BadRequest"]
    assert (status, found["fieldViolations"][0]["field"]) == (400, "page")


def test_an_error_that_may_pass_is_unavailable():
    with _serving(Scores(RetryableError("full", retry_after_s=2))) as url:
        status, error = _ask(url + LIST)
    assert (status, error["code"]) == (503, "unavailable")


def test_what_nobody_foresaw_shows_nothing_of_the_inside():
    with _serving(Scores(KeyError("secret"))) as url:
        status, error = _ask(url + LIST)
    assert (status, error["code"], "secret" in error["message"]) == (500, "internal", False)


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"[",
        b"[1]",
        b"\xff",
        b'{"nam": 1}',
        b'{"pageSize": "x"}',
        b'{"filter": "\\ud800"}',
        b"[" * 10_000,
    ],
)
def test_what_is_no_request_is_an_invalid_argument(body):
    with _serving() as url:
        status, error = _ask(url + LIST, body)
    assert (status, error["code"]) == (400, "invalid_argument")


@pytest.mark.parametrize("encoding", ["identity", "gzip"])
@pytest.mark.parametrize("more_bytes", [1, 2**20])
def test_a_request_that_is_too_large_is_told_so(encoding, more_bytes):
    body = b" " * (MAX_REQUEST_BYTES + more_bytes)
    sent = gzip.compress(body) if encoding == "gzip" else body
    with _serving() as url:
        status, error = _ask(url + LIST, sent, **{"Content-Encoding": encoding})
    assert (status, error["code"]) == (413, "invalid_argument")
    assert f"more than {MAX_REQUEST_BYTES} bytes" in error["message"]


def test_what_is_not_there_is_named():
    with _serving() as url:
        status, error = _ask(f"{url}/spanscore.v1.ScoreService/Nothing")
    assert (status, error["code"]) == (404, "unimplemented")


def _tokens(tmp_path, text):
    (tmp_path / "tokens").write_text(text)
    return open_authenticators({"bearertokenauth": BearerToken(filename=tmp_path / "tokens")})[
        "bearertokenauth"
    ]


@pytest.mark.parametrize(
    ("shown", "status"),
    [
        ({}, 401),
        ({"authorization": "Bearer wrong"}, 401),
        ({"authorization": "Bearer writer"}, 403),
        ({"authorization": "Bearer reader"}, 200),
    ],
)
@pytest.mark.parametrize("path", [LIST, "/openapi.json"])
def test_only_a_token_that_may_read_is_answered(tmp_path, shown, status, path):
    with _serving(tokens=_tokens(tmp_path, "reader scopes=read\nwriter scopes=write")) as url:
        assert _ask(url + path, **shown)[0] == status


def test_health_asks_for_no_token(tmp_path):
    with _serving(tokens=_tokens(tmp_path, "reader")) as url:
        assert _ask(f"{url}/healthz", None) == (200, {"status": "SERVING"})


_NAMES = [
    ("evil.example", 421),
    ("127.evil.example", 421),
    ("127.0.0.1.evil.example:24330", 421),
    ("localhost.evil.example", 421),
    ("[::2]:80", 421),
    ("10.0.0.1", 421),
    ("127.0.0.1:80", 200),
    ("127.3.2.1", 200),
    ("[::1]:80", 200),
    ("LocalHost:80", 200),
]


@pytest.mark.parametrize(("host", "status"), _NAMES)
def test_a_name_that_leads_here_from_elsewhere_is_refused(host, status):
    with _serving() as url:
        assert _ask(url + LIST, Host=host)[0] == status


@pytest.mark.parametrize(("host", "status"), _NAMES)
def test_a_page_of_another_site_is_refused(host, status):
    with _serving() as url:
        assert _ask(url + LIST, Origin=f"http://{host}")[0] == status


@pytest.mark.parametrize("sent", [b"", b"GET /healthz HTTP/1.1\r\nHost: local"])
def test_a_connection_that_sends_no_whole_head_is_closed(sent):
    with _serving(limits=Limits(head_s=0.1)) as url, _connected(url) as connection:
        connection.sendall(sent)
        assert connection.recv(1) == b""


def test_a_second_head_that_does_not_end_closes_the_connection():
    with _serving(limits=Limits(idle_s=0.1)) as url, _connected(url) as connection:
        connection.sendall(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n")
        assert connection.recv(4096).startswith(b"HTTP/1.1 200")
        connection.sendall(b"GET /he")
        while connection.recv(4096):
            pass


def _begin(connection, path=LIST, length=100):
    head = (
        f"POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type:"
        f" application/json\r\nContent-Length: {length}"
    )
    connection.sendall(f"{head}\r\n\r\n{{".encode())


def test_a_body_that_does_not_come_in_time_is_answered_408_and_ends_the_connection():
    with _serving(limits=Limits(body_s=0.1)) as url, _connected(url) as connection:
        _begin(connection)
        answer = b"".join(iter(lambda: connection.recv(4096), b""))
    assert answer.startswith(b"HTTP/1.1 408 ")
    assert b"the request's body was not there within 0.1 s: send it at once" in answer


def test_a_body_that_comes_in_parts_is_one_request():
    with _serving() as url, _connected(url) as connection:
        _begin(connection, length=2)
        connection.sendall(b"}")
        assert connection.recv(4096).startswith(b"HTTP/1.1 200")


def test_for_one_connection_more_than_there_may_be_one_without_a_request_is_closed():
    with _serving(limits=Limits(connections=1)) as url, _connected(url) as connection:
        assert (_ask(url + LIST)[0], connection.recv(1)) == (200, b"")


def test_whoever_waits_to_be_told_to_send_its_body_is_told():
    with _serving() as url, _connected(url) as connection:
        connection.sendall(
            f"POST {LIST} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
            "Expect: 100-continue\r\nContent-Length: 2\r\n\r\n".encode()
        )
        assert connection.recv(4096) == b"HTTP/1.1 100 Continue\r\n\r\n"
        connection.sendall(b"{}")
        assert connection.recv(4096).startswith(b"HTTP/1.1 200")


def _connected(url):
    return socket.create_connection(("127.0.0.1", int(url.rpartition(":")[2])), timeout=30)


class _Endless(Scores):
    """Answers no request, and notes that one has come."""

    def __init__(self):
        super().__init__()
        self.began = threading.Event()

    @needs("read")
    async def list_scores(self, request, call):
        self.began.set()
        await asyncio.Event().wait()


@pytest.mark.slow
def test_a_request_that_is_cancelled_by_the_stop_is_no_error_in_the_log(caplog):
    servicer = _Endless()
    with _serving(servicer) as url:
        connection = _connected(url)
        connection.sendall(
            f"POST {LIST} HTTP/1.1\r\nHost: localhost\r\ncontent-type: application/json\r\n"
            "content-length: 2\r\n\r\n{}".encode()
        )
        assert servicer.began.wait(30)
    connection.close()
    assert [x for x in caplog.records if x.levelname == "ERROR"] == []


@pytest.mark.parametrize("body", [b"[]", b'""', b"null", b"7", b""])
def test_a_body_that_is_no_object_is_refused(body):
    with _serving() as url:
        status, error = _ask(url + LIST, body)
    assert (status, error["code"], "no JSON object" in error["message"]) == (
        400,
        "invalid_argument",
        True,
    )


@pytest.mark.parametrize(
    "kind", ["text/plain", "application/grpc", "application/x-www-form-urlencoded"]
)
def test_a_body_of_another_type_is_told_what_to_send(kind):
    with _serving() as url:
        status, error = _ask(url + LIST, content_type=kind)
    assert (status, error["code"], "application/json" in error["message"]) == (
        415,
        "invalid_argument",
        True,
    )


def test_a_method_of_http_that_is_not_answered_is_told_what_to_send():
    with _serving() as url:
        request = urllib.request.Request(
            url + LIST, method="PUT", headers={"content-type": "application/json"}
        )
        with pytest.raises(urllib.error.HTTPError) as refused:
            urllib.request.urlopen(request, data=b"{}", timeout=60)
    assert (refused.value.code, refused.value.headers["allow"]) == (405, "POST")
    assert "POST" in json.loads(refused.value.read())["message"]


def test_a_stream_that_is_asked_for_as_a_single_answer_is_told_what_to_send():
    with _serving(RunService(backend=None)) as url:
        status, error = _ask(f"{url}/spanscore.v1.RunService/WatchRun")
    assert (status, "application/connect+json" in error["message"]) == (415, True)


def _certified(folder):
    """The TLS settings of a certificate for localhost, and a client's context that trusts it."""
    ca = trustme.CA()
    issued = ca.issue_cert("localhost")
    issued.cert_chain_pems[0].write_to_path(folder / "cert")
    issued.private_key_pem.write_to_path(folder / "key")
    context = ssl.create_default_context()
    ca.configure_trust(context)
    return {"cert_file": folder / "cert", "key_file": folder / "key"}, context


def test_it_is_reached_over_tls(tmp_path):
    tls, context = _certified(tmp_path)
    with _serving(tls=http_context(Tls(**tls), "api.http.tls")) as url:
        assert _ask(url + LIST, context=context)[0] == 200


async def _answer_of_a_server(context=None, before=lambda: None, **config):
    """What the first connection is answered; `before` is called once the server listens."""
    settings = Api(http={"endpoint": "127.0.0.1:0", **config})
    listener = await start_http(settings, Server(settings, backend=None))
    try:
        before()
        return await asyncio.to_thread(_ask_health, listener.port, context)
    finally:
        await listener.stop()
        await listener.stop()


def _ask_health(port, context=None):
    url = f"http://127.0.0.1:{port}" if context is None else f"https://localhost:{port}"
    with urllib.request.urlopen(f"{url}/healthz", timeout=30, context=context) as answer:
        return json.loads(answer.read())


def test_the_first_connection_is_answered_though_the_server_is_made_for_it():
    assert asyncio.run(_answer_of_a_server()) == {"status": "SERVING"}


def test_the_first_connection_is_answered_while_the_certificate_is_being_renewed(tmp_path):
    tls, context = _certified(tmp_path)
    answer = _answer_of_a_server(context, tls["cert_file"].unlink, tls=tls)
    assert asyncio.run(answer) == {"status": "SERVING"}


def test_a_server_that_cannot_be_made_is_made_for_the_next_connection(caplog):
    made = iter([ImportError("too many open files"), None])

    def make():
        if error := next(made):
            raise error
        return http_server([Scores()], Caller(), only_local=True)

    async def ask_twice():
        listener = Listener(make)
        await listener.start("127.0.0.1:0", "api.http.endpoint")
        try:
            with pytest.raises(OSError):  # noqa: PT011 - closed or reset
                await asyncio.to_thread(_ask_health, listener.port)
            return await asyncio.to_thread(_ask_health, listener.port)
        finally:
            await listener.stop()

    assert asyncio.run(ask_twice()) == {"status": "SERVING"}
    assert "cannot answer (ImportError: too many open files)" in caplog.text


def test_a_listener_to_which_nobody_has_connected_can_be_stopped():
    async def start_and_stop():
        settings = Api(http={"endpoint": "127.0.0.1:0"})
        listener = await start_http(settings, Server(settings, backend=None))
        await listener.stop()
        return listener.port

    port = asyncio.run(start_and_stop())
    socket.create_server(("127.0.0.1", port)).close()


def test_a_port_in_use_is_a_configuration_error():
    with _serving() as url:
        settings = Api(http={"endpoint": f"127.0.0.1:{url.rpartition(':')[2]}"})
        with pytest.raises(ConfigError, match=r"api\.http\.endpoint: cannot listen on"):
            asyncio.run(start_http(settings, Server(settings, backend=None)))


def test_the_document_describes_every_method():
    paths = set(json.loads(openapi_document())["paths"])
    assert paths == {
        x.path for servicer in services(backend=None) for x in methods(servicer) if not x.is_stream
    }


def test_the_document_is_served():
    with _serving() as url:
        assert _ask(f"{url}/openapi.json", None) == (200, json.loads(openapi_document()))


def test_http_is_configured_beside_grpc():
    assert Api(http={"endpoint": "127.0.0.1:0"}).http.enabled


def test_a_request_with_null_for_a_list_is_answered_with_the_field():
    with _serving() as url:
        status, error = _ask(
            url + LIST.replace("ListScores", "BatchCreateScores"), b'{"requests": null}'
        )
    assert (status, error["code"], "requests: null" in error["message"]) == (
        400,
        "invalid_argument",
        True,
    )
