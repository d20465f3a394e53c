"""AG2's chats, replies and verdicts in OpenInference's spans."""

from typing import Any

from spanscore.dialects import keys
from spanscore.dialects.dialect import Quirk
from spanscore.dialects.forms.arguments import call_id, failure, result
from spanscore.dialects.forms.messages import message
from spanscore.dialects.forms.structure import Facts, as_object, evaluated, opened, structure, text
from spanscore.model.span import Span
from spanscore.model.step import Message, ToolResult

_SCOPES = ("openinference.instrumentation.ag2", "openinference.instrumentation.autogen")

_CHATS = (".initiate_chat", ".a_initiate_chat")


def complete(span: Span, facts: Facts) -> None:
    """Add to the facts of a span, in place."""
    given = structure(span.attributes.get(keys.INPUT_VALUE)).value
    returned = structure(span.attributes.get(keys.OUTPUT_VALUE)).value
    if facts["kind"] == "tool":
        _complete_tool(span, given, returned, facts)
    elif span.name.endswith(_CHATS):
        _read_chat(span, given, facts)
    elif facts["kind"] == "agent":
        _read_reply(given, returned, facts)


def _read_chat(span: Span, given: Any, facts: Facts) -> None:
    """A chat that one agent, mostly standing for the user, begins with another."""
    facts["agent_name"] = text(span.attributes.get("ag2.recipient.name"))
    question = as_object(given).get("message")
    question = question.get("content") if isinstance(question, dict) else question
    facts["input"] = (Message("user", question),) if isinstance(question, str) else None


def _read_reply(given: Any, returned: Any, facts: Facts) -> None:
    """One reply of an agent.

    Where it only runs the tools that another one requested, it is no agent's reply.
    """
    facts["input_text"] = None
    if isinstance(returned, dict) and "tool_responses" in returned:
        facts |= {"kind": "workflow", "agent_name": None, "output_text": None}
        return
    facts["input"] = (
        tuple(x for item in given for x in _messages(item)) if isinstance(given, list) else None
    )
    facts["output"] = tuple(_messages(returned)) if isinstance(returned, dict) else None


def _messages(item: Any) -> list[Message]:
    """A message; one that answers several calls contains all of their results."""
    answers = as_object(item).get("tool_responses")
    if isinstance(answers, list):
        responses = [x for x in answers if isinstance(x, dict)]
        return [Message("tool", results=tuple(_result(x) for x in responses))]
    found = message(item, "assistant") if isinstance(item, dict) else None
    return [] if found is None else [found]


def _result(answer: dict[str, Any]) -> ToolResult:
    return ToolResult(call_id(answer.get("tool_call_id")), evaluated(result(answer.get("content"))))


def _complete_tool(span: Span, given: Any, returned: Any, facts: Facts) -> None:
    """A call: its arguments stand beside its name, its result beside whether it succeeded."""
    facts["call_id"] = facts.get("call_id") or call_id(span.attributes.get(keys.TOOL_CALL_ID))
    if isinstance(given, dict) and "arguments" in given:
        facts["arguments"] = opened(given["arguments"])
    if (
        isinstance(returned, list)
        and len(returned) == 2
        and isinstance(returned[1], dict)
        and "content" in returned[1]
    ):
        facts["result"], facts["has_result"] = evaluated(result(returned[1]["content"])), True
        if returned[0] is False:
            facts["error"] = facts.get("error") or failure(facts["result"])


QUIRKS = (
    Quirk(name="ag2", under="openinference", scopes=_SCOPES, complete=complete, returns_state=True),
)
