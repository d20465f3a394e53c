"""Read a tool's call: from attributes, from events, or from the messages that stand for it."""

from collections.abc import Mapping
from typing import Any

from spanscore.dialects.conventions.semconv.events import CHOICE, DETAILS, Events
from spanscore.dialects.forms import bedrock_blocks
from spanscore.dialects.forms.arguments import arguments, call_id
from spanscore.dialects.forms.envelopes import tool_output
from spanscore.dialects.forms.messages import messages
from spanscore.dialects.forms.status import status_error
from spanscore.dialects.forms.structure import is_redacted, opened
from spanscore.dialects.forms.values import Facts, first_value, text
from spanscore.dialects.keys.gen_ai import (
    GEN_AI_INPUT_MESSAGES,
    GEN_AI_OPERATION_NAME,
    GEN_AI_OUTPUT_MESSAGES,
    GEN_AI_TOOL_CALL_ARGUMENTS,
    GEN_AI_TOOL_CALL_ID,
    GEN_AI_TOOL_CALL_RESULT,
    GEN_AI_TOOL_INPUT,
    GEN_AI_TOOL_MESSAGE,
    GEN_AI_TOOL_NAME,
    GEN_AI_TOOL_OUTPUT,
)
from spanscore.model.json import Json
from spanscore.model.span import Attributes, Span
from spanscore.model.step import Message, StepFact

_ARGUMENTS = (GEN_AI_TOOL_CALL_ARGUMENTS, GEN_AI_TOOL_INPUT)

_RESULT = (GEN_AI_TOOL_CALL_RESULT, GEN_AI_TOOL_OUTPUT)
"""Of each the conventions' name, and what others write."""

_EXECUTES = "execute_tool "  # how the conventions have the name of a tool's span begin

_ANSWER = frozenset({"name", "tool_call_id", "content"})
"""The fields of a message that answers a call, in place of the call's result."""


def read_tool(span: Span, attributes: Attributes, events: Events, facts: Facts) -> None:
    """Add a tool's name, call id, arguments, result and error to `facts`, and which are hidden."""
    facts["tool_name"] = _tool_name(span, attributes)
    facts["call_id"] = call_id(attributes.get(GEN_AI_TOOL_CALL_ID))
    facts["error"] = status_error(span)
    damaged: set[StepFact] = set()
    given = first_value(attributes, _ARGUMENTS)
    returned: Any = first_value(attributes, _RESULT)
    has_result = returned is not None or _RESULT[0] in attributes
    for name, payload in events:  # Strands
        if name == GEN_AI_TOOL_MESSAGE and given is None:
            given = payload.get("content")
        elif name == CHOICE and not has_result:
            returned = bedrock_blocks.content(opened(payload.get("message")))
        facts["call_id"] = facts["call_id"] or call_id(payload.get("id"))
    if is_redacted(given):
        damaged.add("arguments")
    elif given is not None:
        facts["arguments"] = arguments(given)
    if is_redacted(returned):
        damaged.add("result")
    elif returned is not None or has_result:
        damaged |= _read_result(opened(returned), facts)
    facts["damaged"] = frozenset(damaged)
    _read_tool_messages(events, facts)


def _read_tool_messages(events: Events, facts: Facts) -> None:
    """A tool's call and result as messages: before there were attributes for them, and where a run
    failed.

    Where neither a call nor a result is in them, their texts are the arguments, as an object, and
    the result.
    """
    details = [payload for name, payload in events if name == DETAILS]
    if not details:
        return
    if facts.get("arguments") is None and "arguments" not in facts["damaged"]:
        facts["arguments"] = _arguments_in(_messages_of(details, GEN_AI_INPUT_MESSAGES, "user"))
    if not facts.get("has_result") and "result" not in facts["damaged"]:
        _read_result_message(_messages_of(details, GEN_AI_OUTPUT_MESSAGES, "assistant"), facts)


def _messages_of(details: list[Mapping[str, Any]], key: str, role: str) -> list[Message]:
    found: list[Message] = []
    for payload in details:
        found += messages(payload.get(key), role).messages or ()
    return found


def _arguments_in(given: list[Message]) -> Json:
    """The arguments of the first call in messages; without a call, the object that the first text
    is.
    """
    call = next((x for message in given for x in message.calls), None)
    if call is not None:
        return call.arguments
    value = opened(next((x.text for x in given if x.text), None), scalars=False)
    return value if isinstance(value, dict) else None


def _read_result_message(messages: list[Message], facts: Facts) -> None:
    result = next((x for message in messages for x in message.results), None)
    text_only = next((x.text for x in messages if x.text is not None), None)
    if result is not None:
        facts["result"], facts["has_result"] = bedrock_blocks.content(result.value), True
        facts["error"] = facts["error"] or result.error
    elif text_only is not None:
        facts["result"], facts["has_result"] = opened(text_only), True


def _tool_name(span: Span, attributes: Attributes) -> str | None:
    """The tool's name; that of the span where nothing but the call's id shows that it is a
    tool's.
    """
    name = text(attributes.get(GEN_AI_TOOL_NAME))
    return (
        name
        if name or GEN_AI_OPERATION_NAME in attributes
        else span.name.removeprefix(_EXECUTES) or None
    )


def _read_result(returned: Json, facts: Facts) -> set[StepFact]:
    """Read what a tool returned, or the message that answers the call, as the tracer of
    langchain-azure-ai records it.

    Returns the facts that are hidden.
    """
    answer = (
        tool_output(returned, known=True)
        if isinstance(returned, dict) and _answers(returned, facts)
        else None
    )
    facts["result"], facts["has_result"] = (returned if answer is None else answer.value), True
    if answer is not None:
        facts["call_id"], facts["error"] = (
            facts["call_id"] or answer.call_id,
            facts["error"] or answer.error,
        )
        if is_redacted(answer.value):
            facts["result"], facts["has_result"] = None, False
            return {"result"}
    return set()


def _answers(returned: dict[str, Json], facts: Facts) -> bool:
    """Whether an object is the message that answers a span's call: it names that very call, or else
    its tool.
    """
    if returned.keys() != _ANSWER:
        return False
    answered_id = call_id(returned["tool_call_id"])
    if answered_id and facts["call_id"]:
        return answered_id == str(facts["call_id"])
    return isinstance(returned["name"], str) and returned["name"] == str(facts["tool_name"])
