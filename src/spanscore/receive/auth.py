"""Tokens, and the tenants they are for."""

import hmac
import logging
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any, Final, Literal, TypeAlias, cast, get_args

from pydantic import AfterValidator, Field

from spanscore.errors import ConfigError, RetryableError
from spanscore.local_files import Watched
from spanscore.model.options import Options
from spanscore.model.span import Headers, tenant_problem
from spanscore.receive.config import BearerToken

_log = logging.getLogger(__name__)

_LOOK_EVERY_S: Final = 10.0
_MAX_FILE_BYTES: Final = 2**20
_SHOWN_CHARS: Final = 40
_COMMENT: Final = b"#"
_NO_TENANTS: Final = (
    "tenant=… needs `tenancy.enabled: true` in the configuration; without it all tokens would reach"
    " the same traces"
)
_TWICE: Final = "this token is given before, with other scopes or another tenant; give it once"
_LINES: Final = "expected are lines of the form `TOKEN [scopes=read,write] [tenant=acme]`"


def open_authenticators(
    extensions: Mapping[str, Any], *, has_tenants: bool = False
) -> dict[str, Any]:
    """What `extensions` configures, ready for use: those that need it read their files.

    Raises ConfigError where one cannot be used: also where a token names a tenant and the server
    has none.
    """
    return {
        name: (
            BearerTokens(x, f"extensions.{name}", has_tenants=has_tenants)
            if isinstance(x, BearerToken)
            else x
        )
        for name, x in extensions.items()
    }


class UnauthenticatedError(Exception):
    """The request has no token, or none that is known here."""


class ForbiddenError(UnauthenticatedError):
    """The request has a token that is known here and does not permit what it requests."""


Scope: TypeAlias = Literal["read", "write", "admin"]
"""What a token permits: `read` what is stored, `write` (send, evaluate, create, change, delete),
`admin` all of it.
"""

SCOPES: Final[frozenset[Scope]] = frozenset(get_args(Scope))


@dataclass(frozen=True, slots=True)
class Token:
    """A known token, and what it permits; without a `tenant` for each that a request names."""

    text: bytes = field(repr=False)
    scopes: frozenset[Scope] = SCOPES
    tenant: str | None = None

    def permits(self, scope: Scope) -> bool:
        """Whether it permits what needs this scope."""
        return scope in self.scopes or "admin" in self.scopes


class BearerTokens:
    """Knows the tokens of a `BearerToken`; those of a file as the file has them now."""

    def __init__(self, config: BearerToken, key: str, *, has_tenants: bool = False) -> None:
        """Raises ConfigError, which names the configuration's `key`, where the file of tokens
        cannot be used.
        """
        self._config = config
        self._has_tenants = has_tenants
        self._given = [
            x.get_secret_value()
            for x in (*([config.token] if config.token else []), *config.tokens)
        ]
        files = [config.filename] if config.filename else []
        try:
            self._tokens = Watched(files, lambda: list(self._read()), every_s=_LOOK_EVERY_S)
        except (OSError, ValueError) as error:
            why = (error.strerror if isinstance(error, OSError) else None) or error
            raise ConfigError(f"{key}.filename: {config.filename}: {why}; {_LINES}") from error

    def check(self, headers: Sequence[str], scope: Scope = "write") -> Token:
        """The token that a request shows in its header `authorization`, which must permit `scope`.

        `headers` has each value of that header: with several, a proxy may have checked another one
        than is read here. Raises UnauthenticatedError, ForbiddenError where it is known and does
        not permit it, and RetryableError where the tokens cannot be read now: a sender must keep
        what it has until they can.
        """
        if not headers:
            raise UnauthenticatedError(
                "no token: send it as the header `authorization: Bearer TOKEN`"
            )
        if len(headers) > 1:
            raise UnauthenticatedError("several headers `authorization`: send one, with one token")
        header = headers[0]
        given = header.removeprefix(f"{self._config.scheme} ").encode("utf-8", "surrogateescape")
        # all, so that time shows nothing
        same = [x for x in self._known() if hmac.compare_digest(given, x.text)]
        if not same or not header.startswith(f"{self._config.scheme} "):
            raise UnauthenticatedError("this token is not known here")
        if not same[0].permits(scope):
            has = ", ".join(sorted(same[0].scopes))
            raise ForbiddenError(
                f"this token has the scope {has}, and this needs {scope}: show one that has it"
            )
        return same[0]

    @property
    def shown(self) -> Token:
        """The token that a request shows as it leaves: the first. Raises RetryableError."""
        return self._known()[0]

    def __call__(self, given: Mapping[str, str], _received: Headers) -> dict[str, str]:
        """The headers of a request that leaves: those given, and the first of the tokens.

        Raises RetryableError.
        """
        return {**given, "authorization": f"{self._config.scheme} {self.shown.text.decode()}"}

    def _known(self) -> list[Token]:
        try:
            return self._tokens.get()
        except Exception as error:
            _log.exception("the tokens cannot be read")
            raise RetryableError("the tokens cannot be read now", why="authenticator") from error

    def _read(self) -> Iterator[Token]:
        """Each token once.

        Raises ValueError where a line is none, or gives a token a second time and otherwise.
        """
        known = {token.encode(): Token(token.encode()) for token in self._given}
        if self._config.filename is not None:
            for number, token in _read_lines(self._config.filename.read_bytes()):
                if token.tenant is not None and not self._has_tenants:
                    raise ValueError(f"line {number}: {_NO_TENANTS}")
                if known.setdefault(token.text, token) != token:
                    raise ValueError(f"line {number}: {_TWICE}")
        yield from known.values()


def _read_lines(content: bytes) -> list[tuple[int, Token]]:
    """The tokens of a file with the numbers of their lines. Raises ValueError."""
    if len(content) > _MAX_FILE_BYTES:
        raise ValueError(f"larger than {_MAX_FILE_BYTES} bytes")
    lines = [(number, x.split()) for number, x in enumerate(content.splitlines(), start=1)]
    found = [
        (number, _read_line(number, parts))
        for number, parts in lines
        if parts and parts[0][:1] != _COMMENT
    ]
    if not found:
        raise ValueError("no token in it")
    return found


def _read_line(number: int, parts: list[bytes]) -> Token:
    text, *settings = parts
    given: dict[str, str] = {}
    for setting in settings:
        name, _, value = setting.decode("utf-8", "replace").partition("=")
        if name not in {"scopes", "tenant"} or not value or name in given:
            raise ValueError(
                f"line {number}: after the token only scopes=… and tenant=… may stand, each once"
            )
        given[name] = value
    if "tenant" in given and (problem := tenant_problem(given["tenant"])):
        raise ValueError(f"line {number}: tenant={given['tenant'][:_SHOWN_CHARS]}: {problem}")
    return Token(text, _scopes(number, given.get("scopes")), given.get("tenant"))


def _scopes(number: int, given: str | None) -> frozenset[Scope]:
    if given is None:
        return SCOPES
    scopes = frozenset(given.split(","))
    if not scopes <= SCOPES:
        raise ValueError(
            f"line {number}: scopes are read, write and admin, with commas between them"
        )
    return cast("frozenset[Scope]", scopes)


class NoTenantError(UnauthenticatedError):
    """The request names no tenant, or none that there can be."""


class OtherTenantError(ForbiddenError):
    """The request names another tenant than the one that its token is for."""


def _tenant(name: str) -> str:
    if problem := tenant_problem(name):
        raise ValueError(f"{name!r}: {problem}")
    return name


def _header(name: str) -> str:
    if name.lower().endswith("-bin"):
        raise ValueError(
            f"{name}: gRPC gives headers that end in -bin as bytes, and a tenant is text; name"
            " another"
        )
    return name.lower()


class Config(Options):
    """Keeping the tenants of one server apart: nobody sees, joins or changes what another one
    sent.
    """

    enabled: bool = False
    """Whether each request is of a tenant.

    Not enabled: all are of one, whatever their headers are.
    """

    header: Annotated[str, Field(pattern="^[A-Za-z0-9_.-]+$"), AfterValidator(_header)] = (
        "x-scope-orgid"
    )
    """The header, or gRPC metadata, that names the tenant of a request. Where the request's token
    is one tenant's (`tenant=` in the file of `bearertokenauth`), that token decides, and a header
    that names another is refused. A name that ends in `-bin` is refused: gRPC gives such headers as
    bytes.
    """

    default: Annotated[str, AfterValidator(_tenant)] | None = None
    """The tenant of a request that names none.

    Not set: such a request is refused (UNAUTHENTICATED, 401).
    """


class Tenancy:
    """Decides for each request which tenant it is of."""

    def __init__(self, config: Config) -> None:
        self._config = config

    @property
    def is_enabled(self) -> bool:
        """Whether there are tenants."""
        return self._config.enabled

    @property
    def header(self) -> str:
        """The name, in lower case, of the header that may name the tenant."""
        return self._config.header

    def of(self, token: Token | None, named: Sequence[str | bytes]) -> str:
        """The tenant of a request with this token, if it has one, and these values of the header;
        "" without tenants.

        Raises NoTenantError where there is none, or more than one, and OtherTenantError where they
        differ.
        """
        if not self._config.enabled:
            return ""
        from_header = self._named(named)
        from_token = None if token is None else token.tenant
        if from_token is not None and from_header not in {None, from_token}:
            raise OtherTenantError(
                f"this token is of another tenant than the header {self.header} names: leave the"
                " header out"
            )
        found = from_token or from_header or self._config.default
        if found is None:
            raise NoTenantError(
                f"no tenant: name one in the header {self.header}, or show a tenant's token"
            )
        return found

    def _named(self, values: Sequence[str | bytes]) -> str | None:
        """The tenant that the header names; None where the request has no such header."""
        names = {x.decode("latin-1") if isinstance(x, bytes) else x for x in values}
        if len(names) > 1:
            raise NoTenantError(f"the header {self.header} names several tenants: send it once")
        name = next(iter(names), None)
        if name is not None and (problem := tenant_problem(name)):
            raise NoTenantError(f"the header {self.header}: {name[:_SHOWN_CHARS]!r}: {problem}")
        return name
