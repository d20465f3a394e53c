"""OpenLLMetry (Traceloop): the semantic conventions, indexed messages, and the envelopes of its decorators."""

from collections.abc import Callable, Sequence
from typing import Any

from spanscore.dialects import _crewai, _haystack, _langchain, _langgraph, _llama_index, _traceloop_js, semconv
from spanscore.dialects._arguments import arguments, tools
from spanscore.dialects._base import Context, Dialect, Facts, count, text
from spanscore.dialects._functions import only_argument
from spanscore.dialects._indexed import elements, indexed
from spanscore.dialects._json import is_redacted, literal, opened, structure
from spanscore.dialects._messages import blocks, message
from spanscore.dialects._printed_blocks import opened_blocks
from spanscore.dialects._reprs import REPR_CONTAINERS
from spanscore.model.span import Attributes, LogRecord, Span
from spanscore.model.step import Message

_KINDS = {
    "workflow": "workflow",
    "task": "workflow",
    "agent": "agent",
    "tool": "tool",
    "session": "other",
    "handoff": "other",
}
_REQUEST_TYPES = {"chat": "model", "completion": "model", "embedding": "other", "rerank": "other"}
_MESSAGES = frozenset({"gen_ai.prompt.0.role", "gen_ai.prompt.0.content", "gen_ai.completion.0.content"})
_LANGCHAIN = "opentelemetry.instrumentation.langchain"
_PREFIXES = ("traceloop.", "llm.request.")
_ASSOCIATION = "traceloop.association.properties."
_COMPLETIONS: dict[str, Callable[[Span, Facts], None]] = {
    _crewai.OPENLLMETRY_SCOPE: _crewai.complete_openllmetry,
    _haystack.OPENLLMETRY_SCOPE: _haystack.complete_openllmetry,
    _llama_index.OPENLLMETRY_SCOPE: _llama_index.complete_openllmetry,
    _traceloop_js.SCOPE: _traceloop_js.complete,
}
"""What each instrumentation says in its own way, by its scope."""


def claims(span: Span, _logs: Sequence[LogRecord]) -> bool:
    """Whether the span has an attribute of Traceloop's, or messages in indexed attributes."""
    keys = "\n".join(span.attributes)  # quicker to search than key by key, and every span is asked
    if ("traceloop." in keys or "llm.request." in keys) and any(x.startswith(_PREFIXES) for x in span.attributes):
        return True
    return not _MESSAGES.isdisjoint(span.attributes)


def read(span: Span, context: Context) -> Facts:
    """The facts of a span of the SDK's decorators or of one of its instrumentations."""
    if span.scope.name == _LANGCHAIN:
        span = opened_blocks(span)
    facts, attributes = semconv.read(span, context), span.attributes
    facts["kind"] = _kind(attributes) or facts["kind"]
    _read_association(attributes, facts)
    if span.scope.name == _LANGCHAIN:
        _place_in_graph(attributes, context, facts)
    if facts["kind"] == "model":
        _read_model(attributes, facts)
    elif facts["kind"] == "tool":
        _read_tool(span, facts)
    elif facts["kind"] in {"agent", "workflow"}:
        _read_entity(attributes, facts, outermost=context.outermost)
    complete = _COMPLETIONS.get(span.scope.name)
    if complete is not None:
        complete(span, facts)
    return facts


def _kind(attributes: Attributes) -> str | None:
    """What the span says that it is; None where only the conventions say it."""
    stated = _KINDS.get(str(attributes.get("traceloop.span.kind")))
    stated = stated or _REQUEST_TYPES.get(str(attributes.get("llm.request.type")))
    return "model" if stated is None and not _MESSAGES.isdisjoint(attributes) else stated


def _read_association(attributes: Attributes, facts: Facts) -> None:
    session = text(attributes.get(_ASSOCIATION + "session_id")) or facts.get("session_id")
    facts["session_id"] = session or text(attributes.get(_ASSOCIATION + "thread_id"))
    facts["user_id"] = text(attributes.get(_ASSOCIATION + "user_id")) or text(attributes.get("gen_ai.user"))


def _place_in_graph(attributes: Attributes, context: Context, facts: Facts) -> None:
    """Whose step of LangChain's it is: a task may be the run of an agent."""
    placed = _langgraph.metadata(attributes, _ASSOCIATION)
    name = text(attributes.get("traceloop.entity.name"))
    if facts["kind"] == "workflow" and name and _langgraph.is_agent(name, placed, outermost=context.outermost):
        facts["kind"] = "agent"
    if facts["kind"] == "agent":
        facts["agent_name"] = _langgraph.graph_name(facts.get("agent_name") or "") or None
    elif facts["kind"] in {"model", "tool"}:
        facts["agent_name"] = facts.get("agent_name") or _langgraph.agent_name(placed)
        facts["input"] = _langgraph.without_hand_back(facts.get("input"))


def _read_model(attributes: Attributes, facts: Facts) -> None:
    damaged = set(facts.get("damaged", ()))
    for fact, prefix, role in (("input", "gen_ai.prompt.", "user"), ("output", "gen_ai.completion.", "assistant")):
        if facts.get(fact) is None:
            items = indexed(attributes, prefix)
            facts[fact] = tuple(x for x in (_message(item, role) for item in items) if x is not None) if items else None
            if any(is_redacted(item.get("content")) for item in items):
                damaged.add(fact)
    facts["damaged"] = frozenset(damaged)
    if facts.get("tools") is None:
        functions = indexed(attributes, "llm.request.functions.")
        facts["tools"] = tools(functions) if functions else None
    for fact, name in (("input_tokens", "prompt_tokens"), ("output_tokens", "completion_tokens")):
        if facts.get(fact) is None:
            facts[fact] = count(attributes.get("gen_ai.usage." + name))


def _message(item: dict[str, Any], role: str) -> Message | None:
    """A message whose content is text, or a list of the provider's blocks as JSON."""
    fields = {key: item.get(key) for key in ("role", "content", "tool_call_id", "function_call")}
    fields["tool_calls"] = elements(item.get("tool_calls"))
    fields["content"] = blocks(item.get("content")) or item.get("content")
    if isinstance(item.get("reasoning"), str):
        fields["reasoning_content"] = item["reasoning"]
    return message(fields, role)


def _read_tool(span: Span, facts: Facts) -> None:
    attributes = span.attributes
    entity = text(attributes.get("traceloop.entity.name"))
    facts["tool_name"] = text(attributes.get("gen_ai.tool.name")) or entity
    facts["error"] = semconv.status_error(span)
    for key in ("gen_ai.tool.call.arguments", "traceloop.entity.input"):
        if (given := attributes.get(key)) is not None:
            _read_arguments(span, given, facts)
            break
    for key in ("gen_ai.tool.call.result", "traceloop.entity.output"):
        if (returned := attributes.get(key)) is not None:
            _read_result(span, returned, facts)
            break


def _read_arguments(span: Span, given: Any, facts: Facts) -> None:
    value = arguments(given)
    is_callback = span.scope.name == _LANGCHAIN and isinstance(value, dict) and "input_str" in value
    if not isinstance(value, dict):
        facts["arguments"] = value
    elif value.keys() == {"args", "kwargs"}:  # a decorated function
        facts["arguments"] = value["kwargs"] or None
        if isinstance(value["args"], list) and value["args"]:
            facts["positional"] = tuple(value["args"])
        elif not value["kwargs"]:
            facts["arguments"] = {}
    elif is_callback and {"inputs", "tags", "metadata", "kwargs"} & value.keys():
        inputs, said = value.get("inputs"), value["input_str"]
        if not isinstance(inputs, dict) and isinstance(said, str):
            inputs = opened(said, scalars=False)
            inputs = literal(said) if inputs is said and said.startswith(REPR_CONTAINERS) else inputs
        facts["arguments"] = inputs if isinstance(inputs, dict) else None
        facts["positional"] = () if isinstance(inputs, dict) else (inputs,)
    else:
        facts["arguments"] = value


def _read_result(span: Span, returned: Any, facts: Facts) -> None:
    value = opened(returned)
    if span.scope.name == _LANGCHAIN:
        if isinstance(value, dict) and value.keys() == {"output", "kwargs"}:
            value = opened(value["output"])
        answer = _langchain.tool_output(value)
        if answer is not None:
            value, facts["call_id"] = answer.value, facts.get("call_id") or answer.call_id
            facts["error"] = facts["error"] or answer.error
    facts["result"], facts["has_result"] = value, True


def _read_entity(attributes: Attributes, facts: Facts, *, outermost: bool) -> None:
    """What a workflow or agent was called with and returned; of code inside an agent it is not needed."""
    if facts["kind"] == "agent":
        named = text(attributes.get("traceloop.entity.name")) or ""
        facts["agent_name"] = facts.get("agent_name") or _langgraph.graph_name(named) or None
    elif not outermost:
        return
    given = structure(attributes.get("traceloop.entity.input")).value
    returned = structure(attributes.get("traceloop.entity.output")).value
    if isinstance(given, dict):
        given = given.get("inputs") or only_argument(given)
    if isinstance(returned, dict) and "outputs" in returned:
        returned = returned["outputs"]
    if facts.get("input") is None:
        facts["input"] = _langchain.state_messages(given) if isinstance(given, dict) else None
    facts["input_text"] = given if isinstance(given, str) else None
    facts["output_text"] = returned if isinstance(returned, str) else None


DIALECT = Dialect(
    "openllmetry",
    read,
    claims=claims,
    scopes=(_traceloop_js.SCOPE, _LANGCHAIN),
    marks=(b"traceloop.", b"llm.request.", b"gen_ai."),
)
