"""OpenInference (Arize Phoenix): a span kind, flattened messages, and the inputs and outputs of decorated functions."""

import re
from collections.abc import Callable
from dataclasses import replace
from typing import Any, Final

from spanscore.dialects.carried import (
    ag2,
    agno,
    autogen_messages,
    beeai,
    claude_agent_sdk,
    crewai,
    dspy,
    google_adk_objects,
    haystack_messages,
    langchain4j,
    langgraph,
    llama_index_envelopes,
    openai_agents_js,
    smolagents,
)
from spanscore.dialects.content_switch import ContentSwitch
from spanscore.dialects.conventions import adot
from spanscore.dialects.dialect import Context, Dialect
from spanscore.dialects.forms import concatenated_calls, from_raw_body, gemini_calls, langchain_messages
from spanscore.dialects.forms.arguments import arguments, call_id, tools
from spanscore.dialects.forms.decorated_calls import json_of, read_arguments, unwrapped
from spanscore.dialects.forms.envelopes import tool_output
from spanscore.dialects.forms.ids import first_identity, identity
from spanscore.dialects.forms.indexed import elements, indexed
from spanscore.dialects.forms.messages import message
from spanscore.dialects.forms.provider_bodies import conversation
from spanscore.dialects.forms.reprs import REPR_CONTAINERS, evaluated, is_address
from spanscore.dialects.forms.status import status_error
from spanscore.dialects.forms.structure import Parsed, is_redacted, literal, opened, structure
from spanscore.dialects.forms.values import Facts, Side, add_damaged, count, text
from spanscore.model.span import Attributes, Span, Value
from spanscore.model.step import Message, StepKind

_RESPONSE_ID = re.compile(r'\{"id": ?"((?:chatcmpl-|resp_|msg_|gen-)[^"\\]{1,200})"')
_KINDS: Final[dict[str, StepKind]] = {
    "LLM": "model",
    "AGENT": "agent",
    "CHAIN": "workflow",
    "TOOL": "tool",
    "RETRIEVER": "retrieval",
}
_ROLES: Final[tuple[tuple[Side, str], ...]] = (("input", "user"), ("output", "assistant"))
_PSEUDO_TOOLS = ("_prepare_chat_with_tools",)  # LlamaIndex's, a step of its model class, called tool or model
_OPENAI_AGENTS = "openinference.instrumentation.openai_agents"
_JS_OPENAI = "@arizeai/openinference-instrumentation-openai"
_PRINTING = frozenset({_OPENAI_AGENTS, agno.SCOPE})  # they make text of a result by str()
_BEDROCK = "openinference.instrumentation.bedrock"
_JOINED = "llm.output_messages.0.message.content"
_GOOGLE = "openinference.instrumentation.google_genai"
_WITHOUT_EMPTY = frozenset({_OPENAI_AGENTS, "openinference.instrumentation.openai", _GOOGLE})
"""Of a call without arguments, these leave them out."""

_CALL = frozenset({"args", "kwargs"})
"""What smolagents records of a tool's call, and whether it made plain values of its arguments beside."""

_LANGCHAIN = ("openinference.instrumentation.langchain", "@arizeai/openinference-instrumentation-langchain")


def _complete_bedrock(span: Span, facts: Facts) -> None:
    """Take off an answer the line break for each of its calls: versions to 0.1.31 join the texts of all its blocks."""
    produced = facts.get("output") or ()
    if facts["kind"] != "model" or len(produced) != 1 or produced[0].calls or _JOINED not in span.attributes:
        return
    said = produced[0].text or ""
    if said.endswith("\n"):
        facts["output"] = (replace(produced[0], text=said.rstrip("\n") or None),)


_GIVEN, _PRODUCED = (
    adot.Names(f"{x}.value", f"llm.{x}_messages.{{}}.message.role", f"llm.{x}_messages.{{}}.message.content")
    for x in ("input", "output")
)
_COMPLETING: dict[str, Callable[[Span, Facts], None]] = {
    **dict.fromkeys(ag2.SCOPES, ag2.complete),
    autogen_messages.OPENINFERENCE_SCOPE: autogen_messages.complete,
    _BEDROCK: _complete_bedrock,
    beeai.SCOPE: beeai.complete,
    **dict.fromkeys(claude_agent_sdk.OPENINFERENCE_SCOPES, claude_agent_sdk.complete_openinference),
    agno.SCOPE: agno.complete,
    crewai.OPENINFERENCE_SCOPE: crewai.complete_openinference,
    crewai.LISTENER_SCOPE: crewai.complete_listener,
    dspy.SCOPE: dspy.complete_openinference,
    _GOOGLE: gemini_calls.complete_openinference,
    google_adk_objects.OPENINFERENCE_SCOPE: google_adk_objects.complete_openinference,
    haystack_messages.OPENINFERENCE_SCOPE: haystack_messages.complete_openinference,
    langchain4j.SCOPE: langchain4j.complete,
    llama_index_envelopes.OPENINFERENCE_SCOPE: llama_index_envelopes.complete_openinference,
    smolagents.SCOPE: smolagents.complete,
}
"""By the scope of its instrumentation, what opens a framework's own forms."""


def read(span: Span, context: Context) -> Facts:
    """The facts of an OpenInference span."""
    kind = _KINDS.get(str(span.attributes["openinference.span.kind"]).upper(), "other")
    span = adot.with_moved(span, context.logs, _GIVEN, _PRODUCED, is_model=kind == "model")
    attributes = span.attributes
    if kind in {"tool", "model"} and _is_pseudo_tool(span):
        kind = "other"
    facts: Facts = {"kind": kind, "session_id": identity(attributes.get("session.id"))}
    if span.scope.name in _LANGCHAIN:
        _place_in_graph(span, context, facts)
        kind = facts["kind"]
    if kind == "model":
        _read_model(span, facts)
    elif kind == "tool":
        _read_tool(span, facts)
    elif kind == "retrieval":
        _read_retrieval(attributes, facts)
    elif kind == "agent" or (kind == "workflow" and context.outermost):
        _read_function(span, facts)
    complete = _COMPLETING.get(span.scope.name)
    if complete is not None:
        complete(span, facts)
    return facts


def _is_pseudo_tool(span: Span) -> bool:
    """A step of LlamaIndex's model class; the hand-off of OpenAI's SDK, which the model asks for by a tool's name."""
    handed_off = span.scope.name == _OPENAI_AGENTS and span.name.startswith("handoff to ")
    return handed_off or openai_agents_js.is_pseudo_tool(span) or span.name.endswith(_PSEUDO_TOOLS)


def _place_in_graph(span: Span, context: Context, facts: Facts) -> None:
    """Whose step it is. The instrumentation calls a chain an agent for the word in its name, be it only a node."""
    metadata = structure(span.attributes.get("metadata")).value
    placed = metadata if isinstance(metadata, dict) else {}
    if facts["kind"] in {"model", "tool"}:
        facts["agent_name"] = langgraph.agent_name(placed)
    elif facts["kind"] in {"agent", "workflow"}:
        outermost = context.outermost and langchain_messages.state_messages(_input(span)) is not None
        if langgraph.is_agent(span.name, placed, outermost=outermost):
            facts["kind"] = "agent"
        elif langgraph.is_node(placed):
            facts["kind"] = "workflow"


def _input(span: Span) -> Any:
    return structure(span.attributes.get("input.value")).value


def _read_model(span: Span, facts: Facts) -> None:
    attributes = span.attributes
    for side, role in _ROLES:
        facts[side], is_damaged = _messages(span, side, role)
        if is_damaged:
            add_damaged(facts, side)
    facts["output"] = from_raw_body.with_reasoning(facts["output"], attributes.get("output.value"))
    offered = [x.get("json_schema") for x in _objects(attributes, "llm.tools.", "tool")]
    facts["tools"] = (
        _all_tools(offered)
        if offered
        else from_raw_body.offered(attributes.get("input.value"), attributes.get("output.value"))
    )
    if not any(x.role == "system" for x in facts["input"] or ()):
        facts["system"] = from_raw_body.system(attributes.get("input.value"))
    if span.scope.name == _JS_OPENAI and facts["output"]:
        facts["output"] = concatenated_calls.parted(facts["output"], facts["tools"] or ())
    facts["model"] = text(attributes.get("llm.response.model_name")) or text(attributes.get("llm.model_name"))
    facts["input_tokens"] = count(attributes.get("llm.token_count.prompt"))
    facts["output_tokens"] = count(attributes.get("llm.token_count.completion"))
    facts["response_id"] = _response_id(span)
    reason = text(attributes.get("llm.finish_reason"))
    facts["finish_reasons"] = (reason,) if reason else ()


def _response_id(span: Span) -> str | None:
    """The id of a response that the SDK's instrumentation keeps as it came, or that LangChain's message has."""
    raw = span.attributes.get("output.value")
    if span.scope.name in _LANGCHAIN:
        return langchain_messages.response_id(structure(raw).value)
    found = _RESPONSE_ID.match(raw) if isinstance(raw, str) else None
    return None if found is None else found[1]


def _all_tools(definitions: list[Any]) -> tuple[Any, ...]:
    return tuple(tool for definition in definitions for tool in tools(definition) or ())


def _messages(span: Span, side: str, role: str) -> tuple[tuple[Message, ...] | None, bool]:
    """The messages of one side of a model call, and whether they were redacted.

    LangChain's serialized messages are read first, for the flattened ones of its JavaScript instrumentation lack call
    ids and some texts. Without flattened messages the request or response itself is looked into.
    """
    attributes = span.attributes
    raw = attributes.get(f"{side}.value")
    if span.scope.name in _LANGCHAIN and (found := langchain_messages.state_messages(structure(raw).value)):
        return langgraph.without_hand_back(found), False
    items = _objects(attributes, f"llm.{side}_messages.", "message")
    if span.scope.name == google_adk_objects.OPENINFERENCE_SCOPE:
        items = google_adk_objects.without_overlaps(items)
    flat = [_flat_message(x, role) for x in items]
    if flat:
        if span.scope.name in _WITHOUT_EMPTY and not span.dropped_attributes_count:
            flat = [None if x is None else from_raw_body.without_gaps(x) for x in flat]
        found = from_raw_body.completed(tuple(x for x in flat if x is not None), raw, role)
        if span.scope.name == openai_agents_js.SCOPE and side == "input":
            found = tuple(openai_agents_js.with_texts(found, raw))
        return found, any(is_redacted(x.get("content")) for x in items) or from_raw_body.is_lost(found, raw)
    if is_redacted(raw):
        return None, True
    return conversation(structure(raw).value, role), False


def _objects(attributes: Attributes, prefix: str, name: str) -> list[dict[str, Any]]:
    """The objects `prefix.N.name`, by N."""
    return [x[name] for x in indexed(attributes, prefix) if isinstance(x, dict) and isinstance(x.get(name), dict)]


def _flat_message(item: dict[str, Any], role: str) -> Message | None:
    calls = [x.get("tool_call") for x in elements(item.get("tool_calls")) if isinstance(x, dict)]
    content: Any = item.get("content")
    parts = [_flat_part(x) for x in elements(item.get("contents")) if isinstance(x, dict)]
    if parts:
        content = [x for x in parts if not (calls and x.get("type") == "tool_use")]
        if not any(x.get("type") == "text" for x in content) and isinstance(item.get("content"), str):
            content.append({"type": "text", "text": item["content"]})
    if not calls and isinstance(item.get("function_call_name"), str):
        calls = [{"name": item["function_call_name"], "arguments": item.get("function_call_arguments_json")}]
    fields = {"role": item.get("role"), "content": content, "tool_calls": calls}
    if item.get("tool_call_id"):  # Bedrock's writes an empty one beside calls
        fields["tool_call_id"] = item["tool_call_id"]
    return message(fields, role)


def _flat_part(part: dict[str, Any]) -> dict[str, Any]:
    content = part.get("message_content")
    fields = dict(content) if isinstance(content, dict) else {}
    if isinstance(part.get("tool_call"), dict):
        fields |= {"type": "tool_use", **part["tool_call"]}
    return fields


def _read_tool(span: Span, facts: Facts) -> None:
    attributes = span.attributes
    facts["tool_name"] = text(attributes.get("tool.name")) or text(span.name)
    facts["call_id"] = call_id(attributes.get("tool.id"))
    facts["error"] = status_error(span)
    given, returned = attributes.get("input.value"), attributes.get("output.value")
    if is_redacted(given):
        add_damaged(facts, "arguments")
    elif given is not None:
        _read_arguments(span, given, facts)
    if is_redacted(returned):
        add_damaged(facts, "result")
    elif returned is not None:
        _read_result(span, returned, facts)


def _read_arguments(span: Span, given: Value, facts: Facts) -> None:
    plain = span.attributes.get("input.mime_type") == "text/plain"
    value = opened(given, scalars=False) if plain and given != "" else arguments(given)
    if isinstance(value, str) and span.scope.name in _LANGCHAIN and value.startswith(REPR_CONTAINERS):
        value = literal(value)
    if not isinstance(value, dict):
        facts["positional"] = (value,)
    elif span.scope.name == smolagents.SCOPE and _CALL <= value.keys() <= _CALL | {"sanitize_inputs_outputs"}:
        read_arguments(value, facts)
    else:
        facts["arguments"] = value


def _read_result(span: Span, returned: Value, facts: Facts) -> None:
    plain = span.attributes.get("output.mime_type") == "text/plain"
    value = opened(returned, scalars=not plain)
    if span.scope.name in _PRINTING:
        value = evaluated(value)
    if span.scope.name in _LANGCHAIN:
        if span.scope.name == _LANGCHAIN[1] and isinstance(value, dict) and value.keys() == {"output"}:
            value = opened(value["output"])
        answer = tool_output(value, known=True)
        if answer is not None:
            value, facts["call_id"] = answer.value, facts["call_id"] or answer.call_id
            facts["error"] = facts["error"] or answer.error
    facts["result"], facts["has_result"] = value, True


def _read_retrieval(attributes: Attributes, facts: Facts) -> None:
    facts["query"] = text(attributes.get("input.value"))
    facts["documents"] = tuple(_objects(attributes, "retrieval.documents.", "document"))


def _read_function(span: Span, facts: Facts) -> None:
    """An agent's or chain's input and output: a graph's state, or what a decorated function took and returned."""
    attributes = span.attributes
    given, returned = attributes.get("input.value"), attributes.get("output.value")
    metadata = structure(attributes.get("metadata")).value
    names = metadata if isinstance(metadata, dict) else {}
    facts["agent_name"] = text(attributes.get("agent.name")) or text(names.get("lc_agent_name"))
    if facts["agent_name"] is None and facts["kind"] == "agent":
        facts["agent_name"] = _agent_by_convention(span)
    if facts["session_id"] is None:
        facts["session_id"] = first_identity(names, ("session_id", "conversation_id", "thread_id"))
    facts["user_id"] = identity(names.get("user_id"))
    if span.scope.name in _LANGCHAIN:
        facts["input"] = langchain_messages.state_messages(structure(given).value)
        facts["output"] = langchain_messages.after_question(
            langchain_messages.state_messages(structure(returned).value)
        )
    facts["input_text"] = _plain(given, attributes.get("input.mime_type"))
    _read_returned(span, returned, facts)
    if is_redacted(given):
        add_damaged(facts, "input")
    if is_redacted(returned):
        add_damaged(facts, "output")


def _agent_by_convention(span: Span) -> str | None:
    """An agent's span has its name; the outermost one of OpenAI's SDK that of a workflow, LangGraph's perhaps none."""
    if span.scope.name == _OPENAI_AGENTS:
        return None
    return langgraph.graph_name(span.name) if span.scope.name in _LANGCHAIN else text(span.name)


def _plain(value: Value, mime_type: Value) -> str | None:
    """Text that a function took; JSON only where it is a string or an object that holds one string."""
    parsed = _told(value, mime_type).value
    if isinstance(parsed, dict) and len(parsed) == 1:
        parsed = next(iter(parsed.values()))
    return parsed if isinstance(parsed, str) else None


def _read_returned(span: Span, returned: Value, facts: Facts) -> None:
    """What a function returned: text, or another value than messages as JSON, if no framework keeps its state there."""
    told = _told(returned, span.attributes.get("output.mime_type"))
    value = unwrapped(told.value, "output" if span.scope.name in _LANGCHAIN else None)
    facts["output_text"] = value if isinstance(value, str) else None
    if not facts.get("output") and not told.damaged and span.scope.name not in _COMPLETING:
        facts["output_json"] = json_of(value)


def _told(value: Value, mime_type: Value) -> Parsed:
    """What a function took or returned; JSON only where the span says that it is."""
    if not isinstance(value, str) or is_redacted(value) or is_address(value):
        return Parsed(None)
    return structure(value) if mime_type == "application/json" else Parsed(value)


DIALECT = Dialect(
    "openinference",
    read,
    keys=("openinference.span.kind",),
    marks=(b"openinference.span.kind",),
    content=(
        ContentSwitch(
            "unset OPENINFERENCE_HIDE_INPUTS, OPENINFERENCE_HIDE_OUTPUTS and their like, or the same options of a "
            "trace config"
        ),
    ),
)
