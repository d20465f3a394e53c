"""LiteLLM: mixed conventions on a span that several calls may share, and a raw span for each call
of a provider.
"""

import re
from collections.abc import Iterator, Sequence
from typing import Any

from spanscore.dialects.conventions import openllmetry
from spanscore.dialects.dialect import CAPTURE, ContentSwitch, Context, Dialect
from spanscore.dialects.forms.arguments import arguments, tools
from spanscore.dialects.forms.decorated_calls import cut
from spanscore.dialects.forms.messages import message, system_text
from spanscore.dialects.forms.provider_bodies import messages_of
from spanscore.dialects.forms.structure import (
    Facts,
    add_damaged,
    count,
    first_identity,
    identity,
    indexed,
    read_usage,
    structure,
    text,
)
from spanscore.model.span import Attributes, LogRecord, Span, changed
from spanscore.model.step import Message
from spanscore.model.trace import RequestedCall

_RAW = "raw_gen_ai_request"
_PROMPT, _COMPLETION = "gen_ai.content.prompt", "gen_ai.content.completion"
_SCOPE = "litellm"
_CALL = re.compile(r"gen_ai\.completion\.\d+\.function_call\.")
# of its second version, and of its first
_TOOLS = ("gen_ai.tool.", "llm.request.functions.")
_DECLARED = "litellm.request.tools.declared"
"""How many tools are on offer; it lists only as many as fit into a part of the 128 attributes of a
span.
"""

_KEYS_OF_CALL = frozenset(
    {"gen_ai.operation.name", "llm.request.type", "gen_ai.input.messages", "gen_ai.output.messages"}
)
_END_USERS = (
    "llm.user",
    "litellm.metadata.user_api_key_end_user_id",
    "metadata.user_api_key_end_user_id",
)
_SESSIONS, _USERS = ("session_id", "conversation_id", "thread_id"), ("user_id", "trace_user_id")


def read(span: Span, context: Context) -> Facts:
    """The facts of a request, of the application's span that LiteLLM writes to, or of the
    provider's raw call.

    The application's span contains only the last of the calls made below it; their raw spans
    contain one each.
    """
    if span.name == _RAW:
        return _read_raw(span.attributes)
    span = _of_last_call(span)
    facts, attributes = openllmetry.read(span, context), span.attributes
    if facts["kind"] == "model" and not context.logs and _KEYS_OF_CALL.isdisjoint(attributes):
        facts["kind"] = "other"  # the model's name is on all spans of a request to the proxy
    if facts["kind"] == "model":
        _read_model(attributes, context.logs, facts)
    facts["user_id"] = facts.get("user_id") or first_identity(attributes, _END_USERS)
    if not (facts.get("session_id") and facts["user_id"]) and attributes.get(
        "metadata.requester_metadata"
    ):
        # what a client of the proxy sent along
        metadata = structure(attributes["metadata.requester_metadata"]).value
        if isinstance(metadata, dict):
            facts["session_id"] = facts.get("session_id") or first_identity(metadata, _SESSIONS)
            facts["user_id"] = facts["user_id"] or first_identity(metadata, _USERS)
    return facts


def _read_model(attributes: Attributes, logs: Sequence[LogRecord], facts: Facts) -> None:
    given, produced = _of_events(logs)
    if given and "gen_ai.input.messages" not in attributes:
        facts["input"] = given
    if produced and "gen_ai.output.messages" not in attributes:
        facts["output"] = produced
    output = facts.get("output")
    if output and not output[-1].calls and (calls := tuple(_called(attributes))):
        facts["output"] = (*output[:-1], changed(output[-1], calls=calls))
    if facts.get("tools") is None:
        listed = next(filter(None, (indexed(attributes, x) for x in _TOOLS)), None)
        facts["tools"] = None if listed is None else tools(listed)
    if len(facts["tools"] or ()) < (count(attributes.get(_DECLARED)) or 0):
        add_damaged(facts, "tools")


def _of_last_call(span: Span) -> Span:
    """The application's span, without the calls that an earlier answer requested.

    Each model call below the span writes its attributes over those of the one before, and an
    attribute that is written anew becomes the last one. So what stands before this answer's
    messages is left over from an earlier answer.
    """
    attributes = span.attributes
    if span.scope.name == _SCOPE or "gen_ai.output.messages" not in attributes:
        return span
    recorded = list(attributes)
    earlier = {x for x in recorded[: recorded.index("gen_ai.output.messages")] if _CALL.match(x)}
    remaining = {key: value for key, value in attributes.items() if key not in earlier}
    return changed(span, attributes=remaining) if earlier else span


def _called(attributes: Attributes) -> Iterator[RequestedCall]:
    """The calls that an answer requests, which stand beside the answer's messages; the index is the
    call's.
    """
    for item in indexed(attributes, "gen_ai.completion."):
        call = item.get("function_call")
        if isinstance(call, dict) and text(call.get("name")):
            yield RequestedCall(None, call["name"], arguments(call.get("arguments")))


def _of_events(logs: Sequence[LogRecord]) -> tuple[tuple[Message, ...], tuple[Message, ...]]:
    """What was given and produced, of the records of one message each: the body is the message or
    choice itself.
    """
    given, produced = list[Message | None](), list[Message | None]()
    for log in logs:
        name, body = log.event_name or log.attributes.get("event_name"), log.body
        if name == _PROMPT and isinstance(body, dict):
            given.append(message(body, "user"))
        elif name == _COMPLETION and isinstance(body, dict):
            produced.append(message(body.get("message"), "assistant"))
    return tuple(x for x in given if x is not None), tuple(x for x in produced if x is not None)


def _read_raw(attributes: Attributes) -> Facts:
    """A provider's request and response: each field an attribute `llm.{provider}.{field}`, often a
    Python literal.
    """
    fields: dict[str, Any] = {}
    for key, value in attributes.items():
        path = key.split(".", 2)
        if len(path) == 3 and path[0] == "llm" and path[2] in _FIELDS:
            fields[path[2]] = value
    request = structure(fields.get("messages", fields.get("contents")))
    response = structure(_response(fields))
    facts: Facts = {
        "kind": "model",
        "model": text(fields.get("model")),
        "user_id": identity(fields.get("user")),
        "response_id": identity(fields.get("id")),
        "input": None if request.value is None else messages_of(request.value, "user"),
        "output": None if response.value is None else _answer(response.value),
        "tools": None if "tools" not in fields else tools(structure(fields["tools"]).value),
    }
    if text(fields.get("system")):
        facts["system"] = system_text(fields["system"])[0]
    read_usage(structure(fields.get("usage")).value, facts)
    facts["damaged"] = cut(input=request, output=response)
    return facts


def _response(fields: dict[str, Any]) -> Any:
    return next((fields[x] for x in ("choices", "content", "output") if x in fields), None)


def _answer(response: Any) -> Any:
    """The messages of a response: OpenAI's choices, or content blocks."""
    if isinstance(response, list) and any(isinstance(x, dict) and "message" in x for x in response):
        return messages_of({"choices": response}, "assistant")
    return messages_of([{"role": "assistant", "content": response}], "assistant")


_FIELDS = frozenset(
    {
        "messages",
        "contents",
        "choices",
        "content",
        "output",
        "tools",
        "system",
        "usage",
        "model",
        "user",
        "id",
    }
)

DIALECT = Dialect(
    "litellm",
    read,
    scopes=(_SCOPE,),
    keys=("litellm.call_id", "litellm.api_key.hash", "hidden_params"),
    prefilters=(b"litellm", b"hidden_params"),
    content=(ContentSwitch(f"set {CAPTURE}=span_only, and leave turn_off_message_logging off"),),
)
