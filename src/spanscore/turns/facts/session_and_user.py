"""The ids of the session and the user that a turn belongs to."""

from functools import partial
from typing import Literal

from spanscore.turns.facts.source import FirstOf, Source, Sourced
from spanscore.turns.facts.turn_steps import TurnSteps


def _nearest(field: Literal["session_id", "user_id"], turn: TurnSteps) -> Sourced | None:
    """The id in the step nearest the root that records one."""
    recording = [step for step in turn.steps if getattr(step, field)]
    if not recording:
        return None
    step = min(recording, key=turn.depth)
    return Sourced(step, field, getattr(step, field))


def _of_resource(key: str, turn: TurnSteps) -> Sourced | None:
    """An id among the attributes of the resource; a number is one, and becomes text."""
    step = turn.steps[0]
    value = step.span.resource.attributes.get(key)
    if type(value) is int:
        value = str(value)
    return Sourced(step, "resource", value) if isinstance(value, str) else None


SESSION_SOURCES: FirstOf[TurnSteps] = (
    Source("the span nearest the root that names a session", partial(_nearest, "session_id")),
    Source("the resource's `session.id`", partial(_of_resource, "session.id")),
)
"""The sources of `session_id`, in their order: the first that has a value counts."""

USER_SOURCES: FirstOf[TurnSteps] = (
    Source(
        "the span nearest the root that names a user, by an attribute or a log record",
        partial(_nearest, "user_id"),
    ),
    Source("the resource's `user.id`", partial(_of_resource, "user.id")),
)
"""The sources of `user_id`, in their order: the first that has a value counts."""
