"""OTLP over gRPC."""

import asyncio
from typing import Any

import grpc

from spanscore.errors import ConfigError, PermanentError
from spanscore.export import status
from spanscore.export.config import Authenticator, ClientKeepalive, GrpcConfig, Tls, applied
from spanscore.export.port import UndeliveredError
from spanscore.local_files import Watched
from spanscore.model.span import Headers
from spanscore.otlp.signal import SIGNALS, WIRE, Signal

_NS_PER_MS = 10**6
_COMPRESSIONS = {
    "gzip": grpc.Compression.Gzip,
    "deflate": grpc.Compression.Deflate,
    "zlib": grpc.Compression.Deflate,
    "none": grpc.Compression.NoCompression,
}
_DETAILS = "grpc-status-details-bin"


class GrpcExporter:
    """One channel to one backend, opened with the first request."""

    def __init__(self, config: GrpcConfig, authenticator: Authenticator | None = None) -> None:
        """Raises ConfigError where a file of the TLS settings cannot be read."""
        self._authenticator = authenticator
        self._config = config
        self._credentials = None if config.tls.insecure else _credentials(config.tls)
        self._headers = {
            name.lower(): value.get_secret_value() for name, value in config.headers.items()
        }
        self._timeout_s = config.timeout / 1e9
        self._channel: Any = None
        self._opened_with: Any = None
        self._retiring: asyncio.Future[None] | None = None
        self._calls: dict[Signal, Any] = {}

    async def send(self, signal: Signal, body: bytes, headers: Headers = ()) -> str | None:
        """See `port.Exporter.send`."""
        sent = applied(self._authenticator, self._headers, headers)
        credentials = None if self._credentials is None else self._credentials.get()
        if self._channel is None:
            self._open(credentials)
        elif credentials is not self._opened_with:  # the files of the TLS settings were renewed
            self._retiring = asyncio.ensure_future(self._channel.close(self._timeout_s))
            self._open(credentials)
        await self._connected()
        try:
            answer = await self._calls[signal](
                body, timeout=self._timeout_s, metadata=tuple(sent.items())
            )
        except grpc.aio.AioRpcError as error:
            details = next(
                (value for key, value in error.trailing_metadata() or () if key == _DETAILS), None
            )
            raise status.grpc_error(error.code().name, details, error.details() or "") from error
        return status.not_taken(signal, answer)

    async def close(self) -> None:
        """Close the channel; a request under way is cancelled."""
        if self._channel is not None:
            await self._channel.close()
            self._channel = None
        if self._retiring is not None:
            await self._retiring

    async def _connected(self) -> None:
        """Wait for the connection, so that a request which never left differs from one whose answer
        is missing.
        """
        if self._channel.get_state(try_to_connect=True) is grpc.ChannelConnectivity.READY:
            return
        try:
            async with asyncio.timeout(self._timeout_s):
                await self._channel.channel_ready()
        except TimeoutError as error:
            raise UndeliveredError(f"no connection to {self._config.endpoint}") from error
        except grpc.aio.UsageError as error:
            raise PermanentError("the exporter is closed") from error

    def _open(self, credentials: Any) -> None:
        config = self._config
        target = config.endpoint.removeprefix("http://").removeprefix("https://")
        compression = _COMPRESSIONS[config.compression]
        options: list[tuple[str, Any]] = (
            [] if config.keepalive is None else _keepalive(config.keepalive)
        )
        if config.tls.server_name_override:
            options.append(("grpc.ssl_target_name_override", config.tls.server_name_override))
        self._opened_with = credentials
        if credentials is None:
            self._channel = grpc.aio.insecure_channel(
                target, options=options, compression=compression
            )
        else:
            self._channel = grpc.aio.secure_channel(
                target, credentials, options=options, compression=compression
            )
        self._calls = {
            signal: self._channel.unary_unary(
                f"/{WIRE[signal].service}/Export",
                response_deserializer=WIRE[signal].response.FromString,
            )
            for signal in SIGNALS
        }


def _keepalive(config: ClientKeepalive) -> list[tuple[str, Any]]:
    return [
        ("grpc.keepalive_time_ms", config.time // _NS_PER_MS),
        ("grpc.keepalive_timeout_ms", config.timeout // _NS_PER_MS),
        ("grpc.keepalive_permit_without_calls", int(config.permit_without_stream)),
        ("grpc.http2.max_pings_without_data", 0),  # gRPC's own default stops after two
    ]


def _credentials(tls: Tls) -> Watched[Any]:
    """The newest credentials that the files make. Raises ConfigError where they make none."""
    try:
        return Watched(tls.files, lambda: _read(tls), every_s=tls.reload_interval / 1e9)
    except OSError as error:
        message = f"{error.filename}: cannot be read ({error.strerror or error})"
        raise ConfigError(f"{message}; see tls of the exporter") from error


def _read(tls: Tls) -> Any:
    roots, key, chain = (
        None if x is None else x.read_bytes() for x in (tls.ca_file, tls.key_file, tls.cert_file)
    )
    return grpc.ssl_channel_credentials(
        root_certificates=roots, private_key=key, certificate_chain=chain
    )
