"""OTLP over HTTP, in protobuf."""

import asyncio
import gzip
import zlib
from collections.abc import Callable
from datetime import UTC, datetime
from functools import partial
from typing import Any

import aiohttp
import cramjam
from google.protobuf.message import DecodeError

from spanscore.export import status
from spanscore.export.config import Authenticator, HttpConfig, applied
from spanscore.export.port import UndeliveredError
from spanscore.export.tls import http_context
from spanscore.model.headers import Headers
from spanscore.otlp.signal import SIGNALS, WIRE, Signal
from spanscore.rpc import read_status

_MAX_ANSWER_BYTES = 64 * 2**10
_LEVEL = 1  # scores repeat themselves: higher levels cost a third more time and save a few bytes
_COMPRESSIONS: dict[str, tuple[Callable[[bytes], Any] | None, str]] = {
    "gzip": (partial(gzip.compress, compresslevel=_LEVEL), "gzip"),
    "deflate": (partial(zlib.compress, level=_LEVEL), "deflate"),  # HTTP's deflate is zlib's format
    "zlib": (partial(zlib.compress, level=_LEVEL), "deflate"),
    "zstd": (partial(cramjam.zstd.compress, level=_LEVEL), "zstd"),
    "snappy": (cramjam.snappy.compress_raw, "snappy"),
    "x-snappy-framed": (cramjam.snappy.compress, "x-snappy-framed"),
    "lz4": (partial(cramjam.lz4.compress, level=_LEVEL), "lz4"),
    "none": (None, ""),
}


class HttpExporter:
    """One session to one backend, opened with the first request."""

    def __init__(self, config: HttpConfig, authenticator: Authenticator | None = None) -> None:
        """Raises ConfigError where a file of the TLS settings cannot be used."""
        self._authenticator = authenticator
        self._tls = http_context(config.tls)
        self._server_name = config.tls.server_name_override
        self._compress, encoding = _COMPRESSIONS[config.compression]
        self._headers = {
            name.lower(): value.get_secret_value() for name, value in config.headers.items()
        }
        self._headers |= {"content-type": "application/x-protobuf"}
        self._headers |= {"content-encoding": encoding} if encoding else {}
        self._urls = {signal: _url(config, signal) for signal in SIGNALS}
        self._timeout = aiohttp.ClientTimeout(total=config.timeout / 1e9)
        self._session: aiohttp.ClientSession | None = None

    async def send(self, signal: Signal, body: bytes, headers: Headers = ()) -> str | None:
        """See `port.Exporter.send`."""
        if self._session is None:
            self._session = aiohttp.ClientSession(timeout=self._timeout, auto_decompress=True)
        data = (
            body if self._compress is None else bytes(await asyncio.to_thread(self._compress, body))
        )
        sent = applied(self._authenticator, self._headers, headers)
        try:
            async with self._session.post(
                self._urls[signal],
                data=data,
                headers=sent,
                ssl=self._tls.get(),
                server_hostname=self._server_name,
                allow_redirects=False,
            ) as response:
                answer = await _read(response)
        except aiohttp.ClientConnectorError as error:
            raise UndeliveredError(status.connection_problem(error)) from error
        except (aiohttp.ClientError, TimeoutError) as error:
            raise UndeliveredError(
                status.connection_problem(error), maybe_delivered=True
            ) from error
        if response.status // 100 != 2:
            retry_after = response.headers.get("Retry-After")
            raise status.http_error(
                response.status, retry_after, _reason(answer, response), datetime.now(UTC)
            )
        return _not_taken(signal, answer)

    async def close(self) -> None:
        """Close all connections."""
        if self._session is not None:
            await self._session.close()
            self._session = None


async def _read(response: aiohttp.ClientResponse) -> bytes:
    """The answer's body, as far as it is of a length to be read."""
    body = bytearray()
    async for chunk in response.content.iter_any():
        body += chunk
        if len(body) > _MAX_ANSWER_BYTES:
            break
    return bytes(body)


def _url(config: HttpConfig, signal: Signal) -> str:
    whole: str | None = getattr(config, f"{signal}_endpoint")
    return whole or config.endpoint.rstrip("/") + WIRE[signal].path


def _not_taken(signal: Signal, answer: bytes) -> str | None:
    """The message in the answer to a delivered request; one that is no OTLP has none."""
    try:
        return status.not_taken(signal, WIRE[signal].response.FromString(answer))
    except DecodeError:
        return None


def _reason(answer: bytes, response: aiohttp.ClientResponse) -> str:
    """The message of an error's body, as google.rpc.Status where it is one; else HTTP's own
    word.
    """
    if response.content_type == "application/x-protobuf":
        details = read_status(answer)
        if details is not None:
            return str(details.message)
    return response.reason or ""
