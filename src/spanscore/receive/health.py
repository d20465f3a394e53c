"""Health and metrics on their own ports."""

import logging
import time
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any, Final

from spanscore.errors import ConfigError
from spanscore.model.json import dumps
from spanscore.receive.config import Health
from spanscore.receive.exports import Exports, Intake
from spanscore.receive.http_server import page_listener
from spanscore.receive.pages import Page
from spanscore.telemetry import Meter, formats

_log = logging.getLogger(__name__)

_KEY: Final = "receive.health.endpoint"
ELSEWHERE: Final = "127.0.0.1:13134"
"""Where health is if nothing was configured and the default is taken, by a collector's own health
check mostly.
"""

_NS_PER_S: Final = 10**9


class HealthServer:
    """Answers as the collector's health check does, and `/livez`, `/readyz`, `/metrics`."""

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
        self._config = config
        self._exports = exports
        self._intake = intake
        self._meter = meter
        self._resource = resource
        self._clock_ns = clock_ns
        self._started_ns = clock_ns()
        self._listener = page_listener(self._page)
        self._pages = {
            "/livez": self._live,
            "/readyz": self._ready,
            "/metrics": lambda: metrics_page(meter, resource),
            config.path: self._state,
        }

    @property
    def port(self) -> int:
        """The port it is bound to; 0 before `start`."""
        return self._listener.port

    @property
    def trouble(self) -> str | None:
        """Why requests are not taken now; None where they are."""
        return "spanscore is shutting down" if self._exports.draining else self._intake.trouble

    async def start(self) -> str:
        """Bind and serve; returns where. Raises ConfigError where the endpoint cannot be bound."""
        endpoint = self._config.endpoint
        try:
            await self._listener.start(endpoint, _KEY)
        except ConfigError:
            if "endpoint" in self._config.model_fields_set:
                raise
            await self._listener.start(ELSEWHERE, _KEY)
            notice = (
                "%s: %s is taken, by a collector perhaps, so health is on %s; set the key to have"
                " it elsewhere"
            )
            _log.warning(notice, _KEY, endpoint, ELSEWHERE)
            return ELSEWHERE
        return endpoint

    async def stop(self) -> None:
        """Close all connections."""
        await self._listener.stop()

    def _page(self, method: str, path: str) -> Page:
        page = self._pages.get(path)
        if page is None or method not in ("GET", "HEAD"):
            return Page(f"nothing is here: GET {', '.join(sorted(self._pages))}\n", status=404)
        return page()

    def _state(self) -> Page:
        """The collector's health check, and what spanscore is doing."""
        trouble = self.trouble
        shown: dict[str, Any] = {
            "status": "Server not available" if trouble else "Server available"
        }
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
        return Page(
            dumps(shown),
            status=503 if trouble else 200,
            content_type="application/json; charset=utf-8",
        )

    def _ready(self) -> Page:
        """Whether requests are taken; in a second line what does not work all the same, which loses
        no request.
        """
        if trouble := self.trouble:
            return Page(f"{trouble}\n", status=503)
        notice = self._intake.notice
        return Page(f"ok\n{notice}\n" if notice else "ok\n")

    def _live(self) -> Page:
        """That the process answers at all: one that does not is to be started again, one that is
        not ready is not.
        """
        return Page("ok\n")


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
