"""The services as JSON over HTTP, with page files.

connectrpc speaks the protocol and uvicorn HTTP. Both are of the extra `server`: this module, and
uvicorn with it, is imported when the first connection comes, connectrpc when the first method is
called.

The page's files contain no data: that it asks the API for, by a token.
"""

import asyncio
import base64
import contextlib
import functools
import hashlib
import html
import ipaddress
import json
import logging
import socket
import ssl
from collections import deque
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import resources
from importlib.metadata import version
from importlib.resources import files
from importlib.resources.abc import Traversable
from typing import Any, Final, TypeAlias

from uvicorn import Config, Server
from uvicorn.protocols.http.h11_impl import H11Protocol

from spanscore.api.caller import DOMAIN, Caller, Headers, Refusal
from spanscore.api.http_sockets import MAX_REQUEST_BYTES, PAGE, bind, tls_context
from spanscore.api.servicer import Method, Servicer, methods
from spanscore.config import ApiHttp
from spanscore.receive.auth import Scope
from spanscore.receive.server import is_loopback
from spanscore.report.page import ICON
from spanscore.rpc import ErrorInfo, as_json, new_status

_TYPES: Final = {".js": "text/javascript; charset=utf-8", ".css": "text/css; charset=utf-8"}
_POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src data:; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
_HEADERS: Final = {
    "content-security-policy": _POLICY,
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
}


@dataclass(frozen=True)
class Limits:
    """What connections may take up."""

    connections: int = 500
    """With more than so many, requests are answered 503, but for those for health."""

    spare: int = 100
    """Past `connections` so many more are open for requests for health; others are closed at
    once.
    """

    head_s: float = 10.0
    """Within so many seconds a request's head has to be there, from the connection's start or the
    head's first byte.
    """

    body_s: float = 30.0
    """Within so many seconds more its body has to be there; else the request is answered 408."""


class Connection(H11Protocol):
    """uvicorn's connection, which is closed where no whole head of a request comes in time."""

    def __init__(self, limits: Limits, **settings: Any) -> None:
        super().__init__(**settings)
        self._limits = limits
        self._waiting: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as uvicorn has it
        """Count the connection, and wait for its first request."""
        super().connection_made(transport)
        if len(self.connections) > self._limits.connections + self._limits.spare:
            transport.close()
        else:
            self._wait_for_head()

    def data_received(self, data: bytes) -> None:
        """Read on, and wait for the rest of a head that has begun."""
        super().data_received(data)
        if self._is_answering():
            self._stop_waiting()
        elif self._waiting is None:
            self._wait_for_head()

    def connection_lost(self, exc: Exception | None) -> None:
        """Wait no longer."""
        self._stop_waiting()
        super().connection_lost(exc)

    def _is_answering(self) -> bool:
        return self.cycle is not None and not self.cycle.response_complete

    def _wait_for_head(self) -> None:
        self._waiting = self.loop.call_later(self._limits.head_s, self._close_without_head)

    def _stop_waiting(self) -> None:
        if self._waiting is not None:
            self._waiting.cancel()
            self._waiting = None

    def _close_without_head(self) -> None:
        self._waiting = None
        if not self._is_answering():
            self.transport.close()


@dataclass(frozen=True, slots=True)
class File:
    """What is answered to a GET of a path."""

    status: int
    headers: Mapping[str, str]
    content: bytes


@cache
def page_files(tenant_header: str | None = None) -> Mapping[str, File]:
    """The files by path.

    All but the page itself are under a digest of them all, and may be kept for ever.

    With a `tenant_header` the page offers to name the tenant, which it sends in this header.
    """
    assets = dict(_assets())
    digest = hashlib.sha256(
        b"\0".join(x for item in assets.items() for x in (item[0].encode(), item[1]))
    ).hexdigest()[:16]
    found = {
        f"{PAGE}{digest}/{name}": File(
            200, _file_headers(name, "public, max-age=31536000, immutable"), content
        )
        for name, content in assets.items()
    }
    page = _page(digest, sorted(assets), tenant_header).encode()
    found[PAGE] = File(200, _file_headers("text/html; charset=utf-8", "no-cache"), page)
    moved = File(307, {**_HEADERS, "location": PAGE, "cache-control": "no-cache"}, b"")
    return {**found, "/": moved, PAGE.rstrip("/"): moved}


def _assets() -> Iterator[tuple[str, bytes]]:
    """Scripts and styles by their path: those of the report, which the page shares, and its own."""
    for folder, found in (
        ("report", files("spanscore.report") / "assets"),
        ("page", files("spanscore.api") / "page"),
    ):
        for file in sorted(found.iterdir(), key=_name):
            if any(file.name.endswith(x) for x in _TYPES):
                yield f"{folder}/{file.name}", file.read_bytes()


def _name(file: Traversable) -> str:
    return file.name


def _file_headers(name: str, cache_control: str) -> dict[str, str]:
    kind = next((x for end, x in _TYPES.items() if name.endswith(end)), name)
    return {**_HEADERS, "content-type": kind, "cache-control": cache_control}


def _page(digest: str, names: list[str], tenant_header: str | None) -> str:
    """The page: it loads its program, which does the rest."""
    styles = "\n".join(f'<link rel="stylesheet" href="{digest}/{x}">' for x in _STYLES)
    early = "\n".join(
        f'<link rel="modulepreload" href="{digest}/{x}">'
        for x in names
        if x.startswith("page/") and x.endswith(".js")
    )
    tenant = (
        ""
        if tenant_header is None
        else f'<meta name="tenant-header" content="{html.escape(tenant_header)}">\n'
    )
    return f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<meta name="generator" content="spanscore {html.escape(version("spanscore"))}">
{tenant}<title>spanscore</title>
<link rel="icon" href="{ICON}">
{styles}
{early}
<script type="module" src="{digest}/page/app.js"></script>
</head>
<body>
<div id="app"><p class="boot">Loading…</p></div>
<noscript><p class="boot">This page shows its data by JavaScript, which is turned off \
here.</p></noscript>
</body>
</html>
"""


_STYLES: Final = ("report/page.css", "report/parts.css", "page/live.css")


Send: TypeAlias = Callable[[dict[str, Any]], Awaitable[None]]
"""What an ASGI application answers with."""

_PASSED_ON: Final = {b"allow", b"accept-post", b"connection"}


def error(code: str, message: str, reason: str) -> dict[str, Any]:
    """The body of an error, with an ErrorInfo that has this reason."""
    return error_of(code, new_status(0, message, ErrorInfo(reason=reason, domain=DOMAIN)))


def error_of(code: str, status: Any) -> dict[str, Any]:
    """The body of an error, as the Connect protocol has it, with the details of its status."""
    listed = [
        {
            "type": detail.TypeName(),
            "value": base64.b64encode(detail.value).decode().rstrip("="),
            "debug": {k: v for k, v in as_json(detail).items() if k != "@type"},
        }
        for detail in status.details
    ]
    return {"code": code, "message": status.message, "details": listed}


async def answer(
    send: Send,
    status: int,
    content: bytes | Mapping[str, Any],
    more: Iterable[tuple[bytes, bytes]] = (),
) -> None:
    """Send JSON. Of `more` headers those that explain an error are sent too."""
    body = content if isinstance(content, bytes) else json.dumps(content).encode()
    headers = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
    headers += [x for x in more if x[0].lower() in _PASSED_ON]
    if status == 401:
        headers.append((b"www-authenticate", b"Bearer"))
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})


async def answer_file(send: Send, file: File, *, is_head: bool) -> None:
    """Send a file of the page; of HEAD its headers alone."""
    headers = {**file.headers, "content-length": str(len(file.content))}
    encoded = [(name.encode(), value.encode()) for name, value in headers.items()]
    await send({"type": "http.response.start", "status": file.status, "headers": encoded})
    await send({"type": "http.response.body", "body": b"" if is_head else file.content})


_log = logging.getLogger(__name__)

_Scope: TypeAlias = Mapping[str, Any]
_Receive: TypeAlias = Callable[[], Awaitable[Mapping[str, Any]]]
App: TypeAlias = Callable[[_Scope, _Receive, Send], Awaitable[None]]
"""An ASGI application."""

_DOCUMENT: Final = "/openapi.json"
_TOO_LARGE: Final = 429
"""What connectrpc answers a request that is too large, and nothing else here: who gets that sends
the same again.
"""
_HTTP_STATUSES: Final = {"UNAUTHENTICATED": 401, "PERMISSION_DENIED": 403}

_IDLE_S: Final = 75
_UNREAD_BODY_S: Final = 1.0
_CANCELLED_S: Final = 1
_TICK_S: Final = 1.0


def openapi_document() -> bytes:
    """The OpenAPI document of all services."""
    return resources.files("spanscore.api").joinpath("openapi.json").read_bytes()


class HttpServer:
    """All services as JSON over HTTP."""

    def __init__(
        self,
        config: ApiHttp,
        servicers: Sequence[Servicer],
        caller: Caller,
        limits: Limits | None = None,
    ) -> None:
        """`caller` knows who may call."""
        self._config = config
        self._limits = limits or Limits()
        self._app = _Front(
            servicers,
            caller,
            self._is_full,
            self._limits.body_s,
            only_local=is_loopback(config.endpoint),
        )
        self._server: _Uvicorn | None = None
        self._serving: asyncio.Task[None] | None = None
        self.port = 0
        """The port it listens on, from `start` on."""

    async def start(
        self, bound: socket.socket | None = None, tls: ssl.SSLContext | None = None
    ) -> None:
        """Serve on a socket that listens, with `tls` where it is given; without a socket, on one of
        its own, with the configured certificate.

        Raises ConfigError where the endpoint cannot be bound or a certificate not be used, and what
        uvicorn raises.
        """
        if bound is None:
            tls = tls_context(self._config)
            bound = bind(self._config.endpoint)
        settings = Config(
            self._app,
            log_config=None,
            access_log=False,
            lifespan="off",
            ws="none",
            server_header=False,
            http=_connection(self._limits),
            timeout_keep_alive=_IDLE_S,
            timeout_graceful_shutdown=1,
        )
        settings.load()
        settings.ssl = tls
        self.port = bound.getsockname()[1]
        self._server = _Uvicorn(settings)
        self._serving = asyncio.create_task(self._server.serve([bound]))
        listening = asyncio.create_task(self._server.listening.wait())
        await asyncio.wait({self._serving, listening}, return_when=asyncio.FIRST_COMPLETED)
        listening.cancel()
        if self._serving.done():
            await self._serving  # raises what it failed of

    async def stop(self) -> None:
        """Stop listening; requests under way have a second to end. May be called again."""
        if self._server is not None and self._serving is not None:
            self._server.end()
            # Requests that do not end in time are cancelled, which uvicorn logs as errors with
            # stack traces.
            logger = logging.getLogger("uvicorn.error")
            logger.addFilter(_is_worse_than_a_cancelled_request)
            try:
                await asyncio.wait([self._serving])
                await asyncio.wait(
                    [self._serving, *self._server.server_state.tasks], timeout=_CANCELLED_S
                )
            finally:
                logger.removeFilter(_is_worse_than_a_cancelled_request)

    def _is_full(self) -> bool:
        return (
            self._server is not None
            and len(self._server.server_state.connections) > self._limits.connections
        )


def _is_worse_than_a_cancelled_request(record: logging.LogRecord) -> bool:
    return record.levelno > logging.ERROR


def _connection(limits: Limits) -> Any:
    """What uvicorn makes a connection's protocol with."""
    return functools.partial(Connection, limits)


class _Uvicorn(Server):
    """Leaves signals to spanscore, which stops it, and says when it listens."""

    def __init__(self, config: Config) -> None:
        super().__init__(config)
        self.listening = asyncio.Event()
        self._ending = asyncio.Event()

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self.listening.set()

    async def main_loop(self) -> None:
        """As uvicorn's, but once a second, as often as the date in its answers changes, and not ten
        times.
        """
        while not await self.on_tick(0):
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._ending.wait(), _TICK_S)

    def end(self) -> None:
        """Listen no more, and end once the requests under way have."""
        self.should_exit = True
        self._ending.set()

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


class _Front:
    """The ASGI application: health, the OpenAPI document, the methods.

    Who asks is checked before a body is read.
    """

    def __init__(
        self,
        servicers: Sequence[Servicer],
        caller: Caller,
        is_full: Callable[[], bool],
        body_s: float,
        *,
        only_local: bool,
    ) -> None:
        found = [x for servicer in servicers for x in methods(servicer)]
        self._streams = {x.path for x in found if x.is_stream}
        self._is_full = is_full
        self._methods = found
        self._services: App | None = None
        self._importing = asyncio.Lock()
        self._body_s = body_s
        self._scopes: dict[str, Scope] = {_DOCUMENT: "read", **{x.path: x.scope for x in found}}
        self._caller = caller
        self._only_local = only_local
        self._document = openapi_document()
        self._page = page_files(caller.tenant_header)

    async def __call__(self, scope: _Scope, receive: _Receive, send: Send) -> None:
        headers, path = _headers(scope), scope["path"]
        early = _after_body(receive, send, is_awaited=not headers("expect") and not self._is_full())
        if self._only_local and not (
            _is_local(_one(headers, "host") or "") and _is_local_origin(_one(headers, "origin"))
        ):
            # Else a page of another site whose name resolves to this address could read everything.
            why = (
                "this server answers requests to localhost or a loopback address alone, and no"
                " pages of other sites"
            )
            await answer(early, 421, error("permission_denied", why, "NOT_LOCAL"))
        elif path == "/healthz":
            await answer(early, 200, {"status": "SERVING"})
        elif self._is_full():
            await answer(
                early,
                503,
                error(
                    "unavailable",
                    "there are too many connections; try again in 10 s",
                    "TOO_MANY_CONNECTIONS",
                ),
            )
        elif path in self._page and scope["method"] in {"GET", "HEAD"}:
            await answer_file(early, self._page[path], is_head=scope["method"] == "HEAD")
        elif path not in self._scopes:
            known = "methods are /spanscore.v1.SERVICE/METHOD; /openapi.json describes them"
            why = f"there is nothing here: {known}"
            await answer(early, 404, error("unimplemented", why, "NO_SUCH_METHOD"))
        else:
            await self._admitted(path, scope, receive, send, early)

    async def _admitted(
        self, path: str, scope: _Scope, receive: _Receive, send: Send, early: Send
    ) -> None:
        """Answer a request for what there is; by `early` where its body is not looked at."""
        headers = _headers(scope)
        try:
            self._caller.admit(headers, self._scopes[path], needs_tenant=path != _DOCUMENT)
        except Refusal as refusal:
            status = _HTTP_STATUSES.get(refusal.code.name, 503)
            await answer(early, status, error_of(refusal.code.name.lower(), refusal.status))
            return
        if path == _DOCUMENT:
            await answer(early, 200, self._document)
        elif (_one(headers, "content-type") or "").startswith("application/grpc"):
            await self._refuse(
                path, 415, early, [(b"accept-post", b"application/json, application/proto")]
            )
        else:
            await self._called(path, scope, receive, send)

    async def _called(self, path: str, scope: _Scope, receive: _Receive, send: Send) -> None:
        try:
            request = await _read_whole(receive, self._body_s)
        except TimeoutError:
            why = f"the request's body was not there within {self._body_s:g} s: send it at once"
            late = error("deadline_exceeded", why, "BODY_TOO_SLOW")
            await answer(send, 408, late, [(b"connection", b"close")])
            return
        services = await self._connect_services()
        await services(scope, request, self._explaining(path, receive, send))

    async def _connect_services(self) -> App:
        """The methods as connectrpc answers them: to import it takes longer than all else of this
        server.
        """
        async with self._importing:
            if self._services is None:
                self._services = await asyncio.to_thread(
                    _connect_services, self._methods, self._caller
                )
        return self._services

    def _explaining(self, path: str, receive: _Receive, send: Send) -> Send:
        """Sends what connectrpc answers; where it refuses a request without a word, with the
        reason, and one that is too large as 413.
        """
        is_refused = False

        async def explain(message: dict[str, Any]) -> None:
            nonlocal is_refused
            is_start = message["type"] == "http.response.start"
            if is_start and message["status"] in {405, 415}:
                is_refused = True
                await self._refuse(path, message["status"], send, message.get("headers", ()))
            elif is_start and message["status"] == _TOO_LARGE:
                is_refused = True
                await _drop_body(receive)
                why = f"the request has more than {MAX_REQUEST_BYTES} bytes: send it in parts"
                await answer(send, 413, error("invalid_argument", why, "REQUEST_TOO_LARGE"))
            elif not is_refused:
                await send(message)

        return explain

    async def _refuse(
        self, path: str, status: int, send: Send, headers: Iterable[tuple[bytes, bytes]]
    ) -> None:
        """Answer a request whose method or content type does not fit with what to send instead."""
        if path in self._streams:
            what = (
                "this method is a stream: POST it as content-type: application/connect+json, or ask"
                " GetRun"
            )
        elif status == 405:
            what = "this HTTP method is not answered here: send POST"
        else:
            what = "send it as content-type: application/json"
        body = (
            error("unimplemented", what, "NOT_A_POST")
            if status == 405
            else error("invalid_argument", what, "CONTENT_TYPE")
        )
        await answer(send, status, body, headers)


def _after_body(receive: _Receive, send: Send, *, is_awaited: bool) -> Send:
    """Sends an answer once the request's body, which nobody looks at, has come: else its sender may
    get no answer.

    A connection that is closed with bytes on their way is reset. Nothing is waited for where
    `is_awaited` is False, as where the sender waits for the answer itself (`Expect: 100-continue`),
    or where connections are needed by others.
    """

    async def answer(message: dict[str, Any]) -> None:
        if is_awaited and message["type"] == "http.response.start":
            await _drop_body(receive)
        await send(message)

    return answer


async def _drop_body(receive: _Receive) -> None:
    """Receive a request's body and keep nothing of it: for a second, and as much as a request may
    have, at most.
    """
    size_bytes, is_open = 0, True
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(_UNREAD_BODY_S):
            while is_open and size_bytes <= MAX_REQUEST_BYTES:
                message = await receive()
                size_bytes += len(message.get("body", b""))
                is_open = message.get("more_body", False)


async def _read_whole(receive: _Receive, within_s: float) -> _Receive:
    """What gives again what `receive` gives of a request's body, once all of it is there.

    Of one that is too large no more is read than shows that. Raises TimeoutError where it does not
    come in time.
    """
    read: deque[Mapping[str, Any]] = deque()
    size_bytes, is_open = 0, True
    async with asyncio.timeout(within_s):
        while is_open and size_bytes <= MAX_REQUEST_BYTES:
            read.append(await receive())
            size_bytes += len(read[-1].get("body", b""))
            is_open = read[-1].get("more_body", False)

    async def again() -> Mapping[str, Any]:
        return read.popleft() if read else await receive()

    return again


def _connect_services(found: Sequence[Method], caller: Caller) -> App:
    from spanscore.api.connect_services import ConnectServices  # noqa: PLC0415 - see the module

    return ConnectServices(found, caller)


def _headers(scope: _Scope) -> Headers:
    received = [
        (name.decode("latin-1").lower(), value.decode("latin-1"))
        for name, value in scope.get("headers", ())
    ]
    return lambda name: [value for key, value in received if key == name]


def _one(headers: Headers, name: str) -> str | None:
    return next(iter(headers(name)), None)


def _is_local(host: str) -> bool:
    """Whether a Host header is `localhost` or a loopback address: no other name, whose address DNS
    decides.
    """
    name = host[1:].partition("]")[0] if host.startswith("[") else host.partition(":")[0]
    if name.lower() == "localhost":
        return True
    try:
        return ipaddress.ip_address(name).is_loopback
    except ValueError:
        return False


def _is_local_origin(origin: str | None) -> bool:
    """Whether a page of this machine asks, or no page at all."""
    return origin is None or _is_local(origin.partition("://")[2])
