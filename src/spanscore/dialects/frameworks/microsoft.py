"""Microsoft's frameworks, and AG2, which goes on from AutoGen.

`agent_framework`: Microsoft Agent Framework: the semantic conventions, results that do not
serialize, responses as conversations.

`semantic_kernel`: Semantic Kernel: the semantic conventions, and the loop around an agent's model
and tool calls.

`autogen`: AutoGen's own telemetry: agents and tools without content, and the messages that its
runtime delivers to a team.
"""

import re
from collections.abc import Iterable, Iterator
from typing import Any

from spanscore.dialects.conventions import semconv
from spanscore.dialects.dialect import ContentSwitch, Context, Dialect, Quirk
from spanscore.dialects.forms import langchain_messages
from spanscore.dialects.forms.arguments import arguments, call_id, failure, result
from spanscore.dialects.forms.messages import message
from spanscore.dialects.forms.structure import (
    Facts,
    add_damaged,
    as_list,
    as_object,
    count,
    elements,
    evaluated,
    indexed,
    object_at,
    objects,
    opened,
    quoted,
    structure,
    text,
    unprinted,
)
from spanscore.model.json import printed
from spanscore.model.span import Span, changed
from spanscore.model.step import Message, ToolResult
from spanscore.model.trace import RequestedCall, Tool

_ADDRESS = re.compile(r"\[?<[\w.]{1,200} object at 0x[0-9a-f]{1,16}>\]?")
_RESPONSE = "resp_"


def read_agent_framework(span: Span, context: Context) -> Facts:
    """The facts of one of its spans.

    An empty result, or one that is no text, is printed as an object's address on the tool's span:
    the next model call's input contains it. Where a service keeps no conversation, the response
    that a call goes on from stands for it: another one for each call, so no session.
    """
    facts = semconv.read(span, context)
    if str(facts.get("session_id")).startswith(_RESPONSE):
        facts["session_id"] = None
    result = facts.get("result")
    if facts["kind"] == "tool" and isinstance(result, str) and _ADDRESS.fullmatch(result):
        facts["result"], facts["has_result"] = None, False
    return facts


_AGENT_FRAMEWORK = Dialect(
    "agent_framework",
    read_agent_framework,
    scopes=("agent_framework",),
    prefilters=(b"agent_framework",),
    content=(
        ContentSwitch(
            "set ENABLE_SENSITIVE_DATA=true, or call"
            " enable_instrumentation(enable_sensitive_data=True)"
        ),
    ),
)


_LOOP = "sk.available_functions"
_AGENTS = "semantic_kernel.utils.telemetry.agent_diagnostics.decorators"
_FUNCTIONS = "semantic_kernel.functions.kernel_function"
# hands messages on among agents: by its links their traces are one turn
_RUNTIME = "agent_runtime InProcessRuntime"
_SENSITIVE = "set SEMANTICKERNEL_EXPERIMENTAL_GENAI_ENABLE_OTEL_DIAGNOSTICS_SENSITIVE=true"


def read_semantic_kernel(span: Span, context: Context) -> Facts:
    """The facts of one of its spans.

    An agent that is only given its thread records an empty list of messages.

    A function's result is recorded as str() prints it.
    """
    if _LOOP in span.attributes or span.scope.name == _RUNTIME:
        return {"kind": "other"}
    facts = semconv.read(span, context)
    if facts.get("input") == ():
        facts["input"] = None
    if facts["kind"] == "tool":
        facts["result"] = evaluated(facts.get("result"))
    return facts


_SEMANTIC_KERNEL = Dialect(
    "semantic_kernel",
    read_semantic_kernel,
    scopes=(_AGENTS, _FUNCTIONS, _RUNTIME),
    keys=(_LOOP,),
    prefilters=(b"semantic_kernel", b"sk.", b"agent_runtime"),
    content=(ContentSwitch(_SENSITIVE),),
)


_OPENINFERENCE = "openinference.instrumentation.autogen_agentchat"

_FAILED = "Tool execution failed"  # the status of a failed call, whose text is its result
_CONTENT, _TEXT = " content=", " type='TextMessage'"  # fields of a printed message, in this order


def chat_messages(items: object) -> tuple[Message, ...]:
    """The messages that a list of serialized chat messages and agent events stands for."""
    return tuple(_messages_autogen(items)) if isinstance(items, list) else ()


def tokens(items: object, name: str) -> int | None:
    """The sum of what each of the messages counts under `name`; None where none does."""
    usages = (x.get("models_usage") for x in objects(items))
    counted = [n for x in usages if isinstance(x, dict) and (n := count(x.get(name))) is not None]
    return sum(counted) if counted else None


def _messages_autogen(items: Iterable[Any]) -> Iterator[Message]:
    for item in items:
        if not isinstance(item, dict):
            continue
        kind, content = item.get("type"), item.get("content")
        parts = objects(content)
        if kind == "ToolCallRequestEvent":
            yield Message("assistant", calls=tuple(x for x in map(_call, parts) if x is not None))
        elif kind == "ToolCallExecutionEvent":
            yield Message("tool", results=tuple(map(_result_autogen, parts)))
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


def _result_autogen(part: dict[str, Any]) -> ToolResult:
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
        for x in indexed(span.attributes, "llm.input_messages.")
        if isinstance(x.get("message"), dict)
    ]
    given, produced = facts.get("input"), facts.get("output")
    if given and len(items) == len(given):
        facts["input"] = tuple(_completed(x, item) for x, item in zip(given, items, strict=True))
    answer, is_cut = structure(span.attributes.get("output.value"))
    if produced and isinstance(answer, dict):
        facts["output"] = tuple(_with_thought(x, answer.get("thought")) for x in produced)
    if is_cut:  # it contains thoughts that nothing else does
        add_damaged(facts, "output")


def _completed(message: Message, item: dict[str, Any]) -> Message:
    functions = [structure(x).value for x in elements(item.get("function"))]
    results = tuple(_result_autogen(x) for x in functions if isinstance(x, dict))
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
    sent = object_at(span.attributes, "input.value").get("messages")
    last = str(sent[-1]) if isinstance(sent, list) and sent else ""
    at = last.find(_CONTENT)
    string = quoted(last, at + len(_CONTENT)) if at >= 0 else None
    return string[0] if string is not None and last.startswith(_TEXT, string[1]) else None


def _complete_team(span: Span, facts: Facts) -> None:
    given = structure(span.attributes.get("input.value")).value
    result = structure(span.attributes.get("output.value")).value
    task = as_object(given).get("task")
    facts["input_text"] = task if isinstance(task, str) else None
    messages = chat_messages(result.get("messages")) if isinstance(result, dict) else ()
    facts["output"] = langchain_messages.after_question(messages) or None
    facts["output_text"] = None


_PARTICIPANT = "ChatAgentContainer"  # every participant of a team is sent what its manager is sent
# its own messages are sent to participants only, to each a copy
_SPEAKING_MANAGER = "MagenticOneOrchestrator"


def read_autogen(span: Span, context: Context) -> Facts:
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
    described = text(attributes.get("gen_ai.tool.description"))
    if facts["kind"] == "tool" and described is not None and (name := facts.get("tool_name")):
        facts["tools"] = (Tool(name, described),)
    return facts


def _delivery(delivered: dict[str, Any], recipient: object) -> Facts:
    if isinstance(delivered.get("messages"), list):
        return {"kind": "workflow", "input": chat_messages(delivered["messages"]) or None}
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
    return {"kind": "agent", "agent_name": name, "output": chat_messages(items) or None}


_AUTOGEN = Dialect(
    "autogen",
    read_autogen,
    scopes=("autogen-core", "autogen SingleThreadedAgentRuntime", "autogen GrpcWorkerAgentRuntime"),
    prefilters=(b"autogen",),
)


_SCOPES = ("openinference.instrumentation.ag2", "openinference.instrumentation.autogen")

_CHATS = (".initiate_chat", ".a_initiate_chat")


def complete(span: Span, facts: Facts) -> None:
    """Add to the facts of a span, in place."""
    given = structure(span.attributes.get("input.value")).value
    returned = structure(span.attributes.get("output.value")).value
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
        tuple(x for item in given for x in _messages_ag2(item)) if isinstance(given, list) else None
    )
    facts["output"] = tuple(_messages_ag2(returned)) if isinstance(returned, dict) else None


def _messages_ag2(item: Any) -> list[Message]:
    """A message; one that answers several calls contains all of their results."""
    answers = as_object(item).get("tool_responses")
    if isinstance(answers, list):
        responses = [x for x in answers if isinstance(x, dict)]
        return [Message("tool", results=tuple(_result_ag2(x) for x in responses))]
    found = message(item, "assistant") if isinstance(item, dict) else None
    return [] if found is None else [found]


def _result_ag2(answer: dict[str, Any]) -> ToolResult:
    return ToolResult(call_id(answer.get("tool_call_id")), evaluated(result(answer.get("content"))))


def _complete_tool(span: Span, given: Any, returned: Any, facts: Facts) -> None:
    """A call: its arguments stand beside its name, its result beside whether it succeeded."""
    facts["call_id"] = facts.get("call_id") or call_id(span.attributes.get("tool_call.id"))
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


DIALECTS = (_AGENT_FRAMEWORK, _SEMANTIC_KERNEL, _AUTOGEN)
QUIRKS = (
    # its model calls are in the conventions' own spans
    Quirk("semantic_kernel", "semconv", content=(ContentSwitch(_SENSITIVE, "semantic_kernel."),)),
    Quirk(
        "autogen",
        "openinference",
        (_OPENINFERENCE,),
        complete=complete_openinference,
        returns_state=True,
    ),
    Quirk("ag2", "openinference", _SCOPES, complete=complete, returns_state=True),
)
