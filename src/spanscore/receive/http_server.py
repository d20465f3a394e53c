"""OTLP over HTTP, and the listeners that serve it and pages."""

import asyncio
import ssl
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from spanscore.errors import ConfigError
from spanscore.receive.auth import BearerTokens, Tenancy
from spanscore.receive.config import Http, split_endpoint
from spanscore.receive.exports import Exports
from spanscore.receive.pages import Pages
from spanscore.receive.tls import http_context

if TYPE_CHECKING:
    from spanscore.receive.connections import BoundedServer


_NS_PER_S: Final = 10**9


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
        from spanscore.receive.connections import BoundedServer, Connections  # noqa: PLC0415 - see `listening`
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
            self._made = self._make()
        return self._made()


def page_listener(pages: Pages) -> Listener:
    """Listens for those who ask for pages such as health and metrics: a few clients that ask
    often.
    """

    def make() -> "BoundedServer":
        from spanscore.receive.connections import page_server  # noqa: PLC0415 - see the module

        return page_server(pages)

    return Listener(make)
