"""OpenLLMetry (Traceloop): the semantic conventions, indexed messages, and the envelopes of its decorators."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, Final

from spanscore.dialects.carried import (
    agno,
    crewai,
    haystack_messages,
    langgraph,
    llama_index_envelopes,
    react,
    traceloop_gemini,
    traceloop_js,
    traceloop_js_langchain,
)
from spanscore.dialects.carried.printed_blocks import opened_blocks
from spanscore.dialects.content_switch import ContentSwitch
from spanscore.dialects.conventions import adot, semconv
from spanscore.dialects.dialect import Context, Dialect
from spanscore.dialects.forms import langchain_messages
from spanscore.dialects.forms.arguments import arguments, tools
from spanscore.dialects.forms.decorated_calls import is_call, json_of, only_argument, read_arguments
from spanscore.dialects.forms.envelopes import tool_output
from spanscore.dialects.forms.ids import first_identity
from spanscore.dialects.forms.indexed import elements, indexed
from spanscore.dialects.forms.messages import blocks, message
from spanscore.dialects.forms.reprs import REPR_CONTAINERS, evaluated, unprinted
from spanscore.dialects.forms.status import status_error
from spanscore.dialects.forms.structure import is_redacted, literal, opened, structure
from spanscore.dialects.forms.values import Facts, Side, TokenCount, add_damaged, change_messages, count, text
from spanscore.model.span import Attributes, LogRecord, Span
from spanscore.model.step import Message, Step, StepKind

_KINDS: Final[dict[str, StepKind]] = {
    "workflow": "workflow",
    "task": "workflow",
    "agent": "agent",
    "tool": "tool",
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
_COUNTS: Final[tuple[tuple[TokenCount, str], ...]] = (
    ("input_tokens", "gen_ai.usage.prompt_tokens"),
    ("output_tokens", "gen_ai.usage.completion_tokens"),
)
_MESSAGES = frozenset({"gen_ai.prompt.0.role", "gen_ai.prompt.0.content", "gen_ai.completion.0.content"})
_LANGCHAIN = "opentelemetry.instrumentation.langchain"
_OPENAI_AGENTS = "opentelemetry.instrumentation.openai_agents"
_OPENAI = "opentelemetry.instrumentation.openai.v1"
_NO_TEXT = {"opentelemetry.instrumentation.mistralai": "null", "opentelemetry.instrumentation.cohere": "[]"}
"""What the instrumentations that print a missing text as JSON make of it."""

_PREFIXES = ("traceloop.", "llm.request.")
_FUNCTIONS = "llm.request.functions."
_ASSOCIATION = "traceloop.association.properties."
_SESSIONS = (
    *(_ASSOCIATION + x for x in ("session_id", "sessionId")),
    "gen_ai.conversation.id",
    *(_ASSOCIATION + x for x in ("conversation_id", "conversationId", "chat_id", "chatId", "thread_id", "threadId")),
)
"""What names a session, the first that speaks wins: the thread is LangGraph's, all others the application sets."""

_GIVEN = adot.Names("traceloop.entity.input", "gen_ai.prompt.{}.role", "gen_ai.prompt.{}.content")
_PRODUCED = adot.Names("traceloop.entity.output", "gen_ai.completion.{}.role", "gen_ai.completion.{}.content")
_USERS = (*(_ASSOCIATION + x for x in ("user_id", "userId")), "gen_ai.user")
_COMPLETIONS: dict[str, Callable[[Span, Facts], None]] = {
    agno.OPENLLMETRY_SCOPE: agno.complete_openllmetry,
    crewai.OPENLLMETRY_SCOPE: crewai.complete_openllmetry,
    haystack_messages.OPENLLMETRY_SCOPE: haystack_messages.complete_openllmetry,
    llama_index_envelopes.OPENLLMETRY_SCOPE: llama_index_envelopes.complete_openllmetry,
    traceloop_js.SCOPE: traceloop_js.complete,
    traceloop_js_langchain.SCOPE: traceloop_js_langchain.complete,
    **dict.fromkeys(traceloop_gemini.SCOPES, traceloop_gemini.complete),
}
"""What each instrumentation says in its own way, by its scope."""


def claims(span: Span, _logs: Sequence[LogRecord]) -> bool:
    """Whether the span has an attribute of Traceloop's, or messages in indexed attributes."""
    keys = "\n".join(span.attributes)  # quicker to search than key by key, and every span is asked
    if ("traceloop." in keys or "llm.request." in keys) and any(x.startswith(_PREFIXES) for x in span.attributes):
        return True
    return not span.attributes.keys().isdisjoint(_MESSAGES)


def read(span: Span, context: Context) -> Facts:
    """The facts of a span of the SDK's decorators or of one of its instrumentations."""
    span, context = _whole(span, context)
    if span.scope.name == _LANGCHAIN:
        span = opened_blocks(span)
    facts, attributes = semconv.read(span, context), span.attributes
    facts["kind"] = _kind(attributes) or facts["kind"]
    _read_association(attributes, facts)
    if span.scope.name == _LANGCHAIN:
        _place_in_graph(attributes, context, facts)
    if facts["kind"] == "model":
        _read_model(span, facts)
    elif facts["kind"] == "tool":
        _read_tool(span, facts)
    elif facts["kind"] in {"agent", "workflow"}:
        _read_entity(attributes, facts, outermost=context.outermost)
    opening = _PRINTED.get(span.scope.name)
    if opening is not None:
        change_messages(facts, opening)
    complete = _COMPLETIONS.get(span.scope.name)
    if complete is not None:
        complete(span, facts)
    return facts


def _whole(span: Span, context: Context) -> tuple[Span, Context]:
    """The span with what AWS's distribution moved into a record, which then tells nothing more."""
    if not context.logs:
        return span, context
    is_model = _kind(span.attributes) == "model"
    whole = adot.with_moved(span, context.logs, _GIVEN, _PRODUCED, is_model=is_model)
    return whole, context if whole is span else replace(context, logs=())


def _kind(attributes: Attributes) -> StepKind | None:
    """What the span says that it is; None where only the conventions say it."""
    stated = _KINDS.get(str(attributes.get("traceloop.span.kind")))
    stated = stated or _REQUEST_TYPES.get(str(attributes.get("llm.request.type")))
    return "model" if stated is None and not _MESSAGES.isdisjoint(attributes) else stated


def _read_association(attributes: Attributes, facts: Facts) -> None:
    facts["session_id"] = first_identity(attributes, _SESSIONS)
    facts["user_id"] = first_identity(attributes, _USERS)


def _place_in_graph(attributes: Attributes, context: Context, facts: Facts) -> None:
    """Whose step of LangChain's it is: a task may be the run of an agent."""
    placed = langgraph.metadata(attributes, _ASSOCIATION)
    name = text(attributes.get("traceloop.entity.name"))
    if facts["kind"] == "workflow" and name and langgraph.is_agent(name, placed, outermost=context.outermost):
        facts["kind"] = "agent"
    if facts["kind"] == "agent":
        facts["agent_name"] = langgraph.graph_name(facts.get("agent_name") or "") or None
    elif facts["kind"] in {"model", "tool"}:
        facts["agent_name"] = facts.get("agent_name") or langgraph.agent_name(placed)
        facts["input"] = langgraph.without_hand_back(facts.get("input"))


def _read_model(span: Span, facts: Facts) -> None:
    attributes, is_read = span.attributes, facts.get("input") is not None
    for fact, prefix, role in _SIDES:
        if facts.get(fact) is None:
            items = [_without_filler(span, x) for x in indexed(attributes, prefix)]
            facts[fact] = tuple(x for x in (_message(item, role) for item in items) if x is not None) if items else None
            if any(is_redacted(item.get("content")) for item in items):
                add_damaged(facts, fact)
    if facts.get("tools") is None:
        _read_functions(attributes, facts)
    for field, key in _COUNTS:
        if facts.get(field) is None:
            facts[field] = count(attributes.get(key))
    if not is_read:
        react.complete(facts)


def _read_functions(attributes: Attributes, facts: Facts) -> None:
    """The tools on offer, of which a limit on attributes may have taken the first ones."""
    functions = indexed(attributes, _FUNCTIONS)
    facts["tools"] = tools(functions) if functions else None
    if functions and f"{_FUNCTIONS}0.name" not in attributes:
        add_damaged(facts, "tools")


def _with_reasons(said: Message) -> Message:
    """The message, in whose reasoning the summaries of OpenAI's Responses are printed as JSON."""
    if not (said.reasoning or "").startswith('[{"'):
        return said
    told = message({"type": "reasoning", "summary": structure(said.reasoning).value}, "assistant")
    return replace(said, reasoning=told.reasoning) if told is not None and told.reasoning else said


def _with_printed_results(said: Message) -> Message:
    """The message, with the results of which OpenAI's Agents SDK made text by str()."""
    return replace(said, results=tuple(replace(x, value=evaluated(x.value)) for x in said.results))


def _with_thought(said: Message) -> Message:
    """The message, whose first line may be Bedrock's block of reasoning, printed as JSON."""
    first, _, rest = (said.text or "").partition("\n")
    if not first.startswith('{"reasoningContent"'):
        return said
    told = message({"content": [structure(first).value]}, "assistant")
    return said if told is None else replace(said, text=rest or None, reasoning=told.reasoning)


_PRINTED = {
    _OPENAI: _with_reasons,
    _OPENAI_AGENTS: _with_printed_results,
    "opentelemetry.instrumentation.bedrock": _with_thought,
}
"""What opens a part of each message, by the instrumentation that prints it."""


def _without_filler(span: Span, item: dict[str, Any]) -> dict[str, Any]:
    """The message without what stands for a text that it has not; a result that is left out, which was empty."""
    content = item.get("content")
    if content is not None and content == _NO_TEXT.get(span.scope.name):
        return {**item, "content": None}
    if span.scope.name in traceloop_gemini.SCOPES:
        return traceloop_gemini.opened_item(span, item)
    is_answer = content is None and item.get("role") == "tool" and item.get("tool_call_id")
    return {**item, "content": ""} if is_answer and not span.dropped_attributes_count else item


def _message(item: dict[str, Any], role: str) -> Message | None:
    """A message whose content is text, or a list of the provider's blocks as JSON."""
    fields = {key: item.get(key) for key in ("role", "content", "tool_call_id", "function_call")}
    fields["tool_calls"] = elements(item.get("tool_calls"))
    fields["content"] = blocks(item.get("content")) or item.get("content")
    if isinstance(item.get("reasoning"), str):
        fields["reasoning_content"] = item["reasoning"]
    if item.get("role") == "thinking" and isinstance(item.get("content"), str):  # Anthropic's, told like a message
        fields |= {"role": "assistant", "content": None, "reasoning_content": item["content"]}
    return message(fields, role)


def _read_tool(span: Span, facts: Facts) -> None:
    attributes = span.attributes
    entity = text(attributes.get("traceloop.entity.name"))
    facts["tool_name"] = text(attributes.get("gen_ai.tool.name")) or entity
    facts["error"] = status_error(span)
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
    if span.scope.name == _LANGCHAIN and isinstance(value, dict) and value.keys() == {"inputs"}:
        value = value["inputs"] if isinstance(value["inputs"], dict) else value
    if not isinstance(value, dict):
        facts["arguments"] = value
    elif is_call(value):
        read_arguments(value, facts)
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
    value = unprinted(returned) if span.scope.name == _OPENAI_AGENTS else opened(returned)
    if span.scope.name == _LANGCHAIN:
        if isinstance(value, dict) and value.keys() == {"output", "kwargs"}:
            value = opened(value["output"])
        answer = tool_output(value, known=True)
        if answer is not None:
            value, facts["call_id"] = answer.value, facts.get("call_id") or answer.call_id
            facts["error"] = facts["error"] or answer.error
    facts["result"], facts["has_result"] = value, True


def _read_entity(attributes: Attributes, facts: Facts, *, outermost: bool) -> None:
    """What a workflow or agent was called with and returned; of code inside an agent it is not needed."""
    if facts["kind"] == "agent":
        named = text(attributes.get("traceloop.entity.name")) or ""
        facts["agent_name"] = facts.get("agent_name") or langgraph.graph_name(named) or None
    elif not outermost:
        return
    given = structure(attributes.get("traceloop.entity.input")).value
    returned, is_cut = structure(attributes.get("traceloop.entity.output"))
    is_function = is_call(given)
    if isinstance(given, dict):
        given = given.get("inputs") or only_argument(given)
    if isinstance(returned, dict) and "outputs" in returned and not is_function:
        returned = returned["outputs"]
    if facts.get("input") is None:
        facts["input"] = langchain_messages.state_messages(given) if isinstance(given, dict) else None
    if facts.get("output") is None and isinstance(returned, dict):
        facts["output"] = langchain_messages.after_question(langchain_messages.state_messages(returned))
    facts["input_text"] = given if isinstance(given, str) else None
    facts["output_text"] = returned if isinstance(returned, str) else None
    if is_function and not facts.get("output") and not is_cut:
        facts["output_json"] = json_of(returned)


def together(steps: Sequence[Step]) -> Sequence[Step]:
    """The steps, as the instrumentations tell them that are understood only side by side."""
    return traceloop_gemini.together(traceloop_js_langchain.together(steps))


DIALECT = Dialect(
    "openllmetry",
    read,
    claims=claims,
    scopes=(traceloop_js.SCOPE, traceloop_js_langchain.SCOPE, _LANGCHAIN, crewai.OPENLLMETRY_SCOPE),
    marks=(b"traceloop.", b"llm.request.", b"gen_ai."),
    together=together,
    content=(ContentSwitch("set TRACELOOP_TRACE_CONTENT=true"),),
    by_hand=True,
)
