"""OTLP over HTTP, in protobuf."""

import asyncio
import gzip
import zlib
from collections.abc import Callable
from functools import partial
from typing import Any

import aiohttp
import cramjam
from google.protobuf.message import DecodeError

from spanscore.export import status
from spanscore.export.config import Authenticator, HttpConfig, applied
from spanscore.export.http import Http, refusal
from spanscore.model.span import Headers
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
        self._http = Http(config.timeout, config.tls, _MAX_ANSWER_BYTES)
        self.close = self._http.close
        self._compress, encoding = _COMPRESSIONS[config.compression]
        self._headers = {
            name.lower(): value.get_secret_value() for name, value in config.headers.items()
        }
        self._headers |= {"content-type": "application/x-protobuf"}
        self._headers |= {"content-encoding": encoding} if encoding else {}
        self._urls = {signal: _url(config, signal) for signal in SIGNALS}

    async def send(self, signal: Signal, body: bytes, headers: Headers = ()) -> str | None:
        """See `port.Exporter.send`."""
        data = (
            body if self._compress is None else bytes(await asyncio.to_thread(self._compress, body))
        )
        sent = applied(self._authenticator, self._headers, headers)
        response, answer = await self._http.ask("POST", self._urls[signal], data, sent)
        if response.status // 100 != 2:
            raise refusal(response, _reason(answer, response))
        return _not_taken(signal, answer)


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
