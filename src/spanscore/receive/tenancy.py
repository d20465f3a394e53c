"""Which tenant a request is of: its token decides, else its header, else the configuration's
default.
"""

from collections.abc import Sequence
from typing import Annotated, Final

from pydantic import AfterValidator, Field

from spanscore.model import tenant
from spanscore.model.options import Options
from spanscore.receive.auth import ForbiddenError, Token, UnauthenticatedError

_SHOWN_CHARS: Final = 40


class NoTenantError(UnauthenticatedError):
    """The request names no tenant, or none that there can be."""


class OtherTenantError(ForbiddenError):
    """The request names another tenant than the one that its token is for."""


def _tenant(name: str) -> str:
    if problem := tenant.problem(name):
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
        if name is not None and (problem := tenant.problem(name)):
            raise NoTenantError(f"the header {self.header}: {name[:_SHOWN_CHARS]!r}: {problem}")
        return name
