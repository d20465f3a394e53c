"""LangSmith's OpenTelemetry exporter: runs with a kind, their inputs and outputs as two attributes
of JSON.
"""

from collections.abc import Sequence
from typing import Any, Final

from spanscore.dialects import keys
from spanscore.dialects.dialect import ContentSwitch, Context, Dialect
from spanscore.dialects.forms import arguments, langchain_messages
from spanscore.dialects.forms.arguments import call_id, tools
from spanscore.dialects.forms.decorated_calls import (
    cut,
    read_call,
    read_recorded,
)
from spanscore.dialects.forms.provider_bodies import configured_tools, conversation, system_of
from spanscore.dialects.forms.structure import (
    Facts,
    as_list,
    as_object,
    first_text,
    identity,
    literal,
    read_names,
    read_tokens,
    read_usage,
    structure,
    text,
)
from spanscore.model.span import Attributes, Span, Value, changed
from spanscore.model.step import Step, StepKind

_KIND = "langsmith.span.kind"
_KINDS: Final[dict[str, StepKind]] = {
    "llm": "model",
    "tool": "tool",
    "retriever": "retrieval",
    "chain": "workflow",
}
_INPUTS, _OUTPUTS = keys.GEN_AI_PROMPT, keys.GEN_AI_COMPLETION
_HIDDEN = "{}"  # stands for either where LANGSMITH_HIDE_INPUTS or LANGSMITH_HIDE_OUTPUTS is set
_METADATA = "langsmith.metadata."  # `langsmith.trace.session_id` is a project, and no conversation
_TRACEABLE = "langsmith.traceable"  # only the SDK for JavaScript records it


def read(span: Span, context: Context) -> Facts:
    """The facts of a run."""
    attributes = span.attributes
    kind = _KINDS.get(str(attributes.get(_KIND)), "other")
    placed = langchain_messages.metadata(attributes, _METADATA)
    if kind == "workflow":
        kind = _kind_of_chain(span, placed, context)
    facts: Facts = {
        "kind": kind,
        "agent_name": langchain_messages.graph_name(span.name)
        if kind == "agent"
        else langchain_messages.agent_name(placed),
    }
    read_names(attributes, facts, _METADATA)
    given, returned = attributes.get(_INPUTS), attributes.get(_OUTPUTS)
    if kind == "model":
        _read_model(attributes, given, returned, facts)
    elif kind == "tool":
        _read_tool(span, given, returned, facts)
    elif kind == "retrieval":
        query, found = structure(given).value, structure(returned).value
        facts["query"] = text(as_object(query).get("query"))
        documents = as_object(found).get("documents", as_object(found).get("output"))
        facts["documents"] = tuple(as_list(documents))
    elif kind == "agent" or (kind == "workflow" and context.outermost):
        read_recorded(given, returned, facts, envelope=_envelope(attributes))
    return facts


def _kind_of_chain(span: Span, placed: dict[str, object], context: Context) -> StepKind:
    around = (
        context.outermost
        and langchain_messages.state_messages(structure(span.attributes.get(_INPUTS)).value)
        is not None
    )
    return (
        "agent" if langchain_messages.is_agent(span.name, placed, outermost=around) else "workflow"
    )


def _read_model(attributes: Attributes, given: Value, returned: Value, facts: Facts) -> None:
    request, response = structure(given), structure(returned)
    facts["input"] = langchain_messages.without_hand_back(conversation(request.value, "user"))
    facts["output"] = conversation(response.value, "assistant")
    facts["damaged"] = cut(input=request, output=response)
    offered = attributes.get(keys.GEN_AI_TOOL_DEFINITIONS)
    if offered is None and isinstance(request.value, dict):
        offered = request.value.get("tools")
    facts["tools"] = None if offered is None else tools(offered)
    if _TRACEABLE in attributes and facts["output"]:
        facts["output"] = arguments.split_calls(facts["output"], facts["tools"] or ())
    if isinstance(request.value, dict):
        facts["system"] = system_of(request.value)
        facts["tools"] = facts["tools"] or configured_tools(request.value)
    facts["response_id"] = identity(
        attributes.get(keys.GEN_AI_RESPONSE_ID)
    ) or langchain_messages.response_id(response.value)
    names = (keys.GEN_AI_RESPONSE_MODEL, keys.GEN_AI_REQUEST_MODEL, _METADATA + "ls_model_name")
    facts["model"] = first_text(attributes, names)
    read_tokens(attributes, facts)
    # alone where hooks of a framework report a run
    read_usage(structure(attributes.get(_METADATA + "usage_metadata")).value, facts)


def _read_tool(span: Span, given: Value, returned: Value, facts: Facts) -> None:
    attributes = span.attributes
    facts["tool_name"] = text(attributes.get(keys.GEN_AI_TOOL_NAME)) or text(span.name)
    facts["call_id"] = call_id(attributes.get(keys.GEN_AI_TOOL_CALL_ID))
    read_call(span, given, returned, facts, envelope=_envelope(attributes))
    facts["arguments"] = _unprinted(facts.get("arguments"))


def _envelope(attributes: Attributes) -> str:
    """The key under which the SDK puts all that is no object."""
    return "outputs" if _TRACEABLE in attributes else "output"


def _unprinted(value: Any) -> Any:
    """Arguments, which LangChain's tracer may print as a Python literal below `input`."""
    if isinstance(value, dict) and value.keys() == {"input"} and isinstance(value["input"], str):
        opened = literal(value["input"])
        return opened if isinstance(opened, dict) else value
    return value


def refine_trace(steps: Sequence[Step]) -> Sequence[Step]:
    """The steps; where all runs of the trace have inputs or outputs that are empty, tools have
    none: they are hidden.

    A run of a model never has empty ones, so a tool's own `{}` is known by what others show.
    """
    shown = {
        key
        for x in steps
        for key in (_INPUTS, _OUTPUTS)
        if x.span.attributes.get(key, _HIDDEN) != _HIDDEN
    }
    if len(shown) == len((_INPUTS, _OUTPUTS)):
        return steps
    hidden: dict[str, Any] = {} if _INPUTS in shown else {"arguments": None}
    if _OUTPUTS not in shown:
        hidden |= {"result": None, "has_result": False}
    return [changed(x, **hidden) if x.kind == "tool" else x for x in steps]


DIALECT = Dialect(
    "langsmith",
    read,
    keys=(_KIND,),
    prefilters=(b"langsmith.span.kind",),
    refine_trace=refine_trace,
    content=(ContentSwitch("unset LANGSMITH_HIDE_INPUTS and LANGSMITH_HIDE_OUTPUTS"),),
)
