"""Open LlamaIndex's envelopes, which three instrumentations record: chat messages, tool outputs and
step events.
"""

import re
from dataclasses import replace
from typing import Any, NamedTuple

from spanscore.dialects.forms import react_text
from spanscore.dialects.forms.arguments import call_id, failure, tools
from spanscore.dialects.forms.messages import message
from spanscore.dialects.forms.reprs import evaluated
from spanscore.dialects.forms.structure import opened
from spanscore.dialects.forms.values import Facts, objects, text
from spanscore.dialects.keys.gen_ai import GEN_AI_OPERATION_NAME
from spanscore.dialects.keys.openinference import (
    INPUT_VALUE,
    LLM_INPUT_MESSAGES_0_MESSAGE_ROLE,
    LLM_OUTPUT_MESSAGES_0_MESSAGE_ROLE,
    TOOL_NAME,
)
from spanscore.dialects.keys.openllmetry import TRACELOOP_ENTITY_INPUT, TRACELOOP_ENTITY_OUTPUT
from spanscore.dialects.quirk import Quirk
from spanscore.model.json import Json
from spanscore.model.span import STATUS_ERROR, Span
from spanscore.model.step import Message

_OPENINFERENCE = "openinference.instrumentation.llama_index"
_OPENLLMETRY = "opentelemetry.instrumentation.llamaindex"

_PSEUDO_TOOLS = ("_prepare_chat_with_tools",)
_AGENT_STEP = ".run_agent_step"
_WAITS = "Waiting for event <class '"
_CONTEXT = re.compile(r"<[\w.]+\.Context object at 0x[0-9a-f]+>")
_AGENT = re.compile(r"current_agent_name='([^'\\]{1,200})'\)")


class ToolOutput(NamedTuple):
    """The content of a serialized ToolOutput: the tool's name, its result, and the error it
    states.
    """

    name: str | None
    value: Json
    error: str | None


def tool_output(value: object) -> ToolOutput | None:
    """The result in a serialized ToolOutput, as the tool returned it; None for what is none.

    The raw output of a failed tool is an exception that does not serialize: its text is read
    instead.
    """
    if not isinstance(value, dict) or not {"tool_name", "raw_output", "is_error"} <= value.keys():
        return None
    name, failed = value["tool_name"], value["is_error"] is True
    content = _texts(value.get("blocks"))
    if content is None and isinstance(value.get("content"), str):
        content = value["content"]  # before outputs had blocks
    result = (
        content if failed and content is not None else opened(value["raw_output"], scalars=False)
    )
    return ToolOutput(
        name if isinstance(name, str) else None, result, failure(result) if failed else None
    )


def chat_messages(items: object) -> tuple[Message, ...] | None:
    """The messages in a list of serialized ChatMessages; None for what is no list of them."""
    if not isinstance(items, list) or not all(isinstance(x, dict) and "role" in x for x in items):
        return None
    found = [chat_message(x) for x in items]
    return tuple(x for x in found if x is not None)


def chat_message(item: dict[str, Any]) -> Message | None:
    """A serialized ChatMessage, whose text and calls are blocks and whose ids stand among the
    additional arguments.
    """
    role = "assistant" if item.get("role") == "chatbot" else item.get("role")
    beside = item["additional_kwargs"] if isinstance(item.get("additional_kwargs"), dict) else {}
    return _answer_of_tool(item, beside) if role == "tool" else _model_message(item, role, beside)


def _model_message(item: dict[str, Any], role: Any, beside: dict[str, Any]) -> Message | None:
    blocks = objects(item.get("blocks"))
    shown = [
        {**x, "type": x.get("block_type")}
        for x in blocks
        if x.get("block_type") in ("text", "thinking")
    ]
    content = shown if blocks else item.get("content")
    return message({"role": role, "content": content, "tool_calls": _calls(blocks, beside)}, "user")


def _calls(blocks: list[dict[str, Any]], beside: dict[str, Any]) -> Any:
    calls = [
        {
            "id": block.get("tool_call_id"),
            "name": block.get("tool_name"),
            "arguments": block.get("tool_kwargs"),
        }
        for block in blocks
        if block.get("block_type") == "tool_call"
    ]
    return calls or opened(beside.get("tool_calls"))


def _answer_of_tool(item: dict[str, Any], beside: dict[str, Any]) -> Message | None:
    blocks = objects(item.get("blocks"))
    content = _texts(blocks) if blocks else item.get("content")
    fields = {
        "role": "tool",
        "tool_call_id": beside.get("tool_call_id"),
        "content": "" if content is None else content,
        "tool_calls": _calls(blocks, beside),
    }
    answer = message(fields, "user")
    if answer is None:
        return None
    return replace(
        answer, results=tuple(replace(x, value=evaluated(x.value)) for x in answer.results)
    )


def agent_name(event: object) -> str | None:
    """The name of the agent at work, in the printed event that a step was given."""
    found = _AGENT.search(event) if isinstance(event, str) else None
    return found[1] if found else None


def is_agent_step(span: Span) -> bool:
    """Whether a span is one round of an agent: its model call lies inside, the tools it calls
    beside it.
    """
    return span.name.endswith(_AGENT_STEP)


def is_waiting(span: Span) -> bool:
    """Whether a tool ended since it waits for a person's input: it is run once more then."""
    return span.status_code == STATUS_ERROR and _WAITS in span.status_message


def _is_context(value: Json) -> bool:
    """Whether an argument is the workflow's context, printed, which the framework hands to a tool
    that wants it.
    """
    return isinstance(value, str) and _CONTEXT.fullmatch(value) is not None


def place_openinference(span: Span, facts: Facts, _outermost: bool) -> None:
    """A step of LlamaIndex's model class is neither a tool nor a model, though it is called so."""
    if facts["kind"] in {"tool", "model"} and span.name.endswith(_PSEUDO_TOOLS):
        facts["kind"] = "other"


def complete_openinference(span: Span, facts: Facts) -> None:
    """Add to the facts of a span of OpenInference's, in place."""
    if facts["kind"] == "tool":
        _complete_tool(span, facts)
    elif facts["kind"] == "model":
        # without flattened messages it is a request or response, printed as Python prints objects
        if LLM_INPUT_MESSAGES_0_MESSAGE_ROLE not in span.attributes:
            facts["input"] = None
        if LLM_OUTPUT_MESSAGES_0_MESSAGE_ROLE not in span.attributes:
            facts["output"] = None
        react_text.complete(facts)
    elif facts["kind"] == "retrieval" and span.name.endswith("._retrieve"):
        facts["kind"] = "other"  # inside another one, which also records what was found
    elif is_agent_step(span):
        facts["kind"], facts["agent_name"] = "agent", agent_name(span.attributes.get(INPUT_VALUE))


def _complete_tool(span: Span, facts: Facts) -> None:
    given = facts.get("arguments")
    if isinstance(given, dict) and given.keys() == {"kwargs"} and isinstance(given["kwargs"], dict):
        facts["arguments"] = {k: v for k, v in given["kwargs"].items() if not _is_context(v)}
    _open_result(facts, facts.get("result"))
    if is_waiting(span):
        facts["kind"] = "other"


def complete_openllmetry(span: Span, facts: Facts) -> None:
    """Add to the facts of a span of OpenLLMetry's, in place: there all steps, tools and models too,
    are tasks.
    """
    attributes = span.attributes
    if attributes.get(GEN_AI_OPERATION_NAME) == "chat":
        facts["kind"] = "model"
        request = opened(attributes.get(TRACELOOP_ENTITY_INPUT))
        given = request.get("kwargs") if isinstance(request, dict) else None
        if facts.get("tools") is None and isinstance(given, dict) and "tools" in given:
            facts["tools"] = tools(given["tools"])
        react_text.complete(facts)
        return
    returned = opened(attributes.get(TRACELOOP_ENTITY_OUTPUT))
    fields = returned if isinstance(returned, dict) else {}
    called, given = attributes.get(TOOL_NAME), opened(attributes.get("tool.arguments"))
    # before these had attributes
    if called is None and "tool_kwargs" in fields and "tool_output" in fields:
        called, given = text(fields.get("tool_name")), fields["tool_kwargs"]
    if isinstance(called, str):
        facts |= {"kind": "tool", "tool_name": called, "arguments": given}
        facts["call_id"] = call_id(fields.get("tool_id"))
        _open_result(facts, fields.get("tool_output"))
    elif (answer := tool_output(fields)) is not None:
        given = fields.get("raw_input")
        facts |= {"kind": "tool", "tool_name": answer.name}
        facts["arguments"] = given.get("kwargs") if isinstance(given, dict) else None
        _open_result(facts, fields)
    elif facts["kind"] == "workflow":
        _read_step(fields, facts)


def _open_result(facts: Facts, value: object) -> None:
    answer = tool_output(value)
    if answer is not None:
        facts["result"], facts["has_result"] = answer.value, True
        facts["error"] = facts.get("error") or answer.error


def _read_step(fields: dict[str, Any], facts: Facts) -> None:
    """What the agent was given, or its answer."""
    facts["input"] = facts.get("input") or chat_messages(fields.get("input"))
    result = fields.get("result")
    response = result.get("response") if isinstance(result, dict) else None
    if isinstance(response, dict) and (answer := chat_message(response)) is not None:
        facts["output"] = (answer,)
    # beside `result` it is the last agent's, to whom others handed over
    name = text(fields.get("current_agent_name"))
    facts["agent_name"] = facts.get("agent_name") or name
    if name and "response" in fields:
        facts |= {"kind": "agent", "input_text": None, "output_text": None}


def _texts(blocks: object) -> str | None:
    """The text of a list of blocks."""
    if not isinstance(blocks, list):
        return None
    texts = [x["text"] for x in blocks if isinstance(x, dict) and isinstance(x.get("text"), str)]
    return "\n".join(texts) if texts else None


QUIRKS = (
    Quirk(
        name="llama_index",
        under="openinference",
        scopes=(_OPENINFERENCE,),
        place=place_openinference,
        complete=complete_openinference,
        returns_state=True,
    ),
    Quirk(
        name="llama_index",
        under="openllmetry",
        scopes=(_OPENLLMETRY,),
        complete=complete_openllmetry,
    ),
)
