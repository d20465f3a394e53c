"""Langfuse's SDKs: observations with a type, an input and an output, recorded as the function or
client had them.
"""

from collections.abc import Mapping, Sequence
from typing import Final

from spanscore.dialects import keys
from spanscore.dialects.dialect import ContentSwitch, Context, Dialect, IgnoredSpans
from spanscore.dialects.forms import langchain_messages
from spanscore.dialects.forms.arguments import tools
from spanscore.dialects.forms.decorated_calls import (
    cut,
    is_call,
    only_argument,
    read_arguments,
    read_call,
    read_recorded,
)
from spanscore.dialects.forms.json_text import keep_json_text
from spanscore.dialects.forms.provider_bodies import conversation, offered, system_of
from spanscore.dialects.forms.structure import (
    REPR_CONTAINERS,
    Facts,
    add_damaged,
    as_list,
    as_object,
    first_count,
    first_identity,
    identity,
    literal,
    opened,
    structure,
    text,
)
from spanscore.model.span import Attributes, LogRecord, Span, Value
from spanscore.model.step import Message, Step, StepKind

_TYPE = "langfuse.observation.type"
_KINDS: Final[dict[str, StepKind]] = {
    "generation": "model",
    "agent": "agent",
    "tool": "tool",
    "retriever": "retrieval",
    "chain": "workflow",
    "span": "workflow",
}
_INPUT, _OUTPUT = "langfuse.observation.input", "langfuse.observation.output"
_TRACED = frozenset({_INPUT, _OUTPUT, "langfuse.trace.input", "langfuse.trace.output"})
_OF_MODELS = frozenset({"langfuse.observation.model.name", "langfuse.observation.usage_details"})
_METADATA = "langfuse.observation.metadata."
_GRAPH = ("langgraph", '"langgraph"')  # the Python SDK writes JSON
_GIVEN = ("input_tokens", "prompt_tokens", "input")
_PRODUCED = ("output_tokens", "completion_tokens", "output")
_RETURNED_BY_TOOL = '{"lc":1,"type":"constructor","id":["langchain_core","messages","ToolMessage"]'
"""How the result begins of a tool of LangChain's, to which the JavaScript handler 5.0 gives no
type.
"""


def matches(span: Span, _logs: Sequence[LogRecord]) -> bool:
    """Whether somebody wrote the span for Langfuse, without saying what it is, and by no other
    convention.
    """
    attributes = span.attributes
    if _TRACED.isdisjoint(attributes) or span.dropped_attributes_count:
        return False
    return not any(
        x.startswith(("gen_ai.", "llm.")) for x in attributes if x != keys.GEN_AI_CONVERSATION_ID
    )


def read(span: Span, context: Context) -> Facts:
    """The facts of an observation; events, embeddings and guardrails are none of a turn's steps."""
    attributes = span.attributes
    placed = {
        x: opened(value) for x, value in langchain_messages.metadata(attributes, _METADATA).items()
    }
    kind = _kind(span, placed, outermost=context.outermost)
    facts: Facts = {
        "kind": kind,
        "session_id": first_identity(
            attributes, ("langfuse.session.id", keys.GEN_AI_CONVERSATION_ID)
        ),
        "user_id": identity(attributes.get("langfuse.user.id")),
    }
    given, returned = attributes.get(_INPUT), attributes.get(_OUTPUT)
    if kind == "workflow" and isinstance(returned, str) and returned.startswith(_RETURNED_BY_TOOL):
        kind = facts["kind"] = "tool"
    if kind == "model":
        _read_model(attributes, given, returned, facts)
    elif kind == "tool":
        _read_tool(span, given, returned, facts)
    elif kind == "retrieval":
        _read_retrieval(given, returned, facts)
    elif kind == "agent" or (kind == "workflow" and context.outermost):
        facts["agent_name"] = (
            langchain_messages.graph_name(span.name) or None if kind == "agent" else None
        )
        read_recorded(*_recorded(attributes), facts, envelope="output")
    if kind in {"model", "tool"}:
        facts["agent_name"] = langchain_messages.agent_name(placed)
    return facts


def _read_retrieval(given: Value, returned: Value, facts: Facts) -> None:
    request, found = structure(given).value, structure(returned).value
    query = only_argument(request) if isinstance(request, dict) else request
    facts["query"] = query if isinstance(query, str) else None
    facts["documents"] = tuple(as_list(found))


def _recorded(attributes: Attributes) -> tuple[Value, Value]:
    """The input and output of an agent or function, which may be recorded on the trace alone."""
    given, returned = attributes.get(_INPUT), attributes.get(_OUTPUT)
    given = attributes.get("langfuse.trace.input") if given is None else given
    return given, attributes.get("langfuse.trace.output") if returned is None else returned


def _kind(span: Span, placed: Mapping[str, object], *, outermost: bool) -> StepKind:
    """What an observation stands for.

    LangChain's handler calls a chain an agent for a word in its name.

    So a node of LangGraph's is none, and a graph that is named as an agent is one.
    """
    kind = _KINDS.get(str(span.attributes.get(_TYPE, "span")), "other")
    # as SDKs up to 3.3 call them
    if kind == "workflow" and not _OF_MODELS.isdisjoint(span.attributes):
        return "model"
    if kind in {"agent", "workflow"} and (
        placed or span.attributes.get(_METADATA + "ls_integration") in _GRAPH
    ):
        if langchain_messages.is_agent(span.name, placed, outermost=outermost):
            return "agent"
        return "workflow"
    return kind


def _read_model(attributes: Attributes, given: Value, returned: Value, facts: Facts) -> None:
    request, response = structure(given), structure(returned)
    facts["input"] = conversation(request.value, "user")
    facts["output"] = (
        None if isinstance(response.value, str) else conversation(response.value, "assistant")
    )
    if not facts["output"] and not response.damaged and isinstance(returned, str) and returned:
        # text is recorded as it is, even where it is JSON
        facts["output"] = (Message("assistant", returned),)
    facts["tools"] = offered(request.value, response.value)
    facts["system"] = system_of(as_object(request.value)) or system_of(as_object(response.value))
    facts["damaged"] = cut(input=request, output=response)
    _complete_responses(attributes, facts)
    if request.damaged and facts["tools"] is None:
        add_damaged(facts, "tools")
    facts["model"] = text(attributes.get("langfuse.observation.model.name"))
    usage = structure(attributes.get("langfuse.observation.usage_details")).value
    if isinstance(usage, dict):
        facts["input_tokens"] = first_count(usage, _GIVEN)
        facts["output_tokens"] = first_count(usage, _PRODUCED)


def _complete_responses(attributes: Attributes, facts: Facts) -> None:
    """Instructions and tools of OpenAI's Responses, which the SDK for JavaScript keeps with the
    observation's metadata.

    It does so with both, and with a list of tools that is empty where none are on offer.
    """
    listed = structure(attributes.get(_METADATA + "tools"))
    if listed.damaged:
        add_damaged(facts, "tools")
    elif not isinstance(listed.value, list) or not all(isinstance(x, dict) for x in listed.value):
        return
    instructions = attributes.get(_METADATA + "instructions")
    facts["system"] = facts["system"] or text(instructions)
    if facts["tools"] is None:
        facts["tools"] = tools(listed.value)


def _read_tool(span: Span, given: Value, returned: Value, facts: Facts) -> None:
    attributes = span.attributes
    facts["tool_name"] = text(span.name)
    error = None
    if attributes.get("langfuse.observation.level") == "ERROR":
        error = text(attributes.get("langfuse.observation.status_message")) or "error"
    read_call(span, given, returned, facts, error=error)
    value = facts.get("arguments")
    if is_call(value):
        read_arguments(value, facts)
    elif isinstance(value, str) and value.startswith(REPR_CONTAINERS):
        facts["arguments"] = literal(value)  # as which LangChain's callback handler is given them


def refine_trace(steps: Sequence[Step]) -> list[Step]:
    """The steps; text is recorded as it is, so an agent's question or answer that is JSON is known
    by its model's.
    """
    return keep_json_text(steps, _recorded)


DIALECT = Dialect(
    "langfuse",
    read,
    scopes=("langfuse-sdk",),
    matches=matches,
    matching_keys=tuple(_TRACED),
    keys=(_TYPE,),
    prefilters=(b"langfuse",),
    refine_trace=refine_trace,
    ignored=IgnoredSpans(values=(("langfuse.environment", "langfuse-llm-judge"),)),
    content=(
        ContentSwitch(
            "unset LANGFUSE_OBSERVE_DECORATOR_IO_CAPTURE_ENABLED, and leave out capture_input=False"
            " and capture_output=False"
        ),
    ),
    by_hand=True,
)
