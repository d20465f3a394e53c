"""One alert's receiver, whose errors show nothing secret."""

from collections.abc import Mapping
from datetime import UTC, datetime

import aiohttp

from spanscore.errors import PermanentError
from spanscore.export import status
from spanscore.export.config import Alertmanager, Webhook
from spanscore.export.port import UndeliveredError
from spanscore.export.tls import http_context

_MAX_ANSWER_BYTES = 500
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
        self._tls = http_context(receiver.tls)
        self._timeout = aiohttp.ClientTimeout(total=receiver.timeout / 1e9)
        self._session: aiohttp.ClientSession | None = None

    async def send(self, body: bytes, headers: Mapping[str, str] | None = None) -> None:
        """Post a JSON `body`. Raises UndeliveredError or PermanentError where it is not taken."""
        if self._session is None:
            self._session = aiohttp.ClientSession(timeout=self._timeout)
        given = {**self._headers, **(headers or {}), "Content-Type": "application/json"}
        try:
            async with self._session.post(
                self._url, data=body, headers=given, ssl=self._tls.get(), allow_redirects=False
            ) as response:
                answer = await response.content.read(_MAX_ANSWER_BYTES)
        except (aiohttp.InvalidURL, ValueError) as error:
            raise PermanentError(
                f"its endpoint or headers cannot be used ({type(error).__name__})"
            ) from None
        except (aiohttp.ClientError, TimeoutError) as error:
            message = self._without_secrets(status.connection_problem(error))
            raise UndeliveredError(message, maybe_delivered=True) from None
        if response.status // 100 != 2:
            text = self._without_secrets(" ".join(answer.decode(errors="replace").split()))
            raise status.http_error(
                response.status, response.headers.get("Retry-After"), text, datetime.now(UTC)
            )

    async def close(self) -> None:
        """Close all connections."""
        if self._session is not None:
            await self._session.close()
            self._session = None

    def _without_secrets(self, text: str) -> str:
        for secret in self._secrets:
            text = text.replace(secret, "[redacted]")
        return text


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
