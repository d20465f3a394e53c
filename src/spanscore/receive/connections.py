"""Bounds on HTTP connections."""

import asyncio
import time
from collections import Counter
from collections.abc import Callable
from typing import Any, Final

from aiohttp import web

from spanscore.receive.pages import Pages

_LINGER_S: Final = 2.0
"""How long the rest of a body that was refused is read, so that its sender reads the answer."""

_MAX_OF_PAGES: Final = 100
"""Connections to health or metrics."""

PAGE_HEADERS_S: Final = 10.0
"""How long a connection to health or metrics may be open without the headers of a request."""


class _Connection:
    __slots__ = ("address", "close", "has_headers", "is_busy", "last_s", "served")

    def __init__(self, address: str, close: Callable[[], None], now_s: float) -> None:
        self.address = address
        self.close = close
        self.has_headers = False
        self.is_busy = False
        self.served = 0
        self.last_s = now_s


class Connections:
    """Open connections, `max_connections` at most: for a new one another is closed.

    That is one of the address with the most of them: one on which no request was ever served before
    one that was, and of these the one for which that is longest ago. Connections with a request
    being worked on are not closed.
    """

    def __init__(
        self, max_connections: int, *, clock_s: Callable[[], float] = time.monotonic
    ) -> None:
        self._max_connections = max_connections
        self._clock_s = clock_s
        self._open: dict[Any, _Connection] = {}
        self._of_address: Counter[str] = Counter()

    def __len__(self) -> int:
        return len(self._open)

    def opened(self, key: Any, address: str, close: Callable[[], None]) -> bool:
        """Note a connection, which `close` closes; False where another, or this one, was closed for
        it.
        """
        self._open[key] = _Connection(address, close, self._clock_s())
        self._of_address[address] += 1
        if len(self._open) <= self._max_connections:
            return True
        chosen = self._chosen(key)
        connection = self._open[chosen]
        self.closed(chosen)
        connection.close()
        return False

    def closed(self, key: Any) -> None:
        """Forget a connection; one that is not known is ignored."""
        connection = self._open.pop(key, None)
        if connection is not None:
            self._of_address[connection.address] -= 1
            if not self._of_address[connection.address]:
                del self._of_address[connection.address]

    def working(self, key: Any) -> None:
        """A request has arrived whole and is worked on."""
        if key in self._open:
            self._open[key].is_busy = True

    def answered(self, key: Any) -> None:
        """That request is answered."""
        connection = self._open.get(key)
        if connection is not None:
            connection.is_busy = False
            connection.served += 1
            connection.last_s = self._clock_s()

    def requested(self, key: Any) -> None:
        """The headers of a request have arrived."""
        if key in self._open:
            self._open[key].has_headers = True

    def is_silent(self, key: Any) -> bool:
        """Whether the headers of no request have arrived yet."""
        return key in self._open and not self._open[key].has_headers

    def _chosen(self, newcomer: Any) -> Any:
        most = max(self._of_address.values())
        candidates = [
            (connection.served > 0, connection.last_s, i, key)
            for i, (key, connection) in enumerate(self._open.items())
            if not connection.is_busy
            and key is not newcomer
            and self._of_address[connection.address] == most
        ]
        return min(candidates)[3] if candidates else newcomer


class BoundedServer(web.Server):
    """aiohttp's server with bounds.

    `turned_away` is called with one word for why a connection was closed.
    """

    def __init__(
        self,
        handler: Any,
        connections: Connections,
        *,
        header_timeout_s: float,
        idle_timeout_s: float,
        turned_away: Callable[[str], None] = lambda _: None,
        handler_cancellation: bool = False,
    ) -> None:
        # aiohttp's own decompression has another limit, and no way to tell a broken body from a
        # large one.
        super().__init__(
            self._handle,
            auto_decompress=False,
            handler_cancellation=handler_cancellation,
            access_log=None,
            keepalive_timeout=idle_timeout_s,
            lingering_time=_LINGER_S,
        )
        self.open = connections
        self._answer = handler
        self._header_timeout_s = header_timeout_s
        self._turned_away = turned_away

    def connection_made(self, handler: Any, transport: asyncio.Transport) -> None:
        """See `web.Server`: a connection is open, over TLS after its handshake."""
        super().connection_made(handler, transport)
        peer = transport.get_extra_info("peername")
        if not self.open.opened(handler, str(peer[0]) if peer else "", transport.abort):
            self._turned_away("connections")
        asyncio.get_running_loop().call_later(
            self._header_timeout_s, self._close_silent, handler, transport
        )

    def connection_lost(self, handler: Any, exc: BaseException | None = None) -> None:
        """See `web.Server`."""
        self.open.closed(handler)
        super().connection_lost(handler, exc)

    async def _handle(self, request: web.BaseRequest) -> web.StreamResponse:
        self.open.requested(request.protocol)
        return await self._answer(request)  # type: ignore[no-any-return] # given as Any

    def _close_silent(self, handler: Any, transport: asyncio.Transport) -> None:
        if self.open.is_silent(handler):
            self._turned_away("headers")
            transport.abort()


def page_server(pages: Pages) -> BoundedServer:
    """A server of pages such as health and metrics, for a few clients that ask often."""

    async def answer(request: web.BaseRequest) -> web.StreamResponse:
        page = pages(request.method, request.path)
        return web.Response(
            body=page.body.encode(), status=page.status, headers={"Content-Type": page.content_type}
        )

    return BoundedServer(
        answer, Connections(_MAX_OF_PAGES), header_timeout_s=PAGE_HEADERS_S, idle_timeout_s=75.0
    )
