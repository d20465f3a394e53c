"""OTLP over HTTP as something that starts and stops; `http_requests` answers the requests."""

from typing import TYPE_CHECKING, Final

from spanscore.receive.auth import BearerTokens
from spanscore.receive.config import Http
from spanscore.receive.exports import Exports
from spanscore.receive.listening import Listener
from spanscore.receive.tenancy import Tenancy
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
