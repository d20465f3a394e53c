"""Codex CLI: a conversation in log records, of prompts, responses and tool results; its spans only
time it.
"""

import re
from collections.abc import Iterator, Sequence
from typing import Final

from spanscore.dialects.dialect import ContentSwitch, Context, Dialect
from spanscore.dialects.forms.arguments import arguments, call_id, failure
from spanscore.dialects.forms.decorated_calls import damaged
from spanscore.dialects.forms.structure import (
    Facts,
    add_damaged,
    count,
    first_identity,
    identity,
    is_redacted,
    opened,
    text,
)
from spanscore.dialects.log_turns import (
    LogTurns,
    Part,
    Unit,
    around,
    from_prompts,
    name_of,
    read_prompt,
    read_resource,
    span_of,
)
from spanscore.model.span import Attributes, LogRecord, Span, Value
from spanscore.model.step import StepKind

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


def read(span: Span, _context: Context) -> Facts:
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


DIALECT = Dialect(
    "codex",
    read,
    scopes=(*_SPANS, _LOGS),
    prefilters=(b"codex",),
    log_turns=(LogTurns(_LOGS, _unit, _parts),),
    content=(ContentSwitch("set log_user_prompt = true under [otel] in config.toml"),),
)
