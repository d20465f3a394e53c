"""HTTP requests of exporters, tools and alerts, with their TLS; no error shows a secret."""

import ssl
import time
from collections.abc import Mapping
from typing import Any

import aiohttp

from spanscore.errors import ConfigError, PermanentError
from spanscore.export import status
from spanscore.export.config import Alertmanager, SinkSettings, Tls, Webhook
from spanscore.export.port import UndeliveredError
from spanscore.local_files import Watched
from spanscore.model.json import dumps, loads


class Http:
    """One session to one backend, opened with the first request."""

    def __init__(self, timeout_ns: int, tls: Tls, max_bytes: int) -> None:
        """Of an answer no more is read than about `max_bytes`.

        Raises ConfigError where a file of the TLS settings cannot be used.
        """
        self._tls = http_context(tls)
        self._server_name = tls.server_name_override
        self._timeout = aiohttp.ClientTimeout(total=timeout_ns / 1e9)
        self._max_bytes = max_bytes
        self._session: aiohttp.ClientSession | None = None

    async def ask(
        self, method: str, url: str, body: bytes | None, headers: Mapping[str, str]
    ) -> tuple[aiohttp.ClientResponse, bytes]:
        """The answer, whatever its status, and its content. Raises UndeliveredError."""
        if self._session is None:
            self._session = aiohttp.ClientSession(timeout=self._timeout)
        content = bytearray()
        try:
            async with self._session.request(
                method,
                url,
                data=body,
                headers=headers,
                ssl=self._tls.get(),
                server_hostname=self._server_name,
                allow_redirects=False,
            ) as response:
                async for chunk in response.content.iter_any():
                    content += chunk
                    if len(content) > self._max_bytes:
                        break
                return response, bytes(content)
        except (aiohttp.ClientError, TimeoutError) as error:
            raise UndeliveredError(
                status.connection_problem(error),
                maybe_delivered=not isinstance(error, aiohttp.ClientConnectorError),
            ) from error

    async def close(self) -> None:
        """Close all connections."""
        if self._session is not None:
            await self._session.close()
            self._session = None


def refusal(response: aiohttp.ClientResponse, text: str) -> UndeliveredError | PermanentError:
    """The error for an answer that is not 2xx; `text` is for people."""
    retry_after = response.headers.get("Retry-After")
    return status.http_error(response.status, retry_after, text, time.time_ns())


def http_context(tls: Tls) -> Watched[ssl.SSLContext | bool]:
    """What the newest files make. Raises ConfigError where they make nothing."""
    try:
        return Watched(tls.files, lambda: _read(tls), every_s=tls.reload_interval / 1e9)
    except OSError as error:  # ssl.SSLError is one as well
        message = f"{tls.ca_file or tls.cert_file}: cannot be used ({error})"
        raise ConfigError(f"{message}; see tls of the exporter") from error


def _read(tls: Tls) -> ssl.SSLContext | bool:
    if tls.insecure_skip_verify:
        return False
    context = ssl.create_default_context(cafile=tls.ca_file)
    if tls.cert_file is not None:
        context.load_cert_chain(tls.cert_file, tls.key_file)
    return context


_MAX_ANSWER_BYTES = 8 * 2**20
_MAX_ANSWER_CHARS = 500


class JsonApi:
    """One session to one tool, opened with the first request."""

    def __init__(self, config: SinkSettings, headers: Mapping[str, str] | None = None) -> None:
        """Raises ConfigError where a file of the TLS settings cannot be used."""
        self._url = config.endpoint.rstrip("/")
        self._http = Http(config.timeout, config.tls, _MAX_ANSWER_BYTES)
        self.close = self._http.close
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


def _answer_text(response: aiohttp.ClientResponse, text: str) -> str:
    """The content of an answer that took nothing: where it redirects to, else its text."""
    place = response.headers.get("Location") if response.status // 100 == 3 else None
    return f"it redirects to {place}" if place else " ".join(text.split())


def _parsed(text: str) -> Any:
    try:
        return loads(text)
    except ValueError:
        return text


_MAX_REFUSAL_BYTES = 500
_ALERTS = "/api/v2/alerts"


class Connection:
    """One session to one receiver, opened with the first alert."""

    def __init__(self, receiver: Alertmanager | Webhook) -> None:
        """Raises ConfigError where a file of the TLS settings cannot be used."""
        if isinstance(receiver, Alertmanager):
            self._url = receiver.endpoint.rstrip("/") + _ALERTS
        else:
            self._url = receiver.endpoint.get_secret_value()
        self._headers = {name: value.get_secret_value() for name, value in receiver.headers.items()}
        self._secrets = _secrets(receiver)
        self._http = Http(receiver.timeout, receiver.tls, _MAX_REFUSAL_BYTES)
        self.close = self._http.close

    async def send(self, body: bytes, headers: Mapping[str, str] | None = None) -> None:
        """Post a JSON `body`. Raises UndeliveredError or PermanentError where it is not taken."""
        given = {**self._headers, **(headers or {}), "Content-Type": "application/json"}
        try:
            response, answer = await self._http.ask("POST", self._url, body, given)
        except ValueError as error:
            raise _unusable(error) from None
        except UndeliveredError as error:
            if isinstance(error.__cause__, ValueError):  # aiohttp.InvalidURL, which quotes it
                raise _unusable(error.__cause__) from None
            message = self._without_secrets(str(error))
            raise UndeliveredError(message, maybe_delivered=error.maybe_delivered) from None
        if response.status // 100 != 2:
            text = " ".join(answer[:_MAX_REFUSAL_BYTES].decode(errors="replace").split())
            raise refusal(response, self._without_secrets(text))

    def _without_secrets(self, text: str) -> str:
        for secret in self._secrets:
            text = text.replace(secret, "[redacted]")
        return text


def _unusable(error: ValueError) -> PermanentError:
    return PermanentError(f"its endpoint or headers cannot be used ({type(error).__name__})")


def _secrets(receiver: Alertmanager | Webhook) -> list[str]:
    """What no message may contain, the longest first."""
    given = [x.get_secret_value() for x in receiver.headers.values()]
    if isinstance(receiver, Webhook):
        url = receiver.endpoint.get_secret_value()
        given += [url, *url.split("/", 3)[3:]]
        given += [receiver.secret.get_secret_value()] if receiver.secret else []
    parts = [word for text in given for word in (text, *text.split())]
    return sorted(
        {x for x in parts if len(x) > 3 and x.lower() not in {"bearer", "basic"}},
        key=len,
        reverse=True,
    )
