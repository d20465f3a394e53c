"""What is current in the agent's code, carried by OpenTelemetry's context as the current span
is.
"""

import contextlib
from contextvars import Token
from typing import TYPE_CHECKING, NamedTuple

from opentelemetry import context
from opentelemetry.context import Context

if TYPE_CHECKING:
    from spanscore.sdk.authoring.turn import Turn

TURN = context.create_key("spanscore-turn")
NAMED = context.create_key("spanscore-session")
CALL_ID = context.create_key("spanscore-call-id")


_SUPPRESSING = (
    getattr(context, "_SUPPRESS_INSTRUMENTATION_KEY", "suppress_instrumentation"),
    "suppress_instrumentation",
)
"""Set while nothing is to be traced, as where a judge is asked."""


def is_suppressed() -> bool:
    """Whether the calling code is not to be traced."""
    return any(context.get_value(key) for key in _SUPPRESSING)


def detach(token: Token[Context]) -> None:
    """Make current what was so before `attach`.

    A generator may be ended in another context than it began in, as by a web framework's threads;
    there nothing is to be restored. OpenTelemetry's own `detach` logs an error then.
    """
    if not isinstance(token, Token):  # of another implementation of contexts
        context.detach(token)
        return
    with contextlib.suppress(ValueError, RuntimeError):
        token.var.reset(token)


class Named(NamedTuple):
    """The session and user that turns belong to which name none themselves."""

    session_id: str | None = None
    user_id: str | None = None


def current_turn() -> "Turn | None":
    """The innermost turn that the calling code runs in."""
    found: Turn | None = context.get_value(TURN)  # type: ignore[assignment] # only a Turn is put there
    return found


def current_names(within: Context | None = None) -> Named:
    """The session and user around the calling code; or those in another context than the current
    one.
    """
    found = context.get_value(NAMED, within)
    return found if isinstance(found, Named) else Named()
