"""HTTP requests of exporters, with their TLS."""

import ssl
import time
from collections.abc import Mapping

import aiohttp

from spanscore.errors import ConfigError, PermanentError
from spanscore.export import status
from spanscore.export.config import Tls
from spanscore.export.port import UndeliveredError
from spanscore.local_files import Watched


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
