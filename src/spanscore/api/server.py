"""The services over gRPC, and as JSON over HTTP.

Services are imported when the first of them is called: most servers are only sent telemetry.
"""

import logging
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from functools import cached_property
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

import grpc
from google.protobuf.message import Message
from grpc_health.v1 import health, health_pb2_grpc
from grpc_health.v1.health_pb2 import HealthCheckResponse

from spanscore.api.caller import Caller, Headers, Refusal
from spanscore.api.servicer import Method, Servicer, methods
from spanscore.config import PAGE, Api, ApiHttp
from spanscore.errors import ConfigError
from spanscore.receive.auth import BearerTokens, Config as TenancyConfig, Tenancy
from spanscore.receive.grpc_server import reflection_handlers
from spanscore.receive.server import Listener, is_loopback
from spanscore.receive.tls import grpc_credentials, http_context
from spanscore.rpc import STATUS_TRAILER

if TYPE_CHECKING:
    from spanscore.api.backend import Backend
    from spanscore.receive.connections import BoundedServer


_log = logging.getLogger(__name__)


class Server:
    """All services over gRPC."""

    def __init__(
        self,
        config: Api,
        backend: "Backend",
        tokens: Mapping[str, BearerTokens] | None = None,
        tenancy: TenancyConfig | None = None,
        page_key: bytes = b"",
    ) -> None:
        """`tokens` are the authenticators that `config` may name; `tenancy` says how a caller's
        tenant is found.

        `page_key` seals page tokens, so all servers on one store need the same.
        """
        self._config = config
        self._backend = backend
        known = (tokens or {})[config.auth.authenticator] if config.auth else None
        self.caller = Caller(known, None if tenancy is None else Tenancy(tenancy), page_key)
        self._server: grpc.aio.Server | None = None
        self._health = health.aio.HealthServicer()
        self.port = 0
        """The port it listens on, from `start` on."""

    @cached_property
    def servicers(self) -> Sequence[Servicer]:
        """The services, which may be served by other protocols too; imported when first used."""
        return services(self._backend)

    async def start(self) -> None:
        """Listen.

        Raises ConfigError where the endpoint cannot be bound or a certificate not be used.
        """
        endpoint, tls = self._config.endpoint, self._config.tls
        warn_of_exposure(
            "api", endpoint, has_auth=self._config.auth is not None, has_tls=tls is not None
        )
        # Without this a second spanscore would share the port, and each would get some of the
        # requests.
        server = grpc.aio.server(options=[("grpc.so_reuseport", 0)])
        server.add_generic_rpc_handlers(
            (
                _OnFirstCall(lambda: [_handlers(x, self.caller) for x in self.servicers]),
                *reflection_handlers(NAMES, load=lambda: self.servicers),
            )
        )
        health_pb2_grpc.add_HealthServicer_to_server(self._health, server)
        try:
            if tls is None:
                self.port = server.add_insecure_port(endpoint)
            else:
                self.port = server.add_secure_port(endpoint, grpc_credentials(tls, "api.tls"))
        except RuntimeError as error:
            raise ConfigError(
                f"api.endpoint: cannot listen on {endpoint}; is something else listening there?"
            ) from error
        await server.start()
        self._server = server
        for name in ("", *NAMES):
            await self._health.set(name, HealthCheckResponse.SERVING)
        _log.info("the control service listens on %s", endpoint)

    async def stop(self, grace_s: float = 5.0) -> None:
        """Stop listening; requests under way have `grace_s` seconds to end. May be called again."""
        if "servicers" in vars(self):
            for servicer in self.servicers:
                servicer.stop()
        if self._server is not None:
            await self._health.enter_graceful_shutdown()
            await self._server.stop(grace_s)


async def start_http(config: Api, server: Server) -> Listener | None:
    """Serve what `server` does over HTTP as well, as `api.http` has it; None where it is not
    served.

    Raises ConfigError where `api.http` is set and cannot be as it is.
    """
    wanted = config.http or ApiHttp()
    if not wanted.enabled:
        return None
    warn_of_exposure(
        "api.http",
        wanted.endpoint,
        has_auth=config.auth is not None,
        has_tls=wanted.tls is not None,
    )

    def make() -> "BoundedServer":
        from spanscore.api.http_server import http_server  # noqa: PLC0415 - aiohttp, late

        return http_server(server.servicers, server.caller, only_local=is_loopback(wanted.endpoint))

    listener = Listener(make)
    tls = None if wanted.tls is None else http_context(wanted.tls, "api.http.tls")
    try:
        await listener.start(wanted.endpoint, "api.http.endpoint", tls)
    except ConfigError as error:
        if config.http is not None:
            raise
        _log.info("the API is there over gRPC alone: %s; set api.http.endpoint", error)
        return None
    url = f"{'http' if tls is None else 'https'}://{wanted.endpoint}"
    _log.info("the API listens on %s, its page is %s%s", url, url, PAGE)
    return listener


_NO_AUTH = (
    "whoever reaches it can read the stored traces, with what users said, and have the judge asked:"
    " set `auth` and `extensions`, or keep others away"
)
_NO_TLS = "what is asked and answered, tokens too, can be read on the way: set `tls`"


def warn_of_exposure(key: str, endpoint: str, *, has_auth: bool, has_tls: bool) -> None:
    """Say in the log what it means where others than this machine reach an endpoint, the
    configuration's `key`.
    """
    if is_loopback(endpoint):
        return
    for is_set, meaning in ((has_auth, _NO_AUTH), (has_tls, _NO_TLS)):
        if not is_set:
            _log.warning("%s.endpoint %s is no loopback address: %s", key, endpoint, meaning)


class _OnFirstCall(grpc.GenericRpcHandler):  # type: ignore[misc]  # grpc ships no types
    """The handlers of all services, made when the first of these is called."""

    def __init__(self, make: Callable[[], Sequence[Any]]) -> None:
        self._make = make

    @cached_property
    def _handlers(self) -> Sequence[Any]:
        return self._make()

    def service(self, handler_call_details: Any) -> Any:
        """The handler of a method; None where it is of no service of ours."""
        if handler_call_details.method.lstrip("/").partition("/")[0] not in NAMES:
            return None
        found = (x.service(handler_call_details) for x in self._handlers)
        return next((x for x in found if x is not None), None)


def _handlers(servicer: Servicer, caller: Caller) -> Any:
    """What a gRPC server is given, so that it answers the methods of a service."""
    by_name = {
        method.path.rpartition("/")[2]: _handler(method, caller) for method in methods(servicer)
    }
    return grpc.method_handlers_generic_handler(servicer.service.full_name, by_name)


def _handler(method: Method, caller: Caller) -> Any:
    as_messages = {
        "request_deserializer": method.request_class.FromString,
        "response_serializer": method.response_class.SerializeToString,
    }

    async def answer(request: Message, context: Any) -> Message | None:
        try:
            return await caller.call(method, request, _headers(context))
        except Refusal as refusal:
            await _refuse(context, refusal)
            return None

    async def stream(request: Message, context: Any) -> AsyncIterator[Message]:
        try:
            async for response in caller.stream(method, request, _headers(context)):
                yield response
        except Refusal as refusal:
            await _refuse(context, refusal)

    if method.is_stream:
        return grpc.unary_stream_rpc_method_handler(stream, **as_messages)
    return grpc.unary_unary_rpc_method_handler(answer, **as_messages)


def _headers(context: Any) -> Headers:
    received = context.invocation_metadata() or ()
    return lambda name: [value for key, value in received if key == name and isinstance(value, str)]


async def _refuse(context: Any, refusal: Refusal) -> None:
    """End a call with its status and details. Always raises."""
    details = ((STATUS_TRAILER, refusal.status.SerializeToString()),)
    await context.abort(refusal.code, refusal.status.message, trailing_metadata=details)


_MODULES: Final = {
    "spanscore.v1.TraceService": "spanscore.api.traces",
    "spanscore.v1.ScoreService": "spanscore.api.scores",
    "spanscore.v1.AnnotationService": "spanscore.api.annotation",
    "spanscore.v1.RunService": "spanscore.api.runs",
    "spanscore.v1.AnalyticsService": "spanscore.api.analytics",
    "spanscore.v1.ViewService": "spanscore.api.traces",
    "spanscore.v1.MonitorService": "spanscore.api.monitors",
}
"""The module of each service, by its full name; the class has the service's name."""

NAMES: Final = tuple(_MODULES)
"""The full names of all services."""


def services(backend: "Backend") -> list[Servicer]:
    """The services of a running spanscore."""
    return [
        getattr(import_module(module), name.rpartition(".")[2])(backend)
        for name, module in _MODULES.items()
    ]
