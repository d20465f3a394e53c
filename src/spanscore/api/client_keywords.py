"""What the keyword methods of both clients have in common: keywords to the fields of a request."""

from collections.abc import Mapping
from typing import Any, Final, Literal, get_args
from urllib.parse import quote

from spanscore.api.v1.score_pb2 import SCOPE_SESSION, SCOPE_TRACE, Scope
from spanscore.naming import nearest

ScopeName = Literal["trace", "session"]
_SCOPES: Final[Mapping[str, Scope.ValueType]] = {"trace": SCOPE_TRACE, "session": SCOPE_SESSION}


def fields(wanted: Mapping[str, Any], known: type, what: str, **renamed: str) -> dict[str, Any]:
    """The keywords as fields of a message; those in `renamed` have another name there, and those
    that are None are left out.

    Raises TypeError for a keyword that `known`, a TypedDict, has not.
    """
    for name in wanted:
        if name not in known.__annotations__:
            raise TypeError(
                f"{what} has no {name!r}; {nearest(name, sorted(known.__annotations__))}"
            )
    return {renamed.get(name, name): value for name, value in wanted.items() if value is not None}


def named(collection: str, item: str) -> str:
    """The name of a resource that is given by its name or its id.

    >>> named("monitors", "a1"), named("monitors", "monitors/a1")
    ('monitors/a1', 'monitors/a1')
    """
    return item if item.startswith(f"{collection}/") else f"{collection}/{quote(item, safe='')}"


def one_of(keyword: str, given: object, known: Any) -> None:
    """Check a keyword whose values are those of `known`, a Literal. Raises ValueError.

    >>> one_of("scope", "sessions", ScopeName)
    Traceback (most recent call last):
    ValueError: scope='sessions': give 'trace' or 'session'
    """
    values = get_args(known)
    if given not in values:
        *others, last = map(repr, values)
        raise ValueError(f"{keyword}={given!r}: give {', '.join(others)} or {last}")


def scope_of(name: ScopeName) -> Scope.ValueType:
    """The scope of this name. Raises ValueError where there is none."""
    one_of("scope", name, ScopeName)
    return _SCOPES[name]
