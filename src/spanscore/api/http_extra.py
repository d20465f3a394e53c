"""Whether the services are there over HTTP too: connectrpc and uvicorn are an extra."""

import logging
from importlib.util import find_spec

from spanscore.api.http_listening import HttpListener
from spanscore.api.server import Server, warn_of_exposure
from spanscore.config import Api, ApiHttp
from spanscore.errors import ConfigError

_log = logging.getLogger(__name__)

_INSTALL = "pip install 'spanscore[api]'"


async def start(config: Api, server: Server) -> HttpListener | None:
    """Serve what `server` does over HTTP as well, as `api.http` has it; None where it is not
    served.

    Raises ConfigError where `api.http` is set and cannot be as it is.
    """
    wanted = config.http or ApiHttp()
    if not wanted.enabled:
        return None
    if any(find_spec(name) is None for name in ("connectrpc", "uvicorn")):
        if config.http is not None:
            raise ConfigError(
                f"api.http needs packages that are not installed: {_INSTALL}, or leave it out"
            )
        _log.info("the API is there over gRPC alone; over HTTP with %s", _INSTALL)
        return None
    warn_of_exposure(
        "api.http",
        wanted.endpoint,
        has_auth=config.auth is not None,
        has_tls=wanted.tls is not None,
    )
    made = HttpListener(wanted, lambda: server.servicers, server.caller)
    try:
        await made.start()
    except ConfigError as error:
        if config.http is not None:
            raise
        _log.info("the API is there over gRPC alone: %s; set api.http.endpoint", error)
        return None
    return made
