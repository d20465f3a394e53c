"""Logfire's own instrumentations: whole requests and responses, lists of events, and runs of OpenAI's Agents SDK."""

from dataclasses import replace
from typing import Any

from spanscore.dialects import semconv
from spanscore.dialects._arguments import arguments, tools
from spanscore.dialects._base import Context, Dialect, Facts, first_count, first_text, text
from spanscore.dialects._json import opened, printed, structure
from spanscore.dialects._mcp import read_call
from spanscore.dialects._messages import Messages, messages
from spanscore.dialects._requests import messages_of
from spanscore.model.span import STATUS_ERROR, Attributes, Span
from spanscore.model.step import Message
from spanscore.model.trace import RequestedCall

_AGENTS, _MCP, _ANTHROPIC = "logfire.openai_agents", "logfire.mcp", "logfire.anthropic"
_SCOPES = (_AGENTS, _MCP, _ANTHROPIC, "logfire.openai")
_TOLD_OF_CALL = ("gen_ai.input.messages", "request_data", "events", "raw_input", "response")
_TOLD_OF_ANSWER = ("gen_ai.output.messages", "response_data", "gen_ai.usage.output_tokens")
_ASKED, _ANSWERED = ("messages", "prompt"), ("message", "combined_chunk_content", "text")
_GIVEN, _PRODUCED = ("input_tokens", "prompt_tokens"), ("output_tokens", "completion_tokens")
_STARTS = (("OpenAI Agents trace", "workflow"), ("Agent run", "agent"), ("Function", "tool"))
_SESSIONS, _USERS = ("session_id", "conversation_id", "thread_id"), ("user_id",)
_ENVELOPE = "input"  # around the arguments of a call by an Anthropic model


def read(span: Span, context: Context) -> Facts:
    """The facts of a provider's call, of a step of the Agents SDK, or of an MCP request."""
    if span.scope.name == _MCP:
        return _read_mcp(span)
    if span.scope.name == _AGENTS:
        kind = next((kind for start, kind in _STARTS if span.name.startswith(start)), None)
        if kind is not None or not _calls_model(span.attributes):
            return _read_step(span, kind or "other")
    facts = semconv.read(span, context)
    facts["kind"] = _kind(span)
    if facts["kind"] == "model":
        _read_model(span, facts)
    return facts


def _calls_model(attributes: Attributes) -> bool:
    return any(x in attributes for x in _TOLD_OF_CALL)


def _kind(span: Span) -> str:
    """A streamed answer is told by a record after the call, which holds the request too: the call is not read then."""
    attributes = span.attributes
    if not _calls_model(attributes) or attributes.get("gen_ai.operation.name") == "embeddings":
        return "other"
    answered = span.scope.name == _AGENTS or any(x in attributes for x in (*_TOLD_OF_ANSWER, "events"))
    streams = structure(attributes.get("request_data")).value
    if isinstance(streams, dict) and streams.get("stream") is True and "response_data" not in attributes:
        answered = any(x in attributes for x in _TOLD_OF_ANSWER)
    return "model" if answered or span.status_code == STATUS_ERROR else "other"


def _read_model(span: Span, facts: Facts) -> None:
    """What the attributes of the conventions do not tell, from what older versions and the Agents SDK record."""
    attributes = span.attributes
    request, response, whole = (_object(attributes, x) for x in ("request_data", "response_data", "response"))
    asked, answered = _events(attributes)
    given = (
        _listed(attributes, "raw_input"),
        _listed(attributes, "input"),
        _messages(request, _ASKED, "user"),
        asked,
    )
    produced = (
        _messages(whole, (), "assistant"),
        _listed(attributes, "output", "assistant"),
        _messages(response, _ANSWERED, "assistant"),
        answered,
    )
    damaged = set(facts.get("damaged", ()))
    for fact, sources in (("input", given), ("output", produced)):
        told = next((x for x in sources if x.messages is not None), Messages(None))
        if facts.get(fact) is None:
            facts[fact] = told.messages
            damaged |= {fact} if told.damaged else set()
    if span.scope.name == _ANTHROPIC and "gen_ai.output.messages" not in attributes and facts["output"]:
        facts["output"] = tuple(_with_bare_arguments(x) for x in facts["output"])
    facts["damaged"] = frozenset(damaged)
    facts["system"] = facts.get("system") or first_text(whole, ("instructions",))
    facts["system"] = facts["system"] or first_text(request, ("instructions", "system"))
    if facts.get("tools") is None:
        listed = (x["tools"] for x in (whole, request) if isinstance(x.get("tools"), list))
        facts["tools"] = next((tools(x) for x in listed), None)
    facts["model"] = facts.get("model") or text(request.get("model"))
    usage = response.get("usage")
    for fact, names in (("input_tokens", _GIVEN), ("output_tokens", _PRODUCED)):
        if facts.get(fact) is None and isinstance(usage, dict):
            facts[fact] = first_count(usage, names)


def _object(attributes: Attributes, key: str) -> dict[str, Any]:
    value = structure(attributes.get(key)).value
    return value if isinstance(value, dict) else {}


def _listed(attributes: Attributes, key: str, role: str = "user") -> Messages:
    return messages(attributes[key], role) if attributes.get(key) not in (None, "null") else Messages(None)


def _messages(body: dict[str, Any], keys: tuple[str, ...], role: str) -> Messages:
    """The messages of a request or response: what one of `keys` holds, else where the provider has them."""
    for key in keys:
        if body.get(key) is not None:
            return messages(body[key], role)
    return Messages(messages_of(body, role))


def _events(attributes: Attributes) -> tuple[Messages, Messages]:
    """What was given and what was produced, of events in one list: the answer comes after all that was given."""
    parsed, damaged = structure(attributes.get("events"))
    items = [x for x in parsed if isinstance(x, dict)] if isinstance(parsed, list) else []
    if not items:
        return Messages(None, damaged), Messages(None, damaged)
    said = messages([x["message"] if isinstance(x.get("message"), dict) else x for x in items])
    told = said.messages or ()
    start = next((i for i in range(len(told), 0, -1) if told[i - 1].role != "assistant"), 0)
    return Messages(told[:start], said.damaged), Messages(told[start:] or None, said.damaged)


def _with_bare_arguments(message: Message) -> Message:
    calls = tuple(
        RequestedCall(x.call_id, x.name, x.arguments[_ENVELOPE])
        if isinstance(x.arguments, dict) and x.arguments.keys() == {_ENVELOPE}
        else x
        for x in message.calls
    )
    return replace(message, calls=calls)


def _read_step(span: Span, kind: str) -> Facts:
    """A step of the Agents SDK that calls no model."""
    attributes = span.attributes
    facts: Facts = {"kind": kind}
    if kind == "workflow":
        metadata = _object(attributes, "metadata")
        facts["session_id"] = text(attributes.get("group_id")) or first_text(metadata, _SESSIONS)
        facts["user_id"] = first_text(metadata, _USERS)
    elif kind == "agent":
        facts["agent_name"] = text(attributes.get("name"))
        facts["tools"] = tools(attributes["tools"]) if "tools" in attributes else None
    elif kind == "tool":
        facts["tool_name"] = text(attributes.get("name"))
        facts["error"] = _error(span)
        if "input" in attributes:
            facts["arguments"] = arguments(attributes["input"])
        if "output" in attributes and facts["error"] is None:
            facts["result"], facts["has_result"] = opened(attributes["output"]), True
    return facts


def _error(span: Span) -> str | None:
    """What the SDK says went wrong; it is an object with a message and, of a tool, the exception's text."""
    error = _object(span.attributes, "error")
    detail = error.get("data")
    told = detail.get("error") if isinstance(detail, dict) else None
    told = error.get("message") if told is None else told
    return semconv.status_error(span) if told is None else printed(told)


def _read_mcp(span: Span) -> Facts:
    """A request as client or server sees it; one that calls a tool is that call."""
    request = _object(span.attributes, "request")
    if request.get("method") != "tools/call":
        return {"kind": "other"}
    return read_call(span, request.get("params"), span.attributes.get("response"))


DIALECT = Dialect("logfire", read, scopes=_SCOPES, marks=(b"logfire.",))
