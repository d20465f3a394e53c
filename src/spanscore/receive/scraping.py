"""The page of metrics that Prometheus asks for."""

from collections.abc import Mapping

from spanscore.receive.listening import page_listener
from spanscore.receive.pages import Page
from spanscore.telemetry import Meter, formats


def metrics_page(meter: Meter, resource: Mapping[str, str]) -> Page:
    """All metrics as they are now."""
    return Page(formats.page(meter.collect(), resource), content_type=formats.CONTENT_TYPE)


class ScrapeServer:
    """Answers `/metrics` on a port of its own; `key` is what configured it."""

    def __init__(self, endpoint: str, key: str, meter: Meter, resource: Mapping[str, str]) -> None:
        self.endpoint = endpoint
        self._key = key
        self._meter = meter
        self._resource = resource
        self._listener = page_listener(self._page)

    @property
    def port(self) -> int:
        """The port it is bound to; 0 before `start`."""
        return self._listener.port

    async def start(self) -> None:
        """Bind and serve. Raises ConfigError where the endpoint cannot be bound."""
        await self._listener.start(self.endpoint, self._key)

    async def stop(self) -> None:
        """Close all connections."""
        await self._listener.stop()

    def _page(self, method: str, path: str) -> Page:
        if path != "/metrics" or method not in ("GET", "HEAD"):
            return Page("nothing is here: GET /metrics\n", status=404)
        return metrics_page(self._meter, self._resource)
