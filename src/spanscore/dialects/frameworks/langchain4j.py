"""LangChain4j's services and printed messages in OpenInference's spans."""

from typing import Any

from spanscore.dialects import keys
from spanscore.dialects.dialect import Quirk
from spanscore.dialects.forms.messages import message
from spanscore.dialects.forms.structure import NO_CONTENT, Facts, as_object, objects, structure
from spanscore.model.span import Span
from spanscore.model.step import Message

_SCOPE = "com.arize.langchain4j"

_PRINTED = ("SystemMessage { ", "UserMessage { ", "AiMessage { ", "ToolExecutionResultMessage { ")


def complete(span: Span, facts: Facts) -> None:
    """An AI service's span has no content of its own; of a model's messages the early versions show
    the objects.
    """
    if facts["kind"] == "agent":
        facts |= {**NO_CONTENT, "agent_name": None}
    elif facts["kind"] == "model" and any(
        (x.text or "").startswith(_PRINTED) for x in facts.get("input") or ()
    ):
        facts["input"] = _listed(structure(span.attributes.get(keys.INPUT_VALUE)).value)


def _listed(given: Any) -> tuple[Message, ...] | None:
    """The same messages as `input.value` lists them; beside calls it leaves out the text."""
    found = [message(_plain(x), str(x.get("role"))) for x in objects(given)]
    return tuple(x for x in found if x is not None) or None


def _plain(item: dict[str, Any]) -> dict[str, Any]:
    content = item.get("content")
    calls = as_object(content).get("tool_calls")
    fields = (
        {"content": None, "tool_calls": calls} if isinstance(calls, list) else {"content": content}
    )
    return {"role": item.get("role"), "tool_call_id": item.get("message.tool_call_id"), **fields}


QUIRKS = (
    Quirk(
        name="langchain4j",
        under="openinference",
        scopes=(_SCOPE,),
        complete=complete,
        returns_state=True,
    ),
)
