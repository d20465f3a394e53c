"""Who may send: the bearer tokens of the receiving servers."""

import hmac
import logging
from collections.abc import Iterator, Mapping
from typing import Any, Final

from spanscore.errors import ConfigError, RetryableError
from spanscore.model.headers import Headers
from spanscore.receive.config import BearerToken
from spanscore.watched import Watched

_log = logging.getLogger(__name__)

_LOOK_EVERY_S: Final = 10.0
_MAX_FILE_BYTES: Final = 2**20


def open_authenticators(extensions: Mapping[str, Any]) -> dict[str, Any]:
    """What `extensions` configures, ready for use: those that need it read their files.

    Raises ConfigError where one cannot be used.
    """
    return {
        name: BearerTokens(x, f"extensions.{name}") if isinstance(x, BearerToken) else x
        for name, x in extensions.items()
    }


class UnauthenticatedError(Exception):
    """The request has no token, or none that is known here."""


class BearerTokens:
    """Knows the tokens of a `BearerToken`; those of a file as the file has them now."""

    def __init__(self, config: BearerToken, key: str) -> None:
        """Raises ConfigError, which names the configuration's `key`, where the file of tokens cannot be used."""
        self._config = config
        self._given = [x.get_secret_value() for x in (*([config.token] if config.token else []), *config.tokens)]
        files = [config.filename] if config.filename else []
        try:
            self._tokens = Watched(files, lambda: frozenset(self._read()), every_s=_LOOK_EVERY_S)
            self._first = Watched(files, lambda: next(self._read()), every_s=_LOOK_EVERY_S)
        except (OSError, ValueError) as error:
            raise ConfigError(f"{key}.filename: {config.filename}: {error}; one token a line is expected") from error

    def check(self, header: str | None) -> None:
        """Check the request header `authorization`. Raises UnauthenticatedError.

        RetryableError where the tokens cannot be told now: a sender must keep what it has until they can.
        """
        try:
            known = self._tokens.get()
        except Exception as error:
            _log.exception("the tokens cannot be told")
            raise RetryableError("who may send cannot be told now", why="authenticator") from error
        if header is None:
            raise UnauthenticatedError("no token: send it as the header `authorization: Bearer TOKEN`")
        given = header.removeprefix(f"{self._config.scheme} ").encode()
        same = [hmac.compare_digest(given, token) for token in known]  # all, so that time tells nothing
        if not any(same) or not header.startswith(f"{self._config.scheme} "):
            raise UnauthenticatedError("this token is not known here")

    def __call__(self, given: Mapping[str, str], _received: Headers) -> dict[str, str]:
        """The headers of a request that leaves: those given, and the first of the tokens. Raises RetryableError."""
        try:
            token = self._first.get()
        except Exception as error:
            _log.exception("the token cannot be told")
            raise RetryableError("the token cannot be told now", why="authenticator") from error
        return {**given, "authorization": f"{self._config.scheme} {token.decode()}"}

    def _read(self) -> Iterator[bytes]:
        for token in self._given:
            yield token.encode()
        if self._config.filename is not None:
            found = self._config.filename.read_bytes()
            if len(found) > _MAX_FILE_BYTES:
                raise ValueError(f"larger than {_MAX_FILE_BYTES} bytes")
            lines = [x.strip() for x in found.splitlines() if x.strip()]
            if not lines:
                raise ValueError("no token in it")
            yield from lines
