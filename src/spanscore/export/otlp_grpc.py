"""OTLP over gRPC."""

import asyncio
from pathlib import Path
from typing import Any

import grpc

from spanscore.errors import ConfigError, PermanentError
from spanscore.export import status
from spanscore.export.config import GrpcConfig
from spanscore.export.port import UndeliveredError
from spanscore.otlp.signal import SIGNALS, WIRE, Signal

_DETAILS = "grpc-status-details-bin"


class GrpcExporter:
    """One channel to one backend, opened with the first request."""

    def __init__(self, config: GrpcConfig) -> None:
        """Raises ConfigError where a file of the TLS settings cannot be read."""
        self._config = config
        self._credentials = None if config.tls.insecure else _credentials(config)
        self._metadata = tuple((name.lower(), value.get_secret_value()) for name, value in config.headers.items())
        self._timeout_s = config.timeout / 1e9
        self._channel: Any = None
        self._calls: dict[Signal, Any] = {}

    async def send(self, signal: Signal, body: bytes) -> str | None:
        """See `port.Exporter.send`."""
        if self._channel is None:
            self._open()
        await self._connected()
        try:
            answer = await self._calls[signal](body, timeout=self._timeout_s, metadata=self._metadata)
        except grpc.aio.AioRpcError as error:
            details = next((value for key, value in error.trailing_metadata() or () if key == _DETAILS), None)
            raise status.grpc_error(error.code().name, details, error.details() or "") from error
        return status.not_taken(signal, answer)

    async def close(self) -> None:
        """Close the channel; a request under way is cancelled."""
        if self._channel is not None:
            await self._channel.close()
            self._channel = None

    async def _connected(self) -> None:
        """Wait for the connection, so that a request which never left is told from one whose answer is missing."""
        if self._channel.get_state(try_to_connect=True) is grpc.ChannelConnectivity.READY:
            return
        try:
            async with asyncio.timeout(self._timeout_s):
                await self._channel.channel_ready()
        except TimeoutError as error:
            raise UndeliveredError(f"no connection to {self._config.endpoint}") from error
        except grpc.aio.UsageError as error:
            raise PermanentError("the exporter is closed") from error

    def _open(self) -> None:
        config = self._config
        target = config.endpoint.removeprefix("http://").removeprefix("https://")
        compression = grpc.Compression.Gzip if config.compression == "gzip" else grpc.Compression.NoCompression
        options = []
        if config.tls.server_name_override:
            options.append(("grpc.ssl_target_name_override", config.tls.server_name_override))
        if self._credentials is None:
            self._channel = grpc.aio.insecure_channel(target, options=options, compression=compression)
        else:
            self._channel = grpc.aio.secure_channel(target, self._credentials, options=options, compression=compression)
        self._calls = {
            signal: self._channel.unary_unary(
                f"/{WIRE[signal].service}/Export", response_deserializer=WIRE[signal].response.FromString
            )
            for signal in SIGNALS
        }


def _credentials(config: GrpcConfig) -> Any:
    tls = config.tls
    return grpc.ssl_channel_credentials(
        root_certificates=_read(tls.ca_file), private_key=_read(tls.key_file), certificate_chain=_read(tls.cert_file)
    )


def _read(path: Path | None) -> bytes | None:
    try:
        return None if path is None else path.read_bytes()
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read ({error.strerror or error}); see tls of the exporter") from error
