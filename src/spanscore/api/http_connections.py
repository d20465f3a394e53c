"""Bounds on connections of the API over HTTP."""

import asyncio
from dataclasses import dataclass
from typing import Any, Final

from uvicorn.protocols.http.h11_impl import H11Protocol

MAX_REQUEST_BYTES: Final = 4 * 2**20
"""A larger request is refused."""


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
