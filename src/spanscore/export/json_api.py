"""JSON requests to a tool's API."""

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

import aiohttp

from spanscore.export import status
from spanscore.export.config import SinkSettings
from spanscore.export.port import UndeliveredError
from spanscore.export.tls import http_context
from spanscore.model.json import dumps, loads

_MAX_ANSWER_BYTES = 8 * 2**20
_MAX_ANSWER_CHARS = 500


class JsonApi:
    """One session to one tool, opened with the first request."""

    def __init__(self, config: SinkSettings, headers: Mapping[str, str] | None = None) -> None:
        """Raises ConfigError where a file of the TLS settings cannot be used."""
        self._url = config.endpoint.rstrip("/")
        self._tls = http_context(config.tls)
        self._headers = {name: value.get_secret_value() for name, value in config.headers.items()}
        self._headers = {**(headers or {}), **self._headers, "Content-Type": "application/json"}
        self._timeout = aiohttp.ClientTimeout(total=config.timeout / 1e9)
        self._session: aiohttp.ClientSession | None = None

    async def ask(
        self, method: str, path: str, body: Any = None, *, expected: tuple[int, ...] = ()
    ) -> tuple[int, Any]:
        """Status and body, parsed where it is JSON, else as text.

        Raises UndeliveredError or PermanentError for a status that is neither 2xx nor among
        `expected`.
        """
        if self._session is None:
            self._session = aiohttp.ClientSession(timeout=self._timeout)
        data = None if body is None else dumps(body)
        try:
            async with self._session.request(
                method,
                self._url + path,
                data=data,
                headers=self._headers,
                ssl=self._tls.get(),
                allow_redirects=False,
            ) as response:
                text = await _read(response)
        except (aiohttp.ClientError, TimeoutError) as error:
            raise UndeliveredError(
                status.connection_problem(error), maybe_delivered=True
            ) from error
        if response.status // 100 != 2 and response.status not in expected:
            retry_after = response.headers.get("Retry-After")
            message = f"{method} {path}: {_answer_text(response, text)[:_MAX_ANSWER_CHARS]}"
            raise status.http_error(response.status, retry_after, message, datetime.now(UTC))
        return response.status, _parsed(text)

    async def close(self) -> None:
        """Close all connections."""
        if self._session is not None:
            await self._session.close()
            self._session = None


async def _read(response: aiohttp.ClientResponse) -> str:
    body = bytearray()
    async for chunk in response.content.iter_any():
        body += chunk
        if len(body) > _MAX_ANSWER_BYTES:
            break
    return body.decode(errors="replace")


def _answer_text(response: aiohttp.ClientResponse, text: str) -> str:
    """The content of an answer that took nothing: where it redirects to, else its text."""
    place = response.headers.get("Location") if response.status // 100 == 3 else None
    return f"it redirects to {place}" if place else " ".join(text.split())


def _parsed(text: str) -> Any:
    try:
        return loads(text)
    except ValueError:
        return text
