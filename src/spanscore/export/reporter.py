"""spanscore's own metrics, sent by OTLP."""

import asyncio
import logging
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from urllib.parse import urlsplit

from spanscore.errors import PermanentError, RetryableError
from spanscore.export import open_exporter
from spanscore.export.config import GrpcConfig, HttpConfig, Tls
from spanscore.export.port import Exporter
from spanscore.telemetry import Complaints, Meter, formats
from spanscore.telemetry.config import Otlp, Periodic

_log = logging.getLogger(__name__)

_NS_PER_S = 10**9
_LAST_WORDS_S = 2.0


class Reporting:
    """Sends what a meter has to one place.

    What is not taken is not repeated: the next request contains it too.
    """

    def __init__(
        self,
        config: Periodic,
        meter: Meter,
        resource: Mapping[str, str],
        *,
        exporter: Exporter | None = None,
        clock_ns: Callable[[], int] = time.time_ns,
    ) -> None:
        """Raises ConfigError where a file of the TLS settings cannot be used."""
        self._interval_s = config.interval / _NS_PER_S
        self._timeout_s = config.exporter.otlp.timeout / _NS_PER_S
        self._endpoint = config.exporter.otlp.endpoint
        self._exporter = exporter or open_exporter(exporter_config(config.exporter.otlp))
        self._meter = meter
        self._resource = resource
        self._clock_ns = clock_ns
        self._complaints = Complaints(clock_ns)

    async def run(self) -> None:
        """Send until cancelled."""
        while True:
            await asyncio.sleep(self._interval_s)
            await self.send()

    async def send(self) -> None:
        """Send once, what is now."""
        about = f"metrics to {self._endpoint}: not delivered"
        body = formats.request(
            self._meter.collect(), self._resource, self._meter.started_ns, self._clock_ns()
        )
        try:
            async with asyncio.timeout(self._timeout_s):
                partial_success = await self._exporter.send("metrics", body)
        except (RetryableError, PermanentError, TimeoutError) as error:
            self._complaints.complain(about, str(error) or "no answer in time")
            return
        if self._complaints.is_over(about):
            _log.info("metrics to %s: delivered again", self._endpoint)
        if partial_success is not None:
            self._complaints.complain(
                f"metrics to {self._endpoint}: delivered in part", partial_success
            )

    async def close(self) -> None:
        """Send a last time, not waiting long for it, and close the connection."""
        with suppress(TimeoutError):
            async with asyncio.timeout(_LAST_WORDS_S):
                await self.send()
        await self._exporter.close()


def exporter_config(config: Otlp) -> GrpcConfig | HttpConfig:
    """The exporter that OpenTelemetry's way to write one means.

    >>> exporter_config(Otlp(endpoint="https://collector:4318")).metrics_endpoint is None
    True
    """
    url = urlsplit(config.endpoint if "://" in config.endpoint else f"//{config.endpoint}")
    insecure = config.insecure if config.insecure is not None else url.scheme == "http"
    tls = Tls(
        insecure=insecure,
        ca_file=config.certificate,
        cert_file=config.client_certificate,
        key_file=config.client_key,
    )
    headers = {header.name: header.value for header in config.headers}
    timeout = f"{config.timeout}ns"
    if config.protocol == "grpc":
        return GrpcConfig.model_validate(
            {
                "endpoint": url.netloc,
                "tls": tls,
                "headers": headers,
                "compression": config.compression,
                "timeout": timeout,
            }
        )
    whole = config.endpoint if "://" in config.endpoint else f"http://{config.endpoint}"
    where = {"metrics_endpoint": whole} if url.path.strip("/") else {"endpoint": whole}
    return HttpConfig.model_validate(
        {
            **where,
            "tls": tls,
            "headers": headers,
            "compression": config.compression,
            "timeout": timeout,
        }
    )


def open_reportings(
    periodic: Sequence[Periodic], meter: Meter, resource: Mapping[str, str]
) -> list[Reporting]:
    """One for each configured reader. Raises ConfigError where one cannot be opened."""
    return [Reporting(x, meter, resource) for x in periodic]
