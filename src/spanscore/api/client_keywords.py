"""What the keyword methods of both clients have in common: keywords to the fields of a request."""

from collections.abc import Mapping
from typing import Any, Literal
from urllib.parse import quote

from spanscore.api.v1.score_pb2 import SCOPE_SESSION, SCOPE_TRACE, Scope
from spanscore.naming import nearest

ScopeName = Literal["trace", "session"]


def fields(wanted: Mapping[str, Any], known: type, what: str, **renamed: str) -> dict[str, Any]:
    """The keywords as fields of a message; those in `renamed` have another name there.

    Raises TypeError for a keyword that `known`, a TypedDict, has not.
    """
    for name in wanted:
        if name not in known.__annotations__:
            raise TypeError(
                f"{what} has no {name!r}; {nearest(name, sorted(known.__annotations__))}"
            )
    return {renamed.get(name, name): value for name, value in wanted.items()}


def named(collection: str, item: str) -> str:
    """The name of a resource that is given by its name or its id.

    >>> named("monitors", "a1"), named("monitors", "monitors/a1")
    ('monitors/a1', 'monitors/a1')
    """
    return item if item.startswith(f"{collection}/") else f"{collection}/{quote(item, safe='')}"


def scope_of(name: ScopeName) -> Scope.ValueType:
    """The scope of this name."""
    return SCOPE_SESSION if name == "session" else SCOPE_TRACE
