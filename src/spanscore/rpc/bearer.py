"""The bearer token that a client sends, as the metadata of gRPC have it."""

from spanscore.errors import InputError


def authorization(token: str, source: str) -> tuple[str, str]:
    """The metadata with a token, which `source` gave. Raises InputError, without the token, where it cannot be one."""
    given = token.strip()
    if not given:
        raise InputError(f"{source}: contains no token")
    if len(given.splitlines()) > 1:
        raise InputError(f"{source}: contains several lines; give one token, without its scopes")
    if not all("!" <= x <= "~" for x in given):
        raise InputError(f"{source}: contains blanks or what is not ASCII; give one token, without its scopes")
    return "authorization", f"Bearer {given}"
