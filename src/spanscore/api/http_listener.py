"""The listener for the API over HTTP.

uvicorn and what it serves are imported when the first connection comes.
"""

import asyncio
import logging
import socket
import ssl
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final

from spanscore.api.caller import Caller
from spanscore.api.http_sockets import PAGE, bind, tls_context
from spanscore.api.server import Server, warn_of_exposure
from spanscore.api.servicer import Servicer
from spanscore.config import Api, ApiHttp
from spanscore.errors import ConfigError

if TYPE_CHECKING:
    from spanscore.api.http_server import HttpServer

_log = logging.getLogger(__name__)

_RETRY_AFTER_S: Final = 5.0


class HttpListener:
    """All services as JSON over HTTP, at one address, from `start` to `stop`."""

    def __init__(
        self,
        config: ApiHttp,
        servicers: Callable[[], Sequence[Servicer]],
        caller: Caller,
        retry_after_s: float = _RETRY_AFTER_S,
    ) -> None:
        """`servicers` are imported when the first connection comes.

        A server that could not be made is made again after `retry_after_s` seconds.
        """
        self._config = config
        self._servicers = servicers
        self._caller = caller
        self._retry_after_s = retry_after_s
        self._tls: ssl.SSLContext | None = None
        self._bound: socket.socket | None = None
        self._starting: asyncio.Task[None] | None = None
        self._server: HttpServer | None = None
        self.port = 0
        """The port it listens on, from `start` on."""

    async def start(self) -> None:
        """Listen.

        Raises ConfigError where the endpoint cannot be bound or a certificate not be used.
        """
        self._tls = tls_context(self._config)
        self._bound = bind(self._config.endpoint)
        self.port = self._bound.getsockname()[1]
        self._await_connection()
        url = f"{'http' if self._config.tls is None else 'https'}://{self._config.endpoint}"
        _log.info("the API listens on %s, its page is %s%s", url, url, PAGE)

    async def stop(self) -> None:
        """Stop listening; requests under way have a second to end. May be called again."""
        bound, self._bound = self._bound, None
        if bound is None:
            return
        if self._starting is not None:
            await self._starting
        if self._server is not None:
            await self._server.stop()
        else:
            asyncio.get_running_loop().remove_reader(bound)
            bound.close()

    def _await_connection(self) -> None:
        if self._bound is not None:
            asyncio.get_running_loop().add_reader(self._bound, self._connected, self._bound)

    def _connected(self, bound: socket.socket) -> None:
        """A first connection waits to be accepted: the server takes it, and all that follow."""
        asyncio.get_running_loop().remove_reader(bound)
        self._starting = asyncio.create_task(self._serve(bound))

    async def _serve(self, bound: socket.socket) -> None:
        """Make the server. Where that fails, the connections wait for the next attempt."""
        try:
            from spanscore.api.http_server import HttpServer  # noqa: PLC0415 - uvicorn, late

            server = HttpServer(self._config, self._servicers(), self._caller)
            await server.start(bound, self._tls)
        except Exception as error:  # noqa: BLE001 - files and libraries of others are read
            _log.error(
                "the API over HTTP on %s cannot answer (%s: %s); connections wait, and it is tried"
                " again in %g s; if this goes on, install spanscore[server] anew and restart",
                self._config.endpoint,
                type(error).__name__,
                error,
                self._retry_after_s,
                exc_info=error,
            )
            asyncio.get_running_loop().call_later(self._retry_after_s, self._await_connection)
        else:
            self._server = server


async def start(config: Api, server: Server) -> HttpListener | None:
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
    made = HttpListener(wanted, lambda: server.servicers, server.caller)
    try:
        await made.start()
    except ConfigError as error:
        if config.http is not None:
            raise
        _log.info("the API is there over gRPC alone: %s; set api.http.endpoint", error)
        return None
    return made
