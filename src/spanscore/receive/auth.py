"""Who may send or ask: the bearer tokens of the servers, and what each permits."""

import hmac
import logging
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal, TypeAlias, cast, get_args

from spanscore.errors import ConfigError, RetryableError
from spanscore.model.headers import Headers
from spanscore.receive.config import BearerToken
from spanscore.watched import Watched

_log = logging.getLogger(__name__)

_LOOK_EVERY_S: Final = 10.0
_MAX_FILE_BYTES: Final = 2**20
_LINES: Final = "expected are lines of the form `TOKEN [scopes=read,write]`"


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


class ForbiddenError(UnauthenticatedError):
    """The request has a token that is known here and does not permit what is asked."""


Scope: TypeAlias = Literal["read", "write", "admin"]
"""What a token permits: `read` what is stored, `write` (send, evaluate, create, change, delete), `admin` all of it."""

SCOPES: Final[frozenset[Scope]] = frozenset(get_args(Scope))


@dataclass(frozen=True, slots=True)
class Token:
    """A known token, and what it permits."""

    text: bytes = field(repr=False)
    scopes: frozenset[Scope] = SCOPES

    def permits(self, scope: Scope) -> bool:
        """Whether it permits what needs this scope."""
        return scope in self.scopes or "admin" in self.scopes


class BearerTokens:
    """Knows the tokens of a `BearerToken`; those of a file as the file has them now."""

    def __init__(self, config: BearerToken, key: str) -> None:
        """Raises ConfigError, which names the configuration's `key`, where the file of tokens cannot be used."""
        self._config = config
        self._given = [x.get_secret_value() for x in (*([config.token] if config.token else []), *config.tokens)]
        files = [config.filename] if config.filename else []
        try:
            self._tokens = Watched(files, lambda: list(self._read()), every_s=_LOOK_EVERY_S)
        except (OSError, ValueError) as error:
            raise ConfigError(f"{key}.filename: {config.filename}: {error}; {_LINES}") from error

    def check(self, header: str | None, scope: Scope = "write") -> Token:
        """The token that a request shows in its header `authorization`, which must permit `scope`.

        Raises UnauthenticatedError, ForbiddenError where it is known and does not permit it, and RetryableError where
        the tokens cannot be read now: a sender must keep what it has until they can.
        """
        if header is None:
            raise UnauthenticatedError("no token: send it as the header `authorization: Bearer TOKEN`")
        given = header.removeprefix(f"{self._config.scheme} ").encode("utf-8", "surrogateescape")
        same = [x for x in self._known() if hmac.compare_digest(given, x.text)]  # all, so that time shows nothing
        if not same or not header.startswith(f"{self._config.scheme} "):
            raise UnauthenticatedError("this token is not known here")
        if not same[0].permits(scope):
            has = ", ".join(sorted(same[0].scopes))
            raise ForbiddenError(f"this token has the scope {has}, and this needs {scope}: show one that has it")
        return same[0]

    def __call__(self, given: Mapping[str, str], _received: Headers) -> dict[str, str]:
        """The headers of a request that leaves: those given, and the first of the tokens. Raises RetryableError."""
        return {**given, "authorization": f"{self._config.scheme} {self._known()[0].text.decode()}"}

    def _known(self) -> list[Token]:
        try:
            return self._tokens.get()
        except Exception as error:
            _log.exception("the tokens cannot be read")
            raise RetryableError("the tokens cannot be read now", why="authenticator") from error

    def _read(self) -> Iterator[Token]:
        """Each token once, the first line of it. Raises ValueError where a line is none."""
        known = {token.encode(): Token(token.encode()) for token in self._given}
        if self._config.filename is not None:
            for token in _read_lines(self._config.filename.read_bytes()):
                known.setdefault(token.text, token)
        yield from known.values()


def _read_lines(content: bytes) -> list[Token]:
    if len(content) > _MAX_FILE_BYTES:
        raise ValueError(f"larger than {_MAX_FILE_BYTES} bytes")
    lines = [(number, x.split()) for number, x in enumerate(content.splitlines(), start=1)]
    found = [_read_line(number, parts) for number, parts in lines if parts]
    if not found:
        raise ValueError("no token in it")
    return found


def _read_line(number: int, parts: list[bytes]) -> Token:
    token, *settings = parts
    if not settings:
        return Token(token)
    name, _, value = settings[0].decode("utf-8", "replace").partition("=")
    if name != "scopes" or not value or len(settings) > 1:
        raise ValueError(f"line {number}: after the token only scopes=… may stand, once")
    scopes = frozenset(value.split(","))
    if not scopes <= SCOPES:
        raise ValueError(f"line {number}: scopes are read, write and admin, with commas between them")
    return Token(token, cast("frozenset[Scope]", scopes))
