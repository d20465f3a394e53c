"""The page of metrics that Prometheus asks for."""

from collections.abc import Mapping

from aiohttp import web

from spanscore.receive.connections import page_server
from spanscore.receive.http_server import listen
from spanscore.telemetry import Meter, prometheus


def metrics_page(meter: Meter, resource: Mapping[str, str]) -> web.Response:
    """All metrics as they are now."""
    page = prometheus.page(meter.collect(), resource)
    return web.Response(body=page.encode(), headers={"Content-Type": prometheus.CONTENT_TYPE})


class ScrapeServer:
    """Answers `/metrics` on a port of its own, which is `port`; `key` is what configured it."""

    def __init__(self, endpoint: str, key: str, meter: Meter, resource: Mapping[str, str]) -> None:
        self.port = 0
        self.endpoint = endpoint
        self._key = key
        self._meter = meter
        self._resource = resource
        self._runner: web.ServerRunner | None = None

    async def start(self) -> None:
        """Bind and serve. Raises ConfigError where the endpoint cannot be bound."""
        self._runner, self.port = await listen(page_server(self._handle), self.endpoint, self._key)

    async def stop(self) -> None:
        """Close all connections."""
        if self._runner is not None:
            await self._runner.cleanup()

    async def _handle(self, request: web.BaseRequest) -> web.StreamResponse:
        if request.path != "/metrics" or request.method not in ("GET", "HEAD"):
            return web.Response(status=404, text="nothing is here: GET /metrics\n")
        return metrics_page(self._meter, self._resource)
