"""AutoGen's own telemetry: agents and tools without content, and the messages that its runtime
delivers to a team.
"""

from collections.abc import Iterable, Iterator
from typing import Any

from spanscore.dialects import keys
from spanscore.dialects.conventions import semconv
from spanscore.dialects.dialect import Context, Dialect, Quirk
from spanscore.dialects.forms import langchain_messages
from spanscore.dialects.forms.arguments import arguments, call_id, failure
from spanscore.dialects.forms.structure import (
    Facts,
    add_damaged,
    as_list,
    as_object,
    count,
    elements,
    indexed,
    object_at,
    objects,
    quoted,
    structure,
    text,
    unprinted,
)
from spanscore.model.json import printed
from spanscore.model.span import Span, changed
from spanscore.model.step import Message, ToolResult
from spanscore.model.trace import RequestedCall, Tool

_OPENINFERENCE = "openinference.instrumentation.autogen_agentchat"

_FAILED = "Tool execution failed"  # the status of a failed call, whose text is its result
_CONTENT, _TEXT = " content=", " type='TextMessage'"  # fields of a printed message, in this order


def chat_messages(items: object) -> tuple[Message, ...]:
    """The messages that a list of serialized chat messages and agent events stands for."""
    return tuple(_messages(items)) if isinstance(items, list) else ()


def tokens(items: object, name: str) -> int | None:
    """The sum of what each of the messages counts under `name`; None where none does."""
    usages = (x.get("models_usage") for x in objects(items))
    counted = [n for x in usages if isinstance(x, dict) and (n := count(x.get(name))) is not None]
    return sum(counted) if counted else None


def _messages(items: Iterable[Any]) -> Iterator[Message]:
    for item in items:
        if not isinstance(item, dict):
            continue
        kind, content = item.get("type"), item.get("content")
        parts = objects(content)
        if kind == "ToolCallRequestEvent":
            yield Message("assistant", calls=tuple(x for x in map(_call, parts) if x is not None))
        elif kind == "ToolCallExecutionEvent":
            yield Message("tool", results=tuple(map(_result, parts)))
        elif kind == "ThoughtEvent" or (isinstance(kind, str) and kind.endswith("Message")):
            yield Message("user" if item.get("source") == "user" else "assistant", _text(content))


def _text(content: Any) -> str | None:
    """The text of a message: text, text among images, or a structured answer."""
    if isinstance(content, list):
        texts = [x for x in content if isinstance(x, str)]
        return "\n".join(texts) if texts else None
    return None if content is None else printed(content)


def _call(part: dict[str, Any]) -> RequestedCall | None:
    name = part.get("name")
    if not isinstance(name, str):
        return None
    return RequestedCall(call_id(part.get("id")), name, arguments(part.get("arguments")))


def _result(part: dict[str, Any]) -> ToolResult:
    value = unprinted(part.get("content"))
    return ToolResult(
        call_id(part.get("call_id")),
        value,
        failure(value) if part.get("is_error") is True else None,
    )


def complete_openinference(span: Span, facts: Facts) -> None:
    """Add to the facts of a span of OpenInference's, in place."""
    kind = facts["kind"]
    if kind == "model":
        _complete_model(span, facts)
    elif kind == "tool":
        if isinstance(facts.get("result"), str):
            facts["result"] = unprinted(facts["result"])
        if facts.get("error") == _FAILED and facts.get("has_result"):
            facts["error"] = failure(facts["result"])
    elif kind == "agent":
        facts["agent_name"] = span.name.removesuffix(".on_messages_stream")
        facts["input_text"] = _printed_text(span)
    elif span.name.endswith(".run_stream"):
        _complete_team(span, facts)


def _complete_model(span: Span, facts: Facts) -> None:
    """Add what stands beside the flattened messages: thoughts, and what functions returned."""
    items = [
        x
        for x in indexed(span.attributes, keys.LLM_INPUT_MESSAGES_PREFIX)
        if isinstance(x.get("message"), dict)
    ]
    given, produced = facts.get("input"), facts.get("output")
    if given and len(items) == len(given):
        facts["input"] = tuple(_completed(x, item) for x, item in zip(given, items, strict=True))
    answer, is_cut = structure(span.attributes.get(keys.OUTPUT_VALUE))
    if produced and isinstance(answer, dict):
        facts["output"] = tuple(_with_thought(x, answer.get("thought")) for x in produced)
    if is_cut:  # it contains thoughts that nothing else does
        add_damaged(facts, "output")


def _completed(message: Message, item: dict[str, Any]) -> Message:
    functions = [structure(x).value for x in elements(item.get("function"))]
    results = tuple(_result(x) for x in functions if isinstance(x, dict))
    return _with_thought(changed(message, results=results or message.results), item.get("thought"))


def _with_thought(message: Message, thought: object) -> Message:
    """What a model wrote beside its calls; beside text it is its reasoning."""
    if not isinstance(thought, str) or not thought:
        return message
    if message.calls and message.text is None:
        return changed(message, text=thought)
    return changed(message, reasoning=thought)


def _printed_text(span: Span) -> str | None:
    """The last text that an agent was sent; the messages are printed as Python prints them."""
    sent = object_at(span.attributes, keys.INPUT_VALUE).get("messages")
    last = str(sent[-1]) if isinstance(sent, list) and sent else ""
    at = last.find(_CONTENT)
    string = quoted(last, at + len(_CONTENT)) if at >= 0 else None
    return string[0] if string is not None and last.startswith(_TEXT, string[1]) else None


def _complete_team(span: Span, facts: Facts) -> None:
    given = structure(span.attributes.get(keys.INPUT_VALUE)).value
    result = structure(span.attributes.get(keys.OUTPUT_VALUE)).value
    task = as_object(given).get("task")
    facts["input_text"] = task if isinstance(task, str) else None
    messages = chat_messages(result.get("messages")) if isinstance(result, dict) else ()
    facts["output"] = langchain_messages.after_question(messages) or None
    facts["output_text"] = None


QUIRKS = (
    Quirk(
        name="autogen",
        under="openinference",
        scopes=(_OPENINFERENCE,),
        complete=complete_openinference,
        returns_state=True,
    ),
)


_PARTICIPANT = "ChatAgentContainer"  # every participant of a team is sent what its manager is sent
# its own messages are sent to participants only, to each a copy
_SPEAKING_MANAGER = "MagenticOneOrchestrator"


def read(span: Span, context: Context) -> Facts:
    """The facts of a span.

    The message of a delivery to a team's manager is the question or an agent's answer.
    """
    attributes = span.attributes
    if "message" in attributes:
        delivered = structure(attributes["message"])
        if delivered.damaged:  # any fact of the turn may have been in it
            return {"kind": "other", "damaged": frozenset({"input", "output"})}
        return _delivery(as_object(delivered.value), attributes.get("recipient_agent_class"))
    if "messaging.operation" in attributes:
        return {"kind": "other"}
    facts = semconv.read(span, context)
    described = text(attributes.get(keys.GEN_AI_TOOL_DESCRIPTION))
    if facts["kind"] == "tool" and described is not None and (name := facts.get("tool_name")):
        facts["tools"] = (Tool(name, described),)
    return facts


def _delivery(delivered: dict[str, Any], recipient: object) -> Facts:
    if isinstance(delivered.get("messages"), list):
        return {
            "kind": "workflow",
            "input": chat_messages(delivered["messages"]) or None,
        }
    response, result = delivered.get("response"), delivered.get("result")
    is_copy = recipient == _PARTICIPANT and delivered.get("name") != _SPEAKING_MANAGER
    if is_copy or not (isinstance(response, dict) or isinstance(result, dict)):
        return {"kind": "other"}
    if not isinstance(
        response, dict
    ):  # of a team inside the team: its own manager received all messages before the answer
        listed = as_object(result).get("messages")
        return _answer_facts(delivered, listed[-1:] if isinstance(listed, list) else [])
    items = [*(as_list(response.get("inner_messages"))), response.get("chat_message")]
    facts = _answer_facts(delivered, items)
    facts["input_tokens"] = tokens(items, "prompt_tokens")
    facts["output_tokens"] = tokens(items, "completion_tokens")
    return facts


def _answer_facts(delivered: dict[str, Any], items: list[Any]) -> Facts:
    sources = (x.get("source") for x in reversed(items) if isinstance(x, dict))
    name = text(delivered.get("name")) or next((x for x in map(text, sources) if x), None)
    return {
        "kind": "agent",
        "agent_name": name,
        "output": chat_messages(items) or None,
    }


DIALECT = Dialect(
    "autogen",
    read,
    scopes=("autogen-core", "autogen SingleThreadedAgentRuntime", "autogen GrpcWorkerAgentRuntime"),
    prefilters=(b"autogen",),
)
