"""Logfire's own instrumentations: whole requests and responses, lists of events, and runs of
OpenAI's Agents SDK.
"""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Final, TypeAlias

from spanscore.dialects.conventions import semconv
from spanscore.dialects.dialect import Context, Dialect, IgnoredSpans
from spanscore.dialects.forms.arguments import arguments, failure, result, tools
from spanscore.dialects.forms.messages import Messages, event_messages, messages
from spanscore.dialects.forms.provider_bodies import messages_of
from spanscore.dialects.forms.status import status_error
from spanscore.dialects.forms.structure import (
    Facts,
    Side,
    add_damaged,
    add_missing,
    as_object,
    first_text,
    identity,
    object_at,
    read_names,
    read_usage,
    structure,
    text,
    unprinted,
)
from spanscore.model.span import STATUS_ERROR, Attributes, Span, Value
from spanscore.model.step import Message, Step, StepKind
from spanscore.model.trace import RequestedCall

_AGENTS, _MCP, _ANTHROPIC = "logfire.openai_agents", "logfire.mcp", "logfire.anthropic"
_SCOPES = (_AGENTS, _MCP, _ANTHROPIC, "logfire.openai")
_KEYS_OF_CALL = ("gen_ai.input.messages", "request_data", "events", "raw_input", "response")
_KEYS_OF_ANSWER = ("gen_ai.output.messages", "response_data", "gen_ai.usage.output_tokens")
_REQUEST_KEYS = ("messages", "prompt")
_RESPONSE_KEYS = ("message", "combined_chunk_content", "text")
_STARTS: Final[tuple[tuple[str, StepKind], ...]] = (
    ("OpenAI Agents trace", "workflow"),
    ("Agent run", "agent"),
    ("Function", "tool"),
)
_APPLICATION = "logfire"  # the scope of spans that an application opens itself
_MAX_STREAMS = 50  # at once beside each other that are compared with a record
_ENVELOPE = "input"  # around the arguments of a call by an Anthropic model

_Body: TypeAlias = dict[str, Any]
"""A provider's request or response."""


def read(span: Span, context: Context) -> Facts:
    """The facts of a provider's call, of a step of the Agents SDK, or of an MCP request."""
    if span.scope.name == _MCP:
        return _read_mcp(span)
    if span.scope.name == _AGENTS:
        kind = next((kind for start, kind in _STARTS if span.name.startswith(start)), None)
        if kind is not None or not _calls_model(span.attributes):
            return _read_step(span, kind or "other")
    facts = semconv.read(span, context)
    add_missing(facts, named(span))
    facts["kind"] = _kind(span.attributes)
    if facts["kind"] == "model":
        _read_model(span, facts)
    return facts


def named(span: Span) -> Facts:
    """Whose session a span is of, by what an application gave it or put into Logfire's baggage;
    empty for another's.
    """
    if span.scope.name != _APPLICATION and span.scope.name not in _SCOPES:
        return {}
    found: Facts = {}
    read_names(span.attributes, found)
    return found


def _calls_model(attributes: Attributes) -> bool:
    return any(x in attributes for x in _KEYS_OF_CALL)


def _kind(attributes: Attributes) -> StepKind:
    is_other = (
        not _calls_model(attributes) or attributes.get("gen_ai.operation.name") == "embeddings"
    )
    return "other" if is_other else "model"


def _is_waiting(span: Span) -> bool:
    """Whether a model call's span lacks the answer: a streamed one is in a record after the
    call.
    """
    attributes = span.attributes
    if attributes.get("logfire.span_type") == "log":
        return False
    answered = span.scope.name == _AGENTS or any(
        x in attributes for x in (*_KEYS_OF_ANSWER, "events")
    )
    streams = structure(attributes.get("request_data")).value
    if (
        isinstance(streams, dict)
        and streams.get("stream") is True
        and "response_data" not in attributes
    ):
        answered = any(x in attributes for x in _KEYS_OF_ANSWER)
    return not answered and span.status_code != STATUS_ERROR


def _read_model(span: Span, facts: Facts) -> None:
    """The facts that the conventions' attributes lack, from what older versions and the Agents SDK
    record.
    """
    attributes = span.attributes
    request, response, whole = (
        object_at(attributes, x) for x in ("request_data", "response_data", "response")
    )
    if facts.get("input") is None or facts.get("output") is None:
        _complete_messages(attributes, (request, response, whole), facts)
    if (
        span.scope.name == _ANTHROPIC
        and "gen_ai.output.messages" not in attributes
        and facts["output"]
    ):
        facts["output"] = tuple(_with_bare_arguments(x) for x in facts["output"])
    facts["system"] = facts.get("system") or first_text(whole, ("instructions",))
    facts["system"] = facts["system"] or first_text(request, ("instructions", "system"))
    if facts.get("tools") is None:
        listed = (x["tools"] for x in (whole, request) if isinstance(x.get("tools"), list))
        facts["tools"] = next((tools(x) for x in listed), None)
    facts["model"] = facts.get("model") or text(request.get("model"))
    read_usage(response.get("usage"), facts)


def _complete_messages(
    attributes: Attributes, bodies: tuple[_Body, _Body, _Body], facts: Facts
) -> None:
    """What the model was given and produced, each from the first place that contains it, where it
    is not known yet.
    """
    request, response, whole = bodies
    given_events, produced_events = _events(attributes)
    given = (
        _listed(attributes, "raw_input"),
        _listed(attributes, "input"),
        _messages(request, _REQUEST_KEYS, "user"),
        given_events,
    )
    produced = (
        _messages(whole, (), "assistant"),
        _listed(attributes, "output", "assistant"),
        _messages(response, _RESPONSE_KEYS, "assistant"),
        produced_events,
    )
    _complete_side("input", given, facts)
    _complete_side("output", produced, facts)


def _complete_side(side: Side, sources: tuple[Messages, ...], facts: Facts) -> None:
    if facts.get(side) is not None:
        return
    found = next((x for x in sources if x.messages is not None), Messages(None))
    facts[side] = found.messages
    if found.damaged:
        add_damaged(facts, side)


def _listed(attributes: Attributes, key: str, role: str = "user") -> Messages:
    if attributes.get(key) in (None, "null"):
        return Messages(None)
    parsed, damaged = structure(attributes[key])
    if isinstance(parsed, list):
        return Messages(messages_of(parsed, role), damaged)
    return messages(attributes[key], role)


def _messages(body: _Body, names: tuple[str, ...], role: str) -> Messages:
    """The messages of a request or response: the value of one of `names`, else where the provider
    has them.
    """
    for key in names:
        if body.get(key) is not None:
            return messages(body[key], role)
    return Messages(messages_of(body, role))


def _events(attributes: Attributes) -> tuple[Messages, Messages]:
    """What was given and what was produced, of events in one list: the answer comes after all that
    was given.
    """
    conversation = event_messages(attributes.get("events"))
    if conversation.messages is None:
        return conversation, conversation
    listed = conversation.messages
    start = next((i for i in range(len(listed), 0, -1) if listed[i - 1].role != "assistant"), 0)
    return Messages(listed[:start]), Messages(listed[start:] or None)


def _with_bare_arguments(message: Message) -> Message:
    calls = tuple(
        RequestedCall(call.call_id, call.name, call.arguments[_ENVELOPE])
        if isinstance(call.arguments, dict) and call.arguments.keys() == {_ENVELOPE}
        else call
        for call in message.calls
    )
    return replace(message, calls=calls)


def _read_step(span: Span, kind: StepKind) -> Facts:
    """A step of the Agents SDK that calls no model."""
    attributes = span.attributes
    facts: Facts = {"kind": kind}
    if kind == "workflow":
        facts["session_id"] = identity(attributes.get("group_id"))
        read_names(object_at(attributes, "metadata"), facts)
    elif kind == "agent":
        facts["agent_name"] = text(attributes.get("name"))
        facts["tools"] = tools(attributes["tools"]) if "tools" in attributes else None
    elif kind == "tool":
        facts["tool_name"] = text(attributes.get("name"))
        facts["error"] = _error(span)
        if "input" in attributes:
            facts["arguments"] = arguments(attributes["input"])
        if "output" in attributes and facts["error"] is None:
            facts["result"], facts["has_result"] = unprinted(attributes["output"]), True
    return facts


def _error(span: Span) -> str | None:
    """The error that the SDK records; it is an object with a message and, of a tool, the
    exception's text.
    """
    error = object_at(span.attributes, "error")
    reason = as_object(error.get("data")).get("error")
    reason = error.get("message") if reason in (None, "") else reason
    return status_error(span) if reason is None else failure(reason)


def _read_mcp(span: Span) -> Facts:
    """A request as client or server sees it; one that calls a tool is that call."""
    request = object_at(span.attributes, "request")
    if request.get("method") != "tools/call":
        return {"kind": "other"}
    return read_call(span, request.get("params"), span.attributes.get("response"))


def refine_trace(steps: Sequence[Step]) -> list[Step]:
    """The steps, each streamed call with what the record after it contains: the request once more,
    and the answer.
    """
    waiting: defaultdict[str, list[Step]] = defaultdict(list)
    changed = dict[str, Step]()
    for step in steps:
        if step.kind == "model" and _is_waiting(step.span):
            waiting[step.span.parent_span_id].append(step)
            changed[step.span.span_id] = _nothing(step)
    for record in (
        x
        for x in steps
        if x.kind == "model" and x.span.attributes.get("logfire.span_type") == "log"
    ):
        calls = waiting[record.span.parent_span_id]
        for number, call in enumerate(calls[:_MAX_STREAMS]):
            if call.input == record.input:
                attributes = {**call.span.attributes, **record.span.attributes}
                changed[call.span.span_id] = replace(
                    record, span=replace(call.span, attributes=attributes)
                )
                changed[record.span.span_id] = _nothing(record)
                del calls[number]
                break
    return [changed.get(x.span.span_id, x) for x in steps]


def _nothing(step: Step) -> Step:
    return Step(span=step.span, dialect=step.dialect, kind="other")


DIALECT = Dialect(
    "logfire",
    read,
    scopes=_SCOPES,
    prefilters=(b"logfire.",),
    refine_trace=refine_trace,
    # it announces a span by another one, with another id
    ignored=IgnoredSpans(
        keys=("logfire.feedback.name",), values=(("logfire.span_type", "pending_span"),)
    ),
    name_session=named,
)


def read_call(span: Span, parameters: Any, answer: Value) -> Facts:
    """The facts of a call.

    What a tool returns as structure, and as text for those that know no structure, is one.
    """
    request = as_object(parameters)
    facts: Facts = {
        "kind": "tool",
        "tool_name": text(request.get("name")),
        "error": status_error(span),
    }
    if request.get("arguments") is not None:
        facts["arguments"] = arguments(request["arguments"])
    content = structure(answer).value
    if isinstance(content, dict) and "content" in content:
        facts["result"], facts["has_result"] = result(content["content"]), True
        if content.get("isError") is True:
            facts["error"] = facts["error"] or failure(facts["result"])
    return facts
