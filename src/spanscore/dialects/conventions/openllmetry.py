"""OpenLLMetry (Traceloop): the semantic conventions, indexed messages, and the envelopes of its
decorators.
"""

from collections.abc import Sequence
from typing import Any, Final

from spanscore.dialects.conventions import adot, semconv
from spanscore.dialects.dialect import ContentSwitch, Context, Dialect, Quirk
from spanscore.dialects.forms import langchain_messages, messages
from spanscore.dialects.forms.arguments import arguments, tools
from spanscore.dialects.forms.decorated_calls import is_call, json_of, only_argument, read_arguments
from spanscore.dialects.forms.messages import blocks, message
from spanscore.dialects.forms.status import status_error
from spanscore.dialects.forms.structure import (
    Facts,
    Side,
    add_damaged,
    elements,
    first_identity,
    indexed,
    is_redacted,
    opened,
    read_tokens,
    structure,
    text,
)
from spanscore.model.span import Attributes, LogRecord, Span
from spanscore.model.step import Message, StepKind

_KINDS: Final[dict[str, StepKind]] = {
    "workflow": "workflow",
    "task": "workflow",
    "agent": "agent",
    "tool": "tool",
    "llm": "model",
    "session": "other",
    "handoff": "other",
}
_REQUEST_TYPES: Final[dict[str, StepKind]] = {
    "chat": "model",
    "completion": "model",
    "embedding": "other",
    "rerank": "other",
}
_SIDES: Final[tuple[tuple[Side, str, str], ...]] = (
    ("input", "gen_ai.prompt.", "user"),
    ("output", "gen_ai.completion.", "assistant"),
)
_MESSAGES = frozenset(
    {"gen_ai.prompt.0.role", "gen_ai.prompt.0.content", "gen_ai.completion.0.content"}
)
_ENTITY = frozenset({"traceloop.entity.input", "traceloop.entity.output"})
_PREFIXES = ("traceloop.", "llm.request.")
_FUNCTIONS = "llm.request.functions."
_ASSOCIATION = "traceloop.association.properties."
_SESSIONS = (
    *(_ASSOCIATION + x for x in ("session_id", "sessionId")),
    "gen_ai.conversation.id",
    *(
        _ASSOCIATION + x
        for x in ("conversation_id", "conversationId", "chat_id", "chatId", "thread_id", "threadId")
    ),
)
"""What names a session, the first with a value counts: the thread is LangGraph's, all others the
application sets.
"""

_GIVEN = adot.Names("traceloop.entity.input", "gen_ai.prompt.{}.role", "gen_ai.prompt.{}.content")
_PRODUCED = adot.Names(
    "traceloop.entity.output", "gen_ai.completion.{}.role", "gen_ai.completion.{}.content"
)
_USERS = (*(_ASSOCIATION + x for x in ("user_id", "userId")), "gen_ai.user")


def matches(span: Span, _logs: Sequence[LogRecord]) -> bool:
    """Whether the span has an attribute of Traceloop's, or messages in indexed attributes."""
    attributes = span.attributes
    return not _MESSAGES.isdisjoint(attributes) or any(x.startswith(_PREFIXES) for x in attributes)


def restore(span: Span, logs: Sequence[LogRecord]) -> Span:
    """The span with the content that AWS's distribution moved into a log record."""
    return adot.with_moved(
        span, logs, _GIVEN, _PRODUCED, is_model=_kind(span.attributes) == "model"
    )


def read(span: Span, context: Context) -> Facts:
    """The facts of a span of the SDK's decorators or of one of its instrumentations."""
    facts, attributes = semconv.read(span, context), span.attributes
    facts["kind"] = _kind(attributes) or facts["kind"]
    _read_association(attributes, facts)
    context.quirk.place(span, facts, context.outermost)
    if facts["kind"] == "model":
        _read_model(span, context.quirk, facts)
    elif facts["kind"] == "tool":
        _read_tool(span, facts)
    elif facts["kind"] in {"agent", "workflow"}:
        _read_entity(attributes, facts, outermost=context.outermost)
    return facts


def _kind(attributes: Attributes) -> StepKind | None:
    """The kind by Traceloop's own attributes; None where the span has only the conventions'."""
    stated = _KINDS.get(str(attributes.get("traceloop.span.kind")))
    stated = stated or _REQUEST_TYPES.get(str(attributes.get("llm.request.type")))
    if stated is not None:
        return stated
    if not _MESSAGES.isdisjoint(attributes):
        return "model"
    is_entity = "traceloop.span.kind" not in attributes and not _ENTITY.isdisjoint(attributes)
    return "workflow" if is_entity and "gen_ai.operation.name" not in attributes else None


def _read_association(attributes: Attributes, facts: Facts) -> None:
    facts["session_id"] = first_identity(attributes, _SESSIONS)
    facts["user_id"] = first_identity(attributes, _USERS)


def _read_model(span: Span, quirk: Quirk, facts: Facts) -> None:
    attributes, is_read = span.attributes, facts.get("input") is not None
    for fact, prefix, role in _SIDES:
        if facts.get(fact) is None:
            items = quirk.items(
                span, [_with_empty_result(span, x) for x in indexed(attributes, prefix)]
            )
            facts[fact] = (
                tuple(x for x in (_message(item, role) for item in items) if x is not None)
                if items
                else None
            )
            if any(is_redacted(item.get("content")) for item in items):
                add_damaged(facts, fact)
    if facts.get("tools") is None:
        _read_functions(attributes, facts)
    read_tokens(attributes, facts)
    if not is_read:
        messages.complete_react(facts)


def _read_functions(attributes: Attributes, facts: Facts) -> None:
    """The tools on offer, of which a limit on attributes may have taken the first ones."""
    functions = indexed(attributes, _FUNCTIONS)
    facts["tools"] = tools(functions) if functions else None
    if functions and f"{_FUNCTIONS}0.name" not in attributes:
        add_damaged(facts, "tools")


def _with_empty_result(span: Span, item: dict[str, Any]) -> dict[str, Any]:
    """The message, where it is a result that is left out, with the empty text that the result
    was.
    """
    is_answer = (
        item.get("content") is None and item.get("role") == "tool" and item.get("tool_call_id")
    )
    return {**item, "content": ""} if is_answer and not span.dropped_attributes_count else item


def _message(item: dict[str, Any], role: str) -> Message | None:
    """A message whose content is text, or a list of the provider's blocks as JSON."""
    fields = {key: item.get(key) for key in ("role", "content", "tool_call_id", "function_call")}
    fields["tool_calls"] = elements(item.get("tool_calls"))
    fields["content"] = blocks(item.get("content")) or item.get("content")
    if isinstance(item.get("reasoning"), str):
        fields["reasoning_content"] = item["reasoning"]
    # Anthropic's, in the form of a message
    if item.get("role") == "thinking" and isinstance(item.get("content"), str):
        fields |= {"role": "assistant", "content": None, "reasoning_content": item["content"]}
    return message(fields, role)


def _read_tool(span: Span, facts: Facts) -> None:
    attributes = span.attributes
    entity = text(attributes.get("traceloop.entity.name"))
    facts["tool_name"] = text(attributes.get("gen_ai.tool.name")) or entity
    facts["error"] = status_error(span)
    for key in ("gen_ai.tool.call.arguments", "traceloop.entity.input"):
        if (given := attributes.get(key)) is not None:
            _read_arguments(given, facts)
            break
    for key in ("gen_ai.tool.call.result", "traceloop.entity.output"):
        if (returned := attributes.get(key)) is not None:
            facts["result"], facts["has_result"] = opened(returned), True
            break


def _read_arguments(given: Any, facts: Facts) -> None:
    value = arguments(given)
    if is_call(value):
        read_arguments(value, facts)
    else:
        facts["arguments"] = value


def _read_entity(attributes: Attributes, facts: Facts, *, outermost: bool) -> None:
    """What a workflow or agent was called with and returned; of code inside an agent it is not
    needed.
    """
    if facts["kind"] == "agent":
        named = text(attributes.get("traceloop.entity.name")) or ""
        facts["agent_name"] = (
            facts.get("agent_name") or langchain_messages.graph_name(named) or None
        )
    elif not outermost:
        return
    called = structure(attributes.get("traceloop.entity.input")).value
    returned, is_cut = structure(attributes.get("traceloop.entity.output"))
    if is_call(called):
        _read_conversation(only_argument(called), returned, facts)
        if not facts.get("output") and not is_cut:
            facts["output_json"] = json_of(returned)
    else:
        _read_conversation(_inputs(called), _outputs(returned), facts)


def _inputs(called: Any) -> Any:
    """What LangChain's envelope has of what was given, or the only argument."""
    return called.get("inputs") or only_argument(called) if isinstance(called, dict) else called


def _outputs(returned: Any) -> Any:
    return returned["outputs"] if isinstance(returned, dict) and "outputs" in returned else returned


def _read_conversation(given: Any, returned: Any, facts: Facts) -> None:
    """Messages in a state, or texts."""
    if facts.get("input") is None:
        facts["input"] = (
            langchain_messages.state_messages(given) if isinstance(given, dict) else None
        )
    if facts.get("output") is None and isinstance(returned, dict):
        facts["output"] = langchain_messages.after_question(
            langchain_messages.state_messages(returned)
        )
    facts["input_text"] = given if isinstance(given, str) else None
    facts["output_text"] = returned if isinstance(returned, str) else None


DIALECT = Dialect(
    "openllmetry",
    read,
    matches=matches,
    matching_keys=(*_PREFIXES, *sorted(_MESSAGES)),
    restore=restore,
    prefilters=(b"traceloop.", b"llm.request.", b"gen_ai."),
    content=(ContentSwitch("set TRACELOOP_TRACE_CONTENT=true"),),
    by_hand=True,
)
