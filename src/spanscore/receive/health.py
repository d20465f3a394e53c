"""The health check on its own port, so that it answers whatever the OTLP ports are busy with."""

import time
from collections.abc import Callable, Mapping
from typing import Any, Final

from aiohttp import web

from spanscore.model.json import dumps
from spanscore.receive.config import Health
from spanscore.receive.exports import Exports
from spanscore.receive.http_server import listen
from spanscore.telemetry import Counters

_NS_PER_S: Final = 10**9


class HealthServer:
    """Answers `GET /` with what spanscore is doing; `port` is the one it is bound to."""

    def __init__(
        self,
        config: Health,
        exports: Exports,
        facts: Callable[[], Mapping[str, Any]],
        counters: Counters,
        *,
        clock_ns: Callable[[], int] = time.monotonic_ns,
    ) -> None:
        self.port = 0
        self._config = config
        self._exports = exports
        self._facts = facts
        self._counters = counters
        self._clock_ns = clock_ns
        self._started_ns = clock_ns()
        self._runner: web.ServerRunner | None = None

    async def start(self) -> None:
        """Bind and serve. Raises ConfigError where the endpoint cannot be bound."""
        server = web.Server(self._handle, access_log=None)
        self._runner, self.port = await listen(server, self._config.endpoint, "receive.health.endpoint")

    async def stop(self) -> None:
        """Close all connections."""
        if self._runner is not None:
            await self._runner.cleanup()

    async def _handle(self, request: web.BaseRequest) -> web.StreamResponse:
        if request.path != "/" or request.method not in ("GET", "HEAD"):
            return web.Response(status=404, text="the health check is at GET /\n")
        serving = not self._exports.draining
        shown = {
            "status": "serving" if serving else "stopping",
            "uptime_s": (self._clock_ns() - self._started_ns) // _NS_PER_S,
            **self._facts(),
            "counters": self._counters.snapshot(),
        }
        return web.Response(status=200 if serving else 503, text=dumps(shown), content_type="application/json")
