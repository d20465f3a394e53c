"""Health and metrics on a port of their own, so that they answer whatever the OTLP ports are busy with."""

import logging
import time
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any, Final

from aiohttp import web

from spanscore.errors import ConfigError
from spanscore.model.json import dumps
from spanscore.receive.config import Health
from spanscore.receive.connections import page_server
from spanscore.receive.exports import Exports
from spanscore.receive.http_server import listen
from spanscore.receive.intake import Intake
from spanscore.receive.scraping import metrics_page
from spanscore.telemetry import Meter

_log = logging.getLogger(__name__)

_KEY: Final = "receive.health.endpoint"
ELSEWHERE: Final = "127.0.0.1:13134"
"""Where health is if nothing was configured and the default is taken, by a collector's own health check mostly."""

_NS_PER_S: Final = 10**9


class HealthServer:
    """Answers as the collector's health check does, and `/livez`, `/readyz`, `/metrics`; `port` is the one bound to."""

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
        self.port = 0
        self._config = config
        self._exports = exports
        self._intake = intake
        self._meter = meter
        self._resource = resource
        self._clock_ns = clock_ns
        self._started_ns = clock_ns()
        self._runner: web.ServerRunner | None = None
        self._pages = {
            "/livez": self._live,
            "/readyz": self._ready,
            "/metrics": lambda: metrics_page(meter, resource),
            config.path: self._state,
        }

    @property
    def trouble(self) -> str | None:
        """Why requests are not taken now; None where they are."""
        return "spanscore is shutting down" if self._exports.draining else self._intake.trouble

    async def start(self) -> str:
        """Bind and serve; returns where. Raises ConfigError where the endpoint cannot be bound."""
        endpoint = self._config.endpoint
        try:
            self._runner, self.port = await listen(self._server(), endpoint, _KEY)
        except ConfigError:
            if "endpoint" in self._config.model_fields_set:
                raise
            self._runner, self.port = await listen(self._server(), ELSEWHERE, _KEY)
            told = "%s: %s is taken, by a collector perhaps, so health is on %s; set the key to have it elsewhere"
            _log.warning(told, _KEY, endpoint, ELSEWHERE)
            return ELSEWHERE
        return endpoint

    async def stop(self) -> None:
        """Close all connections."""
        if self._runner is not None:
            await self._runner.cleanup()

    def _server(self) -> Any:
        return page_server(self._handle)

    async def _handle(self, request: web.BaseRequest) -> web.StreamResponse:
        page = self._pages.get(request.path)
        if page is None or request.method not in ("GET", "HEAD"):
            return web.Response(status=404, text=f"nothing is here: GET {', '.join(sorted(self._pages))}\n")
        return page()

    def _state(self) -> web.Response:
        """The collector's health check, and what spanscore is doing."""
        trouble = self.trouble
        shown: dict[str, Any] = {"status": "Server not available" if trouble else "Server available"}
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
        return web.Response(status=503 if trouble else 200, text=dumps(shown), content_type="application/json")

    def _ready(self) -> web.Response:
        """Whether requests are taken; in a second line what does not work all the same, which loses no request."""
        if trouble := self.trouble:
            return web.Response(status=503, text=f"{trouble}\n")
        notice = self._intake.notice
        return web.Response(text=f"ok\n{notice}\n" if notice else "ok\n")

    def _live(self) -> web.Response:
        """That the process answers at all: one that does not is to be started again, one that is not ready is not."""
        return web.Response(text="ok\n")
