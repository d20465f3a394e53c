"""Frameworks for JavaScript.

`vercel_ai`: Vercel AI SDK: its own `ai.*` attributes up to version 6, the semantic conventions with
them from version 7 on.

`voltagent`: VoltAgent: spans that name the entity they belong to; one model span stands for the
whole loop of a turn.
"""

import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any, Final

from spanscore.dialects.conventions import openllmetry, semconv
from spanscore.dialects.dialect import ContentSwitch, Context, Dialect, Quirk
from spanscore.dialects.forms.arguments import arguments, call_id, tools
from spanscore.dialects.forms.decorated_calls import damaged, read_call, read_function
from spanscore.dialects.forms.messages import message, messages
from spanscore.dialects.forms.status import status_error
from spanscore.dialects.forms.structure import (
    Facts,
    Parsed,
    add_damaged,
    add_missing,
    as_object,
    count,
    first_count,
    first_identity,
    first_text,
    identity,
    is_redacted,
    objects,
    opened,
    structure,
    text,
)
from spanscore.model.json import Json
from spanscore.model.span import Attributes, Span, Value, changed
from spanscore.model.step import Message, Step, StepKind
from spanscore.model.trace import Tool

_SCOPE, _OPERATION = "ai", "ai.operationId"
_CONVENTIONS = "gen_ai"  # the scope from version 7 on
# one call of a provider; the span around it is the whole loop
_INNER = (".doGenerate", ".doStream")
_OUTER = frozenset({"ai.generateText", "ai.streamText", "ai.generateObject", "ai.streamObject"})
# What the application added: up to version 6; from 7 on; under Traceloop's SDK.
_APPLICATION = (
    "ai.telemetry.metadata.",
    "ai.settings.context.",
    "traceloop.association.properties.",
)
_MOVED = frozenset(
    {"gen_ai.input.messages", "gen_ai.output.messages", "gen_ai.tool.call.arguments"}
)
"""Where Traceloop's and Sentry's SDKs move what the AI SDK wrote to its own attributes."""

_INDEXED = frozenset({"gen_ai.prompt.0.role", "gen_ai.completion.0.role"})
"""Where Traceloop's SDK moved it until May 2026, partly to both."""

_UNTYPED = re.compile(r'[\[,]\{"(?!type"|role")')
"""A part without a type, or what looks like one within a text."""

_OPENCODE = "opencode"  # a coding agent on the AI SDK, whose tracer all spans have
# how its instructions begin to a model that finds a conversation's title
_TITLE = "You are a title generator."
_VERCEL_SESSIONS = tuple(
    x + y for y in ("sessionId", "session_id", "conversationId", "threadId") for x in _APPLICATION
)
_MODELS = ("ai.response.model", "ai.model.id", "gen_ai.response.model", "gen_ai.request.model")
_ANSWERS = ("ai.response.text", "ai.response.object", "ai.result.text", "ai.result.object")
_CALLED, _PROMPT = "ai.toolCall.name", "ai.prompt"
_VERCEL_GIVEN = ("ai.usage.inputTokens", "ai.usage.promptTokens", "gen_ai.usage.input_tokens")
_VERCEL_PRODUCED = (
    "ai.usage.outputTokens",
    "ai.usage.completionTokens",
    "gen_ai.usage.output_tokens",
)
_USERS = tuple(x + y for y in ("userId", "user_id") for x in _APPLICATION)


def read_vercel(span: Span, context: Context) -> Facts:
    """The facts of one of its spans: `generateText` and the like, a provider's call in it, or a
    tool call.
    """
    attributes = span.attributes
    operation = _operation(span)
    if operation is None:
        facts = semconv.read(span, context)
    elif operation.endswith(_INNER):
        facts = {"kind": "model", "model": first_text(attributes, _MODELS)}
        _read_call(attributes, context, facts)
    elif operation in _OUTER:
        facts = {"kind": "agent", "agent_name": text(attributes.get("ai.telemetry.functionId"))}
        _read_loop(attributes, facts)
    elif operation == "ai.toolCall":
        facts = _tool_call(span)
    else:
        facts = {"kind": "other"}  # embeddings
    if operation is not None and not _INDEXED.isdisjoint(attributes):
        add_missing(facts, openllmetry.read(_without_parts(span), context))
    elif operation is not None and not _MOVED.isdisjoint(attributes):
        add_missing(facts, semconv.read(span, context))
        _damage_misread_lists(attributes, facts)
    if span.scope.name == _OPENCODE and _finds_title(facts):
        return {"kind": "other"}
    facts["session_id"] = facts.get("session_id") or first_identity(attributes, _VERCEL_SESSIONS)
    facts["user_id"] = facts.get("user_id") or first_identity(attributes, _USERS)
    return facts


def _operation(span: Span) -> str | None:
    """What the span is of, by its own attribute, else by OpenTelemetry's, which may go on with the
    function's id.
    """
    operation = span.attributes.get(_OPERATION)
    if isinstance(operation, str):
        return operation
    named = (text(span.attributes.get("operation.name")) or span.name).split(" ")[0]
    return named if span.scope.name != _CONVENTIONS and named.startswith("ai.") else None


def _finds_title(facts: Facts) -> bool:
    """Whether the call gives opencode's conversation a title, as its instructions show; it belongs
    to no turn.
    """
    messages = (x.text for x in facts.get("input") or () if x.role == "system")
    return (facts.get("system") or next(messages, None) or "").startswith(_TITLE)


def _damage_misread_lists(attributes: Attributes, facts: Facts) -> None:
    """Name questions that are JSON lists as damaged: Traceloop's SDK reads them as parts, and
    leaves the elements.

    Of a list of texts alone nothing records that it was one.
    """
    recorded = attributes.get("gen_ai.input.messages")
    listed = None
    if isinstance(recorded, str) and _UNTYPED.search(recorded):
        listed = structure(recorded).value
    given = facts.get("input")
    if not isinstance(listed, list) or not given or len(listed) != len(given):
        return
    facts["input"] = tuple(
        changed(message, text=None, damaged=message.damaged | {"text"})
        if message.role == "user" and _is_misread_list(item)
        else message
        for message, item in zip(given, listed, strict=True)
    )


def _is_misread_list(message: Any) -> bool:
    parts = as_object(message).get("parts")
    return isinstance(parts, list) and any(
        not isinstance(x, dict) or "type" not in x for x in parts
    )


def _without_parts(span: Span) -> Span:
    """The span without the messages in which Traceloop's SDK leaves out the text beside calls;
    indexed ones have it.
    """
    remaining = {
        key: value for key, value in span.attributes.items() if key != "gen_ai.output.messages"
    }
    return changed(span, attributes=remaining)


def _read_call(attributes: Attributes, context: Context, facts: Facts) -> None:
    given = attributes.get("ai.prompt.messages")
    if given is not None:
        history = context.histories.messages(given)
        facts["input"] = history.messages
        if history.damaged:
            add_damaged(facts, "input")
    definitions = attributes.get("ai.prompt.tools")
    facts["tools"] = None if definitions is None else tools(definitions)
    produced = _response(attributes)
    facts["output"] = None if produced is None else (produced,)
    facts["response_id"] = identity(attributes.get("ai.response.id"))
    reason = text(attributes.get("ai.response.finishReason"))
    if reason:
        facts["finish_reasons"] = (reason,)
    _read_usage(attributes, facts)


def _read_loop(attributes: Attributes, facts: Facts) -> None:
    """The application's question and its answer.

    The calls of all steps stand in it beside the answer to them.
    """
    recorded = first_text(attributes, ("ai.prompt.messages", _PROMPT))
    prompt, is_cut = structure(recorded)
    if is_cut:
        add_damaged(facts, "input")
    if isinstance(prompt, dict):
        facts["system"] = _system(prompt.get("system", prompt.get("instructions")))
        facts["input"] = _question(prompt)
    elif prompt is not None:
        facts["input"] = messages(recorded).messages
    answer = _response(attributes)
    if (
        answer is not None
        and answer.calls
        and answer.text
        and attributes.get("ai.response.finishReason") == "stop"
    ):
        facts["output"] = (
            Message("assistant", calls=answer.calls),
            Message("assistant", answer.text),
        )
    else:
        facts["output"] = None if answer is None else (answer,)
    _read_usage(attributes, facts)


def _system(instructions: Any) -> str | None:
    """Instructions are text, a system message, or several."""
    if isinstance(instructions, str):
        return instructions
    listed = messages(instructions, "system").messages if instructions is not None else None
    texts = [x.text for x in listed or () if x.text is not None]
    return "\n".join(texts) if texts else None


def _question(prompt: dict[str, Any]) -> tuple[Message, ...] | None:
    question = prompt.get("prompt")
    if isinstance(question, str):
        return messages([{"role": "user", "content": question}]).messages
    for listed in (prompt.get("messages"), question):
        if isinstance(listed, list):
            return messages(listed).messages
    return None


def _response(attributes: Attributes) -> Message | None:
    """The answer of a model or of the whole loop; `ai.result.*` before version 4.

    A generated object is an answer.
    """
    answer = _answer(attributes)
    listed = structure(
        first_text(attributes, ("ai.response.toolCalls", "ai.result.toolCalls"))
    ).value
    calls = [{**x, "type": "tool-call"} for x in objects(listed)]
    thought = text(attributes.get("ai.response.reasoning"))
    if answer is None and not calls and thought is None:
        return None
    parts = [{"type": "text", "text": x} for x in (answer,) if x is not None]
    return message(
        {"role": "assistant", "content": [*parts, *calls], "reasoning_content": thought},
        "assistant",
    )


def _answer(attributes: Attributes) -> str | None:
    """The text or object that was generated: in attributes of their own, or in one for both."""
    recorded = [x for x in map(attributes.get, _ANSWERS) if isinstance(x, str)]
    response = structure(attributes.get("ai.response")).value
    if isinstance(response, dict):
        recorded += [x for x in map(response.get, ("text", "object")) if isinstance(x, str)]
    return next((x for x in recorded if x), recorded[0] if recorded else None)


def _read_usage(attributes: Attributes, facts: Facts) -> None:
    facts["input_tokens"] = first_count(attributes, _VERCEL_GIVEN)
    facts["output_tokens"] = first_count(attributes, _VERCEL_PRODUCED)


def _tool_call(span: Span) -> Facts:
    attributes = span.attributes
    facts: Facts = {
        "kind": "tool",
        "tool_name": text(attributes.get(_CALLED)),
        "call_id": call_id(attributes.get("ai.toolCall.id")),
        "error": _error(span),
    }
    given, returned = attributes.get("ai.toolCall.args"), attributes.get("ai.toolCall.result")
    facts["damaged"] = damaged(arguments=given, result=returned)
    if given is not None and not is_redacted(given):
        facts["arguments"] = arguments(given)
    if returned is not None and not is_redacted(returned):
        facts["result"], facts["has_result"] = opened(returned), True
        if span.scope.name == _OPENCODE:
            facts["result"] = _out_of_opencode(facts["result"])
    return facts


def _out_of_opencode(result: Json) -> Json:
    """A tool's result for the model, out of what opencode has for its own screen beside it."""
    is_envelope = isinstance(result, dict) and {"title", "metadata", "output"} <= result.keys()
    return opened(result["output"]) if isinstance(result, dict) and is_envelope else result


def _error(span: Span) -> str | None:
    """Why a tool failed.

    OpenInference's span processor gives its status to all spans around and after it as well.
    """
    spread = "openinference.span.kind" in span.attributes and all(
        x.name != "exception" for x in span.events
    )
    return None if spread else status_error(span)


_VERCEL = Dialect(
    "vercel_ai",
    read_vercel,
    scopes=(_CONVENTIONS, _SCOPE),
    keys=(_OPERATION, _PROMPT, _CALLED),
    prefilters=(b"ai.operationId", b"gen_ai", b"ai.prompt", b"ai.toolCall"),
    content=(
        ContentSwitch("leave recordInputs and recordOutputs of `experimental_telemetry` at true"),
    ),
)


_USER = "ai.telemetry.metadata.posthog_distinct_id"
_SESSION = "ai.telemetry.metadata.$ai_session_id"


def complete(span: Span, facts: Facts) -> None:
    """Add the user and the session, where nothing else states them."""
    facts["user_id"] = facts.get("user_id") or identity(span.attributes.get(_USER))
    facts["session_id"] = facts.get("session_id") or identity(span.attributes.get(_SESSION))


_TYPE, _ENTITY = "span.type", "entity.type"
_KINDS: Final[dict[str, StepKind]] = {
    "agent": "agent",
    "llm": "model",
    "tool": "tool",
    "retriever": "retrieval",
    "workflow-step": "workflow",
}
# of a span without a type
_ENTITIES: Final[dict[str, StepKind]] = {
    "agent": "agent",
    "llm": "model",
    "tool": "tool",
    "workflow": "workflow",
}
_VOLTAGENT_SESSIONS = ("conversation.id", "voltagent.conversation_id")
_VOLTAGENT_GIVEN = ("usage.prompt_tokens", "llm.usage.prompt_tokens")
_VOLTAGENT_PRODUCED = ("usage.completion_tokens", "llm.usage.completion_tokens")
_ASIDE = "generateTitle"
"""A model call that belongs to no turn."""
_NAMES = ("subagent.name", "entity.name")  # a sub-agent's entity is the agent that it works for
_MAX_DEPTH = 64


def read_voltagent(span: Span, context: Context) -> Facts:
    """The facts of a span of an agent, its model, a tool or a retriever; memory and guardrails are
    none.
    """
    attributes = span.attributes
    kinds, key = (_KINDS, _TYPE) if _TYPE in attributes else (_ENTITIES, _ENTITY)
    kind = kinds.get(str(attributes.get(key)), "other")
    if kind == "model" and attributes.get("llm.operation") == _ASIDE:
        kind = "other"
    facts: Facts = {"kind": kind, "session_id": first_identity(attributes, _VOLTAGENT_SESSIONS)}
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
        facts["documents"] = (
            tuple(found) if isinstance(found, list) else () if found is None else (found,)
        )
    elif kind == "workflow" and context.outermost:
        read_function(opened(given, scalars=False), Parsed(opened(returned, scalars=False)), facts)
        facts["damaged"] = damaged(input=given, output=returned)
    return facts


def _read_agent(attributes: Attributes, given: Value, returned: Value, facts: Facts) -> None:
    """An agent's span has the sum of its tokens; its models' spans only those of the last call that
    they stand for.
    """
    recorded = structure(attributes.get("agent.messages"))
    facts["agent_name"] = first_text(attributes, _NAMES)
    facts["input"] = messages(recorded.value).messages if isinstance(recorded.value, list) else None
    facts["input_text"] = _plain_text(given) if facts["input"] is None else None
    facts["output_text"] = _plain_text(returned)
    facts["system"] = text(attributes.get("agent.instructions"))
    facts["tools"] = _offered(structure(attributes.get("agent.stateSnapshot")).value)
    facts["input_tokens"] = count(attributes.get("usage.prompt_tokens"))
    facts["output_tokens"] = count(attributes.get("usage.completion_tokens"))
    if recorded.damaged or is_redacted(given):
        add_damaged(facts, "input")
    if is_redacted(returned):
        add_damaged(facts, "output")


def _plain_text(value: Value) -> str | None:
    return value if isinstance(value, str) and not is_redacted(value) else None


def _offered(state: Any) -> tuple[Tool, ...] | None:
    """The tools in an agent's state; their parameters are Zod's own objects, unless they came as a
    schema.
    """
    found = None
    if isinstance(state, dict) and isinstance(state.get("tools"), list):
        found = tools(state["tools"])
    return found and tuple(Tool(x.name, x.description, _schema(x.parameters)) for x in found)


def _schema(parameters: Json) -> Json:
    return parameters if isinstance(parameters, dict) and "properties" in parameters else None


def _read_model(attributes: Attributes, facts: Facts) -> None:
    recorded = structure(attributes.get("llm.messages"))
    facts["input"] = messages(recorded.value).messages if isinstance(recorded.value, list) else None
    if recorded.damaged:
        add_damaged(facts, "input")
    answer = attributes.get("output")
    if isinstance(answer, str) and answer and not is_redacted(answer):
        facts["output"] = (Message("assistant", answer),)
    facts["model"] = text(attributes.get("llm.model"))
    reason = text(attributes.get("llm.finish_reason"))
    facts["finish_reasons"] = (reason,) if reason else ()


def _read_tool(span: Span, given: Value, returned: Value, facts: Facts) -> None:
    attributes = span.attributes
    facts["tool_name"] = text(attributes.get("tool.name"))
    facts["call_id"] = call_id(attributes.get("tool.call.id"))
    read_call(span, given, returned, facts)


def refine_trace(steps: Sequence[Step]) -> list[Step]:
    """The steps; an agent that no other one called counts the tokens of those that it called as
    well. Where neither an agent's nor a tool's span came, a model's has its own.
    """
    if not any(x.kind in {"agent", "tool"} for x in steps):
        return [_with_tokens(x) if x.kind == "model" else x for x in steps]
    known = {x.span.span_id: x for x in steps}
    inside: defaultdict[str, list[Step]] = defaultdict(list)
    for step in steps:
        inside[_agent_above(step, known)].append(step)
    summed = {x.span.span_id: _tokens(x, inside) for x in inside[""] if x.kind == "agent"}
    return [
        changed(
            step,
            input_tokens=summed[step.span.span_id][0],
            output_tokens=summed[step.span.span_id][1],
        )
        if step.span.span_id in summed
        else step
        for step in steps
    ]


def _with_tokens(model: Step) -> Step:
    attributes = model.span.attributes
    return changed(
        model,
        input_tokens=first_count(attributes, _VOLTAGENT_GIVEN),
        output_tokens=first_count(attributes, _VOLTAGENT_PRODUCED),
    )


def _agent_above(step: Step, known: Mapping[str, Step]) -> str:
    """The id of the agent's span that a step is in; empty where it is in none."""
    above = known.get(step.span.parent_span_id)
    for _ in range(_MAX_DEPTH):
        if above is None or above.kind == "agent":
            break
        above = known.get(above.span.parent_span_id)
    return above.span.span_id if above is not None and above.kind == "agent" else ""


def _tokens(outermost: Step, inside: Mapping[str, Sequence[Step]]) -> tuple[int | None, int | None]:
    """What an agent and those inside it used; None where one of them does not record it."""
    agents, counts = [outermost], list[tuple[int | None, int | None]]()
    for agent in agents:
        agents += [x for x in inside.get(agent.span.span_id, ()) if x.kind == "agent"]
        counts.append(_own_tokens(agent, inside.get(agent.span.span_id, ())))
    given, produced = [x for x, _ in counts], [x for _, x in counts]
    return _sum(given), _sum(produced)


def _own_tokens(agent: Step, steps: Sequence[Step]) -> tuple[int | None, int | None]:
    """An agent's own count; none where there were several calls and it is that of the last, as in
    early versions.
    """
    if any(x.kind == "tool" for x in steps):
        last = [
            count(x.span.attributes.get("llm.usage.prompt_tokens"))
            for x in steps
            if x.kind == "model"
        ]
        if not last or any(x is None or x >= (agent.input_tokens or 0) for x in last):
            return None, None
    return agent.input_tokens, agent.output_tokens


def _sum(counts: Sequence[int | None]) -> int | None:
    recorded = [x for x in counts if x is not None]
    return sum(recorded) if len(recorded) == len(counts) else None


_VOLTAGENT = Dialect(
    "voltagent",
    read_voltagent,
    scopes=("@voltagent/core",),
    keys=("voltagent.operation_id", "voltagent.conversation_id"),
    prefilters=(b"voltagent",),
    refine_trace=refine_trace,
)


DIALECTS = (_VERCEL, _VOLTAGENT)
QUIRKS = (Quirk("posthog", "vercel_ai", values=((_USER, ""), (_SESSION, "")), complete=complete),)
