"""Requests to the query API of a backend: with its credentials, in time, sent again where that may
help, bounded.
"""

import asyncio
import base64
import errno
import json
import logging
import os
import random
import ssl
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any, Final

import aiohttp

from spanscore.errors import InputError, RetryableError
from spanscore.model.json import loads
from spanscore.sources.limits import MAX_TRACE_BYTES
from spanscore.sources.location import Connection

_log = logging.getLogger(__name__)

_MAX_WAIT_S: Final = 60.0
"""The longest wait that a backend may ask for."""

_FIRST_WAIT_S: Final = 0.5
_MAX_SHOWN_CHARS: Final = 300
_CHUNK_BYTES: Final = 2**16


@dataclass(frozen=True, slots=True)
class Answer:
    """What a backend answered; `is_cut`: it was longer than `max_bytes`, and `body` is its
    beginning.
    """

    status: int
    body: bytes
    content_type: str
    is_cut: bool = False

    def json(self) -> Any:
        """The body as JSON. Raises ValueError where it is none."""
        return loads(self.body)


class Http:
    """One session to one backend, opened with the first request; requests may run side by side."""

    def __init__(
        self,
        connection: Connection,
        backend: str,
        *,
        sleep: Callable[[float], Awaitable[object]] = asyncio.sleep,
        chance: Callable[[], float] = random.random,
    ) -> None:
        """`backend` names it in messages.

        Raises InputError where a file of the TLS options cannot be used.
        """
        self._connection = connection
        self._backend = backend
        self._sleep = sleep
        self._chance = chance
        self._tls = _tls(connection)
        self._headers = dict(connection.headers)
        if connection.user is not None:
            pair = f"{connection.user}:{connection.password or ''}".encode()
            self._headers["Authorization"] = f"Basic {base64.b64encode(pair).decode()}"
        self._session: aiohttp.ClientSession | None = None

    async def get(
        self,
        path: str,
        query: Mapping[str, Any] | None = None,
        *,
        headers: Mapping[str, str] | None = None,
        expected: tuple[int, ...] = (),
        max_bytes: int = MAX_TRACE_BYTES,
    ) -> Answer:
        """The answer to a GET; see `ask`."""
        return await self.ask(
            "GET", path, query=query, headers=headers, expected=expected, max_bytes=max_bytes
        )

    async def ask(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, Any] | None = None,
        body: Any = None,
        headers: Mapping[str, str] | None = None,
        expected: tuple[int, ...] = (),
        max_bytes: int = MAX_TRACE_BYTES,
    ) -> Answer:
        """The answer, once it is 2xx or `expected`; of one that is longer than `max_bytes` only the
        beginning.

        `body` is sent as JSON, text as it is. 429, 5xx and broken connections are tried again, as
        often as the connection says, after the wait that the backend asks for or longer and longer
        ones. Raises RetryableError when none of that helped, InputError for any other answer.
        """
        tries = self._connection.retries + 1
        for number in range(tries):
            try:
                return await self._once(method, path, query, body, headers, expected, max_bytes)
            except RetryableError as error:
                if number + 1 == tries:
                    tried = f" (tried {tries} times)" if tries > 1 else ""
                    raise RetryableError(f"{error}{tried}") from None
                wait_s = max(
                    error.retry_after_s, _FIRST_WAIT_S * 2**number * (0.5 + self._chance())
                )
                _log.info(
                    "%s; trying again in %.1f s (%d of %d tries done)",
                    error,
                    wait_s,
                    number + 1,
                    tries,
                )
                await self._sleep(wait_s)
        raise AssertionError("unreachable")

    async def close(self) -> None:
        """Close all connections."""
        if self._session is not None:
            await self._session.close()
            self._session = None

    async def _once(
        self,
        method: str,
        path: str,
        query: Mapping[str, Any] | None,
        body: Any,
        headers: Mapping[str, str] | None,
        expected: tuple[int, ...],
        max_bytes: int,
    ) -> Answer:
        if self._session is None:
            timeout = aiohttp.ClientTimeout(total=self._connection.timeout_s)
            self._session = aiohttp.ClientSession(timeout=timeout, headers=self._headers)
        sent = (
            {"data": body}
            if isinstance(body, str | bytes)
            else {"json": body}
            if body is not None
            else {}
        )
        try:
            async with self._session.request(
                method,
                self._connection.base_url + path,
                params=query,
                headers=headers,
                ssl=self._tls,
                allow_redirects=False,  # credentials go where the user said, and nowhere else
                **sent,
            ) as response:
                content, is_cut = await _read(response, max_bytes)
                found = Answer(response.status, content, response.content_type, is_cut)
                if response.status // 100 != 2 and response.status not in expected:
                    raise self._error(path, found, response.headers)
                return found
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            raise RetryableError(
                f"{self._where(path)}: {failure(error)}{_advice(error)}", retry_after_s=0
            ) from None

    def _where(self, path: str) -> str:
        return f"{self._backend} at {self._connection.base_url}{path}"

    def _error(self, path: str, answer: Answer, headers: Mapping[str, str]) -> Exception:
        answered = " ".join(answer.body[: _MAX_SHOWN_CHARS * 2].decode(errors="replace").split())[
            :_MAX_SHOWN_CHARS
        ]
        what = (
            f"{self._where(path)} answered HTTP {answer.status}{': ' if answered else ''}{answered}"
        )
        if answer.status == 429 or (answer.status // 100 == 5 and answer.status != 501):
            wait_s = _retry_after_s(headers.get("Retry-After"), datetime.now(UTC))
            return RetryableError(what, retry_after_s=min(wait_s, _MAX_WAIT_S))
        hint = {
            301: f"it redirects to {headers.get('Location', 'another place')}; give that one",
            401: (
                "give its credentials: user:password@ or token=, such as token=${env:TOKEN}, or"
                " header.NAME"
            ),
            403: "these credentials may not read it",
            404: "is this the address of its query API?",
        }
        hint_text = hint[301] if answer.status // 100 == 3 else hint.get(answer.status, "")
        return InputError(f"{what}{'; ' if hint_text else ''}{hint_text}")


async def _read(response: aiohttp.ClientResponse, max_bytes: int) -> tuple[bytes, bool]:
    body = bytearray()
    async for chunk in response.content.iter_chunked(_CHUNK_BYTES):
        body += chunk
        if len(body) > max_bytes:
            del body[max_bytes:]
            return bytes(body), True
    return bytes(body), False


def _tls(connection: Connection) -> ssl.SSLContext | bool:
    if connection.insecure_skip_verify:
        return False
    try:
        context = ssl.create_default_context(cafile=connection.ca_file)
        if connection.cert_file is not None:
            context.load_cert_chain(connection.cert_file, connection.key_file)
    except OSError as error:  # ssl.SSLError is one as well
        raise InputError(
            f"{connection.ca_file or connection.cert_file}: cannot be used for TLS ({error})"
        ) from None
    return context


def failure(error: Exception) -> str:
    """Why there is no answer, for a person, without how the HTTP client prints its TLS settings."""
    if isinstance(error, TimeoutError):
        return "no answer in time"
    if isinstance(error, aiohttp.ClientConnectorCertificateError):
        cause = error.certificate_error
        reason = getattr(cause, "verify_message", "") or cause
        return f"the certificate of {error.host}:{error.port} is not trusted ({reason})"
    if isinstance(error, aiohttp.ClientConnectorSSLError):
        return f"cannot connect to {error.host}:{error.port} by TLS ({_cause(error.os_error)})"
    if isinstance(error, aiohttp.ClientConnectorError):
        return f"cannot connect to {error.host}:{error.port} ({_cause(error.os_error)})"
    return str(error) or type(error).__name__


def _advice(error: Exception) -> str:
    if isinstance(error, TimeoutError):
        return "; a longer time can be given as timeout=2m"
    if isinstance(error, aiohttp.ClientConnectorError) and isinstance(
        error.os_error, ConnectionRefusedError
    ):
        return "; is it running there, and is this the port of its query API?"
    if isinstance(error, aiohttp.ClientConnectorCertificateError):
        return "; give ca_file=PATH of the authority that signed it"
    if isinstance(error, aiohttp.ClientConnectorSSLError):
        return "; where it listens for plain HTTP, leave out +https"
    return ""


def _cause(error: OSError) -> str:
    """What the operating system or OpenSSL says, without the address that the message has
    already.
    """
    if isinstance(error, ConnectionRefusedError):
        return os.strerror(error.errno or errno.ECONNREFUSED)
    return error.strerror or str(error) or type(error).__name__


def _retry_after_s(header: str | None, now: datetime) -> float:
    if header is None:
        return 0.0
    if header.strip().isdecimal():
        return float(header)
    try:
        date = parsedate_to_datetime(header)
    except ValueError:
        return 0.0
    return max(0.0, ((date if date.tzinfo else date.replace(tzinfo=UTC)) - now).total_seconds())


def as_json(value: Any) -> str:
    """A value as a parameter of a URL has it."""
    return json.dumps(value, separators=(",", ":"))
