"""The receiving side as one thing that starts and stops: OTLP over gRPC and HTTP, and the health check."""

import ipaddress
import logging
from typing import Final

from spanscore.receive.config import Config, split_endpoint
from spanscore.receive.exports import Exports
from spanscore.receive.grpc_server import GrpcServer
from spanscore.receive.health import HealthServer
from spanscore.receive.http_server import HttpServer
from spanscore.receive.intake import Intake
from spanscore.telemetry import Counters

_log = logging.getLogger(__name__)

_LAST_WORDS_S: Final = 0.5
"""What connections get after the last request is done, so that its answer leaves before they are closed."""


class Server:
    """Receives OTLP and hands it to an `Intake`. After `start`, the ports are those that were bound."""

    def __init__(self, config: Config, intake: Intake, counters: Counters) -> None:
        self._config = config
        self._exports = Exports(intake, counters)
        self._grpc = GrpcServer(config.grpc, self._exports)
        self._http = HttpServer(config.http, self._exports)
        self._health = HealthServer(config.health, self._exports, intake.health, counters)
        self._stopped = False

    @property
    def grpc_port(self) -> int:
        """Where OTLP over gRPC is taken; 0 before `start`."""
        return self._grpc.port

    @property
    def http_port(self) -> int:
        """Where OTLP over HTTP is taken; 0 before `start`."""
        return self._http.port

    @property
    def health_port(self) -> int:
        """Where the health check answers; 0 before `start`."""
        return self._health.port

    async def start(self) -> None:
        """Bind all three endpoints and serve. Raises ConfigError, with nothing left running, where one is taken."""
        try:
            for key, server, endpoint in (
                ("grpc", self._grpc, self._config.grpc.endpoint),
                ("http", self._http, self._config.http.endpoint),
                ("health", self._health, self._config.health.endpoint),
            ):
                await server.start()
                _log.info("%s listens on %s, port %d", key, endpoint, server.port)
                if not _is_loopback(endpoint):
                    _log.warning("receive.%s.endpoint %s: %s", key, endpoint, _EXPOSED[key])
        except BaseException:
            await self.stop(0.0)
            raise

    async def stop(self, grace_s: float) -> None:
        """Stop receiving; calling it again does nothing.

        Health checks say so first; new requests are told to come back later; those under way have `grace_s` seconds.
        """
        if self._stopped:
            return
        self._stopped = True
        await self._grpc.refuse()
        if not await self._exports.drain(grace_s):
            _log.warning("requests were still under way after %s s; their senders will send them again", grace_s)
        await self._grpc.stop(_LAST_WORDS_S)
        await self._http.stop()
        await self._health.stop()


_OPEN_TO_ALL = (
    "not a loopback address, and spanscore asks for no credentials: whoever reaches it can send spans, which are "
    "stored and shown to the judge; put it behind a firewall or a collector"
)
_EXPOSED: Final = {
    "grpc": _OPEN_TO_ALL,
    "http": _OPEN_TO_ALL,
    "health": "not a loopback address: whoever reaches it can read spanscore's counters",
}


def _is_loopback(endpoint: str) -> bool:
    host, _ = split_endpoint(endpoint)
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
