"""Coding agents of OpenAI, GitHub and Google.

`codex`: Codex CLI: a conversation in log records, of prompts, responses and tool results; its spans
only time it.

`copilot`: GitHub Copilot's CLI and VS Code's chat: the conventions, with the time of day before the
user's text.

`gemini_cli`: Gemini CLI and Qwen Code: the conventions under operations of their own, content as
Gemini's in spans or records.
"""

import re
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from spanscore.dialects.conventions import semconv
from spanscore.dialects.dialect import CAPTURE, ContentSwitch, Context, Dialect
from spanscore.dialects.forms.arguments import arguments, call_id, failure
from spanscore.dialects.forms.decorated_calls import damaged
from spanscore.dialects.forms.messages import MessageCache, message, messages
from spanscore.dialects.forms.structure import (
    Facts,
    TokenCount,
    add_damaged,
    as_object,
    count,
    first_identity,
    first_text,
    identity,
    is_redacted,
    opened,
    structure,
    text,
)
from spanscore.dialects.log_turns import (
    Calls,
    LogTurns,
    Part,
    Unit,
    around,
    from_prompts,
    in_order,
    name_of,
    read_prompt,
    read_resource,
    span_of,
    under,
)
from spanscore.model.json import Json
from spanscore.model.span import Attributes, Link, LogRecord, Span, Value, changed
from spanscore.model.step import Message, StepKind, ToolResult

_LOGS = "codex_otel"
_SPANS = ("codex_cli_rs", "codex_exec", "codex_tui", "codex_app_server", "codex_mcp_server")

_PROMPT = "codex.user_prompt"
_EVENT = "codex.sse_event"
_RETURNED = "codex.tool_result"
_DECIDED, _SOCKET = "codex.tool_decision", "codex.websocket_event"
_KINDS: Final[dict[str, StepKind]] = {
    _PROMPT: "agent",
    _EVENT: "model",
    _SOCKET: "model",
    _RETURNED: "tool",
    _DECIDED: "tool",
}
_DONE = "response.completed"

_REPORT = re.compile(
    r"(?:Wall time: [\d.]+ seconds\n|Exit code: -?\d+\n|Chunk ID: \w+\n|Process"
    r" exited.*\n)*Output:(?:\n|$)"
)
"""What Codex writes above what a tool put out."""


def read_codex(span: Span, _context: Context) -> Facts:
    """The facts of a prompt, a response or a result, each of which is a log record; Codex's spans
    contain none.
    """
    attributes = span.attributes
    kind = "other" if span.recorded else _KINDS.get(span.name, "other")
    facts: Facts = {"kind": kind, "session_id": identity(attributes.get("conversation.id"))}
    facts |= read_resource(span.resource.attributes)
    if kind == "agent":
        facts["user_id"] = first_identity(attributes, ("user.email", "user.account_id"))
        facts |= read_prompt(attributes.get("prompt"))
    elif kind == "model":
        facts["model"] = text(attributes.get("model"))
        facts["input_tokens"] = count(attributes.get("input_token_count"))
        facts["output_tokens"] = count(attributes.get("output_token_count"))
    elif kind == "tool":
        _read_tool(attributes, facts)
    return facts


def _read_tool(attributes: Attributes, facts: Facts) -> None:
    space, name = text(attributes.get("tool_namespace")), text(attributes.get("tool_name"))
    facts["tool_name"] = f"{space}__{name}" if space and name else name
    facts["call_id"] = call_id(attributes.get("call_id"))
    called_with, returned = attributes.get("arguments"), attributes.get("output")
    facts["damaged"] = damaged(arguments=called_with, result=returned)
    if attributes.get("output_truncated") is True:
        add_damaged(facts, "result")
    if called_with is not None and not is_redacted(called_with):
        facts["arguments"] = arguments(called_with)
    if returned is not None and not is_redacted(returned):
        facts["result"], facts["has_result"] = opened(_put_out(returned)), True
    if attributes.get("success") in (False, "false"):
        facts["error"] = failure(_put_out(returned)) if text(returned) else "failed"


def _put_out(returned: Value) -> Value:
    """What a tool returned, without Codex's report above it."""
    report = _REPORT.match(returned) if isinstance(returned, str) else None
    return returned if report is None else str(returned)[report.end() :]


def _unit(attributes: Attributes, _trace_id: str) -> Unit | None:
    """The conversation; a record's own trace, where there is one, is that of a task inside of
    Codex.
    """
    conversation = identity(attributes.get("conversation.id"))
    if conversation is None or not _is_read(attributes):
        return None
    return Unit(("codex", conversation), goes_on=True)


def _is_read(attributes: Attributes) -> bool:
    """Whether a record contains anything: of the many of a streamed response the one that counts
    its tokens does.
    """
    name = text(attributes.get("event.name"))
    if name in (_EVENT, _SOCKET):
        return attributes.get("event.kind") == _DONE and "input_token_count" in attributes
    return name in _KINDS


def _parts(unit: str, spans: Sequence[Span], logs: Sequence[LogRecord]) -> Iterator[Part]:
    """A turn from each prompt to the next.

    What comes before the first is the end of a turn that was not received.
    """
    own = (x for x in logs if x.scope.name.startswith(_LOGS) and _is_read(x.attributes))
    turns = from_prompts(own, _PROMPT)
    yield from ((_turn(unit, turn), []) for turn in turns)
    if spans:
        yield list(spans), [x for x in logs if not x.scope.name.startswith(_LOGS)]


def _turn(unit: str, logs: Sequence[LogRecord]) -> list[Span]:
    """A span for each record that stands for one; a tool's decision does where its result has not
    come.
    """
    opening, *rest = logs
    root = around(span_of(unit, _PROMPT, opening, scope=_LOGS), (x.time_ns for x in logs))
    returned = {identity(x.attributes.get("call_id")) for x in rest if name_of(x) == _RETURNED}
    found = [root]
    for number, log in enumerate(rest):
        call = identity(log.attributes.get("call_id"))
        if name_of(log) == _DECIDED and call in returned:
            continue
        place = call or f"{log.time_ns} {number}"
        found.append(span_of(unit, name_of(log), log, identity=place, parent=root, scope=_LOGS))
    return found


_CODEX = Dialect(
    "codex",
    read_codex,
    scopes=(*_SPANS, _LOGS),
    prefilters=(b"codex",),
    log_turns=(LogTurns(_LOGS, _unit, _parts),),
    content=(ContentSwitch("set log_user_prompt = true under [otel] in config.toml"),),
)


_USER = "enduser.pseudo.id"  # a digest of the user's account
_TAGS = r"<(?:current_datetime|reminder|system_reminder)>"
_ADDED = re.compile(
    r"\A(?:<(current_datetime|reminder|system_reminder)>[^<]{0,4096}</\1>(?:\s*(?="
    + _TAGS
    + r")|(?:\r?\n){0,2}))+"
)
"""Copilot's own text before the user's in one message, with an empty line after it."""


def read_copilot(span: Span, context: Context) -> Facts:
    """The facts of a call of an agent, model or tool."""
    facts = semconv.read(span, context)
    facts["user_id"] = facts.get("user_id") or identity(span.attributes.get(_USER))
    if facts["kind"] == "tool":
        if facts.get("has_result"):
            facts["result"] = _without_repetition(facts["result"])
    elif given := facts.get("input"):
        facts["input"] = tuple(map(_as_written, given))
        facts["input_is_part"] = True  # each span has what is new since the one before
    return facts


def _as_written(message: Message) -> Message:
    if message.role != "user" or message.text is None or not message.text.startswith("<"):
        return message
    return changed(message, text=_ADDED.sub("", message.text))


def _without_repetition(value: Json) -> Json:
    """What a tool returned; of an MCP server's text that also comes as structured content, after
    it, the text.
    """
    if not isinstance(value, str):
        return value
    returned, blank, structured = value.rpartition("\n\n")
    repeated = opened(structured) if blank else None
    if not isinstance(repeated, dict) or len(repeated) != 1:
        return value
    (only,) = repeated.values()
    return opened(returned) if only in (returned, opened(returned)) else value


_COPILOT = Dialect(
    "copilot",
    read_copilot,
    scopes=("github.copilot", "@github/copilot", "copilot-chat"),
    prefilters=(b"gen_ai.",),
    content=(ContentSwitch(f"set {CAPTURE}=true"),),
)


QWEN = "qwen-code"
SCOPES = ("gemini-cli", QWEN)
"""The scopes, of spans and log records alike, of Gemini CLI and of Qwen Code, which grew out of
it.
"""

PROMPT = "user_prompt"
REQUEST = "api_request"
RESPONSE = "api_response"
FAILED = "api_error"
CALLED = "tool_call"
MODEL, TOOL, SUBAGENT = "llm_call", "tool_call", "agent_call"

_READ = frozenset({PROMPT, REQUEST, RESPONSE, FAILED, CALLED})
_SESSION = ("session.id", "gen_ai.conversation.id")
# starts the role of a model call that serves no turn: titles, routing, compression
_ASIDE = "utility"
# starts the names of Qwen Code's own agents, which go on after a turn: they keep its memory
_MANAGED = "managed-"


def event(log: LogRecord) -> str:
    """What a record is about, without the program's name before it."""
    name = name_of(log)
    return name if name == semconv.DETAILS else name.partition(".")[2]


def unit(attributes: Attributes, _trace_id: str) -> Unit | None:
    """The session: a turn's traces have nothing else in common."""
    session = first_text(attributes, _SESSION)
    name = attributes.get("event.name")
    if session is None or (
        name is not None and name != semconv.DETAILS and str(name).partition(".")[2] not in _READ
    ):
        return None
    return Unit(("gemini_cli", session), goes_on=True)


def parts(unit: str, spans: Sequence[Span], logs: Sequence[LogRecord]) -> Iterator[Part]:
    """A turn from each prompt to the next.

    What comes before the first is the end of a turn that was not received.

    Spans alone contain no prompt, and are read as they are.
    """
    records = in_order(logs)
    begun_ns = [x.time_ns for x in records if event(x) == PROMPT]
    turns: list[Part] = [([], []) for _ in range(len(begun_ns) + 1)]
    for span in spans:
        turns[bisect_right(begun_ns, span.start_ns)][0].append(span)
    for log in records:
        turns[bisect_right(begun_ns, log.time_ns)][1].append(log)
    yield from (
        _turn_gemini_cli(unit, *turn) for turn in (turns[1:] or turns) if turn[0] or turn[1]
    )


def _turn_gemini_cli(unit: str, received: Sequence[Span], logs: Sequence[LogRecord]) -> Part:
    spans, logs = _without_asides(received, logs)
    spans += _untraced(unit, spans, logs)
    opening = next((x for x in logs if event(x) == PROMPT), None)
    if opening is None:
        return spans, list(_placed(spans, logs))
    root = around(
        span_of(unit, PROMPT, opening), (*(x.end_ns for x in spans), *(x.time_ns for x in logs))
    )
    first = next((x for x in spans if x.recorded), None)
    if first is not None:
        root = changed(root, links=(Link(first.trace_id, first.span_id),))
    spans = [x if x.parent_span_id else changed(x, parent_span_id=root.span_id) for x in spans]
    return [root, *spans], [under(root, opening), *_placed(spans, logs)]


def _without_asides(received: Sequence[Span], logs: Sequence[LogRecord]) -> Part:
    """Spans by start time, and records, without those of model calls that serve no turn."""
    asides = {x.span_id for x in logs if x.span_id and _is_aside(x)}
    spans = sorted((x for x in received if x.span_id not in asides), key=lambda x: x.start_ns)
    return spans, [x for x in logs if not _is_aside(x)]


def _is_aside(log: LogRecord) -> bool:
    attributes = log.attributes
    return str(attributes.get("role")).startswith(_ASIDE) or str(
        attributes.get("subagent_name")
    ).startswith(_MANAGED)


def _is_of_subagent(log: LogRecord) -> bool:
    return (
        log.attributes.get("role") == "subagent"
        or text(log.attributes.get("subagent_name")) is not None
    )


def _untraced(unit: str, spans: Sequence[Span], logs: Sequence[LogRecord]) -> list[Span]:
    """The model and tool calls of which there are only records, where spans are not collected."""
    traced = {x.name for x in spans}
    agents: dict[str, Span] = {}
    found: list[Span] = []
    for number, log in enumerate(logs):
        name = {RESPONSE: MODEL, FAILED: MODEL, CALLED: TOOL}.get(event(log))
        if name is not None and name not in traced:
            above = None
            if _is_of_subagent(log):
                prompt = str(log.attributes.get("prompt_id"))
                above = agents.setdefault(prompt, span_of(unit, SUBAGENT, log, identity=prompt))
            found.append(span_of(unit, name, log, identity=f"{log.time_ns} {number}", parent=above))
    return [*agents.values(), *found]


def _placed(spans: Sequence[Span], logs: Sequence[LogRecord]) -> Iterator[LogRecord]:
    """The records, each under the call that it is about."""
    known = {x.span_id: x for x in spans}
    models = Calls(x for x in spans if x.name == MODEL)
    tools: defaultdict[str | None, list[Span]] = defaultdict(list)
    for span in spans:
        if span.name == TOOL:
            tools[first_text(span.attributes, ("gen_ai.tool.name", "function_name"))].append(span)
    named = {name: Calls(calls) for name, calls in tools.items()}
    for log in logs:
        about: Span | None = known.get(log.span_id)
        if event(log) == CALLED:
            calls = named.get(text(log.attributes.get("function_name")))
            about = None if calls is None else calls.nearest(log.time_ns, by_end=True)
        elif event(log) in {RESPONSE, FAILED, REQUEST, semconv.DETAILS} and (
            about is None or about.name != MODEL
        ):
            about = models.nearest(log.time_ns, by_end=event(log) != REQUEST)
        if about is not None:
            yield under(about, log)


LOG_TURNS = tuple(LogTurns(scope, unit, parts, with_spans=True) for scope in SCOPES)


_INPUT, _OUTPUT = "gen_ai.input.messages", "gen_ai.output.messages"
_COUNTS: Final[tuple[tuple[TokenCount, str], ...]] = (
    ("input_tokens", "input_token_count"),
    ("output_tokens", "output_token_count"),
)
_CUT = "...[TRUNCATED: original length "  # and the length and a bracket, at the end of a value
_MARKERS = ("<untrusted_context>\n", "\n</untrusted_context>")
_CONTEXT = ("<session_context>", "</session_context>")  # around its own text before the user's

_INTRODUCTION = re.compile(
    r"This is the [\w ]{1,40}\. We are setting up the context for our chat\."
)
_ACKNOWLEDGED = "Got it. Thanks for the context!"
"""The first message in the user's role that Qwen Code adds, and the model's answer."""


def read(span: Span, context: Context) -> Facts:
    """The facts of a prompt, or of a call of a model, tool or agent."""
    records = {event(x): x.attributes for x in reversed(context.logs)}
    facts = semconv.read(span, changed(context, logs=())) if span.recorded else _from_record(span)
    if facts["kind"] == "tool":
        _read_tool_gemini_cli(span.attributes, records, facts)
    elif facts["kind"] == "model":
        _read_model(span, records, context.histories, facts)
    return facts


def _from_record(span: Span) -> Facts:
    """The facts of a span that only stands for records."""
    attributes = span.attributes
    facts: Facts = {
        "kind": "model" if span.name == MODEL else "tool" if span.name == TOOL else "agent"
    }
    if span.name == PROMPT:
        facts |= read_prompt(attributes.get("prompt")) | read_resource(span.resource.attributes)
        facts["agent_name"] = span.scope.name
        facts["user_id"] = text(attributes.get("user.email"))
    return facts


def _read_model(
    span: Span, records: Mapping[str, Attributes], histories: MessageCache, facts: Facts
) -> None:
    """What a model was given and answered: by its span, else by the records of the request and of
    the response.
    """
    attributes = span.attributes
    request, response = records.get(REQUEST, {}), records.get(RESPONSE, attributes)
    given_messages = attributes.get(_INPUT, request.get("request_text"))
    if given_messages is not None:
        read_input = histories.messages(given_messages)
        facts["input"] = None if read_input.messages is None else _conversation(read_input.messages)
        if _is_cut(given_messages) or read_input.damaged:
            add_damaged(facts, "input")
    if facts.get("output") is None:
        recorded = response.get("response_text")
        facts["output"] = _text(recorded) if span.scope.name == QWEN else _answer(recorded)
    if produced := facts.get("output"):
        facts["output"] = (_whole(produced),)
    if _is_cut(attributes.get(_OUTPUT)):
        add_damaged(facts, "output")
    facts["model"] = facts.get("model") or first_text(response, ("model",))
    for field, key in _COUNTS:
        if facts.get(field) is None:
            facts[field] = count(response.get(key))


def _text(recorded: Value) -> tuple[Message, ...] | None:
    """The answer of which Qwen Code records the text alone: without any it requested tools."""
    return (Message("assistant", recorded),) if isinstance(recorded, str) and recorded else None


def _answer(recorded: Value) -> tuple[Message, ...] | None:
    """The messages in the responses of a stream, as the API gave them."""
    responses = structure(recorded).value
    if isinstance(responses, dict):
        responses = [responses]
    if not isinstance(responses, list):
        return None
    found: list[Message] = []
    for response in responses:
        candidates = as_object(response).get("candidates")
        first = candidates[0] if isinstance(candidates, list) and candidates else None
        content = as_object(first).get("content")
        found += messages(content, "assistant").messages or () if isinstance(content, dict) else ()
    return tuple(found)


def _conversation(messages: Sequence[Message]) -> tuple[Message, ...]:
    """A conversation without Gemini CLI's own text in the user's role, the results of tools out of
    its envelope.
    """
    if messages and messages[0].role == "user" and _INTRODUCTION.match(messages[0].text or ""):
        messages = messages[2 if messages[1:2] and messages[1].text == _ACKNOWLEDGED else 1 :]
    opened_results = (
        changed(x, results=tuple(map(_result, x.results))) if x.results else x for x in messages
    )
    return tuple(x for x in map(_without_context, opened_results) if x is not None)


def _without_context(message: Message) -> Message | None:
    """The message as the user wrote it, None for one that is Gemini CLI's own.

    A session's first is in one with it.
    """
    if message.role != "user" or message.text is None or not message.text.startswith(_CONTEXT[0]):
        return message
    own = message.text.partition(_CONTEXT[1])[2].removeprefix("\n")
    return changed(message, text=own) if own.strip() else None


def _result(result: ToolResult) -> ToolResult:
    value = result.value
    if not isinstance(value, dict) or len(value) != 1:
        return result
    if "output" in value:
        return changed(result, value=_trusted(value["output"]))
    if "error" in value:
        return changed(result, value=value["error"], error=failure(value["error"]))
    return result


def _trusted(output: Any) -> Any:
    """What an MCP server's tool returned, without the markers that warn the model of it."""
    marked = (
        isinstance(output, str) and output.startswith(_MARKERS[0]) and output.endswith(_MARKERS[1])
    )
    return opened(output[len(_MARKERS[0]) : -len(_MARKERS[1])] if marked else output)


def _read_tool_gemini_cli(
    attributes: Attributes, records: Mapping[str, Attributes], facts: Facts
) -> None:
    """A tool call: its span contains request and completed call in place of messages, if any."""
    record = records.get(CALLED, attributes)
    given_arguments = _arguments(attributes.get(_INPUT, record.get("function_args")))
    facts["tool_name"] = facts.get("tool_name") or text(record.get("function_name"))
    facts["call_id"] = facts.get("call_id") or call_id(attributes.get("gen_ai.tool.call_id"))
    if facts.get("arguments") is None and given_arguments is not None:
        facts["arguments"] = given_arguments
    returned = attributes.get(_OUTPUT)
    if not facts.get("has_result") and returned is not None:
        facts["result"], facts["has_result"] = _returned(returned), True
    if record.get("success") is False:
        facts["error"] = (
            facts.get("error") or first_text(record, ("error", "error_type")) or "failed"
        )
    if _is_cut(attributes.get(_INPUT)):
        add_damaged(facts, "arguments")
    if _is_cut(returned):
        add_damaged(facts, "result")


def _arguments(recorded: Value) -> Any:
    """What a tool was called with, out of Gemini CLI's request."""
    value = None if recorded is None else arguments(recorded)
    return (
        value["args"] if isinstance(value, dict) and {"callId", "args"} <= value.keys() else value
    )


def _returned(recorded: Value) -> Any:
    """What a tool returned, out of Gemini CLI's completed call."""
    value = opened(recorded)
    response = value.get("response") if isinstance(value, dict) and "request" in value else None
    listed = as_object(response).get("responseParts")
    answered = (
        message({"role": "user", "parts": listed}, "user") if isinstance(listed, list) else None
    )
    results = answered.results if answered is not None else ()
    return _result(results[0]).value if results else value


def _whole(chunks: tuple[Message, ...]) -> Message:
    """The answer of a model, which is recorded as it streamed: a message for each chunk."""
    texts = [x.text for x in chunks if x.text is not None]
    thoughts = [x.reasoning for x in chunks if x.reasoning]
    return Message(
        "assistant",
        "".join(texts) if texts else None,
        "".join(thoughts) if thoughts else None,
        tuple(call for x in chunks for call in x.calls),
    )


def _is_cut(value: Value) -> bool:
    return isinstance(value, str) and value.endswith("]") and _CUT in value[-64:]


_GEMINI_CLI = Dialect(
    "gemini_cli",
    read,
    scopes=SCOPES,
    log_turns=LOG_TURNS,
    prefilters=(b"gemini-cli", b"qwen-code", b"gen_ai."),
    content=(ContentSwitch("set telemetry.logPrompts to true in settings.json"),),
)


DIALECTS = (_CODEX, _COPILOT, _GEMINI_CLI)
