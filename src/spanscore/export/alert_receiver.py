"""One alert's receiver, whose errors show nothing secret."""

from collections.abc import Mapping

from spanscore.errors import PermanentError
from spanscore.export.config import Alertmanager, Webhook
from spanscore.export.http import Http, refusal
from spanscore.export.port import UndeliveredError

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
        self._http = Http(receiver.timeout, receiver.tls, _MAX_ANSWER_BYTES)

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
            text = " ".join(answer[:_MAX_ANSWER_BYTES].decode(errors="replace").split())
            raise refusal(response, self._without_secrets(text))

    async def close(self) -> None:
        """Close all connections."""
        await self._http.close()

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
