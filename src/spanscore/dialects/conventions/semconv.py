"""OpenTelemetry's GenAI semantic conventions, from 1.26's span events to today's message
attributes.

Content is looked for on the span, then in `operation.details` events, then in the events of one
message each; either kind of event comes as a span event or as a log record of the span, its payload
in the body or in the attributes.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, TypeAlias

from spanscore.dialects.conventions.adot import moved
from spanscore.dialects.dialect import (
    CAPTURE,
    LATEST,
    OPENTELEMETRY,
    OPENTELEMETRY_EVENTS,
    ContentSwitch,
    Context,
    Dialect,
)
from spanscore.dialects.forms import tool_results
from spanscore.dialects.forms.arguments import arguments, call_id, tools
from spanscore.dialects.forms.messages import (
    MessageCache,
    Messages,
    complete_react,
    message,
    messages,
    system_text,
    with_blocks,
)
from spanscore.dialects.forms.repeats import once
from spanscore.dialects.forms.status import status_error
from spanscore.dialects.forms.structure import (
    REFERENCE_SUFFIX,
    Facts,
    add_token_details,
    as_list,
    first_count,
    first_value,
    identity,
    is_redacted,
    objects,
    opened,
    structure,
    text,
)
from spanscore.dialects.forms.tool_results import tool_output
from spanscore.model.json import Json
from spanscore.model.span import Attributes, LogRecord, Span, Value, changed
from spanscore.model.step import Message, StepFact, StepKind, ToolResult

Events: TypeAlias = list[tuple[str, Mapping[str, Any]]]
"""Names and payloads, in order."""

DETAILS = "gen_ai.client.inference.operation.details"
"""The event with all of a call's messages, recorded beside the span or in place of its
attributes.
"""

ROLES_OF_EVENTS = {
    "gen_ai.system.message": "system",
    "gen_ai.user.message": "user",
    "gen_ai.assistant.message": "assistant",
    "gen_ai.tool.message": "tool",
}

CHOICE = "gen_ai.choice"
PROMPT, COMPLETION = "gen_ai.content.prompt", "gen_ai.content.completion"
EVENTS = frozenset({DETAILS, CHOICE, PROMPT, COMPLETION, *ROLES_OF_EVENTS})


def events_of(span: Span, context: Context) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Name and payload of the span's events and log records."""
    for event in span.events:
        yield event.name, once(_payload_of_event, event.attributes, "")
    for log in context.logs:
        yield from moved(span, log)
        # LiteLLM writes it with an underscore
        name = log.event_name or log.attributes.get("event_name")
        yield str(name), _payload(log.body, log.attributes)


def _payload_of_event(attributes: Attributes, _role: str) -> Mapping[str, Any]:
    return _payload(None, attributes)


def _payload(body: Value, attributes: Attributes) -> Mapping[str, Any]:
    content = attributes.get("gen_ai.event.content")  # .NET's Microsoft.Extensions.AI
    parsed = structure(body if content is None else content).value
    return {**attributes, **parsed} if isinstance(parsed, dict) else with_blocks(attributes)


def with_details(attributes: Attributes, events: Events) -> Attributes:
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


_INPUT_TOKENS = (
    "gen_ai.usage.input_tokens",
    "gen_ai.usage.prompt_tokens",
    "gen_ai.response.prompt_tokens",
)

_OUTPUT_TOKENS = (
    "gen_ai.usage.output_tokens",
    "gen_ai.usage.completion_tokens",
    "gen_ai.response.completion_tokens",
)
"""Of each what is written today, and what was; the last one by Semantic Kernel."""


_REQUESTED_TOOLS = "gen_ai.request.tools"
"""Langtrace's; others have a number or names there."""


def read_conversation(
    attributes: Attributes, events: Events, histories: MessageCache, facts: Facts
) -> None:
    """Add messages, instructions, tools, model, tokens and finish reasons to `facts`, and which of
    them are cut.
    """
    given, produced = _from_attributes(attributes, histories)
    if (given.messages is None or produced.messages is None) and events:
        given, produced = _from_events(events, given, produced)
    facts["input"], facts["output"] = given.messages, produced.messages
    damaged = _damaged_sides(given, produced)
    if _lost_history(attributes):
        damaged.add("history")
    damaged |= elsewhere(attributes, _MESSAGES_UPLOADED)
    instructions = attributes.get("gen_ai.system_instructions")
    if instructions is not None:
        facts["system"], cut = system_text(instructions)
        if cut:
            damaged.add("system")
    # Strands lists names
    definitions = first_value(attributes, ("gen_ai.tool.definitions", "gen_ai.agent.tools"))
    if definitions is not None:
        facts["tools"] = tools(definitions)
        if facts["tools"] is None:
            damaged.add("tools")
    else:
        facts["tools"] = tools(attributes.get(_REQUESTED_TOOLS))
    facts["damaged"] = frozenset(damaged)
    facts["model"] = text(attributes.get("gen_ai.response.model")) or text(
        attributes.get("gen_ai.request.model")
    )
    _read_response_ids(attributes, facts)
    facts["input_tokens"] = first_count(attributes, _INPUT_TOKENS)
    facts["output_tokens"] = first_count(attributes, _OUTPUT_TOKENS)
    add_token_details(attributes, facts)
    reasons = attributes.get("gen_ai.response.finish_reasons")
    if isinstance(reasons, list):
        facts["finish_reasons"] = tuple(x for x in reasons if isinstance(x, str))


def _read_response_ids(attributes: Attributes, facts: Facts) -> None:
    facts["response_id"] = identity(attributes.get("gen_ai.response.id"))
    previous_id = identity(attributes.get("gen_ai.request.previous_response.id"))
    if previous_id is not None:  # the provider has what came before
        facts["previous_response_id"], facts["input_is_part"] = previous_id, True


_MESSAGES_UPLOADED: Mapping[StepFact, str] = {
    "input": "gen_ai.input.messages",
    "output": "gen_ai.output.messages",
    "system": "gen_ai.system_instructions",
    "tools": "gen_ai.tool.definitions",
}


def elsewhere(attributes: Attributes, wanted: Mapping[StepFact, str]) -> set[StepFact]:
    """The facts of which a span has only the address to which they were uploaded; `wanted` has the
    keys of the facts themselves.
    """
    return {
        fact
        for fact, key in wanted.items()
        if key not in attributes and key + REFERENCE_SUFFIX in attributes
    }


def _lost_history(attributes: Attributes) -> bool:
    """Whether messages were compacted, and the input lacks the text that stands for them."""
    if attributes.get("gen_ai.conversation.compacted") is not True:
        return False
    listed = objects(structure(attributes.get("gen_ai.input.messages")).value)
    parts = [part for message in listed for part in objects(message.get("parts"))]
    return not any(x.get("type") == "compaction" and text(x.get("content")) for x in parts)


def _damaged_sides(given: Messages, produced: Messages) -> set[StepFact]:
    damaged: set[StepFact] = set()
    if given.damaged:
        damaged.add("input")
    if produced.damaged:
        damaged.add("output")
    return damaged


def _from_attributes(attributes: Attributes, histories: MessageCache) -> tuple[Messages, Messages]:
    given = attributes.get("gen_ai.input.messages")
    produced = attributes.get("gen_ai.output.messages")
    if given is None:
        given = attributes.get("gen_ai.prompt")
    if produced is None:
        produced = attributes.get("gen_ai.completion")
    return (
        histories.messages(given) if given is not None else Messages(None),
        messages(produced, "assistant") if produced is not None else Messages(None),
    )


def _from_events(events: Events, given: Messages, produced: Messages) -> tuple[Messages, Messages]:
    """Complete the messages in a span's attributes by the events of one message each, and by those
    of 1.26.
    """
    inputs, chosen = list[Message](), list[Message]()
    for name, payload in events:
        if name == PROMPT:
            inputs += messages(payload.get("gen_ai.prompt")).messages or ()
        elif name == COMPLETION:
            chosen += messages(payload.get("gen_ai.completion"), "assistant").messages or ()
        elif name == CHOICE:
            chosen += once(_chosen, payload, "assistant")
        elif name in ROLES_OF_EVENTS:
            inputs += once(_event_messages, payload, ROLES_OF_EVENTS[name])
    if given.messages is None and inputs:
        given = Messages(_with_results_left_out(inputs), given.damaged)
    if produced.messages is None and chosen:
        produced = Messages(tuple(chosen), produced.damaged)
    return given, produced


def _chosen(payload: Mapping[str, Any], role: str) -> list[Message]:
    return _event_messages(_choice(payload), role)


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
        unshown = tuple(changed(x, shown=False) for x in read_message.results)
        read_message = changed(read_message, results=unshown)
    return [] if read_message is None else [read_message]


def _with_results_left_out(messages: list[Message]) -> tuple[Message, ...]:
    """The messages, in which a result without content was empty, or not to be recorded if no
    message has any.
    """
    results = [y for x in messages for y in x.results]
    has_content = any(x.text is not None for x in messages) or any(x.shown for x in results)
    if not has_content or all(x.shown for x in results):
        return tuple(messages)
    return tuple(changed(x, results=tuple(map(_empty_where_unshown, x.results))) for x in messages)


def _empty_where_unshown(result: ToolResult) -> ToolResult:
    return result if result.shown else changed(result, value="", shown=True)


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
        "gen_ai.usage.input_tokens",
        "gen_ai.usage.output_tokens",
        "gen_ai.usage.prompt_tokens",
        "gen_ai.usage.completion_tokens",
        "llm.token_count.prompt",
        "llm.token_count.completion",
    }
)
"""The numbers of tokens that people set on the span of a model's call, in either convention."""

FUNCTIONS = frozenset({"input.value", "output.value"})
"""What a function took and returned; of a span that states no more it is a function's."""

_MESSAGES = frozenset({"gen_ai.input.messages", "gen_ai.output.messages"})
_CONTENT = _MESSAGES | frozenset(
    {
        "gen_ai.prompt",
        "gen_ai.completion",
        "llm.model_name",
        "llm.input_messages",
        "llm.input_messages.0.message.role",
    }
)
"""What a span of an operation that is not known has only where it is a model's; the last ones are
OpenInference's.
"""

_OF_UNNAMED = _CONTENT | COUNTS | frozenset({"gen_ai.response.model"})
"""What a span without an operation has only where it is a model's."""


def kind_of(attributes: Attributes, events: Events, *, is_whole: bool) -> StepKind:
    """The kind of a span's step; `is_whole`: none of its attributes was dropped.

    An operation decides where it is known. Else the span is of a tool that it names, or of a model
    where it contains what only a model's span does.
    """
    operation = attributes.get("gen_ai.operation.name")
    kind = _OPERATIONS.get(operation) if isinstance(operation, str) else None
    if kind is not None:
        return kind
    method = attributes.get("mcp.method.name")
    if method is not None and method != "tools/call":
        return "other"  # MCP's transport
    if text(attributes.get("gen_ai.tool.name")):
        return "tool"
    if operation is None and method is None:
        return _kind_of_unnamed(attributes, events, is_whole=is_whole)
    content = _CONTENT if is_whole else _MESSAGES
    return "model" if events or not content.isdisjoint(attributes) else "other"


def _kind_of_unnamed(attributes: Attributes, events: Events, *, is_whole: bool) -> StepKind:
    """The kind of a step by what its span contains, where that states no operation."""
    if "gen_ai.tool.call.id" in attributes:
        return "tool"
    content = _OF_UNNAMED if is_whole else _MESSAGES
    if events or "gen_ai.request.model" in attributes or not content.isdisjoint(attributes):
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
        "set captureMessageContent of its configuration to true", "@opentelemetry/instrumentation-"
    ),
    ContentSwitch(_TRACELOOP, "@traceloop/"),
    ContentSwitch(_AZURE, "azure."),
    ContentSwitch(_DOTNET, "Experimental.Microsoft."),
)


_CLAIMED = frozenset(
    {
        "gen_ai.operation.name",
        "gen_ai.provider.name",
        "gen_ai.system",
        "gen_ai.request.model",
        "gen_ai.tool.name",
        "gen_ai.input.messages",
        "gen_ai.output.messages",
        "mcp.method.name",
    }
)

_BY_HAND = frozenset(
    {
        "gen_ai.prompt",
        "gen_ai.completion",
        "gen_ai.response.model",
        "gen_ai.tool.call.id",
        "llm.model_name",
        "llm.input_messages",
        "llm.input_messages.0.message.role",
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
        "agent_name": text(attributes.get("gen_ai.agent.name")),
        "session_id": identity(attributes.get("gen_ai.conversation.id")),
    }
    if events:
        facts["user_id"] = next(
            (x for x in (identity(payload.get("user.id")) for _, payload in events) if x), None
        )
    if kind == "tool":
        read_tool(span, attributes, events, facts)
    elif kind == "retrieval":
        _read_retrieval(attributes, facts)
    elif kind != "other":
        read_conversation(attributes, events, context.histories, facts)
        complete_react(facts)
    return facts


_QUERIES = ("gen_ai.retrieval.query.text", "gen_ai.memory.query.text")
_DOCUMENTS = ("gen_ai.retrieval.documents", "gen_ai.memory.records")
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


_ARGUMENTS = ("gen_ai.tool.call.arguments", "gen_ai.tool.input")

_RESULT = ("gen_ai.tool.call.result", "gen_ai.tool.output")
"""Of each the conventions' name, and what others write."""

_UPLOADED: Mapping[StepFact, str] = {"arguments": _ARGUMENTS[0], "result": _RESULT[0]}

_EXECUTES = "execute_tool "  # how the conventions have the name of a tool's span begin

_ANSWER = frozenset({"name", "tool_call_id", "content"})
"""The fields of a message that answers a call, in place of the call's result."""


def read_tool(span: Span, attributes: Attributes, events: Events, facts: Facts) -> None:
    """Add a tool's name, call id, arguments, result and error to `facts`, and which are hidden."""
    facts["tool_name"] = _tool_name(span, attributes)
    facts["call_id"] = call_id(attributes.get("gen_ai.tool.call.id"))
    facts["error"] = status_error(span)
    damaged = elsewhere(attributes, _UPLOADED)
    given = first_value(attributes, _ARGUMENTS)
    returned: Any = first_value(attributes, _RESULT)
    has_result = returned is not None or _RESULT[0] in attributes
    for name, payload in events:  # Strands
        if name == "gen_ai.tool.message" and given is None:
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
        facts["arguments"] = _arguments_in(_messages_of(details, "gen_ai.input.messages", "user"))
    if not facts.get("has_result") and "result" not in facts["damaged"]:
        _read_result_message(_messages_of(details, "gen_ai.output.messages", "assistant"), facts)


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
    name = text(attributes.get("gen_ai.tool.name"))
    if name or "gen_ai.operation.name" in attributes:
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
