"""Which turns are of one session: those with its id, within one service namespace and one
tenant.
"""

import hashlib
import json
import re
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Final, TypeAlias

from spanscore.model.headers import TENANT, owner_of
from spanscore.model.span import Attributes
from spanscore.model.trace import AgentTrace

Scope: TypeAlias = tuple[tuple[str, str], ...]
"""Name and value of each resource attribute and header that a session id is valid within."""

DEFAULT_SCOPE: Final = ("service.namespace", "tenant.id")
_MAX_VALUE_CHARS: Final = 1024
_SCOPED: Final = re.compile(r"([ -.0-~]{1,128}/)?[0-9a-f]{16}:")
_HEADER: Final = "header:"


def scope_of(resource: Attributes, names: Sequence[str]) -> Scope:
    """What of `resource` bounds its session ids: the attributes `names` that it has, and its
    tenant.

    Without tenants the headers kept with it: what came with others leaves with others, and never
    shares a session.
    """
    own = (
        (name, str(resource[name])[:_MAX_VALUE_CHARS])
        for name in names
        if resource.get(name) not in (None, "")
    )
    headers = ((_HEADER + name, value) for name, value in owner_of(resource))
    return tuple(sorted({**dict(own), **dict(headers)}.items()))


def scope_of_tenant(tenant: str) -> Scope:
    """What bounds the session ids of a tenant outside of every namespace; nothing without
    tenants.
    """
    return ((_HEADER + TENANT, tenant),) if tenant else ()


def session_key(session_id: str, scope: Scope) -> str:
    """What a session is joined, stored and looked up by: its id, behind a digest of its scope where
    it has one.

    No id of one scope is the key of a session in another. The tenant, where there is one, stands
    before the digest: no tenant's name contains a `/`.

    >>> session_key("chat-7", ())
    'chat-7'
    >>> session_key("chat-7", (("service.namespace", "shop"),))
    '55084ed27e27e5f8:chat-7'
    >>> session_key("chat-7", (("header::tenant", "acme"),))
    'acme/1ddb4a799c5e73a2:chat-7'
    """
    if not scope and not _SCOPED.match(session_id):
        return session_id
    digest = hashlib.sha256(json.dumps(scope).encode()).hexdigest()[:16]
    tenant = dict(scope).get(_HEADER + TENANT)
    return f"{digest}:{session_id}" if tenant is None else f"{tenant}/{digest}:{session_id}"


def in_scope(traces: Iterable[AgentTrace], names: Sequence[str]) -> list[AgentTrace]:
    """The traces, each with the key of its session; those without a session as they are."""
    return [_in_scope(trace, names) for trace in traces]


def _in_scope(trace: AgentTrace, names: Sequence[str]) -> AgentTrace:
    if trace.session_id is None:
        return trace
    key = session_key(trace.session_id, scope_of(trace.target.resource, names))
    return trace if trace.session_key == key else replace(trace, session_key=key)
