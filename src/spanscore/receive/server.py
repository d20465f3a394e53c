"""The receiving servers as one, with health and metrics on their own ports."""

import asyncio
import ipaddress
import logging
import ssl
import time
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from spanscore import threads
from spanscore.errors import ConfigError
from spanscore.model.json import dumps
from spanscore.receive.auth import BearerTokens, Config as TenancyConfig, Tenancy
from spanscore.receive.config import Config, Grpc, Health, Http, split_endpoint
from spanscore.receive.exports import Exports, Intake
from spanscore.receive.grpc_server import GrpcServer
from spanscore.receive.pages import Page, Pages
from spanscore.receive.tls import http_context
from spanscore.telemetry import Meter, declared, formats
from spanscore.threads import Precedence

if TYPE_CHECKING:
    from spanscore.receive.connections import BoundedServer
    from spanscore.receive.kafka import KafkaReceiver

_log = logging.getLogger(__name__)

_LAST_WORDS_S: Final = 0.5
"""What connections get after the last request is done, so that its answer leaves before they are
closed.
"""


_LOOK_EVERY_S: Final = 1.0
"""How often gRPC's health is set to what the other health checks say."""


class Server:
    """Receives OTLP and hands it to an `Intake`.

    After `start`, the ports are those that were bound.
    """

    def __init__(
        self,
        config: Config,
        intake: Intake,
        meter: Meter,
        *,
        tokens: Mapping[str, BearerTokens] | None = None,
        tenancy: TenancyConfig | None = None,
        headers: frozenset[str] = frozenset(),
        resource: Mapping[str, str] | None = None,
        scraped: Mapping[str, str] | None = None,
        precedence: Precedence | None = None,
    ) -> None:
        """`tokens` are the authenticators that `config` may name; `headers`, in lower case, those
        of requests to keep.

        `tenancy` says how a request's tenant is found; None: there are no tenants.

        `resource` says on `/metrics` who this is, `scraped` where else that page is: endpoints by
        configuration key. Other work gives way to requests by `precedence`.
        """
        self._config = config
        self._exports = Exports(
            intake,
            meter,
            max_bytes=_bytes_in_flight(config),
            max_elements=config.max_elements,
            precedence=precedence,
        )
        known = tokens or {}
        of_grpc = known[config.grpc.auth.authenticator] if config.grpc.auth else None
        of_http = known[config.http.auth.authenticator] if config.http.auth else None
        tenants = Tenancy(tenancy or TenancyConfig())
        self._grpc = GrpcServer(config.grpc, self._exports, tenants, of_grpc, headers)
        self._http = HttpServer(config.http, self._exports, tenants, of_http, headers)
        self._health = HealthServer(config.health, self._exports, intake, meter, resource or {})
        self._scraped = [
            PageServer(x, key, {"/metrics": partial(metrics_page, meter, resource or {})})
            for key, x in (scraped or {}).items()
        ]
        meter.watch(declared.RECEIVER_HTTP_CONNECTIONS, lambda: self._http.connections)
        self._kafka = _kafka(config, self._exports, intake, meter, tenants)
        self._looking: asyncio.Task[None] | None = None
        self._stopped = False

    @property
    def grpc_port(self) -> int:
        """Where OTLP over gRPC is taken; 0 before `start`."""
        return self._grpc.port

    @property
    def http_port(self) -> int:
        """Where OTLP over HTTP is taken; 0 before `start`."""
        return self._http.port

    @property
    def health_port(self) -> int:
        """Where the health check answers; 0 before `start`."""
        return self._health.port

    @property
    def notice(self) -> str | None:
        """What does not work although requests are taken; None where all does."""
        return None if self._kafka is None else self._kafka.notice

    def health(self) -> dict[str, str]:
        """What the health check shows of it."""
        return {} if self._kafka is None else {"kafka": self._kafka.notice or "ok"}

    async def start(self) -> None:
        """Bind all endpoints and serve.

        Raises ConfigError, with nothing left running, where one is taken.
        """
        try:
            await self._grpc.start()
            await self._http.start()
            await self._health.start()
            for scraped in self._scraped:
                await scraped.start()
            for what, endpoint, port in (
                ("grpc", self._config.grpc.endpoint, self.grpc_port),
                ("http", self._config.http.endpoint, self.http_port),
                ("health", self._health.endpoint, self.health_port),
                *(("metrics", x.endpoint, x.port) for x in self._scraped),
            ):
                _log.info("%s listens on %s, port %d", what, endpoint, port)
            self._warn_of_exposure()
            if self._kafka is not None:
                self._kafka.start()
            self._looking = asyncio.create_task(self._look_at_health())
        except BaseException:
            await self.stop(0.0)
            raise

    def _warn_of_exposure(self) -> None:
        """Say what it means where others than this machine reach an endpoint."""
        protocols: tuple[tuple[str, Grpc | Http], ...] = (
            ("grpc", self._config.grpc),
            ("http", self._config.http),
        )
        for key, config in protocols:
            if not is_loopback(config.endpoint):
                for missing, meaning in ((config.auth, _NO_AUTH), (config.tls, _NO_TLS)):
                    if missing is None:
                        _log.warning(
                            "receive.%s.endpoint %s is no loopback address: %s",
                            key,
                            config.endpoint,
                            meaning,
                        )

    async def stop(self, grace_s: float) -> None:
        """Stop receiving; calling it again does nothing.

        Health checks say so first; new requests are told to come back later; those under way have
        `grace_s` seconds.
        """
        if self._stopped:
            return
        self._stopped = True
        if self._looking is not None:
            self._looking.cancel()
        await self._grpc.refuse()
        if self._kafka is not None:
            await self._kafka.stop(grace_s)
        if not await self._exports.drain(grace_s):
            _log.warning(
                "requests were still under way after %s s; their senders will send them again",
                grace_s,
            )
        await self._grpc.stop(_LAST_WORDS_S)
        await self._http.stop()
        await self._health.stop()
        for scraped in self._scraped:
            await scraped.stop()
        self._exports.close()

    async def _look_at_health(self) -> None:
        """Have gRPC's health say what the other health checks say."""
        while True:
            await self._grpc.show(serving=self._health.trouble is None)
            await threads.next_multiple(_LOOK_EVERY_S)


def _kafka(
    config: Config, exports: Exports, intake: Intake, meter: Meter, tenants: Tenancy
) -> "KafkaReceiver | None":
    if config.kafka is None:
        return None
    try:
        from spanscore.receive.kafka import KafkaReceiver  # noqa: PLC0415 - an extra
    except ImportError as error:
        raise ConfigError(
            "receive.kafka: needs confluent-kafka, whose import fails"
            f" ({error}): pip install 'spanscore[kafka]'"
        ) from error
    return KafkaReceiver(config.kafka, exports, intake, meter, tenants)


def _bytes_in_flight(config: Config) -> int:
    """The bound on bytes in flight, which has room for the largest request of each protocol, plain
    and compressed.
    """
    largest = max(config.grpc.max_recv_msg_size_mib * 2**20, 2 * config.http.max_request_body_size)
    return max(config.max_bytes_in_flight, largest)


_NO_AUTH: Final = (
    "whoever reaches it can send spans, which are stored and shown to the judge: set `auth` and"
    " `extensions`, or put it behind a firewall or a collector"
)
_NO_TLS: Final = "what is sent, tokens too, can be read on the way: set `tls`"


def is_loopback(endpoint: str) -> bool:
    """Whether only this machine reaches an endpoint."""
    host, _ = split_endpoint(endpoint)
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


_KEY: Final = "receive.health.endpoint"
ELSEWHERE: Final = "127.0.0.1:13134"
"""Where health is if nothing was configured and the default is taken, by a collector's own health
check mostly.
"""

_NS_PER_S: Final = 10**9


def metrics_page(meter: Meter, resource: Mapping[str, str]) -> Page:
    """All metrics as they are now."""
    return Page(formats.page(meter.collect(), resource), content_type=formats.CONTENT_TYPE)


class PageServer:
    """Answers with pages by their paths; `key` is what configured it."""

    def __init__(self, endpoint: str, key: str, pages: Mapping[str, Callable[[], Page]]) -> None:
        self.endpoint = endpoint
        self._key = key
        self._pages = pages
        self._listener = page_listener(self._page)
        self.stop = self._listener.stop

    @property
    def port(self) -> int:
        """The port it is bound to; 0 before `start`."""
        return self._listener.port

    async def start(self) -> None:
        """Bind and serve. Raises ConfigError where the endpoint cannot be bound."""
        await self._listener.start(self.endpoint, self._key)

    def _page(self, method: str, path: str) -> Page:
        page = self._pages.get(path)
        if page is None or method not in ("GET", "HEAD"):
            return Page(f"nothing is here: GET {', '.join(sorted(self._pages))}\n", status=404)
        return page()


class HealthServer(PageServer):
    """Answers as the collector's health check does, and `/livez`, `/readyz`, `/metrics`."""

    def __init__(
        self,
        config: Health,
        exports: Exports,
        intake: Intake,
        meter: Meter,
        resource: Mapping[str, str],
        *,
        clock_ns: Callable[[], int] = time.time_ns,
    ) -> None:
        pages = {
            "/livez": self._live,
            "/readyz": self._ready,
            "/metrics": lambda: metrics_page(meter, resource),
            config.path: self._state,
        }
        super().__init__(config.endpoint, _KEY, pages)
        self._is_chosen = "endpoint" in config.model_fields_set
        self._exports = exports
        self._intake = intake
        self._meter = meter
        self._clock_ns = clock_ns
        self._started_ns = clock_ns()

    @property
    def trouble(self) -> str | None:
        """Why requests are not taken now; None where they are."""
        return "spanscore is shutting down" if self._exports.draining else self._intake.trouble

    async def start(self) -> None:
        """Bind and serve. Raises ConfigError where the endpoint cannot be bound."""
        try:
            await super().start()
        except ConfigError:
            if self._is_chosen:
                raise
            notice = (
                "%s: %s is taken, by a collector perhaps, so health is on %s; set the key to have"
                " it elsewhere"
            )
            _log.warning(notice, _KEY, self.endpoint, ELSEWHERE)
            self.endpoint = ELSEWHERE
            await super().start()

    def _state(self) -> Page:
        """The collector's health check, and what spanscore is doing."""
        trouble = self.trouble
        shown: dict[str, Any] = {
            "status": "Server not available" if trouble else "Server available"
        }
        if trouble:
            shown["reason"] = trouble
        if notice := self._intake.notice:
            shown["notice"] = notice
        up_since = datetime.fromtimestamp(self._started_ns / _NS_PER_S, UTC)
        shown |= {
            "upSince": up_since.isoformat().replace("+00:00", "Z"),
            "uptime": f"{(self._clock_ns() - self._started_ns) / _NS_PER_S:.3f}s",
            **self._intake.health(),
            "counters": self._meter.totals(),
        }
        return Page(
            dumps(shown),
            status=503 if trouble else 200,
            content_type="application/json; charset=utf-8",
        )

    def _ready(self) -> Page:
        """Whether requests are taken; in a second line what does not work all the same, which loses
        no request.
        """
        if trouble := self.trouble:
            return Page(f"{trouble}\n", status=503)
        notice = self._intake.notice
        return Page(f"ok\n{notice}\n" if notice else "ok\n")

    def _live(self) -> Page:
        """That the process answers at all: one that does not is to be started again, one that is
        not ready is not.
        """
        return Page("ok\n")


class HttpServer:
    """Serves the export paths until it is stopped.

    Requests must show one of `tokens`, where there are any, and `tenancy` decides whose they are.
    Of their `headers`, named in lower case, those are kept, if metadata are included.
    """

    def __init__(
        self,
        config: Http,
        exports: Exports,
        tenancy: Tenancy,
        tokens: BearerTokens | None = None,
        headers: frozenset[str] = frozenset(),
    ) -> None:
        self._config = config
        self._exports = exports
        self._tenancy = tenancy
        self._tokens = tokens
        self._headers = headers
        self._listener = Listener(self._made)

    @property
    def port(self) -> int:
        """The port it is bound to; 0 before `start`."""
        return self._listener.port

    @property
    def connections(self) -> int:
        """How many connections are open."""
        return self._listener.connections

    async def start(self) -> None:
        """Bind and serve.

        Raises ConfigError where the endpoint cannot be bound or a certificate not be used.
        """
        tls = self._config.tls
        context = None if tls is None else http_context(tls, "receive.http.tls")
        await self._listener.start(self._config.endpoint, "receive.http.endpoint", context)

    async def stop(self) -> None:
        """Close all connections."""
        await self._listener.stop()

    def _made(self) -> "BoundedServer":
        from spanscore.receive.connections import BoundedServer, Connections  # noqa: PLC0415 - see `Listener`
        from spanscore.receive.http_requests import HttpRequests  # noqa: PLC0415 - as above

        connections = Connections(self._config.max_connections)
        requests = HttpRequests(
            self._config, self._exports, self._tenancy, self._tokens, self._headers, connections
        )
        return BoundedServer(
            requests.handle,
            connections,
            header_timeout_s=self._config.read_header_timeout / _NS_PER_S,
            idle_timeout_s=self._config.idle_timeout / _NS_PER_S,
            turned_away=lambda reason: self._exports.turned_away("http", reason),
        )


_HANDSHAKE_S: Final = 10.0
_BACKLOG: Final = 1024
"""Connections that wait to be accepted: one for which there is no place is tried again after a
second.
"""

_LAST_REQUESTS_S: Final = 0.5
"""What requests get when listening ends: those that count were waited for before."""


class Listener:
    """Listens at one address, from `start` to `stop`; `port` is the one it is bound to."""

    def __init__(self, make: Callable[[], "BoundedServer"]) -> None:
        """`make` is called in the event loop for the first connection, and gives the server of all
        of them.
        """
        self.port = 0
        self._make = make
        self._listening: asyncio.Server | None = None
        self._made: BoundedServer | None = None

    @property
    def connections(self) -> int:
        """How many connections are open."""
        return len(self._made.open) if self._made else 0

    async def start(self, endpoint: str, key: str, tls: ssl.SSLContext | None = None) -> None:
        """Bind and serve, with TLS where given.

        Raises ConfigError, which names the configuration's `key`, where the endpoint cannot be
        bound.
        """
        host, port = split_endpoint(endpoint)
        try:
            self._listening = await asyncio.get_running_loop().create_server(
                self._protocol,
                host,
                port,
                ssl=tls,
                ssl_handshake_timeout=_HANDSHAKE_S if tls else None,
                backlog=_BACKLOG,
            )
        except OSError as error:
            raise ConfigError(
                f"{key}: cannot listen on {endpoint} ({error.strerror}): give a free port"
            ) from None
        self.port = self._listening.sockets[0].getsockname()[1]

    async def stop(self) -> None:
        """Stop listening and close all connections."""
        if self._listening is not None:
            self._listening.close()
        if self._made is not None:
            await asyncio.sleep(0)  # what was accepted just now reaches the server
            self._made.pre_shutdown()
            await self._made.shutdown(_LAST_REQUESTS_S)

    def _protocol(self) -> Any:
        if self._made is None:
            try:
                self._made = self._make()
            except Exception as error:  # asyncio closes the connection without a word
                _log.error(
                    "port %d cannot answer (%s: %s): the connection is closed, and the next one"
                    " tried anew; if this goes on, install spanscore[server] anew and restart",
                    self.port,
                    type(error).__name__,
                    error,
                    exc_info=error,
                )
                raise
        return self._made()


def page_listener(pages: Pages) -> Listener:
    """Listens for those who ask for pages such as health and metrics: a few clients that ask
    often.
    """

    def make() -> "BoundedServer":
        from spanscore.receive.connections import page_server  # noqa: PLC0415 - see the module

        return page_server(pages)

    return Listener(make)
