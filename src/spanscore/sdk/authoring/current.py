"""What is current in the agent's code, carried by OpenTelemetry's context as the current span is."""

from typing import TYPE_CHECKING, NamedTuple

from opentelemetry import context

if TYPE_CHECKING:
    from spanscore.sdk.authoring.turn import Turn

TURN = context.create_key("spanscore-turn")
NAMED = context.create_key("spanscore-session")
CALL_ID = context.create_key("spanscore-call-id")


class Named(NamedTuple):
    """The session and user that turns belong to which name none themselves."""

    session_id: str | None = None
    user_id: str | None = None


def current_turn() -> "Turn | None":
    """The innermost turn that the calling code runs in."""
    found: Turn | None = context.get_value(TURN)  # type: ignore[assignment] # only a Turn is put there
    return found


def current_names() -> Named:
    """The session and user around the calling code."""
    found = context.get_value(NAMED)
    return found if isinstance(found, Named) else Named()
