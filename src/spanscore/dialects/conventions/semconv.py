"""OpenTelemetry's GenAI semantic conventions, from 1.26's span events to today's message
attributes.

Content is looked for on the span, then in `operation.details` events, then in the events of one
message each; either kind of event comes as a span event or as a log record of the span, its payload
in the body or in the attributes.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from spanscore.dialects.content_switch import CAPTURE, OPENTELEMETRY, ContentSwitch
from spanscore.dialects.conventions.adot import moved
from spanscore.dialects.dialect import Context, Dialect
from spanscore.dialects.forms import bedrock_blocks, react_text
from spanscore.dialects.forms.arguments import arguments, call_id, tools
from spanscore.dialects.forms.envelopes import tool_output
from spanscore.dialects.forms.ids import identity
from spanscore.dialects.forms.message_cache import MessageCache
from spanscore.dialects.forms.messages import Messages, message, messages, system_text, with_blocks
from spanscore.dialects.forms.status import status_error
from spanscore.dialects.forms.structure import is_redacted, opened, structure
from spanscore.dialects.forms.values import Facts, first_count, first_value, text
from spanscore.dialects.keys.gen_ai import (
    GEN_AI_AGENT_NAME,
    GEN_AI_AGENT_TOOLS,
    GEN_AI_ASSISTANT_MESSAGE,
    GEN_AI_CHOICE,
    GEN_AI_CLIENT_INFERENCE_OPERATION_DETAILS,
    GEN_AI_COMPLETION,
    GEN_AI_CONTENT_COMPLETION,
    GEN_AI_CONTENT_PROMPT,
    GEN_AI_CONVERSATION_ID,
    GEN_AI_EVENT_CONTENT,
    GEN_AI_INPUT_MESSAGES,
    GEN_AI_OPERATION_NAME,
    GEN_AI_OUTPUT_MESSAGES,
    GEN_AI_PROMPT,
    GEN_AI_PROVIDER_NAME,
    GEN_AI_REQUEST_MODEL,
    GEN_AI_RESPONSE_COMPLETION_TOKENS,
    GEN_AI_RESPONSE_FINISH_REASONS,
    GEN_AI_RESPONSE_ID,
    GEN_AI_RESPONSE_MODEL,
    GEN_AI_RESPONSE_PROMPT_TOKENS,
    GEN_AI_RETRIEVAL_DOCUMENTS,
    GEN_AI_RETRIEVAL_QUERY_TEXT,
    GEN_AI_SYSTEM,
    GEN_AI_SYSTEM_INSTRUCTIONS,
    GEN_AI_SYSTEM_MESSAGE,
    GEN_AI_TOOL_CALL_ARGUMENTS,
    GEN_AI_TOOL_CALL_ID,
    GEN_AI_TOOL_CALL_RESULT,
    GEN_AI_TOOL_DEFINITIONS,
    GEN_AI_TOOL_INPUT,
    GEN_AI_TOOL_MESSAGE,
    GEN_AI_TOOL_NAME,
    GEN_AI_TOOL_OUTPUT,
    GEN_AI_USAGE_COMPLETION_TOKENS,
    GEN_AI_USAGE_INPUT_TOKENS,
    GEN_AI_USAGE_OUTPUT_TOKENS,
    GEN_AI_USAGE_PROMPT_TOKENS,
    GEN_AI_USER_MESSAGE,
    MCP_METHOD_NAME,
)
from spanscore.dialects.keys.openinference import (
    LLM_INPUT_MESSAGES,
    LLM_INPUT_MESSAGES_0_MESSAGE_ROLE,
    LLM_MODEL_NAME,
)
from spanscore.dialects.keys.opentelemetry import USER_ID
from spanscore.model.json import Json
from spanscore.model.span import Attributes, LogRecord, Span, Value
from spanscore.model.step import Message, StepFact, StepKind, ToolResult

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
    "retrieval": "retrieval",
    "create_agent": "other",
    "embeddings": "other",
    "plan": "other",
    # from here on: names that emitters made up
    **dict.fromkeys(("call_llm", "llm_call", "llm_request", "generate", "response"), "model"),
    **dict.fromkeys(("agent_call", "agent.run"), "agent"),
    **dict.fromkeys(
        ("agent_step", "invoke_graph", "invoke_swarm", "user_prompt", "workflow.run"), "workflow"
    ),
    **dict.fromkeys(("tool_call", "tool.execute"), "tool"),
    **dict.fromkeys(("execute_event_loop_cycle", "schedule_tool_calls", "system_prompt"), "other"),
    "vector_db_retrieve": "retrieval",
}
_CLAIMED = frozenset(
    {
        GEN_AI_OPERATION_NAME,
        GEN_AI_PROVIDER_NAME,
        GEN_AI_SYSTEM,
        GEN_AI_REQUEST_MODEL,
        GEN_AI_TOOL_NAME,
        GEN_AI_INPUT_MESSAGES,
        MCP_METHOD_NAME,
    }
)
_BY_HAND = frozenset(
    {
        GEN_AI_PROMPT,
        GEN_AI_TOOL_CALL_ID,
        LLM_MODEL_NAME,
        LLM_INPUT_MESSAGES,
        LLM_INPUT_MESSAGES_0_MESSAGE_ROLE,
    }
)
"""What only people write without any of those, where no attribute was dropped."""

_MESSAGES = frozenset({GEN_AI_INPUT_MESSAGES, GEN_AI_OUTPUT_MESSAGES})
_CONTENT = _MESSAGES | frozenset(
    {
        GEN_AI_PROMPT,
        GEN_AI_COMPLETION,
        LLM_MODEL_NAME,
        LLM_INPUT_MESSAGES,
        LLM_INPUT_MESSAGES_0_MESSAGE_ROLE,
    }
)
"""What a span without an operation has only where it is a model's; the last ones are
OpenInference's.
"""

_EXECUTES = "execute_tool "  # how the conventions have the name of a tool's span begin
DETAILS = GEN_AI_CLIENT_INFERENCE_OPERATION_DETAILS
"""The event with all of a call's messages, recorded beside the span or in place of its
attributes.
"""

_ROLES_OF_EVENTS = {
    GEN_AI_SYSTEM_MESSAGE: "system",
    GEN_AI_USER_MESSAGE: "user",
    GEN_AI_ASSISTANT_MESSAGE: "assistant",
    GEN_AI_TOOL_MESSAGE: "tool",
}
_CHOICE = GEN_AI_CHOICE
_SIDES = (GEN_AI_INPUT_MESSAGES, GEN_AI_OUTPUT_MESSAGES)
_ARGUMENTS = (GEN_AI_TOOL_CALL_ARGUMENTS, GEN_AI_TOOL_INPUT)
_RESULT = (GEN_AI_TOOL_CALL_RESULT, GEN_AI_TOOL_OUTPUT)
"""Of each the conventions' name, and what others write."""

_PROMPT, _COMPLETION = GEN_AI_CONTENT_PROMPT, GEN_AI_CONTENT_COMPLETION
_EVENTS = frozenset({DETAILS, _CHOICE, _PROMPT, _COMPLETION, *_ROLES_OF_EVENTS})
_INPUT_TOKENS = (
    GEN_AI_USAGE_INPUT_TOKENS,
    GEN_AI_USAGE_PROMPT_TOKENS,
    GEN_AI_RESPONSE_PROMPT_TOKENS,
)
_OUTPUT_TOKENS = (
    GEN_AI_USAGE_OUTPUT_TOKENS,
    GEN_AI_USAGE_COMPLETION_TOKENS,
    GEN_AI_RESPONSE_COMPLETION_TOKENS,
)
"""Of each what is written today, and what was; the last one by Semantic Kernel."""

_ANSWER = frozenset({"name", "tool_call_id", "content"})
"""The fields of a message that answers a call, in place of the call's result."""

# Google ADK's span for answering parallel calls at once
_PSEUDO_TOOLS = frozenset({"(merged tools)"})


def matches(span: Span, logs: Sequence[LogRecord]) -> bool:
    """Whether the span has a GenAI attribute, or a message was logged for it."""
    if not _CLAIMED.isdisjoint(span.attributes) or any(log.event_name in _EVENTS for log in logs):
        return True
    return not _BY_HAND.isdisjoint(span.attributes) and not span.dropped_attributes_count


def read(span: Span, context: Context) -> Facts:
    """The facts of a span in these conventions."""
    events = (
        [x for x in _events(span, context) if x[0] in _EVENTS]
        if span.events or context.logs
        else []
    )
    attributes = _with_details(span.attributes, events) if events else span.attributes
    kind = _kind(attributes, events, is_whole=not span.dropped_attributes_count)
    facts: Facts = {
        "kind": kind,
        "agent_name": text(attributes.get(GEN_AI_AGENT_NAME)),
        "session_id": identity(attributes.get(GEN_AI_CONVERSATION_ID)),
    }
    if events:
        facts["user_id"] = next(
            (x for x in (identity(payload.get(USER_ID)) for _, payload in events) if x), None
        )
    if kind == "tool":
        _read_tool(span, attributes, events, facts)
    elif kind == "retrieval":
        _read_retrieval(attributes, facts)
    elif kind != "other":
        _read_conversation(attributes, events, context.histories, facts)
        react_text.complete(facts)
    return facts


def _kind(
    attributes: Attributes, events: list[tuple[str, Mapping[str, Any]]], *, is_whole: bool
) -> StepKind:
    operation = attributes.get(GEN_AI_OPERATION_NAME)
    kind = _OPERATIONS.get(operation) if isinstance(operation, str) else None
    if kind == "tool":
        return _kind_of_tool(attributes)
    if kind is not None:
        return kind
    method = attributes.get(MCP_METHOD_NAME)
    if method is not None and method != "tools/call":
        return "other"  # MCP's transport
    if text(attributes.get(GEN_AI_TOOL_NAME)):
        return _kind_of_tool(attributes)
    is_unnamed = operation is None and method is None
    if is_unnamed and GEN_AI_TOOL_CALL_ID in attributes:
        return "tool"
    content = _CONTENT if is_whole else _MESSAGES
    is_model = (
        events
        or (is_unnamed and GEN_AI_REQUEST_MODEL in attributes)
        or not content.isdisjoint(attributes)
    )
    return "model" if is_model else "other"


def _kind_of_tool(attributes: Attributes) -> StepKind:
    return "other" if str(attributes.get(GEN_AI_TOOL_NAME)) in _PSEUDO_TOOLS else "tool"


def _read_tool(
    span: Span, attributes: Attributes, events: list[tuple[str, Mapping[str, Any]]], facts: Facts
) -> None:
    facts["tool_name"] = _tool_name(span, attributes)
    facts["call_id"] = call_id(attributes.get(GEN_AI_TOOL_CALL_ID))
    facts["error"] = status_error(span)
    damaged: set[StepFact] = set()
    given = first_value(attributes, _ARGUMENTS)
    returned: Any = first_value(attributes, _RESULT)
    has_result = returned is not None or _RESULT[0] in attributes
    for name, payload in events:  # Strands
        if name == GEN_AI_TOOL_MESSAGE and given is None:
            given = payload.get("content")
        elif name == _CHOICE and not has_result:
            returned = bedrock_blocks.content(opened(payload.get("message")))
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


def _read_tool_messages(events: list[tuple[str, Mapping[str, Any]]], facts: Facts) -> None:
    """A tool's call and result as messages: before there were attributes for them, and where a run
    failed.

    Where neither a call nor a result is in them, their texts are the arguments, as an object, and
    the result.
    """
    details = [payload for name, payload in events if name == DETAILS]
    if not details:
        return
    if facts.get("arguments") is None and "arguments" not in facts["damaged"]:
        facts["arguments"] = _arguments_in(_messages_of(details, GEN_AI_INPUT_MESSAGES, "user"))
    if not facts.get("has_result") and "result" not in facts["damaged"]:
        _read_result_message(_messages_of(details, GEN_AI_OUTPUT_MESSAGES, "assistant"), facts)


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
        facts["result"], facts["has_result"] = bedrock_blocks.content(result.value), True
        facts["error"] = facts["error"] or result.error
    elif text_only is not None:
        facts["result"], facts["has_result"] = opened(text_only), True


def _tool_name(span: Span, attributes: Attributes) -> str | None:
    """The tool's name; that of the span where nothing but the call's id shows that it is a
    tool's.
    """
    name = text(attributes.get(GEN_AI_TOOL_NAME))
    return (
        name
        if name or GEN_AI_OPERATION_NAME in attributes
        else span.name.removeprefix(_EXECUTES) or None
    )


def _read_result(returned: Json, facts: Facts) -> set[StepFact]:
    """Read what a tool returned, or the message that answers the call, as the tracer of
    langchain-azure-ai records it.

    Returns the facts that are hidden.
    """
    answer = (
        tool_output(returned, known=True)
        if isinstance(returned, dict) and _answers(returned, facts)
        else None
    )
    facts["result"], facts["has_result"] = (returned if answer is None else answer.value), True
    if answer is not None:
        facts["call_id"], facts["error"] = (
            facts["call_id"] or answer.call_id,
            facts["error"] or answer.error,
        )
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


def _read_retrieval(attributes: Attributes, facts: Facts) -> None:
    facts["query"] = text(attributes.get(GEN_AI_RETRIEVAL_QUERY_TEXT))
    documents = structure(attributes.get(GEN_AI_RETRIEVAL_DOCUMENTS)).value
    facts["documents"] = tuple(documents) if isinstance(documents, list) else ()


def _read_conversation(
    attributes: Attributes,
    events: list[tuple[str, Mapping[str, Any]]],
    histories: MessageCache,
    facts: Facts,
) -> None:
    given, produced = _from_attributes(attributes, histories)
    if (given.messages is None or produced.messages is None) and events:
        given, produced = _from_events(events, given, produced)
    facts["input"], facts["output"] = given.messages, produced.messages
    damaged = _damaged_sides(given, produced)
    instructions = attributes.get(GEN_AI_SYSTEM_INSTRUCTIONS)
    if instructions is not None:
        facts["system"], cut = system_text(instructions)
        if cut:
            damaged.add("system")
    # Strands lists names
    definitions = first_value(attributes, (GEN_AI_TOOL_DEFINITIONS, GEN_AI_AGENT_TOOLS))
    if definitions is not None:
        facts["tools"] = tools(definitions)
        if facts["tools"] is None:
            damaged.add("tools")
    facts["damaged"] = frozenset(damaged)
    facts["model"] = text(attributes.get(GEN_AI_RESPONSE_MODEL)) or text(
        attributes.get(GEN_AI_REQUEST_MODEL)
    )
    facts["response_id"] = identity(attributes.get(GEN_AI_RESPONSE_ID))
    facts["input_tokens"] = first_count(attributes, _INPUT_TOKENS)
    facts["output_tokens"] = first_count(attributes, _OUTPUT_TOKENS)
    reasons = attributes.get(GEN_AI_RESPONSE_FINISH_REASONS)
    if isinstance(reasons, list):
        facts["finish_reasons"] = tuple(x for x in reasons if isinstance(x, str))


def _damaged_sides(given: Messages, produced: Messages) -> set[StepFact]:
    damaged: set[StepFact] = set()
    if given.damaged:
        damaged.add("input")
    if produced.damaged:
        damaged.add("output")
    return damaged


def _from_attributes(attributes: Attributes, histories: MessageCache) -> tuple[Messages, Messages]:
    given, produced = attributes.get(GEN_AI_INPUT_MESSAGES), attributes.get(GEN_AI_OUTPUT_MESSAGES)
    if given is None:
        given = attributes.get(GEN_AI_PROMPT)
    if produced is None:
        produced = attributes.get(GEN_AI_COMPLETION)
    return (
        histories.messages(given) if given is not None else Messages(None),
        messages(produced, "assistant") if produced is not None else Messages(None),
    )


def _from_events(
    events: list[tuple[str, Mapping[str, Any]]], given: Messages, produced: Messages
) -> tuple[Messages, Messages]:
    """Complete the messages in a span's attributes by the events of one message each, and by those
    of 1.26.
    """
    inputs, chosen = list[Message](), list[Message]()
    for name, payload in events:
        if name == _PROMPT:
            inputs += messages(payload.get(GEN_AI_PROMPT)).messages or ()
        elif name == _COMPLETION:
            chosen += messages(payload.get(GEN_AI_COMPLETION), "assistant").messages or ()
        elif name == _CHOICE:
            chosen += _event_messages(_choice(payload), "assistant")
        elif name in _ROLES_OF_EVENTS:
            inputs += _event_messages(payload, _ROLES_OF_EVENTS[name])
    if given.messages is None and inputs:
        given = Messages(_with_results_left_out(inputs), given.damaged)
    if produced.messages is None and chosen:
        produced = Messages(tuple(chosen), produced.damaged)
    return given, produced


def _choice(payload: Mapping[str, Any]) -> Mapping[str, Any]:
    """The message of a choice; its tool calls stand inside or beside it."""
    inner = payload.get("message")
    if isinstance(inner, str) and inner.startswith('{"'):
        opened = structure(inner).value
        inner = (
            opened
            if isinstance(opened, dict) and opened.keys() & {"role", "content", "tool_calls"}
            else inner
        )
    if isinstance(inner, dict):
        return {**{k: payload[k] for k in ("tool_calls",) if k in payload}, **inner}
    return {**payload, "content": inner} if inner is not None else payload


def _event_messages(payload: Mapping[str, Any], role: str) -> list[Message]:
    """The message of an event, whose calls may be JSON in text where it came as attributes."""
    content, calls = payload.get("content"), payload.get("tool_calls")
    # Gemini's, with the role that is true
    if isinstance(content, dict) and isinstance(content.get("parts"), list):
        payload, calls = content, content.get("tool_calls")
    # a system message may have the role of a developer's
    elif payload.get("role") is None or role != "system":
        payload = {**payload, "role": role}
    if isinstance(calls, str):
        payload = {**payload, "tool_calls": structure(calls).value}
    read_message = message(payload, role)
    if (
        read_message is not None
        and read_message.results
        and payload.get("content", payload.get("parts")) is None
    ):
        unshown = tuple(replace(x, shown=False) for x in read_message.results)
        read_message = replace(read_message, results=unshown)
    return [] if read_message is None else [read_message]


def _with_results_left_out(messages: list[Message]) -> tuple[Message, ...]:
    """The messages, in which a result without content was empty, or not to be recorded if no
    message has any.
    """
    results = [y for x in messages for y in x.results]
    has_content = any(x.text is not None for x in messages) or any(x.shown for x in results)
    if not has_content or all(x.shown for x in results):
        return tuple(messages)
    return tuple(replace(x, results=tuple(map(_empty_where_unshown, x.results))) for x in messages)


def _empty_where_unshown(result: ToolResult) -> ToolResult:
    return result if result.shown else replace(result, value="", shown=True)


def _with_details(
    attributes: Attributes, events: list[tuple[str, Mapping[str, Any]]]
) -> Attributes:
    """The span's attributes, completed by those of its `operation.details` events: each may carry
    another half.
    """
    details = [payload for name, payload in events if name == DETAILS]
    if not details:
        return attributes
    merged: dict[str, Value] = {}
    for payload in reversed(details):
        merged.update((k, v) for k, v in payload.items() if v is not None)
    merged.update((k, v) for k, v in attributes.items() if v is not None)
    return merged


def _events(span: Span, context: Context) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Name and payload of the span's events and log records."""
    for event in span.events:
        yield event.name, _payload(None, event.attributes)
    for log in context.logs:
        yield from moved(span, log)
        # LiteLLM writes it with an underscore
        name = log.event_name or log.attributes.get("event_name")
        yield str(name), _payload(log.body, log.attributes)


def _payload(body: Value, attributes: Attributes) -> Mapping[str, Any]:
    content = attributes.get(GEN_AI_EVENT_CONTENT)  # .NET's Microsoft.Extensions.AI
    parsed = structure(body if content is None else content).value
    return {**attributes, **parsed} if isinstance(parsed, dict) else with_blocks(attributes)


_TRACELOOP = "set TRACELOOP_TRACE_CONTENT=true"
_EITHER = f"{_TRACELOOP} where it is Traceloop's, {CAPTURE} where it is OpenTelemetry's"
_SENSITIVE = "SEMANTICKERNEL_EXPERIMENTAL_GENAI_ENABLE_OTEL_DIAGNOSTICS_SENSITIVE"
_DOTNET = f"set EnableSensitiveData in UseOpenTelemetry, or {CAPTURE}=true"

DIALECT = Dialect(
    "semconv",
    read,
    matches=matches,
    prefilters=(b"gen_ai.", b"mcp.method.name", b"llm.model_name", b"llm.input_messages"),
    content=(
        ContentSwitch(_EITHER, "opentelemetry.instrumentation.anthropic"),
        ContentSwitch(_EITHER, "opentelemetry.instrumentation.langchain"),
        ContentSwitch(_EITHER, "opentelemetry.instrumentation.openai_agents"),
        ContentSwitch(_TRACELOOP, "opentelemetry.instrumentation.openai.v"),
        ContentSwitch(OPENTELEMETRY, "opentelemetry.instrumentation.openai_v2"),
        ContentSwitch(OPENTELEMETRY, "opentelemetry.instrumentation.genai."),
        ContentSwitch(OPENTELEMETRY, "opentelemetry.instrumentation.google_genai"),
        ContentSwitch(OPENTELEMETRY, "opentelemetry.instrumentation.vertexai"),
        ContentSwitch(OPENTELEMETRY, "opentelemetry.instrumentation.botocore"),
        ContentSwitch(OPENTELEMETRY, "opentelemetry.util.genai"),
        ContentSwitch(f"set {CAPTURE}=true", "io.opentelemetry."),
        ContentSwitch(
            "set captureMessageContent of its configuration to true",
            "@opentelemetry/instrumentation-",
        ),
        ContentSwitch(_TRACELOOP, "@traceloop/"),
        ContentSwitch(f"set {_SENSITIVE}=true", "semantic_kernel."),
        ContentSwitch("set AZURE_TRACING_GEN_AI_CONTENT_RECORDING_ENABLED=true", "azure."),
        ContentSwitch(_DOTNET, "Experimental.Microsoft."),
        ContentSwitch("set recordInputs and recordOutputs of its integration to true", "@sentry/"),
    ),
    by_hand=True,
)
