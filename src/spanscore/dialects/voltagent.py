"""VoltAgent: spans that name the entity they belong to; one model span stands for the whole loop of a turn."""

from typing import Any

from spanscore.dialects._arguments import call_id, tools
from spanscore.dialects._base import Context, Dialect, Facts, count, text
from spanscore.dialects._functions import damaged, read_call, read_function
from spanscore.dialects._json import Parsed, is_redacted, opened, structure
from spanscore.dialects._messages import messages
from spanscore.model.json import Json
from spanscore.model.span import Attributes, Span, Value
from spanscore.model.trace import Tool

_TYPE, _ENTITY = "span.type", "entity.type"
_KINDS = {"llm": "model", "tool": "tool", "retriever": "retrieval", "workflow-step": "workflow"}
_ENTITIES = {"agent": "agent", "workflow": "workflow"}  # of a span without a type
_ASIDE = "generateTitle"
"""A model call that belongs to no turn."""


def read(span: Span, context: Context) -> Facts:
    """The facts of a span of an agent, its model, a tool or a retriever; memory and guardrails are none."""
    attributes = span.attributes
    kinds, key = (_KINDS, _TYPE) if _TYPE in attributes else (_ENTITIES, _ENTITY)
    kind = kinds.get(str(attributes.get(key)), "other")
    if kind == "model" and attributes.get("llm.operation") == _ASIDE:
        kind = "other"
    facts: Facts = {"kind": kind, "session_id": text(attributes.get("conversation.id"))}
    given, returned = attributes.get("input"), attributes.get("output")
    if kind == "agent":
        _read_agent(attributes, given, returned, facts)
    elif kind == "model":
        _read_model(attributes, facts)
    elif kind == "tool":
        _read_tool(span, given, returned, facts)
    elif kind == "retrieval":
        found = opened(returned)
        facts["query"] = text(given)
        facts["documents"] = tuple(found) if isinstance(found, list) else () if found is None else (found,)
    elif kind == "workflow" and context.outermost:
        read_function(opened(given, scalars=False), Parsed(opened(returned, scalars=False)), facts)
        facts["damaged"] = damaged(input=given, output=returned)
    return facts


def _read_agent(attributes: Attributes, given: Value, returned: Value, facts: Facts) -> None:
    """An agent's span has the sum of all tokens; its models' spans only those of the last call that they stand for."""
    told = structure(attributes.get("agent.messages"))
    facts["agent_name"] = text(attributes.get("entity.name"))
    facts["input"] = messages(told.value).messages if isinstance(told.value, list) else None
    facts["input_text"] = _said(given) if facts["input"] is None else None
    facts["output_text"] = _said(returned)
    facts["system"] = text(attributes.get("agent.instructions"))
    facts["tools"] = _offered(structure(attributes.get("agent.stateSnapshot")).value)
    facts["input_tokens"] = count(attributes.get("usage.prompt_tokens"))
    facts["output_tokens"] = count(attributes.get("usage.completion_tokens"))
    parts = {"input": told.damaged or is_redacted(given), "output": is_redacted(returned)}
    facts["damaged"] = frozenset(fact for fact, cut in parts.items() if cut)


def _said(value: Value) -> str | None:
    return value if isinstance(value, str) and not is_redacted(value) else None


def _offered(state: Any) -> tuple[Tool, ...] | None:
    """The tools in an agent's state; their parameters are Zod's own objects, unless they came as a schema."""
    found = tools(state["tools"]) if isinstance(state, dict) and isinstance(state.get("tools"), list) else None
    return found and tuple(Tool(x.name, x.description, _schema(x.parameters)) for x in found)


def _schema(parameters: Json) -> Json:
    return parameters if isinstance(parameters, dict) and "properties" in parameters else None


def _read_model(attributes: Attributes, facts: Facts) -> None:
    told = structure(attributes.get("llm.messages"))
    facts["input"] = messages(told.value).messages if isinstance(told.value, list) else None
    facts["damaged"] = frozenset({"input"}) if told.damaged else frozenset()
    facts["model"] = text(attributes.get("llm.model"))
    reason = text(attributes.get("llm.finish_reason"))
    facts["finish_reasons"] = (reason,) if reason else ()


def _read_tool(span: Span, given: Value, returned: Value, facts: Facts) -> None:
    attributes = span.attributes
    facts["tool_name"] = text(attributes.get("tool.name"))
    facts["call_id"] = call_id(attributes.get("tool.call.id"))
    read_call(span, given, returned, facts)


DIALECT = Dialect("voltagent", read, scopes=("@voltagent/core",), marks=(b"@voltagent/core",))
