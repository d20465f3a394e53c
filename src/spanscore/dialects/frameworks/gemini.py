"""Google's SDK for Gemini, and Genkit.

`google_genai`: Google's Gen AI SDK under OpenTelemetry's instrumentation: functions the SDK itself
calls, one attribute a value.

`genkit`: Google's Genkit: actions with a subtype, their input and output as JSON.
"""

import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Final

from google.protobuf.json_format import MessageToDict
from google.protobuf.message import Error
from google.protobuf.struct_pb2 import Struct
from google.protobuf.text_format import Parse, ParseError

from spanscore.dialects.conventions import semconv
from spanscore.dialects.dialect import OPENTELEMETRY, ContentSwitch, Context, Dialect, Items, Quirk
from spanscore.dialects.forms import arguments
from spanscore.dialects.forms.arguments import tools
from spanscore.dialects.forms.decorated_calls import (
    cut,
    damaged,
    read_call,
    read_function,
    read_retrieval,
)
from spanscore.dialects.forms.messages import blocks, message, messages
from spanscore.dialects.forms.provider_bodies import messages_of
from spanscore.dialects.forms.structure import (
    STRING,
    Facts,
    Parsed,
    add_damaged,
    as_object,
    count,
    first_identity,
    first_text,
    objects,
    opened,
    opened_repr,
    structure,
    text,
)
from spanscore.model.json import Json
from spanscore.model.span import STATUS_ERROR, Attributes, LogRecord, Span, Value, changed
from spanscore.model.step import Message, Step, StepKind
from spanscore.model.trace import Tool

_MLFLOW_TYPE = "mlflow.spanType"


def logged_by_mlflow(span: Span) -> bool:
    """Whether MLflow wrote a model call of this SDK, in its own attributes or in the semantic
    conventions.
    """
    attributes = span.attributes
    if _MLFLOW_TYPE in attributes:
        return opened(attributes.get("mlflow.message.format")) == "gemini"
    return attributes.get("gen_ai.provider.name") == "gemini"


def complete(_span: Span, facts: Facts) -> None:
    """Open the results in a model call's messages, in place."""
    if facts["kind"] == "model":
        arguments.without_envelopes(facts, objects=True)


_SCOPES = (
    "opentelemetry.instrumentation.google_generativeai",
    "opentelemetry.instrumentation.vertexai",
)

# a chat's, and the call that it makes for it
_SENT, _GENERATED = "gemini.send_message", "gemini.generate_content"
_OLDEST = "Gemini"  # what they called the system
_UNKNOWN = "unknown"  # the model of a chat
_MAX_CHARS = 256 * 1024
_FIELDS = r"(?:[a-z_]+=None ?)*+"
_PART = re.compile(
    rf"{_FIELDS}(function_call|function_response)=(Function(?:Call|Response)\(\n.*\n\)) ?{_FIELDS}",
    re.DOTALL,
)
_ELISIONS = re.compile(
    rf"(?:{STRING})|(<(?:dict len=\d+|\.\.\. [^<>'\"\n]{{1,80}} \.\.\.)>)", re.DOTALL
)
"""What the SDK prints of objects that are large or deep: their values are lost."""

_BEGIN = "function_response {\n"
_PROTO_PART = re.compile(
    r'function_response \{\n  name: "([\w.:-]{1,256})"\n(?:  response \{\n((?: {4}.*\n)*+)  \}\n)?+'
    r'(?:  id: "([\w.:-]{1,256})"\n)?+\}\n?\n?'
)


def opened_items(span: Span, items: Items) -> Items:
    """Flattened messages, each with its parts as they were before they were printed."""
    return [_opened_item(span, x) for x in items]


def _opened_item(span: Span, item: dict[str, Any]) -> dict[str, Any]:
    """The fields of a message, whose content or blocks may be parts that were printed.

    The oldest instrumentations put a line break behind all that was sent, and first had no role.
    """
    is_first = "user" in item and "content" not in item
    content = item["user"] if is_first else item.get("content")
    parts = [opened for x in blocks(content) or () for opened in _opened_block(x)] or _proto_parts(
        content
    )
    if isinstance(content, str) and (is_first or span.attributes.get("gen_ai.system") == _OLDEST):
        content = content.removesuffix("\n")
    role = {"role": "user"} if is_first else {}
    return {**item, **role, "content": parts or content}


def _opened_block(block: Any) -> list[Any]:
    return _proto_parts(as_object(block).get("text")) or [unprinted_part(block)]


def unprinted_part(block: Any) -> Any:
    r"""A text block, or the call or the result that it contains as str() prints a part of the Gen
    AI SDK.

    >>> unprinted_part(
    ...     {"type": "text", "text": "function_call=FunctionCall(\n  name='f'\n) text=None"}
    ... )
    {'function_call': {'name': 'f'}}
    """
    content = as_object(block).get("text")
    found = _PART.fullmatch(content) if isinstance(content, str) else None
    value = opened_repr(found[2]) if found else None
    if found is None or not isinstance(value, dict):
        return block
    if any(x[1] for x in _ELISIONS.finditer(found[2])):
        value |= dict.fromkeys(("args", "response") & value.keys(), _ELIDED)
    return {found[1]: value}


def _proto_parts(content: object) -> list[Any]:
    """The results that a text consists of, as str() prints protobuf messages; empty for any other
    text.
    """
    if not isinstance(content, str) or not content.startswith(_BEGIN) or len(content) > _MAX_CHARS:
        return []
    parts: list[Any] = []
    at = 0
    while at < len(content):
        found = _PROTO_PART.match(content, at)
        value = None if found is None else _struct(found[2] or "")
        if found is None or value is None:
            return []
        identity = {} if found[3] is None else {"id": found[3]}
        parts.append({"function_response": {"name": found[1], "response": value, **identity}})
        at = found.end()
    return parts


def _struct(printed: str) -> dict[str, Json] | None:
    """The JSON object that str() of a protobuf Struct prints; None for what is none."""
    struct = Struct()
    try:
        Parse(printed, struct)
        value = MessageToDict(struct)
    except (ParseError, Error, ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def complete_traceloop(span: Span, facts: Facts) -> None:
    """Open a model call's envelopes, in place.

    Where it answered nothing but calls, these are left out.
    """
    if facts["kind"] != "model":
        return
    arguments.without_envelopes(facts, objects=True)
    if facts.get("model") == _UNKNOWN:
        facts["model"] = None
    is_whole = not span.dropped_attributes_count and span.status_code != STATUS_ERROR
    if (
        is_whole
        and facts.get("output") is None
        and facts.get("input")
        and facts.get("output_tokens")
    ):
        facts["output"] = ()


def refine_trace(steps: Sequence[Step]) -> Sequence[Step]:
    """The steps, of a chat's calls those that show what was sent; the call that each makes is
    bookkeeping.
    """
    sent = [x for x in steps if x.span.name == _SENT]
    if not sent:
        return steps
    changed = dict[str, Step]()
    inner = iter(
        sorted((x for x in steps if x.span.name == _GENERATED), key=lambda x: x.span.start_ns)
    )
    call = next(inner, None)
    for step in sorted(sent, key=lambda x: x.span.start_ns):
        while call is not None and call.span.start_ns < step.span.start_ns:
            call = next(inner, None)
        if call is not None and _is_inside(call, step):
            changed[call.span.span_id] = replace(call, kind="other")
            changed[step.span.span_id] = replace(step, model=step.model or text(call.model))
    return [changed.get(x.span.span_id, x) for x in steps]


def _is_inside(call: Step, chat: Step) -> bool:
    same = (
        call.span.parent_span_id == chat.span.parent_span_id
        and call.output_tokens == chat.output_tokens
    )
    return (
        same and chat.span.start_ns <= call.span.start_ns and call.span.end_ns <= chat.span.end_ns
    )


def complete_openinference(span: Span, facts: Facts) -> None:
    """The same; early versions write results as the user's text."""
    if facts["kind"] != "model":
        return
    if _CALLED in span.attributes:
        _read_called(span.attributes, facts)
    if given := facts.get("input"):
        facts["input"] = tuple(arguments.with_results(given))
    complete(span, facts)


_CALLED = "message.tool_calls.0.tool_call.function.name"
_CONTENTS, _HISTORY = "contents", "automatic_function_calling_history"


def _read_called(attributes: Attributes, facts: Facts) -> None:
    """Add the functions that the SDK called before it had the answer. The tokens are those of the
    answer alone.
    """
    given = _messages(attributes.get("input.value"), _CONTENTS)
    meanwhile = _messages(attributes.get("output.value"), _HISTORY)
    if not given or len(meanwhile) < len(given):
        add_damaged(facts, "output", "tokens")
    elif called := meanwhile[len(given) :]:
        facts["output"] = (*called, *(facts.get("output") or ()))
        add_damaged(facts, "tokens")


def _messages(body: Value, key: str) -> Sequence[Message]:
    return messages(as_object(structure(body).value).get(key)).messages or ()


_SCOPE = "opentelemetry.instrumentation.google_genai"
_SHARED_SCOPE, _PROVIDERS = "opentelemetry.util.genai.handler", ("gemini", "vertex_ai")
_PARAMETER, _RETURN = "code.function.parameters.", "code.function.return"
_VALUE, _GOOGLE_GENAI_TYPE = ".value", ".type"
_PIECE = '"finish_reason":""'  # of a message that is not the end of an answer, which was streamed
_ELIDED = "<elided>"  # where content is not to be recorded


def read_google_genai(span: Span, context: Context) -> Facts:
    """The facts of one of its spans: a model call, maybe with the tools that the SDK ran for it, or
    such a tool.
    """
    facts = semconv.read(span, context)
    if facts["kind"] == "tool":
        _read_function(span.attributes, facts)
    elif facts["kind"] == "model":
        if facts.get("input") is None and facts.get("output") is None:
            facts["input"], facts["output"] = _from_list(span.attributes.get("events"))
        elif _PIECE in str(span.attributes.get("gen_ai.output.messages")):
            _read_streamed(facts)
        arguments.without_envelopes(facts, objects=True)
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
        facts["result"] = _python(
            attributes[_RETURN + _VALUE], attributes.get(_RETURN + _GOOGLE_GENAI_TYPE)
        )
        facts["has_result"] = True
    if facts["tool_name"] is not None:
        facts["tools"] = (
            Tool(facts["tool_name"], text(attributes.get("gen_ai.tool.description"))),
        )


def _typed(key: str) -> str:
    return key.removesuffix(_VALUE) + _GOOGLE_GENAI_TYPE


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
        span.scope.name == _SHARED_SCOPE
        and span.attributes.get("gen_ai.provider.name") in _PROVIDERS
    )


_GOOGLE_GENAI = Dialect(
    "google_genai",
    read_google_genai,
    scopes=(_SCOPE,),
    matches=matches,
    matching_scopes=(_SHARED_SCOPE,),
    prefilters=(b"google_genai", _SHARED_SCOPE.encode()),
    content=(ContentSwitch(OPENTELEMETRY),),
)


_GENKIT_TYPE, _SUBTYPE = "genkit:type", "genkit:metadata:subtype"
_SESSIONS = (
    "genkit:sessionId",
    "genkit:metadata:agent:sessionId",
    "session.id",
    "gen_ai.conversation.id",
)
# labels that an application gives a call (`telemetryLabels`), as those of sessions
_USERS = ("user.id", "enduser.id")
_CONTEXT = "genkit:metadata:context"
_CONTEXT_SESSIONS = ("sessionId", "session_id", "threadId", "conversationId")
_CONTEXT_USERS = ("userId", "user_id", "uid")
_KINDS: Final[dict[str, StepKind]] = {  # by subtype, which only actions have; else by type
    "model": "model",
    "background-model": "model",
    "tool": "tool",
    "tool.v2": "tool",
    "retriever": "retrieval",
    "agent": "agent",
    "flow": "workflow",
    "executable-prompt": "workflow",
    "dotprompt": "workflow",
    "helper": "workflow",  # a chat's `send`
    "util": "workflow",  # `generate`, the loop around a model and its tools
}


def read_genkit(span: Span, context: Context) -> Facts:
    """The facts of an action."""
    attributes = span.attributes
    kind = _KINDS.get(first_text(attributes, (_SUBTYPE, _GENKIT_TYPE)) or "", "other")
    called_in = structure(attributes.get(_CONTEXT)).value
    called_in = as_object(called_in)
    facts: Facts = {
        "kind": kind,
        "session_id": first_identity(attributes, _SESSIONS)
        or first_identity(called_in, _CONTEXT_SESSIONS),
        "user_id": first_identity(attributes, _USERS) or first_identity(called_in, _CONTEXT_USERS),
    }
    given, returned = attributes.get("genkit:input"), attributes.get("genkit:output")
    name = text(attributes.get("genkit:name")) or text(span.name)
    if kind == "model":
        facts["model"] = name
        _read_model(given, returned, facts)
    elif kind == "tool":
        facts["tool_name"] = name
        read_call(span, given, returned, facts)
        if attributes.get(_SUBTYPE) == "tool.v2":
            facts["result"] = _of_parts(facts.get("result"))
    elif kind == "retrieval":
        read_retrieval(given, returned, facts)
    elif kind == "agent" or (kind == "workflow" and context.outermost):
        facts["agent_name"] = (
            name if kind == "agent" or attributes.get(_SUBTYPE) == "flow" else None
        )
        read_function(opened(given), Parsed(_answer(opened(returned))), facts)
        facts["damaged"] = damaged(input=given, output=returned)
    return facts


def _read_model(given: Value, returned: Value, facts: Facts) -> None:
    request, response = structure(given), structure(returned)
    if isinstance(request.value, dict):
        facts["input"] = messages(request.value.get("messages")).messages
        facts["tools"] = tools(request.value["tools"]) if "tools" in request.value else None
    if isinstance(response.value, dict):
        answer: Any = response.value.get("message")
        # before version 1
        if answer is None and isinstance(response.value.get("candidates"), list):
            answer = [x.get("message") for x in response.value["candidates"] if isinstance(x, dict)]
        facts["output"] = _with_text(
            messages(answer, "assistant").messages, response.value.get("raw")
        )
        usage = response.value.get("usage")
        if isinstance(usage, dict):
            facts["input_tokens"] = count(usage.get("inputTokens"))
            facts["output_tokens"] = _produced(usage)
        reason = text(response.value.get("finishReason"))
        facts["finish_reasons"] = (reason,) if reason else ()
    facts["damaged"] = cut(input=request, output=response)


def _answer(returned: Any) -> Any:
    """What an agent or flow returned: of an agent the message in the object that it puts around
    it.
    """
    is_turn = (
        isinstance(returned, dict)
        and isinstance(returned.get("message"), dict)
        and "finishReason" in returned
    )
    return {"messages": [returned["message"]]} if is_turn else returned


def _of_parts(result: Any) -> Any:
    """What a tool that returns parts has as its value, or else the parts: they stand in an object
    of its own.
    """
    if isinstance(result, dict) and result.keys() <= {"output", "content", "metadata"}:
        return next((result[x] for x in ("output", "content") if result.get(x) is not None), None)
    return result


def _with_text(answer: tuple[Message, ...] | None, raw: Any) -> tuple[Message, ...] | None:
    """The answer, with the text beside its tool calls, which the OpenAI plugin leaves in the
    provider's response.
    """
    if not answer or len(answer) > 1 or not answer[0].calls or answer[0].text is not None:
        return answer
    messages = messages_of(raw, "assistant") if isinstance(raw, dict) and "choices" in raw else None
    return (changed(answer[0], text=messages[0].text),) if messages else answer


def _produced(usage: dict[str, Any]) -> int | None:
    """Output tokens; Genkit counts those of thinking beside them."""
    produced = [count(usage.get(x)) for x in ("outputTokens", "thoughtsTokens")]
    return None if produced[0] is None else sum(x for x in produced if x is not None)


_GENKIT = Dialect("genkit", read_genkit, keys=(_GENKIT_TYPE,), prefilters=(b"genkit:type",))


DIALECTS = (_GOOGLE_GENAI, _GENKIT)
QUIRKS = (
    Quirk(
        "google_genai",
        "openinference",
        ("openinference.instrumentation.google_genai",),
        omits_empty_arguments=True,
        complete=complete_openinference,
        returns_state=True,
    ),
    Quirk("google_genai", "mlflow", matches=logged_by_mlflow, complete=complete),
    Quirk(
        "google_genai",
        "openllmetry",
        _SCOPES,
        items=opened_items,
        complete=complete_traceloop,
        refine_trace=refine_trace,
    ),
)
