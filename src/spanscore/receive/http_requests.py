"""OTLP requests over HTTP."""

import asyncio
import logging
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final

import cramjam
from aiohttp import web
from aiohttp.client_exceptions import ClientPayloadError
from aiohttp.http_exceptions import HttpProcessingError
from google.protobuf.message import Message

from spanscore.errors import PermanentError, RetryableError
from spanscore.lazy_imports import np
from spanscore.model.json import dumps
from spanscore.model.span import TENANT, Headers, chosen_headers
from spanscore.otlp import codec
from spanscore.otlp.signal import WIRE, Signal
from spanscore.receive import status
from spanscore.receive.auth import BearerTokens, Tenancy, UnauthenticatedError
from spanscore.receive.config import Http
from spanscore.receive.connections import Connections
from spanscore.receive.exports import Arrival, Exports

_log = logging.getLogger(__name__)

_PROTOBUF: Final = "application/x-protobuf"
_JSON: Final = "application/json"
_SIGNALS: Final[dict[str, Signal]] = {wire.path: signal for signal, wire in WIRE.items()}
_PLAIN: Final = "identity"
_NS_PER_S: Final = 10**9

_SMALL_BODY_BYTES: Final = 64 * 2**10
_SMALL_PLAIN_BYTES: Final = 2**20
"""Up to these sizes, as sent and decompressed, a body is decompressed in the event loop; above them
in a thread.
"""


class _RefusedError(Exception):
    """The request is wrong as HTTP, before any OTLP is read."""

    def __init__(self, http_status: int, message: str) -> None:
        super().__init__(message)
        self.http_status = http_status


class HttpRequests:
    """Answers the requests on the export paths; see `server.HttpServer`."""

    def __init__(
        self,
        config: Http,
        exports: Exports,
        tenancy: Tenancy,
        tokens: BearerTokens | None,
        headers: frozenset[str],
        connections: Connections,
    ) -> None:
        """`connections` are those on which requests come."""
        self._config = config
        self._exports = exports
        self._tenancy = tenancy
        self._tokens = tokens
        self._connections = connections
        self._included_headers = headers if config.include_metadata else frozenset()

    async def handle(self, request: web.BaseRequest) -> web.StreamResponse:
        """Answer one request."""
        try:
            signal, as_json = _checked(request)
        except _RefusedError as error:
            if request.path in _SIGNALS:
                self._exports.refused("http", _SIGNALS[request.path], error, "not_otlp")
            allow = {"Allow": "POST"} if error.http_status == 405 else None
            return web.Response(status=error.http_status, text=f"{error}\n", headers=allow)
        try:
            headers = self._headers(request)
            response = await self._export(request, signal, headers, as_json=as_json)
        except UnauthenticatedError as error:
            self._exports.refused("http", signal, error)
            return web.Response(
                status=401, text=f"{error}\n", headers={"WWW-Authenticate": "Bearer"}
            )
        except _RefusedError as error:
            self._exports.refused(
                "http", signal, error, "too_large" if error.http_status == 413 else "malformed"
            )
            refused = status.answer(PermanentError(str(error)))
            return _refusal(refused, as_json, http_status=error.http_status)
        except (RetryableError, PermanentError) as error:
            self._exports.refused("http", signal, error)
            return _refusal(status.answer(error), as_json)
        except Exception as error:  # noqa: BLE001 - aiohttp makes it a 500, on which clients drop data
            _log.exception("%s: an HTTP request failed", signal)
            self._exports.refused("http", signal, error)
            return _refusal(status.answer(error), as_json)
        return _response(200, codec.encode(response) if as_json else response.SerializeToString())

    def _headers(self, request: web.BaseRequest) -> Headers:
        """The headers that are kept with a request, and whose it is.

        Raises UnauthenticatedError, RetryableError.
        """
        token = (
            None
            if self._tokens is None
            else self._tokens.check(request.headers.getall("Authorization", ()))
        )
        tenant = self._tenancy.of(token, request.headers.getall(self._tenancy.header, ()))
        included = (
            chosen_headers(request.headers.items(), self._included_headers)
            if self._included_headers
            else ()
        )
        return ((TENANT, tenant), *included) if tenant else included

    async def _export(
        self, request: web.BaseRequest, signal: Signal, headers: Headers, *, as_json: bool
    ) -> Message:
        deadline = asyncio.timeout(self._config.read_timeout / _NS_PER_S)
        with self._exports.arriving(deadline) as arrival:
            body = await self._body(request, deadline, arrival)
            arrival.complete(len(body))
            with self._exports.working(), self._busy(request):
                return await self._exports.export(
                    signal, body, transport="http", as_json=as_json, headers=headers
                )

    @contextmanager
    def _busy(self, request: web.BaseRequest) -> Iterator[None]:
        """While a request is worked on, its connection is not closed for another."""
        self._connections.working(request.protocol)
        try:
            yield
        finally:
            self._connections.answered(request.protocol)

    async def _body(
        self, request: web.BaseRequest, deadline: asyncio.Timeout, arrival: Arrival
    ) -> bytes:
        """The request's body, decompressed."""
        max_bytes = self._config.max_request_body_size
        try:
            async with deadline:
                body = await _read(request, max_bytes, arrival)
        except (ClientPayloadError, HttpProcessingError, ConnectionError) as error:
            raise _RefusedError(
                400, f"the body of the request ended early or is wrongly chunked: {error}"
            ) from None
        encoding = _encoding(request)
        if encoding == _PLAIN:
            return body
        try:
            plain = await self._decompressed(encoding, body, arrival)
        except ValueError as error:
            raise _RefusedError(
                400, f"the body of the request cannot be decompressed: {error}"
            ) from None
        if plain is None:
            raise _too_large(max_bytes)
        return plain

    async def _decompressed(self, encoding: str, body: bytes, arrival: Arrival) -> bytes | None:
        max_bytes = self._config.max_request_body_size
        if len(body) <= _SMALL_BODY_BYTES:
            plain = decompress(encoding, body, min(max_bytes, _SMALL_PLAIN_BYTES))
            if plain is not None:
                return plain
        arrival.grow(len(body) + max_bytes)
        return await asyncio.to_thread(decompress, encoding, body, max_bytes)


def _checked(request: web.BaseRequest) -> tuple[Signal, bool]:
    """The signal of a request, and whether it is JSON.

    Raises _RefusedError on what no OTLP client sends.
    """
    signal = _SIGNALS.get(request.path)
    if signal is None:
        raise _RefusedError(404, f"nothing is here: OTLP is taken at {', '.join(_SIGNALS)}")
    if request.method != "POST":
        raise _RefusedError(405, f"{request.method} is not for {request.path}: send OTLP with POST")
    if request.content_type not in (_PROTOBUF, _JSON):
        raise _RefusedError(
            415, f"Content-Type {request.content_type} is not OTLP: use {_PROTOBUF} or {_JSON}"
        )
    encoding = _encoding(request)
    if encoding != _PLAIN and encoding not in ENCODINGS:
        known = ", ".join(ENCODINGS)
        raise _RefusedError(
            415,
            f"Content-Encoding {encoding[:50]!r} is not known here: use one of {known}, or none",
        )
    return signal, request.content_type == _JSON


def _encoding(request: web.BaseRequest) -> str:
    return request.headers.get("Content-Encoding", _PLAIN).strip().lower() or _PLAIN


async def _read(request: web.BaseRequest, max_bytes: int, arrival: Arrival) -> bytes:
    if (request.content_length or 0) > max_bytes:
        raise _too_large(max_bytes)
    body = bytearray()
    async for chunk in request.content.iter_any():
        body += chunk
        arrival.grow(len(body))
        if len(body) > max_bytes:
            raise _too_large(max_bytes)
    return bytes(body)


def _too_large(max_bytes: int) -> _RefusedError:
    return _RefusedError(
        413, f"the body of the request has more than {max_bytes} bytes: send smaller batches"
    )


def _refusal(
    answer: status.Answer, as_json: bool, *, http_status: int | None = None
) -> web.Response:
    body = dumps(answer.status_object()) if as_json else answer.status()
    return _response(http_status or answer.http_status, body, answer.headers)


def _response(
    http_status: int, body: str | bytes, headers: dict[str, str] | None = None
) -> web.Response:
    if isinstance(body, str):
        return web.Response(status=http_status, text=body, content_type=_JSON, headers=headers)
    return web.Response(status=http_status, body=body, content_type=_PROTOBUF, headers=headers)


_ZLIB_OR_GZIP: Final = 47  # zlib's window bits for: either header, found by itself
_MAX_MEMBERS: Final = 16
"""Streams that a gzip body may be strung together from.

Clients send one; each costs a copy of those after it.
"""

_FRAMED_SNAPPY: Final = b"\xff\x06\x00\x00sNaPpY"
_NO_ROOM: Final = "failed to write whole buffer"
"""What Rust's `write_all` says when the buffer is full, in the words that cramjam passes on."""


def decompress(encoding: str, body: bytes, max_bytes: int) -> bytes | None:
    """`body` without its compression; None where that has more than `max_bytes`, however small it
    came.

    Raises ValueError on what was not compressed so, or is cut; KeyError on an `encoding` that is
    not in `ENCODINGS`.
    """
    undo = ENCODINGS[encoding]
    return undo(body, max_bytes) if body else b""


def _inflate(body: bytes, max_bytes: int) -> bytes | None:
    """Of gzip or zlib, whatever was announced: clients mix them up."""
    parts: list[bytes] = []
    room = max_bytes
    for _ in range(_MAX_MEMBERS):
        if not body:
            return b"".join(parts)
        stream = zlib.decompressobj(_ZLIB_OR_GZIP)
        try:
            part = stream.decompress(body, room + 1)
        except zlib.error as error:
            raise ValueError(str(error)) from error
        if len(part) > room:
            return None
        if not stream.eof:
            raise ValueError("the compressed data end too early")
        parts.append(part)
        room -= len(part)
        body = stream.unused_data
    raise ValueError(f"more than {_MAX_MEMBERS} compressed streams in one body")


def _zstd(body: bytes, max_bytes: int) -> bytes | None:
    return _filled(cramjam.zstd.decompress_into, body, max_bytes)


def _lz4(body: bytes, max_bytes: int) -> bytes | None:
    return _filled(cramjam.lz4.decompress_into, body, max_bytes)


def _snappy(body: bytes, max_bytes: int) -> bytes | None:
    """Of either format: collectors before 0.125 frame what they call snappy."""
    if body.startswith(_FRAMED_SNAPPY):
        return _filled(cramjam.snappy.decompress_into, body, max_bytes)
    try:
        is_too_large = cramjam.snappy.decompress_raw_len(body) > max_bytes
    except cramjam.DecompressionError as error:
        raise ValueError(str(error)) from error
    return None if is_too_large else _filled(cramjam.snappy.decompress_raw_into, body, max_bytes)


def _filled(
    decompress_into: Callable[[bytes, Any], int], body: bytes, max_bytes: int
) -> bytes | None:
    room = np.empty(max_bytes, np.uint8)  # memory that is not written to is only promised
    try:
        length = decompress_into(body, room)
    except cramjam.DecompressionError as error:
        if _NO_ROOM in str(error):
            return None
        raise ValueError(str(error)) from error
    return room[:length].tobytes()


ENCODINGS: Final[dict[str, Callable[[bytes, int], bytes | None]]] = {
    "gzip": _inflate,
    "deflate": _inflate,
    "zlib": _inflate,
    "zstd": _zstd,
    "snappy": _snappy,
    "x-snappy-framed": _snappy,
    "lz4": _lz4,
}
"""How to undo each Content-Encoding that is taken: those of a collector's HTTP receiver."""
