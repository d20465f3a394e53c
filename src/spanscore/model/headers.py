"""Headers kept from requests, and the tenant."""

from collections.abc import Iterable
from typing import Final, TypeAlias

from spanscore.model.span import Attributes, Value

Headers: TypeAlias = tuple[tuple[str, str], ...]
"""Name, in lower case, and value."""

TENANT: Final = ":tenant"
"""The name under which a request's tenant is kept among its headers.

No header that is sent is called so.
"""

_PREFIX: Final = "spanscore.header."
_TENANT_KEY: Final = _PREFIX + TENANT
_MAX_VALUE_CHARS: Final = 1024


def chosen(received: Iterable[tuple[str, str | bytes]], wanted: frozenset[str]) -> Headers:
    """The headers of a request that are `wanted`, by their names in lower case.

    Values that could not be sent on are left out: gRPC takes printable ASCII and nothing else.
    """
    return tuple(
        (name.lower(), value)
        for name, value in received
        if name.lower() in wanted
        and not name.startswith(":")
        and isinstance(value, str)
        and len(value) <= _MAX_VALUE_CHARS
        and value.isascii()
        and value.isprintable()
    )


def with_headers(resource: Attributes, headers: Headers) -> dict[str, Value]:
    """A resource's attributes with the headers that it came with, and no others that a sender has
    made up.
    """
    own = without_headers(resource)
    return {**own, **{_PREFIX + name: value for name, value in headers}}


def without_headers(resource: Attributes) -> dict[str, Value]:
    """A resource's attributes as they came."""
    return {key: value for key, value in resource.items() if not key.startswith(_PREFIX)}


def headers_of(resource: Attributes) -> Headers:
    """The headers that a resource came with."""
    return tuple(
        (key[len(_PREFIX) :], str(value))
        for key, value in resource.items()
        if key.startswith(_PREFIX)
    )


def tenant_of(resource: Attributes) -> str:
    """The tenant that a resource belongs to; "" without tenants.

    >>> tenant_of(with_headers({"service.name": "shop"}, ((":tenant", "acme"),)))
    'acme'
    """
    return str(resource.get(_TENANT_KEY, ""))


def tenant_in(headers: Headers) -> str:
    """The tenant that a request with these headers belongs to; "" without tenants."""
    return next((value for name, value in headers if name == TENANT), "")


def owner_of(resource: Attributes) -> Headers:
    """Whom what came with a resource belongs to: its tenant; without tenants the headers tell
    senders apart.
    """
    headers = headers_of(resource)
    return tuple(x for x in headers if x[0] == TENANT) or headers


def without_tenant(headers: Headers) -> Headers:
    """The headers that were sent: what a request may leave with again."""
    return tuple(x for x in headers if x[0] != TENANT)


def of_tenant(tenant: str) -> Headers:
    """The headers of which nothing is known but the tenant; none without tenants."""
    return ((TENANT, tenant),) if tenant else ()


MAX_CHARS: Final = 128


def tenant_problem(tenant: str) -> str | None:
    """Why this cannot be the name of a tenant; None where it can be.

    It travels in headers, and stands in the store and in logs: 1 to 128 printable characters of
    ASCII without `/`.

    >>> tenant_problem("acme")
    >>> tenant_problem("a/b")
    'a tenant is 1 to 128 printable ASCII characters without `/` and blanks at its ends'
    """
    is_short = 1 <= len(tenant) <= MAX_CHARS
    if (
        is_short
        and tenant.isascii()
        and tenant.isprintable()
        and "/" not in tenant
        and tenant == tenant.strip()
    ):
        return None
    return (
        f"a tenant is 1 to {MAX_CHARS} printable ASCII characters without `/` and blanks at its"
        " ends"
    )
