"""Who a client is, as the metadata of gRPC have it: its bearer token and its tenant."""

from typing import Final

from spanscore.errors import InputError
from spanscore.model import tenant

TENANT_HEADER: Final = "x-scope-orgid"
"""The header in which servers look for a tenant, unless their `tenancy.header` names another."""


def authorization(token: str, source: str) -> tuple[str, str]:
    """The metadata with a token, which `source` gave.

    Raises InputError, without the token, where it cannot be one.
    """
    given = token.strip()
    if not given:
        raise InputError(f"{source}: contains no token")
    if len(given.splitlines()) > 1:
        raise InputError(f"{source}: contains several lines; give one token, without its scopes")
    if not all("!" <= x <= "~" for x in given):
        raise InputError(
            f"{source}: contains blanks or what is not ASCII; give one token, without its scopes"
        )
    return "authorization", f"Bearer {given}"


def tenant_named(name: str, source: str, header: str = TENANT_HEADER) -> tuple[str, str]:
    """The metadata that name a tenant, which `source` gave.

    Raises InputError where it cannot be one.
    """
    if problem := tenant.problem(name):
        raise InputError(f"{source} {name[:80]!r}: {problem}")
    return header.lower(), name
