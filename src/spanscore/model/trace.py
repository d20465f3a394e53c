"""AgentTrace: one turn of an agent, rebuilt from spans; what every metric is given and `inspect
--jsonl` prints.
"""

import hashlib
from collections.abc import Mapping
from dataclasses import field
from typing import Any, Literal, TypeAlias, TypeVar

from spanscore.model.expected import Expected
from spanscore.model.headers import tenant_of
from spanscore.model.json import Json
from spanscore.model.record import record
from spanscore.model.span import Attributes, Scalar

Completeness: TypeAlias = Literal["complete", "idle", "truncated"]


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

    Tokens and times: None where not recorded.

    `response_id` is the id that the provider gave the answer, by which others name the call; None
    where not recorded.
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


@record()
class PastMessage:
    """A message of the conversation before this turn, as the model saw it."""

    role: str
    text: str | None = None
    tool_calls: tuple[RequestedCall, ...] = ()


@record()
class Retrieval:
    """Documents that a retriever returned for a query."""

    span_id: str
    query: str | None = None
    documents: tuple[Json, ...] = ()


@record()
class Usage:
    """Tokens of a turn: each model call counted once, never a parent's sum on top.

    None: not recorded.
    """

    input_tokens: int | None = None
    output_tokens: int | None = None


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
    nothing did. `damaged` names the facts (fields of this class) that arrived cut or redacted.
    `session_key` is what sessions are joined by: the session id, behind a digest of the service
    namespace and tenant where there are such. `expected` is what the spans themselves state that
    the turn should come to. `attributes` has the values, each once, that spans of the turn have
    under those names that `evaluation.rules` reads, and its tags.

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
    session_id: str | None = None
    user_id: str | None = None
    agent_name: str | None = None
    service_name: str | None = None
    user_input: str | None = None
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

    @property
    def tenant(self) -> str:
        """Whose it is; "" without tenants."""
        return tenant_of(self.target.resource)

    def to_json(self) -> dict[str, Any]:
        """The JSON object that `spanscore inspect --jsonl` prints on one line; some have more.

        Only a turn of a test has `trial`, only one whose spans state an expectation `expected`,
        only one whose session key is not the session id `session_key`, and only one with attributes
        that rules read, or with tags, `attributes`.
        """
        trial = {} if self.trial is None else {"trial": _plain(self.trial)}
        expected = {} if self.expected is None else {"expected": self.expected.to_json()}
        scoped = {} if self.session_key == self.session_id else {"session_key": self.session_key}
        attributes = {"attributes": _plain_attributes(self.attributes)} if self.attributes else {}
        return {
            "id": self.id,
            "trace_ids": list(self.trace_ids),
            "root_span_id": self.root_span_id,
            "session_id": self.session_id,
            "user_id": self.user_id,
            "agent_name": self.agent_name,
            "service_name": self.service_name,
            "started_ns": self.started_ns,
            "ended_ns": self.ended_ns,
            "completeness": self.completeness,
            "user_input": self.user_input,
            "final_output": self.final_output,
            "system_instructions": self.system_instructions,
            "available_tools": None
            if self.available_tools is None
            else [_plain(x) for x in self.available_tools],
            "tool_calls": None if self.tool_calls is None else [_plain(x) for x in self.tool_calls],
            "model_calls": [_plain(x) for x in self.model_calls],
            "history": None if self.history is None else [_plain(x) for x in self.history],
            "retrieved": [_plain(x) for x in self.retrieved],
            "plan": self.plan,
            "damaged": list(self.damaged),
            "usage": _plain(self.usage),
            "dialects": list(self.dialects),
            "unread_spans": self.unread_spans,
            "opening_span_id": self.opening_span_id,
            "target": _plain(self.target),
            **trial,
            **expected,
            **scoped,
            **attributes,
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> "AgentTrace":
        """The inverse of `to_json`. Raises KeyError or TypeError on an object of another shape."""
        fields = {k: v for k, v in data.items() if k not in {"id", "external_scores", "decision"}}
        for name, kind in (("available_tools", Tool), ("tool_calls", ToolCall)):
            if fields.get(name) is not None:
                fields[name] = tuple(kind(**x) for x in fields[name])
        fields["model_calls"] = tuple(_asking(ModelCall, x) for x in fields["model_calls"])
        if fields["history"] is not None:
            fields["history"] = tuple(_asking(PastMessage, x) for x in fields["history"])
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


def _plain_attributes(attributes: Mapping[str, tuple[Scalar, ...]]) -> dict[str, list[Scalar]]:
    return {name: list(values) for name, values in attributes.items()}


_AskingT = TypeVar("_AskingT", ModelCall, PastMessage)


def _asking(kind: type[_AskingT], data: Mapping[str, Any]) -> _AskingT:
    """What may ask for tools, of its JSON form."""
    return kind(**{**data, "tool_calls": tuple(RequestedCall(**x) for x in data["tool_calls"])})


def _plain(item: Any) -> Any:
    """A slotted dataclass as a dict, nested ones too; JSON values are passed through and not
    copied.
    """
    if hasattr(item, "__dataclass_fields__"):
        return {name: _plain(getattr(item, name)) for name in item.__dataclass_fields__}
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
