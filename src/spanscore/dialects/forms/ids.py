"""What an id is: text, or a number, as databases give them; as text it can be compared with those
of other spans.
"""

from collections.abc import Mapping
from typing import Any

from spanscore.dialects.keys.opentelemetry import SESSION_ID, USER_ID

_LOWEST, _HIGHEST = -(2**63), 2**64 - 1
"""Of the whole numbers that databases count in; what is beyond them was no id, and could be of any
length.
"""

SESSIONS = (
    "langfuse.session.id",
    "langwatch.thread.id",
    "langwatch.thread_id",
    "langfuse.trace.metadata.langfuse_session_id",
    "langfuse.observation.metadata.langfuse_session_id",
    "gcp.vertex.agent.session_id",
)
USERS = (
    "langfuse.user.id",
    "langwatch.user.id",
    "langwatch.user_id",
    "langfuse.trace.metadata.langfuse_user_id",
    "langfuse.observation.metadata.langfuse_user_id",
)
"""What names a session or a user on a span of any dialect, or of none, beside OpenTelemetry's own
attributes.
"""

IDENTIFYING = frozenset({SESSION_ID, USER_ID, *SESSIONS, *USERS})


def identity(value: object) -> str | None:
    """An id as text: text that is not empty as it is, a whole number in decimals; None for anything
    else.

    >>> identity("u-7"), identity(42), identity(0), identity(""), identity(True), identity(4.5)
    ('u-7', '42', '0', None, None, None)
    """
    if isinstance(value, str):
        return value or None
    return str(value) if type(value) is int and _LOWEST <= value <= _HIGHEST else None


def first_identity(values: Mapping[str, Any], keys: tuple[str, ...]) -> str | None:
    """The first of the values under `keys` that is an id, else None."""
    for key in keys:
        value = values.get(key)
        if value is not None and (found := identity(value)) is not None:
            return found
    return None
