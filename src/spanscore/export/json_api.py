"""JSON requests to a tool's API."""

from collections.abc import Mapping
from typing import Any

import aiohttp

from spanscore.export.config import SinkSettings
from spanscore.export.http import Http, refusal
from spanscore.model.json import dumps, loads

_MAX_ANSWER_BYTES = 8 * 2**20
_MAX_ANSWER_CHARS = 500


class JsonApi:
    """One session to one tool, opened with the first request."""

    def __init__(self, config: SinkSettings, headers: Mapping[str, str] | None = None) -> None:
        """Raises ConfigError where a file of the TLS settings cannot be used."""
        self._url = config.endpoint.rstrip("/")
        self._http = Http(config.timeout, config.tls, _MAX_ANSWER_BYTES)
        self._headers = {name: value.get_secret_value() for name, value in config.headers.items()}
        self._headers = {**(headers or {}), **self._headers, "Content-Type": "application/json"}

    async def ask(
        self, method: str, path: str, body: Any = None, *, expected: tuple[int, ...] = ()
    ) -> tuple[int, Any]:
        """Status and body, parsed where it is JSON, else as text.

        Raises UndeliveredError or PermanentError for a status that is neither 2xx nor among
        `expected`.
        """
        data = None if body is None else dumps(body).encode()
        response, answer = await self._http.ask(method, self._url + path, data, self._headers)
        text = answer.decode(errors="replace")
        if response.status // 100 != 2 and response.status not in expected:
            raise refusal(
                response, f"{method} {path}: {_answer_text(response, text)[:_MAX_ANSWER_CHARS]}"
            )
        return response.status, _parsed(text)

    async def close(self) -> None:
        """Close all connections."""
        await self._http.close()


def _answer_text(response: aiohttp.ClientResponse, text: str) -> str:
    """The content of an answer that took nothing: where it redirects to, else its text."""
    place = response.headers.get("Location") if response.status // 100 == 3 else None
    return f"it redirects to {place}" if place else " ".join(text.split())


def _parsed(text: str) -> Any:
    try:
        return loads(text)
    except ValueError:
        return text
