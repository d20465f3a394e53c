"""Steps, one a span, and the Reading of a trace."""

from collections.abc import Mapping, Sequence
from dataclasses import field
from typing import Literal, TypeAlias

from spanscore.model.json import Json
from spanscore.model.span import LogRecord, Span, record
from spanscore.model.trace import Attachment, Expected, RequestedCall, Tool

StepKind: TypeAlias = Literal["agent", "workflow", "model", "tool", "retrieval", "other"]
"""What a span stands for.

A `workflow` is code that wraps agents or models (chains, graph nodes, tasks). `other` is a span
that belongs to an agent but is none of the rest: bookkeeping, embeddings, guardrails.
"""

Ending: TypeAlias = Literal["failed", "cancelled", "waiting"]
"""How a span ended that did not succeed: `waiting` for a person or a result from elsewhere."""

Part: TypeAlias = Literal["agent", "utility"]
"""What the configuration says of model calls: of the agent's loop, or beside it."""

StepFact: TypeAlias = Literal[
    "input",
    "output",
    "history",
    "system",
    "tools",
    "arguments",
    "result",
    "tokens",
    "plan",
    "expected",
]
"""The facts of a Step that can arrive cut or redacted; `tokens`: it may have told how many, had
nothing been cut; `history`: the older messages of its input.
"""

MessageFact: TypeAlias = Literal["text", "calls", "results", "parts"]
"""The facts of a Message that can arrive cut or redacted, while the rest of the conversation is
whole. Its `parts` are damaged by one of a kind that nobody can read.
"""


@record()
class ToolResult:
    """What a tool returned, as a message tells it.

    `error` is set where the message itself says that it failed.

    `shown` is False where the message says that there is a result, but not what it is. `name` is
    the tool's, where the message says it.
    """

    call_id: str | None
    value: Json
    error: str | None = None
    shown: bool = True
    name: str | None = None


@record()
class Message:
    """One message of a conversation, its parts sorted by what they are; `role` is system, user,
    assistant or tool.

    `text` is None where the message holds no text part, "" where it holds an empty one. `damaged`
    names what of this message was cut or redacted, or could not be read.
    """

    role: str
    text: str | None = None
    reasoning: str | None = None
    calls: tuple[RequestedCall, ...] = ()
    results: tuple[ToolResult, ...] = ()
    damaged: frozenset[MessageFact] = frozenset()
    attachments: tuple[Attachment, ...] = ()


@record(kw_only=True)
class Step:
    """One span, read. None means everywhere: the span did not say.

    `other_session_id` and `other_user_id` are under names that are no convention's, on a span that
    no library wrote: they count where nothing else names a session or user.

    `input` is all that a model or agent was given, history included; where `input_is_part`, only
    the latest of it, so that it does not show what came before. `output` is all that it produced.
    `input_text` and `output_text` are what a decorated function was called with and returned, where
    that is not a list of messages; `output_json` what it returned, where that is no text either, as
    JSON.

    `tools` are those on offer to a model or agent; of a tool's own span, its definition.

    A tool's `arguments` are a JSON value, or `positional` where the instrumentation recorded values
    without names. `runs_agent` is the agent that works inside of the tool where no span stands for
    that agent. `has_result` tells a result that is null from one that was not recorded. `plan` and
    `expected` are what the author of the agent or its test stated on the span. `damaged` names the
    facts that were cut or redacted on the way. `part` is what the configuration states
    by the name of the span, or of one around it.
    """

    span: Span
    dialect: str
    kind: StepKind
    agent_name: str | None = None
    session_id: str | None = None
    user_id: str | None = None
    other_session_id: str | None = None
    other_user_id: str | None = None
    input: tuple[Message, ...] | None = None
    input_is_part: bool = False
    output: tuple[Message, ...] | None = None
    input_text: str | None = None
    output_text: str | None = None
    output_json: str | None = None
    system: str | None = None
    tools: tuple[Tool, ...] | None = None
    model: str | None = None
    input_tokens: int | None = None
    output_tokens: int | None = None
    cache_read_tokens: int | None = None
    cache_write_tokens: int | None = None
    reasoning_tokens: int | None = None
    response_id: str | None = None
    previous_response_id: str | None = None
    finish_reasons: tuple[str, ...] = ()
    call_id: str | None = None
    tool_name: str | None = None
    arguments: Json = None
    positional: tuple[Json, ...] = ()
    result: Json = None
    has_result: bool = False
    error: str | None = None
    ending: Ending | None = None
    runs_agent: str | None = None
    query: str | None = None
    documents: tuple[Json, ...] = ()
    plan: str | None = None
    expected: Expected | None = None
    damaged: frozenset[StepFact] = frozenset()
    part: Part | None = None


@record()
class Reading:
    """All that the dialects made of one trace.

    `spans` are the trace's spans, each id once, by start time; `steps` those that a dialect reads,
    in the same order, and those of kind `other` without a dialect that only name a session or user,
    or state what is expected. `unread` counts the spans that no dialect reads. Spans that a judge
    or evaluator emitted are in neither. `logs` are the log records of each span, by its id.
    `other_reports` are reports of its model calls in other traces, from which something was taken,
    by the id of the span that was completed so.
    """

    spans: tuple[Span, ...]
    steps: tuple[Step, ...]
    unread: int = 0
    logs: Mapping[str, Sequence[LogRecord]] = field(default_factory=dict)
    other_reports: Mapping[str, Step] = field(default_factory=dict)
