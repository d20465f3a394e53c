"""Vercel AI SDK: its own `ai.*` attributes up to version 6, the semantic conventions with them from
version 7 on.
"""

import re
from typing import Any

from spanscore.dialects import keys
from spanscore.dialects.conventions import openllmetry, semconv
from spanscore.dialects.dialect import ContentSwitch, Context, Dialect
from spanscore.dialects.forms.arguments import arguments, call_id, tools
from spanscore.dialects.forms.decorated_calls import damaged
from spanscore.dialects.forms.messages import message, messages
from spanscore.dialects.forms.status import status_error
from spanscore.dialects.forms.structure import (
    Facts,
    add_damaged,
    add_missing,
    as_object,
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
from spanscore.model.span import Attributes, Span, changed
from spanscore.model.step import Message

_SCOPE, _OPERATION = "ai", "ai.operationId"
_CONVENTIONS = "gen_ai"  # the scope from version 7 on
# one call of a provider; the span around it is the whole loop
_INNER = (".doGenerate", ".doStream")
_OUTER = frozenset({"ai.generateText", "ai.streamText", "ai.generateObject", "ai.streamObject"})
# What the application added: up to version 6; from 7 on; under Traceloop's SDK.
_APPLICATION = (
    "ai.telemetry.metadata.",
    "ai.settings.context.",
    keys.TRACELOOP_ASSOCIATION_PROPERTIES_PREFIX,
)
_MOVED = frozenset(
    {keys.GEN_AI_INPUT_MESSAGES, keys.GEN_AI_OUTPUT_MESSAGES, keys.GEN_AI_TOOL_CALL_ARGUMENTS}
)
"""Where Traceloop's and Sentry's SDKs move what the AI SDK wrote to its own attributes."""

_INDEXED = frozenset({keys.GEN_AI_PROMPT_0_ROLE, keys.GEN_AI_COMPLETION_0_ROLE})
"""Where Traceloop's SDK moved it until May 2026, partly to both."""

_UNTYPED = re.compile(r'[\[,]\{"(?!type"|role")')
"""A part without a type, or what looks like one within a text."""

_OPENCODE = "opencode"  # a coding agent on the AI SDK, whose tracer all spans have
# how its instructions begin to a model that finds a conversation's title
_TITLE = "You are a title generator."
_SESSIONS = tuple(
    x + y for y in ("sessionId", "session_id", "conversationId", "threadId") for x in _APPLICATION
)
_MODELS = (
    "ai.response.model",
    "ai.model.id",
    keys.GEN_AI_RESPONSE_MODEL,
    keys.GEN_AI_REQUEST_MODEL,
)
_ANSWERS = ("ai.response.text", "ai.response.object", "ai.result.text", "ai.result.object")
_CALLED, _PROMPT = "ai.toolCall.name", "ai.prompt"
_GIVEN = ("ai.usage.inputTokens", "ai.usage.promptTokens", keys.GEN_AI_USAGE_INPUT_TOKENS)
_PRODUCED = ("ai.usage.outputTokens", "ai.usage.completionTokens", keys.GEN_AI_USAGE_OUTPUT_TOKENS)
_USERS = tuple(x + y for y in ("userId", "user_id") for x in _APPLICATION)


def read(span: Span, context: Context) -> Facts:
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
    facts["session_id"] = facts.get("session_id") or first_identity(attributes, _SESSIONS)
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
    recorded = attributes.get(keys.GEN_AI_INPUT_MESSAGES)
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
        key: value for key, value in span.attributes.items() if key != keys.GEN_AI_OUTPUT_MESSAGES
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
    facts["input_tokens"] = first_count(attributes, _GIVEN)
    facts["output_tokens"] = first_count(attributes, _PRODUCED)


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
    spread = keys.OPENINFERENCE_SPAN_KIND in span.attributes and all(
        x.name != "exception" for x in span.events
    )
    return None if spread else status_error(span)


DIALECT = Dialect(
    "vercel_ai",
    read,
    scopes=(_CONVENTIONS, _SCOPE),
    keys=(_OPERATION, _PROMPT, _CALLED),
    prefilters=(b"ai.operationId", b"gen_ai", b"ai.prompt", b"ai.toolCall"),
    content=(
        ContentSwitch("leave recordInputs and recordOutputs of `experimental_telemetry` at true"),
    ),
)
