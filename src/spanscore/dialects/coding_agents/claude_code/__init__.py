"""Claude Code: one trace a prompt with bare names for a call's facts, the content of it in log
records beside.
"""

import re
from collections.abc import Iterator, Sequence
from typing import TypeAlias

from spanscore.dialects.coding_agents.claude_code import details, events, notices
from spanscore.dialects.coding_agents.claude_code.requests import read_request
from spanscore.dialects.content_switch import ContentSwitch
from spanscore.dialects.dialect import Context, Dialect
from spanscore.dialects.forms.arguments import arguments, call_id, result
from spanscore.dialects.forms.decorated_calls import damaged
from spanscore.dialects.forms.messages import Messages, messages
from spanscore.dialects.forms.status import status_error
from spanscore.dialects.forms.structure import is_redacted, structure
from spanscore.dialects.forms.values import Facts, add_damaged, count, text
from spanscore.dialects.keys.gen_ai import (
    GEN_AI_REQUEST_MODEL,
    GEN_AI_TOOL_CALL_ID,
    GEN_AI_TOOL_NAME,
)
from spanscore.dialects.keys.openinference import AGENT_NAME
from spanscore.dialects.log_turns import name_of, read_prompt, read_resource
from spanscore.model.span import LogRecord, Span, Value
from spanscore.model.step import Message, MessageFact

_Sources: TypeAlias = tuple[tuple[str, str], ...]
"""(record's name, attribute), the first with a value counts; without a name it is the span's own
attribute.
"""

_PREFIX = "claude_code."
_SPAN = ""
_PROMPT_SOURCES: _Sources = ((_SPAN, "user_prompt"), (events.PROMPT, "prompt"))
_ANSWER_SOURCES: _Sources = ((_SPAN, "response.model_output"), (events.ANSWER, "response"))
_MODEL: _Sources = ((_SPAN, "model"), (_SPAN, GEN_AI_REQUEST_MODEL), (events.CALLED, "model"))
# each counts what the others do not
_PUT_IN = ("input_tokens", "cache_read_tokens", "cache_creation_tokens")
_PUT_OUT: _Sources = ((_SPAN, "output_tokens"), (events.CALLED, "output_tokens"))
_CALL_ID: _Sources = (
    (_SPAN, "tool_use_id"),
    (_SPAN, GEN_AI_TOOL_CALL_ID),
    (events.RETURNED, "tool_use_id"),
    (events.DECIDED, "tool_use_id"),
)
_TOOL_NAME: _Sources = (
    (_SPAN, "tool_name"),
    (_SPAN, GEN_AI_TOOL_NAME),
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
        named = text(span.attributes.get(AGENT_NAME))  # of a sub-agent, which only records contain
        prompt = recorded.first(_PROMPT_SOURCES) or details.content(
            span.attributes.get("new_context")
        )
        notice = notices.message(prompt)
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
    facts = details.request(span.attributes, context.logs) if body is None else read_request(body)
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
    called_with, returned = details.content(recorded.first(_CALLED_WITH)), _returned(span)
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
    return details.returned(span.attributes.get("new_context")) if found is None else found


DIALECT = Dialect(
    "claude_code",
    read,
    scopes=("com.anthropic.claude_code.tracing", events.SCOPE),
    matches=matches,
    prefilters=(b"claude_code",),
    log_turns=events.LOG_TURNS,
    refine_trace=notices.refine_trace,
    content=(
        ContentSwitch(
            "set OTEL_LOG_USER_PROMPTS, OTEL_LOG_ASSISTANT_RESPONSES, OTEL_LOG_TOOL_DETAILS and "
            "OTEL_LOG_TOOL_CONTENT to 1"
        ),
    ),
)
