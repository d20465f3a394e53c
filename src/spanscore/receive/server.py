"""The receiving side as one thing that starts and stops: OTLP over gRPC and HTTP, and the health check."""

import ipaddress
import logging
from collections.abc import Mapping
from typing import Final

from spanscore.receive.auth import BearerTokens
from spanscore.receive.config import BearerToken, Config, Grpc, Http, split_endpoint
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

    def __init__(
        self,
        config: Config,
        intake: Intake,
        counters: Counters,
        *,
        extensions: Mapping[str, BearerToken] | None = None,
    ) -> None:
        """`extensions` are the authenticators that `config` may name. Raises ConfigError where one cannot be used."""
        self._config = config
        self._exports = Exports(intake, counters)
        tokens = {name: BearerTokens(x, f"extensions.{name}") for name, x in (extensions or {}).items()}
        self._grpc = GrpcServer(
            config.grpc, self._exports, tokens[config.grpc.auth.authenticator] if config.grpc.auth else None
        )
        self._http = HttpServer(
            config.http, self._exports, tokens[config.http.auth.authenticator] if config.http.auth else None
        )
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
            self._warn_of_exposure()
        except BaseException:
            await self.stop(0.0)
            raise

    def _warn_of_exposure(self) -> None:
        """Say what it means where others than this machine reach an endpoint."""
        protocols: tuple[tuple[str, Grpc | Http], ...] = (("grpc", self._config.grpc), ("http", self._config.http))
        for key, config in protocols:
            if not _is_loopback(config.endpoint):
                for missing, meaning in ((config.auth, _NO_AUTH), (config.tls, _NO_TLS)):
                    if missing is None:
                        _log.warning("receive.%s.endpoint %s is no loopback address: %s", key, config.endpoint, meaning)

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


_NO_AUTH: Final = (
    "whoever reaches it can send spans, which are stored and shown to the judge: set `auth` and `extensions`, or put "
    "it behind a firewall or a collector"
)
_NO_TLS: Final = "what is sent, tokens too, can be read on the way: set `tls`"


def _is_loopback(endpoint: str) -> bool:
    host, _ = split_endpoint(endpoint)
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
