"""Claude Code: one trace a prompt with bare names for a call's facts, the content of it in log
records beside.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final, TypeAlias

from spanscore.dialects.coding_agents.claude_code import events
from spanscore.dialects.dialect import ContentSwitch, Context, Dialect
from spanscore.dialects.forms.arguments import arguments, call_id, result, tools
from spanscore.dialects.forms.decorated_calls import damaged
from spanscore.dialects.forms.messages import Messages, blocks, messages, system_text
from spanscore.dialects.forms.status import status_error
from spanscore.dialects.forms.structure import (
    Facts,
    add_damaged,
    as_object,
    count,
    is_redacted,
    opened,
    structure,
    text,
    whole_members,
)
from spanscore.dialects.forms.truncation import is_cut
from spanscore.dialects.log_turns import name_of, read_prompt, read_resource
from spanscore.model.span import Attributes, LogRecord, Span, Value
from spanscore.model.step import Message, MessageFact, Step, StepFact, ToolResult
from spanscore.model.trace import Tool

_NOTICE_BEGIN, _NOTICE_END = "<task-notification>", "</task-notification>"
_CALL = re.compile(r"<tool-use-id>([^<\n]{1,256})</tool-use-id>")
_RESULT = re.compile(r"<result>(.*)</result>", re.DOTALL)
_MAX_CHARS = 1024 * 1024


def notice_results(prompt: Value) -> tuple[ToolResult, ...]:
    """What calls returned that ran in the background, of a prompt that is made of notices; none of
    any other.

    >>> call = "<tool-use-id>t7</tool-use-id>"
    >>> notice_results(f"<task-notification>{call}<result>Done.</result></task-notification>")
    (ToolResult(call_id='t7', value='Done.', error=None, shown=True, name=None),)
    """
    if (
        not isinstance(prompt, str)
        or not prompt.startswith(_NOTICE_BEGIN)
        or len(prompt) > _MAX_CHARS
    ):
        return ()
    notices = [x.strip() for x in prompt.split(_NOTICE_END)]
    if notices[-1] or not all(x.startswith(_NOTICE_BEGIN) for x in notices[:-1]):
        return ()
    return tuple(_result(x) for x in notices[:-1])


def _result(notice: str) -> ToolResult:
    call, returned = _CALL.search(notice), _RESULT.search(notice)
    identity = None if call is None else call_id(call[1])
    return ToolResult(
        identity, None if returned is None else opened(returned[1]), shown=returned is not None
    )


def notice_message(prompt: Value) -> Message | None:
    """The message that a prompt made of notices is; None for the user's own text."""
    found = notice_results(prompt)
    return Message("tool", results=found) if found else None


def refine_trace(steps: Sequence[Step]) -> Sequence[Step]:
    """The steps; a notice is the input of the first model call after it, if that records none
    itself.
    """
    notices = {
        x.span.span_id: x.input
        for x in steps
        if x.kind == "agent" and x.input and x.input[0].results
    }
    if not notices:
        return steps
    found: list[Step] = []
    for step in sorted(steps, key=lambda x: x.span.start_ns):
        given = None
        if step.kind == "model" and step.input is None:
            given = notices.pop(step.span.parent_span_id, None)
        found.append(step if given is None else replace(step, input=given))
    return found


_Sources: TypeAlias = tuple[tuple[str, str], ...]
"""(record's name, attribute), the first with a value counts; without a name it is the span's own
attribute.
"""

_PREFIX = "claude_code."
_SPAN = ""
_PROMPT_SOURCES: _Sources = ((_SPAN, "user_prompt"), (events.PROMPT, "prompt"))
_ANSWER_SOURCES: _Sources = ((_SPAN, "response.model_output"), (events.ANSWER, "response"))
_MODEL: _Sources = ((_SPAN, "model"), (_SPAN, "gen_ai.request.model"), (events.CALLED, "model"))
# each counts what the others do not
_PUT_IN = ("input_tokens", "cache_read_tokens", "cache_creation_tokens")
_PUT_OUT: _Sources = ((_SPAN, "output_tokens"), (events.CALLED, "output_tokens"))
_CALL_ID: _Sources = (
    (_SPAN, "tool_use_id"),
    (_SPAN, "gen_ai.tool.call.id"),
    (events.RETURNED, "tool_use_id"),
    (events.DECIDED, "tool_use_id"),
)
_TOOL_NAME: _Sources = (
    (_SPAN, "tool_name"),
    (_SPAN, "gen_ai.tool.name"),
    (events.RETURNED, "tool_name"),
)
_TOOL_DETAILS: _Sources = tuple(
    (x, "tool_parameters") for x in (_SPAN, events.RETURNED, events.DECIDED)
)
_CALLED_WITH: _Sources = ((_SPAN, "tool_input"), (events.RETURNED, "tool_input"))
_SUCCEEDED: _Sources = ((_SPAN, "success"), (events.RETURNED, "success"))
_FAILURE: _Sources = tuple(
    (x, key) for key in ("error", "error_type") for x in (_SPAN, events.RETURNED)
)
_DECISION: _Sources = ((_SPAN, "decision"), (events.DECIDED, "decision"))
_SHORTENED = re.compile(r'"<nested>"|…\[(?:\d+ (?:chars|items)|truncated)\]|"…":"\d+ keys"')
"""What Claude Code leaves of arguments that are long, deep or many, in the record of a call."""

_RETURNED = ("output", "content", "diff")  # what a tool put out, read or changed


def matches(span: Span, _logs: Sequence[LogRecord]) -> bool:
    """Whether the span has a name that starts with `claude_code.`."""
    return span.name.startswith(_PREFIX)


def read(span: Span, context: Context) -> Facts:
    """The facts of a prompt, a model call or a tool call; its waiting for the user and its hooks
    are neither.
    """
    recorded = _Recorded(span, context.logs)
    if span.name == events.INTERACTION:
        named = text(
            span.attributes.get("agent.name")
        )  # of a sub-agent, which only records contain
        prompt = recorded.first(_PROMPT_SOURCES) or content(span.attributes.get("new_context"))
        notice = notice_message(prompt)
        conversation = read_prompt(prompt) if notice is None else {"input": (notice,)}
        return (
            {"kind": "agent", "agent_name": named}
            | conversation
            | read_resource(span.resource.attributes)
        )
    if span.name == events.TOOL:
        return _tool_call(span, recorded)
    if span.name == events.MODEL and not events.is_aside(span.attributes):
        return _model_call(span, context, recorded)
    return {"kind": "other"}


class _Recorded:
    """A span's attributes, and those of its log records."""

    __slots__ = ("_logs", "_span")

    def __init__(self, span: Span, logs: Sequence[LogRecord]) -> None:
        self._span = span
        self._logs = logs

    def first(self, sources: _Sources) -> Value:
        """The value of the first source that has one."""
        return next(self._values(sources), None)

    def _values(self, sources: _Sources) -> Iterator[Value]:
        for name, key in sources:
            if name == _SPAN:
                found = [self._span.attributes.get(key)]
            else:
                found = [x.attributes.get(key) for x in self._logs if name_of(x) == name]
            yield from (x for x in found if x is not None)


def _model_call(span: Span, context: Context, recorded: _Recorded) -> Facts:
    body = recorded.first(((events.REQUEST, "body"),))
    facts = request(span.attributes, context.logs) if body is None else read_request(body)
    produced = _answer(recorded)
    counted = [count(recorded.first(((_SPAN, x), (events.CALLED, x)))) for x in _PUT_IN]
    return facts | {
        "kind": "model",
        "model": text(recorded.first(_MODEL)),
        "output": produced.messages,
        "input_tokens": None if counted[0] is None else sum(x for x in counted if x is not None),
        "output_tokens": count(recorded.first(_PUT_OUT)),
        "finish_reasons": _finish_reasons(span),
        "damaged": facts["damaged"] | ({"output"} if produced.damaged else frozenset()),
    }


def _finish_reasons(span: Span) -> tuple[str, ...]:
    reason = text(span.attributes.get("stop_reason"))
    return (reason,) if reason else ()


def _answer(recorded: _Recorded) -> Messages:
    """The whole response, else the text of it."""
    body, is_cut = structure(recorded.first(((events.RESPONSE, "body"),)))
    if isinstance(body, dict) and body.get("role") is not None:
        return messages(body, "assistant")
    answer_text = recorded.first(_ANSWER_SOURCES)
    answer = None if is_redacted(answer_text) else text(answer_text)
    if answer is None:
        return Messages(None, is_redacted(answer_text) or is_cut)
    calls = frozenset[MessageFact]({"calls"} if is_cut else ())  # which only the response contains
    return Messages((Message("assistant", answer, damaged=calls),))


def _tool_call(span: Span, recorded: _Recorded) -> Facts:
    called_with, returned = content(recorded.first(_CALLED_WITH)), _returned(span)
    facts: Facts = {
        "kind": "tool",
        "runs_agent": text(span.attributes.get("subagent_type")),
        "tool_name": _tool_name(recorded),
        "call_id": call_id(recorded.first(_CALL_ID)),
        "error": status_error(span) or _failure(recorded),
        "damaged": damaged(arguments=called_with, result=returned),
    }
    if isinstance(called_with, str) and _SHORTENED.search(called_with):
        add_damaged(facts, "arguments")
    if called_with is not None and not is_redacted(called_with):
        facts["arguments"] = arguments(called_with)
    if returned is not None and not is_redacted(returned):
        facts["result"], facts["has_result"] = result(returned), True
    return facts


def _tool_name(recorded: _Recorded) -> str | None:
    """The tool's name, of its sources the first that does not hide it."""
    names = [x for x in (text(recorded.first((source,))) for source in _TOOL_NAME) if x is not None]
    shown = next((x for x in names if x != events.MCP_TOOL), None)
    return shown or events.known_as(next(iter(names), None), recorded.first(_TOOL_DETAILS))


def _failure(recorded: _Recorded) -> str | None:
    """Why a tool failed, or that the user would not let it run."""
    if recorded.first(_SUCCEEDED) in (False, "false"):
        return text(recorded.first(_FAILURE)) or "failed"
    return "rejected" if recorded.first(_DECISION) == "reject" else None


def _returned(span: Span) -> Value:
    """What a tool returned, by its event; else the content blocks or data that detailed telemetry
    adds.
    """
    outputs = [x.attributes for x in span.events if x.name == "tool.output"]
    found = next((x[key] for x in outputs for key in _RETURNED if x.get(key) is not None), None)
    return returned_content(span.attributes.get("new_context")) if found is None else found


DIALECT = Dialect(
    "claude_code",
    read,
    scopes=("com.anthropic.claude_code.tracing", events.SCOPE),
    matches=matches,
    matching_names=(_PREFIX,),
    prefilters=(b"claude_code",),
    log_turns=events.LOG_TURNS,
    refine_trace=refine_trace,
    content=(
        ContentSwitch(
            "set OTEL_LOG_USER_PROMPTS, OTEL_LOG_ASSISTANT_RESPONSES, OTEL_LOG_TOOL_DETAILS and "
            "OTEL_LOG_TOOL_CONTENT to 1"
        ),
    ),
)


_HEADER = re.compile(r"\[(?:USER|USER PROMPT|TOOL (?:INPUT|RESULT): (?P<call>[^\]\n]{1,256}))\]\n")
_BETWEEN = re.compile(r"\n\n---\n\n(?=\[(?:USER|TOOL RESULT: [^\]\n]{1,256})\]\n)")
_MAX_PARTS = 10_000  # of what a model was given since its last call
_WITHHELD = re.compile(r"<(?:\d{1,20} chars; )?not recorded(?:: \w{1,100})?>")


def content(value: Value) -> Value:
    """What follows the line that names the kind of a text; any other value as it is, and a withheld
    one as redacted.
    """
    header = _HEADER.match(value) if isinstance(value, str) else None
    if header is None or not isinstance(value, str):
        return value
    inside = value[header.end() :]
    return "<REDACTED>" if _WITHHELD.fullmatch(inside) else inside


def returned_content(value: Value) -> Value:
    """What a tool returned: the content blocks, or the text, after the line that names the tool."""
    inside = content(value)
    return blocks(inside) or inside


def given(value: Value) -> Messages:
    """The messages that a model was given since its last call: the user's text, and results by
    their calls' ids.
    """
    if not isinstance(value, str) or _HEADER.match(value) is None:
        return Messages(None)
    return messages([without_reminders(_message(x)) for x in _BETWEEN.split(value, _MAX_PARTS)])


def _message(part: str) -> dict[str, Any]:
    header, inside = _HEADER.match(part), content(part)
    if header is None or header["call"] is None:
        return {"role": "user", "content": inside}
    result = {
        "type": "tool_result",
        "tool_use_id": header["call"],
        "content": blocks(inside) or inside,
    }
    return {"role": "user", "content": [result]}


def request(attributes: Attributes, logs: Iterable[LogRecord]) -> Facts:
    """A model call's input, instructions and tools, as far as its span contains them, or records of
    what it names.
    """
    recorded = [x.attributes for x in logs if name_of(x) in events.DEFINING]
    messages_given = given(attributes.get("new_context"))
    return _system(attributes, recorded) | {
        "input": messages_given.messages,
        "tools": _tools(attributes.get("tools"), recorded),
    }


def _is_whole(preview: str | None, length: int | None) -> bool:
    """Whether a preview is as long as what it is of, in JavaScript's units."""
    return (
        preview is not None
        and length is not None
        and len(preview.encode("utf-16-le")) // 2 >= length
    )


def _system(attributes: Attributes, recorded: Iterable[Attributes]) -> Facts:
    """The instructions: whole as a record, or as a preview that is no shorter than they are; else
    those of the user.

    A preview that is shorter is what is left of them.
    """
    record = next((x for x in (text(y.get("system_prompt")) for y in recorded) if x), None)
    preview = text(attributes.get("system_prompt_preview"))
    own = text(attributes.get("user_system_prompt"))
    is_whole = _is_whole(preview, count(attributes.get("system_prompt_length")))
    shown = (record, preview if is_whole else None, own, preview)
    found = next(
        (x for x in shown if x and not _WITHHELD.fullmatch(x) and not is_redacted(x)), None
    )
    if found is None:
        return {"damaged": frozenset({"system"}) if preview or record else frozenset()}
    is_damaged = is_cut(found) or (found is preview and not is_whole)
    return {"system": without_header(found), "damaged": frozenset({"system"} if is_damaged else ())}


def _tools(named: Value, recorded: Iterable[Attributes]) -> tuple[Tool, ...] | None:
    """The tools on offer, by the span; with the definitions of those that were recorded, which is
    once a process.
    """
    defined = {digest: x.get("tool") for x in recorded if (digest := text(x.get("tool_hash")))}
    listed = structure(named).value
    if not isinstance(listed, list):
        return tools([x for x in defined.values() if isinstance(x, str)]) or None
    return tools([_definition(x, defined) for x in listed if isinstance(x, dict)])


def _definition(tool: Mapping[str, Any], defined: Mapping[str, Value]) -> Any:
    digest = tool.get("hash")
    definition = structure(defined.get(digest)).value if isinstance(digest, str) else None
    return definition if isinstance(definition, dict) else {"name": tool.get("name")}


_FACTS: Final[tuple[tuple[StepFact, str], ...]] = (
    ("input", "messages"),
    ("system", "system"),
    ("tools", "tools"),
)
"""The facts of a request and their members, in the order in which Claude Code writes them."""

_BEGIN, _END = "<system-reminder>", "</system-reminder>"
_BILLING_HEADER = "x-anthropic-billing-header:"
_NOTHING = re.compile(r"\([\w.-]{1,256} completed with no output\)")
"""The text by which a model is given an empty result."""


def read_request(body: object) -> Facts:
    """What a model was given: messages, instructions and tools, and which of them were cut."""
    if not isinstance(body, str):
        return {"damaged": frozenset()}
    request, cut = _members(body)
    facts: Facts = {
        "damaged": frozenset(x for x, key in _FACTS if cut and (key == cut or key not in request))
    }
    listed, system, offered = (request.get(key) for _, key in _FACTS)
    if isinstance(listed, list):
        facts["input"] = messages([without_reminders(x) for x in listed]).messages
    if isinstance(system, (str, list)):
        facts["system"], _ = system_text(without_header(system))
    if isinstance(offered, list):
        facts["tools"] = tools(offered)
    return facts


def _members(body: str) -> tuple[Mapping[str, Any], str | None]:
    """The members of a request, and the one in the middle of which it was cut."""
    parsed = structure(body).value
    return (parsed, None) if isinstance(parsed, dict) else whole_members(body)


def without_reminders(message: Any) -> Any:
    """A message without the reminders around the user's text; a notice contains what a call
    returned.
    """
    if not isinstance(message, dict) or message.get("role") != "user":
        return message
    content = message.get("content")
    if isinstance(content, str):
        content = _results_in_notice({"text": content}) or content
    if not isinstance(content, list):
        return message
    blocks = [_as_returned(x) for x in content if not _is_reminder(x)]
    return {**message, "content": [y for x in blocks for y in _results_in_notice(x) or [x]]}


def _results_in_notice(block: Any) -> list[dict[str, Any]]:
    """The results of calls that ran in the background, which a text contains, as blocks; empty for
    any other block.
    """
    results = notice_results(block.get("text")) if isinstance(block, dict) else ()
    return [{"type": "tool_result", "tool_use_id": x.call_id, "content": x.value} for x in results]


def _is_reminder(block: Any) -> bool:
    text = as_object(block).get("text")
    return isinstance(text, str) and text.startswith(_BEGIN) and text.rstrip().endswith(_END)


def _as_returned(block: Any) -> Any:
    """A tool's result as the tool returned it: without the reminder after it; a text for an empty
    one is opened.
    """
    content = None
    if isinstance(block, dict) and block.get("type") == "tool_result":
        content = block.get("content")
    if isinstance(content, list):
        texts = [
            x.get("text") if isinstance(x, dict) and x.get("type") == "text" else None
            for x in content
        ]
        content = None
        if all(isinstance(x, str) for x in texts):
            content = "\n".join(x for x in texts if isinstance(x, str))
    if not isinstance(content, str):
        return block
    at = content.rfind("\n\n" + _BEGIN)
    if at >= 0 and content.rstrip().endswith(_END):
        content = content[:at]
    return {**block, "content": "" if _NOTHING.fullmatch(content) else content}


def without_header(system: Any) -> Any:
    """Instructions without the line that is for the bill."""
    if isinstance(system, str) and system.startswith(_BILLING_HEADER):
        return system.partition("\n")[2].lstrip("\n") or None
    if not isinstance(system, list):
        return system
    return [
        x
        for x in system
        if not (isinstance(x, dict) and str(x.get("text")).startswith(_BILLING_HEADER))
    ]
