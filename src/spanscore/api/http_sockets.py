"""Sockets, certificates and bounds of the API over HTTP."""

import socket
import ssl
from typing import Final

from spanscore.config import ApiHttp
from spanscore.errors import ConfigError
from spanscore.receive.config import split_endpoint
from spanscore.receive.tls import http_context

_BACKLOG: Final = 512
MAX_REQUEST_BYTES: Final = 4 * 2**20
"""A larger request is refused."""

PAGE: Final = "/ui/"
"""The path of the page that people open in a browser."""


def tls_context(config: ApiHttp) -> ssl.SSLContext | None:
    """The context of the server; None without TLS.

    Raises ConfigError where a certificate cannot be used.
    """
    return None if config.tls is None else http_context(config.tls, "api.http.tls")


def bind(endpoint: str) -> socket.socket:
    """A socket that listens. Raises ConfigError where the endpoint cannot be bound."""
    host, port = split_endpoint(endpoint)
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM
        )[0]
        bound = socket.socket(family, kind, protocol)
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        bound.bind(address)
        bound.listen(_BACKLOG)
        bound.setblocking(False)  # noqa: FBT003 - it has no name
    except OSError as error:
        why = error.strerror or error
        raise ConfigError(
            f"api.http.endpoint: cannot listen on {endpoint} ({why}); is something else listening"
            " there?"
        ) from error
    return bound
