"""What a tenant may be called."""

from typing import Final

MAX_CHARS: Final = 128


def problem(tenant: str) -> str | None:
    """Why this cannot be the name of a tenant; None where it can be.

    It travels in headers, and stands in the store and in logs: 1 to 128 printable characters of
    ASCII without `/`.

    >>> problem("acme")
    >>> problem("a/b")
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
