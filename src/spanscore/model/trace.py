"""AgentTrace, one turn of an agent, and its session."""

import hashlib
import json
import re
from collections import defaultdict, deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import field, replace
from typing import Any, Final, Literal, TypeAlias, TypeVar

from spanscore.errors import line_of
from spanscore.model.json import Json, dumps, loads
from spanscore.model.span import TENANT, Attributes, Scalar, owner_of, record, tenant_of

_SHOWN_CHARS, _SHOWN_CALLS = 80, 8
"""Characters of a text, and tool calls, that a repr has."""


@record()
class ExpectedTool:
    """A tool call that should be made.

    `arguments` None: any; `step` None: its place in the list, counted from 1.
    """

    name: str
    arguments: dict[str, Json] | None = None
    step: int | None = None


@record(kw_only=True)
class Expected:
    """What a turn should come to; None and an empty tuple: nothing is stated.

    `outcomes` are statements that should be true in the end. `in_order` None: the author did not
    say whether the order of the tool calls matters.
    """

    answer: str | None = None
    tools: tuple[ExpectedTool, ...] | None = None
    outcomes: tuple[str, ...] = ()
    in_order: bool | None = None

    def to_json(self) -> dict[str, Any]:
        """The object under `expected` of an agent trace's JSON."""
        found: dict[str, Any] = _plain(self)
        return found

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> "Expected":
        """The inverse of `to_json`. Raises KeyError or TypeError on an object of another shape."""
        tools = None if data["tools"] is None else tuple(ExpectedTool(**x) for x in data["tools"])
        return cls(
            answer=data["answer"],
            tools=tools,
            outcomes=tuple(data["outcomes"]),
            in_order=data["in_order"],
        )


Completeness: TypeAlias = Literal["complete", "idle", "truncated", "partial"]
"""`partial`: spans of the turn did not arrive, as those that arrived show."""

TurnOutcome: TypeAlias = Literal["answered", "failed", "cancelled", "waiting", "unknown"]
"""How a turn ended: `waiting` for a person or a result from elsewhere."""

TURN_OUTCOMES: Final[tuple[TurnOutcome, ...]] = (
    "answered",
    "failed",
    "cancelled",
    "waiting",
    "unknown",
)


@record()
class Tool:
    """A tool on offer. `parameters` is its JSON schema, where the trace holds one."""

    name: str
    description: str | None = None
    parameters: Json = None


@record()
class ToolCall:
    """A tool call that was made.

    `arguments` and `result` are JSON values with every envelope opened; None: the trace did not
    say, or a result that is null, which `returned` tells apart. It is true of every result that was
    seen. `error` is the error text; `error_inferred` says that no span status stated it: it was
    recognised in a returned result. `started_ns` and `ended_ns` are those of the tool's span; None
    where there was none.
    """

    call_id: str | None
    name: str
    arguments: Json = None
    result: Json = None
    error: str | None = None
    span_id: str | None = None
    started_ns: int | None = None
    error_inferred: bool = False
    agent: str | None = None
    returned: bool = False
    ended_ns: int | None = None

    def __post_init__(self) -> None:
        if self.result is not None and not self.returned:
            object.__setattr__(self, "returned", True)


@record()
class RequestedCall:
    """A tool call as a model asked for it, before any tool ran."""

    call_id: str | None
    name: str
    arguments: Json = None


@record()
class ModelCall:
    """One call of a model; `text` is what it answered, without reasoning.

    Tokens and times: None where not recorded. Of the input tokens `cache_read_tokens` came from the
    provider's cache and `cache_write_tokens` went into it; of the output tokens `reasoning_tokens`
    were reasoning.

    `response_id` is the id that the provider gave the answer, by which others name the call; None
    where not recorded. `previous_response_id` is that of the answer that the request goes on from,
    whose conversation the provider has. `utility`: a call beside the agent's loop, as for a title
    or by a guard; it is shown, and no metric looks at it.
    """

    span_id: str
    model: str | None = None
    text: str | None = None
    reasoning: str | None = None
    tool_calls: tuple[RequestedCall, ...] = ()
    input_tokens: int | None = None
    output_tokens: int | None = None
    started_ns: int | None = None
    ended_ns: int | None = None
    response_id: str | None = None
    utility: bool = False
    cache_read_tokens: int | None = None
    cache_write_tokens: int | None = None
    reasoning_tokens: int | None = None
    previous_response_id: str | None = None


@record()
class Attachment:
    """A picture, sound or file that a message contains, without its bytes.

    `kind` is image, audio, video or file; `uri` is where it lies, or the id of an uploaded file.
    None: not recorded.
    """

    kind: str
    mime_type: str | None = None
    size_bytes: int | None = None
    uri: str | None = None
    name: str | None = None

    def __str__(self) -> str:
        """The notice that stands for it in a text.

        >>> str(Attachment("image", "image/png", 1200))
        '[image, image/png, 1200 bytes]'
        """
        size = None if self.size_bytes is None else f"{self.size_bytes} bytes"
        stated = (self.kind, self.mime_type, size, self.name, self.uri)
        return f"[{', '.join(x for x in stated if x)}]"


@record()
class PastMessage:
    """A message of the conversation before this turn, as the model saw it."""

    role: str
    text: str | None = None
    tool_calls: tuple[RequestedCall, ...] = ()
    attachments: tuple[Attachment, ...] = ()


@record()
class Retrieval:
    """Documents that a retriever returned for a query."""

    span_id: str
    query: str | None = None
    documents: tuple[Json, ...] = ()


@record()
class Usage:
    """Tokens of a turn: each model call counted once, never a parent's sum on top.

    None: not recorded. Cached and reasoning tokens are parts of the others, as a `ModelCall` has
    them.
    """

    input_tokens: int | None = None
    output_tokens: int | None = None
    cache_read_tokens: int | None = None
    cache_write_tokens: int | None = None
    reasoning_tokens: int | None = None


@record()
class Target:
    """The span that a trace's scores are put on: the agent's root, else the topmost span received.

    Ids are lower-case hex, times Unix nanoseconds, both 0 where they are not known. `response_id`
    is set where the target is one model call. `span_id` is "" for a turn that only log records
    under no span tell of; its `trace_id` then holds nothing but its scores.
    """

    trace_id: str
    span_id: str
    start_ns: int
    end_ns: int
    resource: Attributes = field(default_factory=dict)
    response_id: str | None = None


@record()
class Trial:
    """The test that a turn was recorded for, as its spans or their resource say: `test.case.id` and
    the like.

    `status` is the verdict that the recording itself holds, `pass` or `fail`
    (`test.case.result.status`).
    """

    suite: str | None = None
    run: str | None = None
    case: str | None = None
    status: str | None = None


@record(kw_only=True)
class AgentTrace:
    """One turn of an agent, from the user's input to its final output.

    None means that the trace did not say; an empty tuple or string that it said there was nothing.
    In particular `tool_calls` is None when nothing in the trace could have shown a call (content
    capture was off and no tool spans). `history` is None when nothing shows what came before the
    turn, as where no model's request was recorded, and empty when the first request shows that
    nothing did. `outcome` is how the turn ended, `error` why it failed. `attachments` are those of
    the question, `user_input`, which is "" where the user sent nothing else. `damaged` names the
    facts (fields of this class) that arrived cut or redacted. `session_key` is what sessions are
    joined by: the session id, behind a digest of the service namespace and tenant where there are
    such. `expected` is what the spans themselves state that the turn should come to. `attributes`
    has the values, each once, that spans of the turn have under those names that `evaluation.rules`
    reads, and its tags.

    `id` is 32 hex digits that stay the same however often, and in whatever order, the turn's spans
    arrive. It derives from the first of the trace ids, in which the turn opens, and the span that
    opens it, since several turns can share a root; what later traces add to the turn does not
    change it. Where there are tenants, it derives from the tenant too: two that send the same trace
    id have two agent traces.
    """

    trace_ids: tuple[str, ...]
    root_span_id: str | None
    target: Target
    opening_span_id: str
    started_ns: int
    ended_ns: int
    completeness: Completeness = "complete"
    outcome: TurnOutcome = "unknown"
    error: str | None = None
    session_id: str | None = None
    user_id: str | None = None
    agent_name: str | None = None
    service_name: str | None = None
    user_input: str | None = None
    attachments: tuple[Attachment, ...] = ()
    final_output: str | None = None
    system_instructions: str | None = None
    available_tools: tuple[Tool, ...] | None = None
    tool_calls: tuple[ToolCall, ...] | None = None
    model_calls: tuple[ModelCall, ...] = ()
    history: tuple[PastMessage, ...] | None = None
    retrieved: tuple[Retrieval, ...] = ()
    plan: str | None = None
    damaged: tuple[str, ...] = ()
    usage: Usage = Usage()
    dialects: tuple[str, ...] = ()
    unread_spans: int = 0
    trial: Trial | None = None
    expected: Expected | None = None
    session_key: str | None = None
    attributes: Mapping[str, tuple[Scalar, ...]] = field(default_factory=dict)
    id: str = field(init=False, compare=False)

    def __post_init__(self) -> None:
        if self.session_key is None and self.session_id is not None:
            object.__setattr__(self, "session_key", self.session_id)
        tenant = tenant_of(self.target.resource)
        seed = "\n".join(
            (*self.trace_ids[:1], self.opening_span_id, *((tenant,) if tenant else ()))
        )
        object.__setattr__(
            self, "id", hashlib.sha256(seed.encode("utf-8", "surrogatepass")).hexdigest()[:32]
        )

    def __repr__(self) -> str:
        asked, answered = (
            None if x is None else line_of(x, _SHOWN_CHARS)
            for x in (self.user_input, self.final_output)
        )
        calls = [x.name for x in self.tool_calls or ()]
        tools = f" tools={', '.join(calls[:_SHOWN_CALLS])!r}" if calls else ""
        more = f" and {len(calls) - _SHOWN_CALLS} more" if len(calls) > _SHOWN_CALLS else ""
        ids = f"{self.target.trace_id[:8]} {self.outcome}"
        return f"<AgentTrace {ids} input={asked!r}{tools}{more} output={answered!r}>"

    @property
    def tenant(self) -> str:
        """Whose it is; "" without tenants."""
        return tenant_of(self.target.resource)

    @property
    def has_content(self) -> bool:
        """Whether anything of what was asked, answered or passed to tools is recorded, be it
        damaged.
        """
        if any(x is not None for x in (self.user_input, self.final_output, self.plan)):
            return True
        return any(x.arguments is not None or x.result is not None for x in self.tool_calls or ())

    def to_json(self) -> dict[str, Any]:
        """The JSON object that `spanscore inspect --jsonl` prints on one line; some have more.

        Only a turn that failed has `error`, only one whose question has attachments has
        `attachments`, only one of a test has
        `trial`, only one whose spans state an expectation `expected`,
        only one whose session key is not the session id `session_key`, and only one with attributes
        that rules read, or with tags, `attributes`.
        """
        found = {name: _plain(getattr(self, name)) for name in _ALWAYS}
        for name in ("error", "attachments", "trial", "expected"):
            if (value := getattr(self, name)) not in (None, ()):
                found[name] = _plain(value)
        if self.session_key != self.session_id:
            found["session_key"] = self.session_key
        if self.attributes:
            found["attributes"] = {name: list(values) for name, values in self.attributes.items()}
        return found

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> "AgentTrace":
        """The inverse of `to_json`. Raises KeyError or TypeError on an object of another shape."""
        fields = {k: v for k, v in data.items() if k not in {"id", "external_scores", "decision"}}
        for name, kind in (("available_tools", Tool), ("tool_calls", ToolCall)):
            if fields.get(name) is not None:
                fields[name] = tuple(kind(**x) for x in fields[name])
        fields["model_calls"] = tuple(_asking(ModelCall, x) for x in fields["model_calls"])
        if fields["history"] is not None:
            fields["history"] = tuple(_past_message(x) for x in fields["history"])
        fields["attachments"] = _attachments(fields)
        fields["retrieved"] = tuple(
            Retrieval(**{**x, "documents": tuple(x["documents"])}) for x in fields["retrieved"]
        )
        for name in ("trace_ids", "damaged", "dialects"):
            fields[name] = tuple(fields[name])
        fields["attributes"] = {
            name: tuple(x) for name, x in (fields.get("attributes") or {}).items()
        }
        if fields.get("trial") is not None:
            fields["trial"] = Trial(**fields["trial"])
        if fields.get("expected") is not None:
            fields["expected"] = Expected.from_json(fields["expected"])
        return cls(
            **{**fields, "usage": Usage(**fields["usage"]), "target": Target(**fields["target"])}
        )


_AskingT = TypeVar("_AskingT", ModelCall, PastMessage)


def _asking(kind: type[_AskingT], data: Mapping[str, Any]) -> _AskingT:
    """What may ask for tools, of its JSON form."""
    return kind(**{**data, "tool_calls": tuple(RequestedCall(**x) for x in data["tool_calls"])})


def _past_message(data: Mapping[str, Any]) -> PastMessage:
    return _asking(PastMessage, {**data, "attachments": _attachments(data)})


def _attachments(data: Mapping[str, Any]) -> tuple[Attachment, ...]:
    return tuple(Attachment(**x) for x in data.get("attachments", ()))


TOKEN_DETAILS: Final = ("cache_read_tokens", "cache_write_tokens", "reasoning_tokens")
"""The counts of tokens that are parts of others; JSON has those that are recorded."""


_WHERE_RECORDED: Final = frozenset(
    {*TOKEN_DETAILS, "utility", "previous_response_id", "attachments"}
)
"""Fields of what is in a trace that JSON has where they are recorded."""

_ALWAYS: Final = (
    *("id", "trace_ids", "root_span_id", "session_id", "user_id", "agent_name", "service_name"),
    *("started_ns", "ended_ns", "completeness", "outcome", "user_input", "final_output"),
    *("system_instructions", "available_tools", "tool_calls", "model_calls", "history"),
    *("retrieved", "plan", "damaged", "usage", "dialects", "unread_spans", "opening_span_id"),
    "target",
)
"""The fields of a trace that JSON always has, in their order there."""


def _plain(item: Any) -> Any:
    """A slotted dataclass as a dict, nested ones too; JSON values are passed through and not
    copied.
    """
    if hasattr(item, "__dataclass_fields__"):
        values = [(name, getattr(item, name)) for name in item.__dataclass_fields__]
        return {
            name: _plain(x)
            for name, x in values
            if name not in _WHERE_RECORDED or not (x is None or x is False or x == ())
        }
    if isinstance(item, tuple):
        return [_plain(x) for x in item]
    return item


@record()
class Session:
    """The agent traces that share a session key, oldest first; `session_id` is the id that their
    spans have.
    """

    session_id: str
    traces: tuple[AgentTrace, ...]

    @property
    def id(self) -> str:
        """What tells it from others, as `AgentTrace.id` does: the key that its traces share."""
        return (self.traces[-1].session_key if self.traces else None) or self.session_id

    @property
    def tenant(self) -> str:
        """Whose it is; "" without tenants."""
        return self.traces[-1].tenant if self.traces else ""


def responses_of(trace: AgentTrace) -> dict[str, str]:
    """The ids of the spans of a turn's model calls, by the response ids of their answers, each a
    single line.
    """
    calls = trace.model_calls
    return {id_: x.span_id for x in calls if (id_ := x.response_id) and "\n" not in id_}


def requested_in(models: Sequence[ModelCall], calls: Sequence[ToolCall]) -> list[int | None]:
    """For each of `calls` the place in `models` of the answer that asked for it; None where nobody
    is known to have.

    By the call's id; where only one of the two has it, by name and arguments, one after the other.
    """
    requests = [(place, x) for place, model in enumerate(models) for x in model.tool_calls]
    by_id = {x.call_id: place for place, x in requests if x.call_id}
    made = {x.call_id for x in calls if x.call_id}
    by_content: defaultdict[tuple[str, str], deque[int]] = defaultdict(deque)
    for place, request in requests:
        if request.call_id not in made:
            by_content[request.name, dumps(request.arguments)].append(place)
    found: list[int | None] = []
    for call in calls:
        answer = by_id.get(call.call_id) if call.call_id else None
        if answer is None and (same := by_content[call.name, dumps(call.arguments)]):
            answer = same.popleft()
        found.append(answer)
    return found


_WITH_COMMAS = "langsmith.span.tags"

TAGS = (
    "tag.tags",  # OpenInference
    "langfuse.trace.tags",
    _WITH_COMMAS,
    "logfire.tags",
    "traceloop.association.properties.tags",
    "lmnr.association.properties.tags",
    "braintrust.tags",
    "opik.tags",
    "confident.trace.tags",  # DeepEval
)
"""The attributes of spans in which instrumentations write the tags of a trace: these are kept with
every agent trace.
"""

MAX_TAGS = 32
"""Tags of a trace that are kept."""

MAX_TEXT_CHARS = 65_536
"""Of a text that lists tags, what is read."""


def tags_of(trace: AgentTrace) -> list[str]:
    """The tags of a trace. Some senders write them as one text: JSON, or with commas."""
    if not trace.attributes:
        return []
    found: list[str] = []
    for name in TAGS:
        for value in trace.attributes.get(name, ()):
            found += _listed(value, name) if isinstance(value, str) else [str(value)]
    return found


def shortened(text: str, name: str, max_chars: int) -> list[str]:
    """What is kept of a text of the attribute `name`, one of `TAGS`: the text, or of one with more
    than `max_chars` the first tags that it lists, each cut to as many.

    A tag that is cut off at the end of a list is left out, and so are those of JSON that does not
    parse.
    """
    if len(text) <= max_chars:
        return [text]
    if text.startswith("["):
        is_read = len(text) <= MAX_TEXT_CHARS and _is_list(text)
        tags = _listed(text, name) if is_read else []
    else:
        tags = _listed(text[:MAX_TEXT_CHARS], name)
        if len(text) > MAX_TEXT_CHARS and len(tags) > 1:
            tags.pop()
    return [_as_one(x[:max_chars], name) for x in tags[:MAX_TAGS]]


def _is_list(text: str) -> bool:
    try:
        return isinstance(loads(text), list)
    except ValueError:
        return False


def _as_one(tag: str, name: str) -> str:
    """A text that lists this tag alone."""
    return tag if _listed(tag, name) == [tag] else dumps([tag])


def _listed(text: str, name: str) -> list[str]:
    if text.startswith("["):
        try:
            items = loads(text)
        except ValueError:
            items = None
        if isinstance(items, list):
            return [x for x in items if isinstance(x, str)]
    return [x.strip() for x in text.split(",")] if name == _WITH_COMMAS else [text]


Scope: TypeAlias = tuple[tuple[str, str], ...]
"""Name and value of each resource attribute and header that a session id is valid within."""

DEFAULT_SCOPE: Final = ("service.namespace", "tenant.id")
_MAX_VALUE_CHARS: Final = 1024
_SCOPED: Final = re.compile(r"([ -.0-~]{1,128}/)?[0-9a-f]{16}:")
_HEADER: Final = "header:"


def scope_of(resource: Attributes, names: Sequence[str]) -> Scope:
    """What of `resource` bounds its session ids: the attributes `names` that it has, and its
    tenant.

    Without tenants the headers kept with it: what came with others leaves with others, and never
    shares a session.
    """
    own = (
        (name, str(resource[name])[:_MAX_VALUE_CHARS])
        for name in names
        if resource.get(name) not in (None, "")
    )
    headers = ((_HEADER + name, value) for name, value in owner_of(resource))
    return tuple(sorted({**dict(own), **dict(headers)}.items()))


def scope_of_tenant(tenant: str) -> Scope:
    """What bounds the session ids of a tenant outside of every namespace; nothing without
    tenants.
    """
    return ((_HEADER + TENANT, tenant),) if tenant else ()


def session_key(session_id: str, scope: Scope) -> str:
    """What a session is joined, stored and looked up by: its id, behind a digest of its scope where
    it has one.

    No id of one scope is the key of a session in another. The tenant, where there is one, stands
    before the digest: no tenant's name contains a `/`.

    >>> session_key("chat-7", ())
    'chat-7'
    >>> session_key("chat-7", (("service.namespace", "shop"),))
    '55084ed27e27e5f8:chat-7'
    >>> session_key("chat-7", (("header::tenant", "acme"),))
    'acme/1ddb4a799c5e73a2:chat-7'
    """
    if not scope and not _SCOPED.match(session_id):
        return session_id
    digest = hashlib.sha256(json.dumps(scope).encode()).hexdigest()[:16]
    tenant = dict(scope).get(_HEADER + TENANT)
    return f"{digest}:{session_id}" if tenant is None else f"{tenant}/{digest}:{session_id}"


def in_scope(traces: Iterable[AgentTrace], names: Sequence[str]) -> list[AgentTrace]:
    """The traces, each with the key of its session; those without a session as they are."""
    return [_in_scope(trace, names) for trace in traces]


def _in_scope(trace: AgentTrace, names: Sequence[str]) -> AgentTrace:
    if trace.session_id is None:
        return trace
    key = session_key(trace.session_id, scope_of(trace.target.resource, names))
    return trace if trace.session_key == key else replace(trace, session_key=key)
