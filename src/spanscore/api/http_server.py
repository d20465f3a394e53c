"""The services as JSON over HTTP, with page files.

connectrpc speaks the protocol: an ASGI application, imported when the first method is called.

The page's files contain no data: that it asks the API for, by a token.
"""

import asyncio
import base64
import hashlib
import html
import ipaddress
import json
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import resources
from importlib.metadata import version
from importlib.resources import files
from typing import Any, Final, TypeAlias

from aiohttp import web

from spanscore.api.caller import DOMAIN, Caller, Headers, Refusal
from spanscore.api.servicer import Method, Servicer, methods
from spanscore.config import PAGE
from spanscore.receive.auth import Scope
from spanscore.receive.connections import BoundedServer, Connections
from spanscore.report.page import ICON
from spanscore.rpc import ErrorInfo, as_json, new_status

_SERVER: Final = {"server": "spanscore"}
_TYPES: Final = {".js": "text/javascript; charset=utf-8", ".css": "text/css; charset=utf-8"}
_POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src data:; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
_HEADERS: Final = {
    **_SERVER,
    "content-security-policy": _POLICY,
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
}


MAX_REQUEST_BYTES: Final = 4 * 2**20
"""A larger request is refused."""


@dataclass(frozen=True)
class Limits:
    """What connections may take up."""

    connections: int = 500
    """For one more another is closed, on which nothing is answered just now."""

    head_s: float = 10.0
    """Within so many seconds from its start a connection has to have the head of a request."""

    idle_s: float = 75.0
    """Within so many seconds after an answer the next one."""

    body_s: float = 30.0
    """Within so many seconds a request's body has to be there; else it is answered 408."""


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
        for file in sorted(found.iterdir(), key=lambda x: x.name):
            if any(file.name.endswith(x) for x in _TYPES):
                yield f"{folder}/{file.name}", file.read_bytes()


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


@cache
def openapi_document() -> bytes:
    """The OpenAPI document of all services."""
    return resources.files("spanscore.api").joinpath("openapi.json").read_bytes()


def http_server(
    servicers: Sequence[Servicer], caller: Caller, limits: Limits | None = None, *, only_local: bool
) -> BoundedServer:
    """Serves all services as JSON over HTTP; `caller` knows who may call.

    `only_local`: requests to other names than this machine's are refused.
    """
    limits = limits or Limits()
    connections = Connections(limits.connections)
    requests = _Requests(servicers, caller, connections, limits.body_s, only_local=only_local)
    return BoundedServer(
        requests.handle,
        connections,
        header_timeout_s=limits.head_s,
        idle_timeout_s=limits.idle_s,
        handler_cancellation=True,
    )


_App: TypeAlias = Callable[[Mapping[str, Any], Any, Any], Awaitable[None]]
"""An ASGI application."""

_DOCUMENT: Final = "/openapi.json"
_TOO_LARGE: Final = 429
"""What connectrpc answers a request that is too large once it is decompressed, and nothing else
here: who gets that sends the same again.
"""
_UNEXPLAINED: Final = {405, 415, _TOO_LARGE}
"""What connectrpc refuses without a word."""

_HTTP_STATUSES: Final = {"UNAUTHENTICATED": 401, "PERMISSION_DENIED": 403}


class _Requests:
    """Answers requests: health, the OpenAPI document, the page, the methods.

    Who asks is checked before a body is read.
    """

    def __init__(
        self,
        servicers: Sequence[Servicer],
        caller: Caller,
        connections: Connections,
        body_s: float,
        *,
        only_local: bool,
    ) -> None:
        self._methods = [x for servicer in servicers for x in methods(servicer)]
        self._streams = {x.path for x in self._methods if x.is_stream}
        self._scopes: dict[str, Scope] = {
            _DOCUMENT: "read",
            **{x.path: x.scope for x in self._methods},
        }
        self._services: _App | None = None
        self._importing = asyncio.Lock()
        self._caller = caller
        self._connections = connections
        self._body_s = body_s
        self._only_local = only_local
        self._page = page_files(caller.tenant_header)

    async def handle(self, request: web.BaseRequest) -> web.StreamResponse:
        """Answer one request."""
        path = request.path
        if self._only_local and not (
            _is_local(request.headers.get("host", ""))
            and _is_local_origin(request.headers.get("origin"))
        ):
            # Else a page of another site whose name resolves to this address could read everything.
            why = (
                "this server answers requests to localhost or a loopback address alone, and no"
                " pages of other sites"
            )
            return _answer(421, error("permission_denied", why, "NOT_LOCAL"))
        if path == "/healthz":
            return _answer(200, {"status": "SERVING"})
        if path in self._page and request.method in {"GET", "HEAD"}:
            file = self._page[path]
            return web.Response(status=file.status, headers=file.headers, body=file.content)
        if path in self._scopes:
            return await self._admitted(path, request)
        known = "methods are /spanscore.v1.SERVICE/METHOD; /openapi.json describes them"
        why = f"there is nothing here: {known}"
        return _answer(404, error("unimplemented", why, "NO_SUCH_METHOD"))

    async def _admitted(self, path: str, request: web.BaseRequest) -> web.StreamResponse:
        headers: Headers = lambda name: request.headers.getall(name, ())  # noqa: E731
        try:
            self._caller.admit(headers, self._scopes[path], needs_tenant=path != _DOCUMENT)
        except Refusal as refusal:
            status = _HTTP_STATUSES.get(refusal.code.name, 503)
            return _answer(status, error_of(refusal.code.name.lower(), refusal.status))
        if path == _DOCUMENT:
            return _answer(200, openapi_document())
        if request.content_type.startswith("application/grpc"):
            return self._refusal(path, 415, {"accept-post": "application/json, application/proto"})
        return await self._called(path, request)

    async def _called(self, path: str, request: web.BaseRequest) -> web.StreamResponse:
        try:
            async with asyncio.timeout(self._body_s):
                body = await _body(request)
        except TimeoutError:
            why = f"the request's body was not there within {self._body_s:g} s: send it at once"
            late = _answer(408, error("deadline_exceeded", why, "BODY_TOO_SLOW"))
            late.force_close()
            return late
        if body is None:
            return self._refusal(path, _TOO_LARGE)
        services = await self._connect_services()
        self._connections.working(request.protocol)
        try:
            response = await _asked(services, request, body)
        finally:
            self._connections.answered(request.protocol)
        if response.prepared:
            return response
        return self._refusal(path, response.status, response.headers)

    async def _connect_services(self) -> _App:
        """The methods as connectrpc answers them: to import it takes longer than all else of this
        server.
        """
        async with self._importing:
            if self._services is None:
                self._services = await asyncio.to_thread(
                    _connect_services, self._methods, self._caller
                )
        return self._services

    def _refusal(
        self, path: str, status: int, headers: Mapping[str, str] | None = None
    ) -> web.Response:
        """The answer to a request whose method, content type or size does not fit, with what to
        send instead.
        """
        if status == _TOO_LARGE:
            why = f"the request has more than {MAX_REQUEST_BYTES} bytes: send it in parts"
            return _answer(413, error("invalid_argument", why, "REQUEST_TOO_LARGE"))
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
        shown = {k: v for k, v in (headers or {}).items() if k.lower() in {"allow", "accept-post"}}
        return _answer(status, body, shown)


def _answer(
    status: int, content: bytes | Mapping[str, Any], headers: Mapping[str, str] | None = None
) -> web.Response:
    """JSON, with headers that explain an error."""
    body = content if isinstance(content, bytes) else json.dumps(content).encode()
    asked = {"www-authenticate": "Bearer"} if status == 401 else {}
    return web.Response(
        status=status,
        body=body,
        content_type="application/json",
        headers={**_SERVER, **asked, **(headers or {})},
    )


async def _body(request: web.BaseRequest) -> bytes | None:
    """A request's body; None where it is too large: no more is read than shows that."""
    if request.headers.get("expect", "").lower() == "100-continue":
        await request.writer.write(b"HTTP/1.1 100 Continue\r\n\r\n")
    body = bytearray()
    async for chunk in request.content.iter_any():
        body += chunk
        if len(body) > MAX_REQUEST_BYTES:
            return None
    return bytes(body)


async def _asked(app: _App, request: web.BaseRequest, body: bytes) -> web.StreamResponse:
    """What an ASGI application answers; it is sent meanwhile, unless it wants an explanation."""
    response = web.StreamResponse()
    unread = [body]

    async def receive() -> Mapping[str, Any]:
        if not unread:  # the next that could come is that the client is gone, which cancels this
            await asyncio.get_running_loop().create_future()
        return {"type": "http.request", "body": unread.pop(), "more_body": False}

    async def send(message: Mapping[str, Any]) -> None:
        nonlocal response
        if message["type"] == "http.response.start":
            sent = {k.decode("latin-1"): v.decode("latin-1") for k, v in message["headers"]}
            response = web.StreamResponse(status=message["status"], headers={**_SERVER, **sent})
            if response.status not in _UNEXPLAINED:
                await response.prepare(request)
        elif response.prepared:
            await response.write(message["body"])

    scope = {
        "type": "http",
        "method": request.method,
        "path": request.path,
        "root_path": "",
        "query_string": request.query_string.encode(),
        "headers": [(name.lower(), value) for name, value in request.raw_headers],
    }
    await app(scope, receive, send)
    return response


def _connect_services(found: Sequence[Method], caller: Caller) -> _App:
    from spanscore.api.connect_services import ConnectServices  # noqa: PLC0415 - see the module

    return ConnectServices(found, caller, MAX_REQUEST_BYTES)


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
