"""OpenTelemetry's GenAI semantic conventions, from 1.26's span events to today's message
attributes.

Content is looked for on the span, then in `operation.details` events, then in the events of one
message each; either kind of event comes as a span event or as a log record of the span, its payload
in the body or in the attributes.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from spanscore.dialects import keys
from spanscore.dialects.conventions.semconv.conversation import (
    CHOICE,
    DETAILS,
    EVENTS,
    Events,
    elsewhere,
    events_of,
    read_conversation,
    with_details,
)
from spanscore.dialects.dialect import (
    CAPTURE,
    LATEST,
    OPENTELEMETRY,
    OPENTELEMETRY_EVENTS,
    ContentSwitch,
    Context,
    Dialect,
)
from spanscore.dialects.forms import messages as react_text
from spanscore.dialects.forms import tool_results
from spanscore.dialects.forms.arguments import arguments, call_id
from spanscore.dialects.forms.messages import messages
from spanscore.dialects.forms.status import status_error
from spanscore.dialects.forms.structure import (
    Facts,
    as_list,
    first_value,
    identity,
    is_redacted,
    opened,
    structure,
    text,
)
from spanscore.dialects.forms.tool_results import tool_output
from spanscore.model.json import Json
from spanscore.model.span import Attributes, LogRecord, Span
from spanscore.model.step import Message, StepFact, StepKind

_OPERATIONS: Final[dict[str, StepKind]] = {
    "chat": "model",
    "generate_content": "model",
    "text_completion": "model",
    "completion": "model",
    "fetch_response": "model",
    "invoke_agent": "agent",
    "handle_conversation_turn": "agent",
    "invoke_workflow": "workflow",
    "execute_task": "workflow",
    "execute_tool": "tool",
    **dict.fromkeys(("retrieval", "search_memory"), "retrieval"),
    "create_agent": "other",
    "embeddings": "other",
    "plan": "other",
    # from here on: names that are not in the conventions, and that emitters use
    **dict.fromkeys(("call_llm", "llm_call", "llm_request", "generate", "response"), "model"),
    **dict.fromkeys(("agent_call", "agent.run"), "agent"),
    **dict.fromkeys(
        ("agent_step", "invoke_graph", "invoke_swarm", "user_prompt", "workflow.run"), "workflow"
    ),
    **dict.fromkeys(("tool_call", "tool.execute"), "tool"),
    **dict.fromkeys(("execute_event_loop_cycle", "schedule_tool_calls", "system_prompt"), "other"),
    "vector_db_retrieve": "retrieval",
}

COUNTS = frozenset(
    {
        keys.GEN_AI_USAGE_INPUT_TOKENS,
        keys.GEN_AI_USAGE_OUTPUT_TOKENS,
        keys.GEN_AI_USAGE_PROMPT_TOKENS,
        keys.GEN_AI_USAGE_COMPLETION_TOKENS,
        keys.LLM_TOKEN_COUNT_PROMPT,
        keys.LLM_TOKEN_COUNT_COMPLETION,
    }
)
"""The numbers of tokens that people set on the span of a model's call, in either convention."""

FUNCTIONS = frozenset({keys.INPUT_VALUE, keys.OUTPUT_VALUE})
"""What a function took and returned; of a span that states no more it is a function's."""

_MESSAGES = frozenset({keys.GEN_AI_INPUT_MESSAGES, keys.GEN_AI_OUTPUT_MESSAGES})
_CONTENT = _MESSAGES | frozenset(
    {
        keys.GEN_AI_PROMPT,
        keys.GEN_AI_COMPLETION,
        keys.LLM_MODEL_NAME,
        keys.LLM_INPUT_MESSAGES,
        keys.LLM_INPUT_MESSAGES_0_MESSAGE_ROLE,
    }
)
"""What a span of an operation that is not known has only where it is a model's; the last ones are
OpenInference's.
"""

_OF_UNNAMED = _CONTENT | COUNTS | frozenset({keys.GEN_AI_RESPONSE_MODEL})
"""What a span without an operation has only where it is a model's."""


def kind_of(attributes: Attributes, events: Events, *, is_whole: bool) -> StepKind:
    """The kind of a span's step; `is_whole`: none of its attributes was dropped.

    An operation decides where it is known. Else the span is of a tool that it names, or of a model
    where it contains what only a model's span does.
    """
    operation = attributes.get(keys.GEN_AI_OPERATION_NAME)
    kind = _OPERATIONS.get(operation) if isinstance(operation, str) else None
    if kind is not None:
        return kind
    method = attributes.get(keys.MCP_METHOD_NAME)
    if method is not None and method != "tools/call":
        return "other"  # MCP's transport
    if text(attributes.get(keys.GEN_AI_TOOL_NAME)):
        return "tool"
    if operation is None and method is None:
        return _kind_of_unnamed(attributes, events, is_whole=is_whole)
    content = _CONTENT if is_whole else _MESSAGES
    return "model" if events or not content.isdisjoint(attributes) else "other"


def _kind_of_unnamed(attributes: Attributes, events: Events, *, is_whole: bool) -> StepKind:
    """The kind of a step by what its span contains, where that states no operation."""
    if keys.GEN_AI_TOOL_CALL_ID in attributes:
        return "tool"
    content = _OF_UNNAMED if is_whole else _MESSAGES
    if events or keys.GEN_AI_REQUEST_MODEL in attributes or not content.isdisjoint(attributes):
        return "model"
    return "workflow" if is_whole and not FUNCTIONS.isdisjoint(attributes) else "other"


_TRACELOOP = "set TRACELOOP_TRACE_CONTENT=true"
_EITHER = (
    f"{_TRACELOOP} where it is Traceloop's, {CAPTURE}=SPAN_ONLY with {LATEST} where it is"
    " OpenTelemetry's"
)
_AZURE = (
    f"set {CAPTURE}=true, for older versions AZURE_TRACING_GEN_AI_CONTENT_RECORDING_ENABLED=true"
)
_DOTNET = f"set EnableSensitiveData in UseOpenTelemetry, or {CAPTURE}=true"

SWITCHES = (
    ContentSwitch(_EITHER, "opentelemetry.instrumentation."),
    ContentSwitch(_TRACELOOP, "opentelemetry.instrumentation.openai.v"),
    ContentSwitch(OPENTELEMETRY, "opentelemetry.instrumentation.openai_v2"),
    ContentSwitch(OPENTELEMETRY, "opentelemetry.instrumentation.genai."),
    ContentSwitch(OPENTELEMETRY, "opentelemetry.instrumentation.google_genai"),
    ContentSwitch(OPENTELEMETRY_EVENTS, "opentelemetry.instrumentation.botocore"),
    ContentSwitch(OPENTELEMETRY, "opentelemetry.util.genai"),
    ContentSwitch(f"set {CAPTURE}=true", "io.opentelemetry."),
    ContentSwitch(
        "set captureMessageContent of its configuration to true",
        "@opentelemetry/instrumentation-",
    ),
    ContentSwitch(_TRACELOOP, "@traceloop/"),
    ContentSwitch(_AZURE, "azure."),
    ContentSwitch(_DOTNET, "Experimental.Microsoft."),
)


__all__ = ["DETAILS", "DIALECT", "matches", "read"]

_CLAIMED = frozenset(
    {
        keys.GEN_AI_OPERATION_NAME,
        keys.GEN_AI_PROVIDER_NAME,
        keys.GEN_AI_SYSTEM,
        keys.GEN_AI_REQUEST_MODEL,
        keys.GEN_AI_TOOL_NAME,
        keys.GEN_AI_INPUT_MESSAGES,
        keys.GEN_AI_OUTPUT_MESSAGES,
        keys.MCP_METHOD_NAME,
    }
)

_BY_HAND = frozenset(
    {
        keys.GEN_AI_PROMPT,
        keys.GEN_AI_COMPLETION,
        keys.GEN_AI_RESPONSE_MODEL,
        keys.GEN_AI_TOOL_CALL_ID,
        keys.LLM_MODEL_NAME,
        keys.LLM_INPUT_MESSAGES,
        keys.LLM_INPUT_MESSAGES_0_MESSAGE_ROLE,
        *COUNTS,
        *FUNCTIONS,
    }
)
"""What only people write without any of those, where no attribute was dropped."""


def matches(span: Span, logs: Sequence[LogRecord]) -> bool:
    """Whether the span has a GenAI attribute, or a message is in one of its events or was logged
    for it.
    """
    if not _CLAIMED.isdisjoint(span.attributes) or any(log.event_name in EVENTS for log in logs):
        return True
    if any(event.name in EVENTS for event in span.events):
        return True
    return not _BY_HAND.isdisjoint(span.attributes) and not span.dropped_attributes_count


def read(span: Span, context: Context) -> Facts:
    """The facts of a span in these conventions."""
    events = []
    if span.events or context.logs:
        events = [x for x in events_of(span, context) if x[0] in EVENTS]
    attributes = with_details(span.attributes, events) if events else span.attributes
    kind = kind_of(attributes, events, is_whole=not span.dropped_attributes_count)
    facts: Facts = {
        "kind": kind,
        "agent_name": text(attributes.get(keys.GEN_AI_AGENT_NAME)),
        "session_id": identity(attributes.get(keys.GEN_AI_CONVERSATION_ID)),
    }
    if events:
        facts["user_id"] = next(
            (x for x in (identity(payload.get(keys.USER_ID)) for _, payload in events) if x), None
        )
    if kind == "tool":
        read_tool(span, attributes, events, facts)
    elif kind == "retrieval":
        _read_retrieval(attributes, facts)
    elif kind != "other":
        read_conversation(attributes, events, context.histories, facts)
        react_text.complete_react(facts)
    return facts


_QUERIES = (keys.GEN_AI_RETRIEVAL_QUERY_TEXT, keys.GEN_AI_MEMORY_QUERY_TEXT)
_DOCUMENTS = (keys.GEN_AI_RETRIEVAL_DOCUMENTS, keys.GEN_AI_MEMORY_RECORDS)
"""Of each that of a retriever, and that of a search in an agent's memory."""


def _read_retrieval(attributes: Attributes, facts: Facts) -> None:
    facts["query"] = text(first_value(attributes, _QUERIES))
    documents = structure(first_value(attributes, _DOCUMENTS)).value
    facts["documents"] = tuple(as_list(documents))


DIALECT = Dialect(
    "semconv",
    read,
    matches=matches,
    prefilters=(
        b"gen_ai.",
        b"mcp.method.name",
        b"llm.model_name",
        b"llm.input_messages",
        b"llm.token_count",
        b"input.value",
        b"output.value",
    ),
    content=SWITCHES,
    by_hand=True,
)


_ARGUMENTS = (keys.GEN_AI_TOOL_CALL_ARGUMENTS, keys.GEN_AI_TOOL_INPUT)

_RESULT = (keys.GEN_AI_TOOL_CALL_RESULT, keys.GEN_AI_TOOL_OUTPUT)
"""Of each the conventions' name, and what others write."""

_UPLOADED: Mapping[StepFact, str] = {"arguments": _ARGUMENTS[0], "result": _RESULT[0]}

_EXECUTES = "execute_tool "  # how the conventions have the name of a tool's span begin

_ANSWER = frozenset({"name", "tool_call_id", "content"})
"""The fields of a message that answers a call, in place of the call's result."""


def read_tool(span: Span, attributes: Attributes, events: Events, facts: Facts) -> None:
    """Add a tool's name, call id, arguments, result and error to `facts`, and which are hidden."""
    facts["tool_name"] = _tool_name(span, attributes)
    facts["call_id"] = call_id(attributes.get(keys.GEN_AI_TOOL_CALL_ID))
    facts["error"] = status_error(span)
    damaged = elsewhere(attributes, _UPLOADED)
    given = first_value(attributes, _ARGUMENTS)
    returned: Any = first_value(attributes, _RESULT)
    has_result = returned is not None or _RESULT[0] in attributes
    for name, payload in events:  # Strands
        if name == keys.GEN_AI_TOOL_MESSAGE and given is None:
            given = payload.get("content")
        elif name == CHOICE and not has_result:
            returned = tool_results.content_of_blocks(opened(payload.get("message")))
        facts["call_id"] = facts["call_id"] or call_id(payload.get("id"))
    if is_redacted(given):
        damaged.add("arguments")
    elif given is not None:
        facts["arguments"] = arguments(given)
    if is_redacted(returned):
        damaged.add("result")
    elif returned is not None or has_result:
        damaged |= _read_result(opened(returned), facts)
    facts["damaged"] = frozenset(damaged)
    _read_tool_messages(events, facts)


def _read_tool_messages(events: Events, facts: Facts) -> None:
    """A tool's call and result as messages: before there were attributes for them, and where a run
    failed.

    Where neither a call nor a result is in them, their texts are the arguments, as an object, and
    the result.
    """
    details = [payload for name, payload in events if name == DETAILS]
    if not details:
        return
    if facts.get("arguments") is None and "arguments" not in facts["damaged"]:
        facts["arguments"] = _arguments_in(
            _messages_of(details, keys.GEN_AI_INPUT_MESSAGES, "user")
        )
    if not facts.get("has_result") and "result" not in facts["damaged"]:
        _read_result_message(_messages_of(details, keys.GEN_AI_OUTPUT_MESSAGES, "assistant"), facts)


def _messages_of(details: list[Mapping[str, Any]], key: str, role: str) -> list[Message]:
    found: list[Message] = []
    for payload in details:
        found += messages(payload.get(key), role).messages or ()
    return found


def _arguments_in(given: list[Message]) -> Json:
    """The arguments of the first call in messages; without a call, the object that the first text
    is.
    """
    call = next((x for message in given for x in message.calls), None)
    if call is not None:
        return call.arguments
    value = opened(next((x.text for x in given if x.text), None), scalars=False)
    return value if isinstance(value, dict) else None


def _read_result_message(messages: list[Message], facts: Facts) -> None:
    result = next((x for message in messages for x in message.results), None)
    text_only = next((x.text for x in messages if x.text is not None), None)
    if result is not None:
        facts["result"] = tool_results.content_of_blocks(result.value)
        facts["has_result"] = True
        facts["error"] = facts["error"] or result.error
    elif text_only is not None:
        facts["result"], facts["has_result"] = opened(text_only), True


def _tool_name(span: Span, attributes: Attributes) -> str | None:
    """The tool's name; that of the span where nothing but the call's id shows that it is a
    tool's.
    """
    name = text(attributes.get(keys.GEN_AI_TOOL_NAME))
    if name or keys.GEN_AI_OPERATION_NAME in attributes:
        return name
    return span.name.removeprefix(_EXECUTES) or None


def _read_result(returned: Json, facts: Facts) -> set[StepFact]:
    """Read what a tool returned, or the message that answers the call, as the tracer of
    langchain-azure-ai records it.

    Returns the facts that are hidden.
    """
    answer = None
    if isinstance(returned, dict) and _answers(returned, facts):
        answer = tool_output(returned, known=True)
    facts["result"], facts["has_result"] = (returned if answer is None else answer.value), True
    if answer is not None:
        facts["call_id"] = facts["call_id"] or answer.call_id
        facts["error"] = facts["error"] or answer.error
        if is_redacted(answer.value):
            facts["result"], facts["has_result"] = None, False
            return {"result"}
    return set()


def _answers(returned: dict[str, Json], facts: Facts) -> bool:
    """Whether an object is the message that answers a span's call: it names that very call, or else
    its tool.
    """
    if returned.keys() != _ANSWER:
        return False
    answered_id = call_id(returned["tool_call_id"])
    if answered_id and facts["call_id"]:
        return answered_id == str(facts["call_id"])
    return isinstance(returned["name"], str) and returned["name"] == str(facts["tool_name"])
