"""Read the conventions' events of one message each where they are one list, in an attribute, each
with its name in it.
"""

from typing import Any

from spanscore.dialects.forms.messages import Messages, messages
from spanscore.dialects.forms.structure import structure
from spanscore.dialects.forms.values import objects
from spanscore.dialects.keys.gen_ai import (
    GEN_AI_ASSISTANT_MESSAGE,
    GEN_AI_CHOICE,
    GEN_AI_SYSTEM_MESSAGE,
    GEN_AI_TOOL_MESSAGE,
    GEN_AI_USER_MESSAGE,
)
from spanscore.model.span import Value

_NAME, _INDEX = "event.name", "gen_ai.message.index"
_ROLES = {
    GEN_AI_SYSTEM_MESSAGE: "system",
    GEN_AI_USER_MESSAGE: "user",
    GEN_AI_ASSISTANT_MESSAGE: "assistant",
    GEN_AI_TOOL_MESSAGE: "tool",
    GEN_AI_CHOICE: "assistant",
}


def conversation_of(value: Value) -> tuple[Messages, Messages]:
    """What a model was given, and what it chose; no messages where the list has no such events."""
    parsed, damaged = structure(value)
    listed = [x for x in objects(parsed) if x.get(_NAME) in _ROLES]
    if all(isinstance(x.get(_INDEX), int) for x in listed if x[_NAME] != GEN_AI_CHOICE):
        listed.sort(key=_place)
    given: list[Any] = [_body(x) for x in listed if x[_NAME] != GEN_AI_CHOICE]
    chosen: list[Any] = [_body(x) for x in listed if x[_NAME] == GEN_AI_CHOICE]
    return (
        Messages(messages(given).messages if given else None, damaged),
        Messages(messages(chosen, "assistant").messages if chosen else None, damaged),
    )


def _place(event: dict[str, Any]) -> tuple[bool, int]:
    return event[_NAME] == GEN_AI_CHOICE, event.get(_INDEX) or 0


def _body(event: dict[str, Any]) -> dict[str, Any]:
    """The message of an event; its role is in the name where the message states none."""
    inner = event.get("message")
    return {"role": _ROLES[event[_NAME]], **(inner if isinstance(inner, dict) else event)}
