"""The SDKs of Langfuse, LangSmith and LangWatch.

`langfuse`: Langfuse's SDKs: observations with a type, an input and an output, recorded as the
function or client had them.

`langsmith`: LangSmith's OpenTelemetry exporter: runs with a kind, their inputs and outputs as two
attributes of JSON.

`langwatch`: LangWatch's SDK: a type for each span, and an input and an output, each with the type
of its value.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final, TypeGuard

from spanscore.dialects.dialect import ContentSwitch, Context, Dialect, IgnoredSpans
from spanscore.dialects.forms import arguments, langchain_messages
from spanscore.dialects.forms.arguments import call_id, tools
from spanscore.dialects.forms.decorated_calls import (
    cut,
    damaged,
    is_call,
    keep_json_text,
    read_arguments,
    read_call,
    read_function,
    read_recorded,
    read_retrieval,
)
from spanscore.dialects.forms.provider_bodies import (
    configured_tools,
    conversation,
    offered,
    offered as listed_tools,
    system_of,
)
from spanscore.dialects.forms.structure import (
    REPR_CONTAINERS,
    Facts,
    Parsed,
    add_damaged,
    as_list,
    as_object,
    evaluated,
    first_count,
    first_identity,
    first_text,
    identity,
    literal,
    opened,
    read_names,
    read_tokens,
    read_usage,
    structure,
    text,
)
from spanscore.model.json import printed
from spanscore.model.span import Attributes, LogRecord, Span, Value, changed
from spanscore.model.step import Message, Step, StepKind

_LANGFUSE_TYPE = "langfuse.observation.type"
_LANGFUSE_KINDS: Final[dict[str, StepKind]] = {
    "generation": "model",
    "agent": "agent",
    "tool": "tool",
    "retriever": "retrieval",
    "chain": "workflow",
    "span": "workflow",
}
_LANGFUSE_INPUT, _LANGFUSE_OUTPUT = "langfuse.observation.input", "langfuse.observation.output"
_TRACED = frozenset(
    {_LANGFUSE_INPUT, _LANGFUSE_OUTPUT, "langfuse.trace.input", "langfuse.trace.output"}
)
_OF_MODELS = frozenset({"langfuse.observation.model.name", "langfuse.observation.usage_details"})
_LANGFUSE_METADATA = "langfuse.observation.metadata."
_GRAPH = ("langgraph", '"langgraph"')  # the Python SDK writes JSON
_GIVEN = ("input_tokens", "prompt_tokens", "input")
_PRODUCED = ("output_tokens", "completion_tokens", "output")
_RETURNED_BY_TOOL = '{"lc":1,"type":"constructor","id":["langchain_core","messages","ToolMessage"]'
"""How the result begins of a tool of LangChain's, to which the JavaScript handler 5.0 gives no
type.
"""


def matches_langfuse(span: Span, _logs: Sequence[LogRecord]) -> bool:
    """Whether somebody wrote the span for Langfuse, without saying what it is, and by no other
    convention.
    """
    attributes = span.attributes
    if _TRACED.isdisjoint(attributes) or span.dropped_attributes_count:
        return False
    return not any(
        x.startswith(("gen_ai.", "llm.")) for x in attributes if x != "gen_ai.conversation.id"
    )


def read_langfuse(span: Span, context: Context) -> Facts:
    """The facts of an observation; events, embeddings and guardrails are none of a turn's steps."""
    attributes = span.attributes
    placed = {
        x: opened(value)
        for x, value in langchain_messages.metadata(attributes, _LANGFUSE_METADATA).items()
    }
    kind = _kind(span, placed, outermost=context.outermost)
    facts: Facts = {
        "kind": kind,
        "session_id": first_identity(attributes, ("langfuse.session.id", "gen_ai.conversation.id")),
        "user_id": identity(attributes.get("langfuse.user.id")),
    }
    given, returned = attributes.get(_LANGFUSE_INPUT), attributes.get(_LANGFUSE_OUTPUT)
    if kind == "workflow" and isinstance(returned, str) and returned.startswith(_RETURNED_BY_TOOL):
        kind = facts["kind"] = "tool"
    if kind == "model":
        _read_model_langfuse(attributes, given, returned, facts)
    elif kind == "tool":
        _read_tool_langfuse(span, given, returned, facts)
    elif kind == "retrieval":
        read_retrieval(given, returned, facts)
    elif kind == "agent" or (kind == "workflow" and context.outermost):
        facts["agent_name"] = (
            langchain_messages.graph_name(span.name) or None if kind == "agent" else None
        )
        read_recorded(*_recorded(attributes), facts, envelope="output")
    if kind in {"model", "tool"}:
        facts["agent_name"] = langchain_messages.agent_name(placed)
    return facts


def _recorded(attributes: Attributes) -> tuple[Value, Value]:
    """The input and output of an agent or function, which may be recorded on the trace alone."""
    given, returned = attributes.get(_LANGFUSE_INPUT), attributes.get(_LANGFUSE_OUTPUT)
    given = attributes.get("langfuse.trace.input") if given is None else given
    return given, attributes.get("langfuse.trace.output") if returned is None else returned


def _kind(span: Span, placed: Mapping[str, object], *, outermost: bool) -> StepKind:
    """What an observation stands for.

    LangChain's handler calls a chain an agent for a word in its name.

    So a node of LangGraph's is none, and a graph that is named as an agent is one.
    """
    kind = _LANGFUSE_KINDS.get(str(span.attributes.get(_LANGFUSE_TYPE, "span")), "other")
    # as SDKs up to 3.3 call them
    if kind == "workflow" and not _OF_MODELS.isdisjoint(span.attributes):
        return "model"
    if kind in {"agent", "workflow"} and (
        placed or span.attributes.get(_LANGFUSE_METADATA + "ls_integration") in _GRAPH
    ):
        if langchain_messages.is_agent(span.name, placed, outermost=outermost):
            return "agent"
        return "workflow"
    return kind


def _read_model_langfuse(
    attributes: Attributes, given: Value, returned: Value, facts: Facts
) -> None:
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
    listed = structure(attributes.get(_LANGFUSE_METADATA + "tools"))
    if listed.damaged:
        add_damaged(facts, "tools")
    elif not isinstance(listed.value, list) or not all(isinstance(x, dict) for x in listed.value):
        return
    instructions = attributes.get(_LANGFUSE_METADATA + "instructions")
    facts["system"] = facts["system"] or text(instructions)
    if facts["tools"] is None:
        facts["tools"] = tools(listed.value)


def _read_tool_langfuse(span: Span, given: Value, returned: Value, facts: Facts) -> None:
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


def refine_trace_langfuse(steps: Sequence[Step]) -> list[Step]:
    """The steps; text is recorded as it is, so an agent's question or answer that is JSON is known
    by its model's.
    """
    return keep_json_text(steps, _recorded)


_LANGFUSE = Dialect(
    "langfuse",
    read_langfuse,
    scopes=("langfuse-sdk",),
    matches=matches_langfuse,
    matching_keys=tuple(_TRACED),
    keys=(_LANGFUSE_TYPE,),
    prefilters=(b"langfuse",),
    refine_trace=refine_trace_langfuse,
    ignored=IgnoredSpans(values=(("langfuse.environment", "langfuse-llm-judge"),)),
    content=(
        ContentSwitch(
            "unset LANGFUSE_OBSERVE_DECORATOR_IO_CAPTURE_ENABLED, and leave out capture_input=False"
            " and capture_output=False"
        ),
    ),
    by_hand=True,
)


_KIND = "langsmith.span.kind"
_LANGSMITH_KINDS: Final[dict[str, StepKind]] = {
    "llm": "model",
    "tool": "tool",
    "retriever": "retrieval",
    "chain": "workflow",
}
_INPUTS, _OUTPUTS = "gen_ai.prompt", "gen_ai.completion"
_HIDDEN = "{}"  # stands for either where LANGSMITH_HIDE_INPUTS or LANGSMITH_HIDE_OUTPUTS is set
_LANGSMITH_METADATA = (
    "langsmith.metadata."  # `langsmith.trace.session_id` is a project, and no conversation
)
_TRACEABLE = "langsmith.traceable"  # only the SDK for JavaScript records it


def read_langsmith(span: Span, context: Context) -> Facts:
    """The facts of a run."""
    attributes = span.attributes
    kind = _LANGSMITH_KINDS.get(str(attributes.get(_KIND)), "other")
    placed = langchain_messages.metadata(attributes, _LANGSMITH_METADATA)
    if kind == "workflow":
        kind = _kind_of_chain(span, placed, context)
    facts: Facts = {
        "kind": kind,
        "agent_name": langchain_messages.graph_name(span.name)
        if kind == "agent"
        else langchain_messages.agent_name(placed),
    }
    read_names(attributes, facts, _LANGSMITH_METADATA)
    given, returned = attributes.get(_INPUTS), attributes.get(_OUTPUTS)
    if kind == "model":
        _read_model_langsmith(attributes, given, returned, facts)
    elif kind == "tool":
        _read_tool_langsmith(span, given, returned, facts)
    elif kind == "retrieval":
        read_retrieval(given, returned, facts)
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


def _read_model_langsmith(
    attributes: Attributes, given: Value, returned: Value, facts: Facts
) -> None:
    request, response = structure(given), structure(returned)
    facts["input"] = langchain_messages.without_hand_back(conversation(request.value, "user"))
    facts["output"] = conversation(response.value, "assistant")
    facts["damaged"] = cut(input=request, output=response)
    offered = attributes.get("gen_ai.tool.definitions")
    if offered is None and isinstance(request.value, dict):
        offered = request.value.get("tools")
    facts["tools"] = None if offered is None else tools(offered)
    if _TRACEABLE in attributes and facts["output"]:
        facts["output"] = arguments.split_calls(facts["output"], facts["tools"] or ())
    if isinstance(request.value, dict):
        facts["system"] = system_of(request.value)
        facts["tools"] = facts["tools"] or configured_tools(request.value)
    facts["response_id"] = identity(
        attributes.get("gen_ai.response.id")
    ) or langchain_messages.response_id(response.value)
    names = ("gen_ai.response.model", "gen_ai.request.model", _LANGSMITH_METADATA + "ls_model_name")
    facts["model"] = first_text(attributes, names)
    read_tokens(attributes, facts)
    # alone where hooks of a framework report a run
    read_usage(structure(attributes.get(_LANGSMITH_METADATA + "usage_metadata")).value, facts)


def _read_tool_langsmith(span: Span, given: Value, returned: Value, facts: Facts) -> None:
    attributes = span.attributes
    facts["tool_name"] = text(attributes.get("gen_ai.tool.name")) or text(span.name)
    facts["call_id"] = call_id(attributes.get("gen_ai.tool.call.id"))
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


def refine_trace_langsmith(steps: Sequence[Step]) -> Sequence[Step]:
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


_LANGSMITH = Dialect(
    "langsmith",
    read_langsmith,
    keys=(_KIND,),
    prefilters=(b"langsmith.span.kind",),
    refine_trace=refine_trace_langsmith,
    content=(ContentSwitch("unset LANGSMITH_HIDE_INPUTS and LANGSMITH_HIDE_OUTPUTS"),),
)


_LANGWATCH_TYPE, _LANGWATCH_INPUT, _LANGWATCH_OUTPUT = (
    "langwatch.span.type",
    "langwatch.input",
    "langwatch.output",
)
_LANGWATCH_KINDS: Final[dict[str, StepKind]] = {
    "llm": "model",
    "agent": "agent",
    "tool": "tool",
    "rag": "retrieval",
    **dict.fromkeys(
        (
            *("span", "chain", "workflow", "task", "module", "component"),
            *("server", "client", "producer", "consumer"),
        ),
        "workflow",
    ),
}
_CONTEXTS = ("langwatch.contexts", "langwatch.rag_contexts", "langwatch.rag.contexts")
"""Of the JavaScript SDK, of the Python one, and as its server names them."""
_ERRORS = ("span.error.message", "exception.message", "exception.type")
"""Where attributes alone record why a tool failed."""
_SESSIONS = (
    "langwatch.thread.id",
    "langwatch.thread_id",
    "thread_id",
    "threadId",
    "gen_ai.conversation.id",
)
_USERS = ("langwatch.user.id", "langwatch.user_id", "user_id", "userId")
_KEYS = {"type", "value"}


def matches_langwatch(span: Span, _logs: Sequence[LogRecord]) -> bool:
    """Whether somebody wrote the span for LangWatch, without saying what it is, and by no other
    convention.
    """
    attributes = span.attributes
    if (
        attributes.keys().isdisjoint((_LANGWATCH_INPUT, _LANGWATCH_OUTPUT))
        or span.dropped_attributes_count
    ):
        return False
    return not any(x.startswith(("gen_ai.", "llm.", "traceloop.")) for x in attributes)


def read_langwatch(span: Span, context: Context) -> Facts:
    """The facts of one of its spans; guardrails and evaluations are none of a turn's steps."""
    attributes = span.attributes
    kind = (
        _LANGWATCH_KINDS.get(str(attributes.get(_LANGWATCH_TYPE)), "other")
        if _LANGWATCH_TYPE in attributes
        else _kind_of_messages(attributes)
    )
    metadata = structure(attributes.get("metadata", attributes.get("langwatch.metadata"))).value
    named = as_object(metadata)
    facts: Facts = {
        "kind": kind,
        "session_id": first_identity(attributes, _SESSIONS) or first_identity(named, _SESSIONS),
        "user_id": first_identity(attributes, _USERS) or first_identity(named, _USERS),
    }
    is_text = kind not in {"tool", "retrieval"}
    given, returned = (
        _value(attributes.get(x), is_text=is_text) for x in (_LANGWATCH_INPUT, _LANGWATCH_OUTPUT)
    )
    if kind == "model":
        _read_model_langwatch(attributes, given, returned, facts)
    elif kind == "tool":
        _read_tool_langwatch(span, given, returned, facts)
    elif kind == "retrieval":
        _read_retrieval(attributes, given, facts)
    elif kind == "agent" or (kind == "workflow" and context.outermost):
        facts["agent_name"] = text(span.name) if kind == "agent" else None
        read_function(given, Parsed(returned), facts)
        facts["damaged"] = damaged(input=given, output=returned)
    return facts


def _kind_of_messages(attributes: Attributes) -> StepKind:
    """What a span without a type is: a model call where messages went in or came out."""
    sides = (structure(attributes.get(x)).value for x in (_LANGWATCH_INPUT, _LANGWATCH_OUTPUT))
    is_model = any(isinstance(x, dict) and x.get("type") == "chat_messages" for x in sides)
    return "model" if is_model else "workflow"


def _value(recorded: Value, *, is_text: bool = False) -> Any:
    """The value out of its envelope `{"type": …, "value": …}`; there are two around messages of an
    unusual content, and one around each element of a list. `is_text`: a list of one stands for
    the text that it holds; what a tool returned stays the list that it is.
    """
    parsed = structure(recorded).value
    if not _is_enclosed(parsed):
        is_only_text = is_text and _is_one(parsed) and isinstance(parsed[0], str)
        return parsed[0] if is_only_text else parsed
    value = parsed["value"]
    if _is_enclosed(value) and value["type"] == "chat_messages":
        return value["value"]
    if parsed["type"] != "list":
        return value
    elements = _elements(value)
    return elements[0] if is_text and _is_one(elements) else elements


def _is_enclosed(value: Any) -> TypeGuard[dict[str, Any]]:
    return isinstance(value, dict) and value.keys() == _KEYS


def _is_one(elements: Any) -> bool:
    return isinstance(elements, list) and len(elements) == 1


def _elements(listed: Any) -> Any:
    """The elements of a list without their envelopes, where all have one."""
    if not isinstance(listed, list) or not listed or not all(map(_is_enclosed, listed)):
        return listed
    return [x["value"] for x in listed]


def _read_model_langwatch(attributes: Attributes, given: Any, returned: Any, facts: Facts) -> None:
    facts["input"] = conversation(_named(given), "user")
    facts["output"] = conversation(_joined(returned), "assistant")
    facts["damaged"] = damaged(input=given, output=returned)
    parameters = structure(attributes.get("langwatch.params")).value
    offered = as_object(parameters).get("tools", as_object(parameters).get("functions"))
    facts["tools"] = listed_tools(given, returned) if offered is None else tools(offered)
    facts["system"] = system_of(as_object(given))
    facts["model"] = first_text(attributes, ("gen_ai.response.model", "gen_ai.request.model"))
    read_tokens(attributes, facts)
    read_usage(structure(_value(attributes.get("langwatch.metrics"))).value, facts)


def _joined(returned: Any) -> Any:
    """A model's output; of DSPy's, which is a list of texts, all of them."""
    is_texts = isinstance(returned, list) and all(isinstance(x, str) for x in returned)
    return "\n".join(returned) if is_texts and returned else returned


def _read_retrieval(attributes: Attributes, given: Any, facts: Facts) -> None:
    facts["query"] = None if given is None else printed(given)
    recorded = next((attributes[key] for key in _CONTEXTS if key in attributes), None)
    found = structure(recorded).value
    documents = found.get("value", found) if isinstance(found, dict) else found
    facts["documents"] = tuple(as_list(documents))


def _named(given: Any) -> Any:
    """Messages, in which those of tools have a role: LangWatch's handler for LangChain leaves it
    out.
    """
    listed = as_list(given)
    if not any(isinstance(x, dict) and x.get("role") == "unknown" for x in listed):
        return given
    return [
        {**x, "role": "tool"} if isinstance(x, dict) and x.get("role") == "unknown" else x
        for x in listed
    ]


def _content(returned: Any) -> Any:
    """What a tool returned, out of LangChain's message, whose role its callback handler leaves
    out.
    """
    message = returned[0] if isinstance(returned, list) and len(returned) == 1 else None
    if isinstance(message, dict) and message.get("role") == "unknown":
        return message.get("content")
    return returned


def _read_tool_langwatch(span: Span, given: Any, returned: Any, facts: Facts) -> None:
    facts["tool_name"] = text(span.name)
    error = first_text(span.attributes, _ERRORS)
    read_call(span, given, _content(returned), facts, error=error)
    facts["arguments"] = evaluated(facts.get("arguments"))
    if _LANGWATCH_OUTPUT in span.attributes and returned is None:
        facts["result"], facts["has_result"] = None, True


_LANGWATCH = Dialect(
    "langwatch",
    read_langwatch,
    keys=(_LANGWATCH_TYPE,),
    matches=matches_langwatch,
    matching_keys=(_LANGWATCH_INPUT, _LANGWATCH_OUTPUT),
    prefilters=(b"langwatch.span.type", b"langwatch.input", b"langwatch.output"),
    ignored=IgnoredSpans(keys=("langwatch.reserved.causality_depth",)),
    content=(ContentSwitch("set dataCapture to `all`"),),
    by_hand=True,
)


DIALECTS = (_LANGFUSE, _LANGSMITH, _LANGWATCH)
