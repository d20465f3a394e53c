"""Google's Gen AI SDK under OpenTelemetry's instrumentation: functions the SDK itself calls, one
attribute a value.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from spanscore.dialects.content_switch import OPENTELEMETRY, ContentSwitch
from spanscore.dialects.conventions import semconv
from spanscore.dialects.dialect import Context, Dialect
from spanscore.dialects.forms import gemini_calls
from spanscore.dialects.forms.messages import message
from spanscore.dialects.forms.structure import opened, structure
from spanscore.dialects.forms.values import Facts, objects, text
from spanscore.dialects.frameworks.google_genai import quirks, traceloop
from spanscore.dialects.keys.gen_ai import (
    GEN_AI_OUTPUT_MESSAGES,
    GEN_AI_PROVIDER_NAME,
    GEN_AI_TOOL_DESCRIPTION,
)
from spanscore.model.json import Json
from spanscore.model.span import Attributes, LogRecord, Span, Value
from spanscore.model.step import Message
from spanscore.model.trace import Tool

_SCOPE = "opentelemetry.instrumentation.google_genai"
_SHARED_SCOPE, _PROVIDERS = "opentelemetry.util.genai.handler", ("gemini", "vertex_ai")
_PARAMETER, _RETURN = "code.function.parameters.", "code.function.return"
_VALUE, _TYPE = ".value", ".type"
_PIECE = '"finish_reason":""'  # of a message that is not the end of an answer, which was streamed
_ELIDED = "<elided>"  # where content is not to be recorded


def read(span: Span, context: Context) -> Facts:
    """The facts of one of its spans: a model call, maybe with the tools that the SDK ran for it, or
    such a tool.
    """
    facts = semconv.read(span, context)
    if facts["kind"] == "tool":
        _read_function(span.attributes, facts)
    elif facts["kind"] == "model":
        if facts.get("input") is None and facts.get("output") is None:
            facts["input"], facts["output"] = _from_list(span.attributes.get("events"))
        elif _PIECE in str(span.attributes.get(GEN_AI_OUTPUT_MESSAGES)):
            _read_streamed(facts)
        gemini_calls.without_envelopes(facts, objects=True)
    return facts


def _read_streamed(facts: Facts) -> None:
    """Read a streamed conversation: each piece of an answer is a message, and so is each answer
    that called tools.
    """
    given, answered = _combined(facts.get("input") or ()), _combined(facts.get("output") or ())
    if answered and not answered[-1].calls:  # the tools of those before it were run meanwhile
        given, answered = [*given, *answered[:-1]], answered[-1:]
    facts["input"], facts["output"] = tuple(given) or None, tuple(answered) or None


def _combined(pieces: Sequence[Message]) -> list[Message]:
    messages: list[Message] = []
    for piece in pieces:
        last = messages[-1] if messages else None
        if (
            last is not None
            and piece.role == last.role == "assistant"
            and last.text
            and not last.calls
        ):
            messages[-1] = replace(piece, text=last.text + (piece.text or ""))
        else:
            messages.append(piece)
    return messages


def _from_list(events: Value) -> tuple[tuple[Message, ...] | None, tuple[Message, ...] | None]:
    """What a model was given and what it answered, of the events that Logfire puts into one
    attribute.
    """
    shown = [x for x in objects(structure(events).value) if x.get("content") != _ELIDED]
    given = [message(_content(x), "user") for x in shown if "index" not in x]
    pieces = [x["message"] for x in shown if isinstance(x.get("message"), dict)]
    answer = message({"content": _joined(pieces)}, "assistant") if pieces else None
    return tuple(x for x in given if x is not None) or None, None if answer is None else (answer,)


def _content(event: dict[str, Any]) -> dict[str, Any]:
    """The message inside an event, or the event."""
    inner = event.get("content")
    return inner if isinstance(inner, dict) else event


def _joined(pieces: Sequence[dict[str, Any]]) -> list[Any]:
    """The parts of an answer that was streamed in pieces, each of which has some of its text."""
    parts: list[Any] = []
    for part in (y for x in pieces if isinstance(x.get("content"), list) for y in x["content"]):
        if isinstance(part, str) and parts and isinstance(parts[-1], str):
            parts[-1] += part
        else:
            parts.append(part)
    return parts


def _read_function(attributes: Attributes, facts: Facts) -> None:
    """What a function was called with and returned, before version 1.0 by attributes of its own."""
    if facts.get("arguments") is None:
        given = {
            key.removeprefix(_PARAMETER).removesuffix(_VALUE): _given(
                value, attributes.get(_typed(key))
            )
            for key, value in attributes.items()
            if key.startswith(_PARAMETER) and key.endswith(_VALUE)
        }
        empty = (
            attributes.get("code.args.positional.count")
            == attributes.get("code.args.keyword.count")
            == 0
        )
        facts["arguments"] = given if given or empty else None
    if not facts.get("has_result") and _RETURN + _VALUE in attributes:
        facts["result"] = _python(attributes[_RETURN + _VALUE], attributes.get(_RETURN + _TYPE))
        facts["has_result"] = True
    if facts["tool_name"] is not None:
        facts["tools"] = (Tool(facts["tool_name"], text(attributes.get(GEN_AI_TOOL_DESCRIPTION))),)


def _typed(key: str) -> str:
    return key.removesuffix(_VALUE) + _TYPE


def _given(value: Value, kind: Value) -> Json:
    """An argument: text stays text, even where it is JSON, for it was given as text."""
    return value if isinstance(value, str) and kind == "str" else _python(value, kind)


def _python(value: Value, kind: Value) -> Json:
    """A recorded value: text as it was, numbers as they are, all else as JSON."""
    return opened(value, scalars=kind != "str")


def matches(span: Span, _logs: Sequence[LogRecord]) -> bool:
    """Whether it is of the instrumentation since 1.0, whose spans have the scope of the library
    that it shares.
    """
    return (
        span.scope.name == _SHARED_SCOPE and span.attributes.get(GEN_AI_PROVIDER_NAME) in _PROVIDERS
    )


QUIRKS = (*quirks.QUIRKS, *traceloop.QUIRKS)

DIALECT = Dialect(
    "google_genai",
    read,
    scopes=(_SCOPE,),
    matches=matches,
    matching_scopes=(_SHARED_SCOPE,),
    prefilters=(b"google_genai", _SHARED_SCOPE.encode()),
    content=(ContentSwitch(OPENTELEMETRY),),
)
