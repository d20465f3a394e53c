"""Listening for the API over HTTP: uvicorn and what it serves are imported when the first
connection comes.
"""

import asyncio
import logging
import socket
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from spanscore.api.calling import Caller
from spanscore.api.servicer import Servicer
from spanscore.config import ApiHttp
from spanscore.errors import ConfigError
from spanscore.receive.config import split_endpoint
from spanscore.receive.tls import http_context

if TYPE_CHECKING:
    from spanscore.api.http_server import HttpServer

_log = logging.getLogger(__name__)

_BACKLOG: Final = 512
PAGE: Final = "/ui/"
"""The path of the page that people open in a browser."""


class HttpListener:
    """All services as JSON over HTTP, at one address, from `start` to `stop`."""

    def __init__(self, config: ApiHttp, servicers: Sequence[Servicer], caller: Caller) -> None:
        self._config = config
        self._servicers = servicers
        self._caller = caller
        self._bound: socket.socket | None = None
        self._serving: asyncio.Task[HttpServer] | None = None
        self.port = 0
        """The port it listens on, from `start` on."""

    async def start(self) -> None:
        """Listen.

        Raises ConfigError where the endpoint cannot be bound or a certificate not be used.
        """
        if self._config.tls is not None:
            http_context(self._config.tls, "api.http.tls")
        self._bound = bind(self._config.endpoint)
        self.port = self._bound.getsockname()[1]
        asyncio.get_running_loop().add_reader(self._bound, self._connected)
        url = f"{'http' if self._config.tls is None else 'https'}://{self._config.endpoint}"
        _log.info("the API listens on %s, its page is %s%s", url, url, PAGE)

    async def stop(self) -> None:
        """Stop listening; requests under way have a second to end. May be called again."""
        if self._bound is None:
            return
        if self._serving is None:
            asyncio.get_running_loop().remove_reader(self._bound)
            self._bound.close()
        else:
            await (await self._serving).stop()
        self._bound = None

    def _connected(self) -> None:
        """A first connection waits to be accepted: the server takes it, and all that follow."""
        if self._bound is not None:
            asyncio.get_running_loop().remove_reader(self._bound)
            self._serving = asyncio.create_task(self._serve(self._bound))

    async def _serve(self, bound: socket.socket) -> "HttpServer":
        from spanscore.api.http_server import HttpServer  # noqa: PLC0415 - see the module

        server = HttpServer(self._config, self._servicers, self._caller)
        await server.start(bound)
        return server


def bind(endpoint: str) -> socket.socket:
    """A socket that listens. Raises ConfigError where the endpoint cannot be bound."""
    host, port = split_endpoint(endpoint)
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM
        )[0]
        bound = socket.socket(family, kind, protocol)
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        bound.bind(address)
        bound.listen(_BACKLOG)
        bound.setblocking(False)  # noqa: FBT003 - it has no name
    except OSError as error:
        why = error.strerror or error
        raise ConfigError(
            f"api.http.endpoint: cannot listen on {endpoint} ({why}); is something else listening"
            " there?"
        ) from error
    return bound
