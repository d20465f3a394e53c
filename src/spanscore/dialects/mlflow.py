"""MLflow's tracing SDKs: a type, inputs and outputs, each attribute encoded as JSON, even plain text."""

from dataclasses import replace
from typing import Any

from spanscore.dialects import _dspy, _gemini, _langgraph, _pydantic_ai_parts, semconv
from spanscore.dialects._arguments import call_id, tools
from spanscore.dialects._base import Context, Dialect, Facts, count, first_text, text
from spanscore.dialects._functions import damaged, read_function, read_result, recorded
from spanscore.dialects._json import is_redacted, opened, structure
from spanscore.dialects._requests import configured_tools, conversation, system_of
from spanscore.dialects.semconv import status_error
from spanscore.model.span import Attributes, Span, Value
from spanscore.model.step import Message

_TYPE, _SCOPE = "mlflow.spanType", "mlflow.tracing.provider"
_KINDS = {
    "LLM": "model",
    "CHAT_MODEL": "model",
    "AGENT": "agent",
    "TOOL": "tool",
    "RETRIEVER": "retrieval",
    "CHAIN": "workflow",
    "WORKFLOW": "workflow",
    "TASK": "workflow",
    "UNKNOWN": "workflow",  # of a function that is decorated without a type
}
_SESSIONS, _USERS = ("session_id", "conversation_id", "thread_id"), ("user_id",)
_BLOCK = '"type": "output_text"'
_OPENAI_AGENTS, _RUN = "mlflow.openai.agent_run_root", "run_config"


def read(span: Span, context: Context) -> Facts:
    """The facts of one of its spans, which it can be told to write in the semantic conventions instead."""
    attributes = span.attributes
    if _TYPE not in attributes:
        return _read_conventions(span, context)
    kind = _KINDS.get(str(_value(attributes, _TYPE)), "other")
    if kind == "workflow":
        kind = _pydantic_ai_parts.untyped(span) or kind
    placed = _metadata(attributes)
    if kind == "workflow" and placed.get("lc_agent_name") == span.name:
        kind = "agent"
    session, user = _session_and_user(attributes, placed)
    facts: Facts = {"kind": kind, "session_id": session, "user_id": user, "agent_name": _langgraph.agent_name(placed)}
    given, returned = attributes.get("mlflow.spanInputs"), attributes.get("mlflow.spanOutputs")
    if kind == "model":
        _read_model(attributes, given, returned, facts)
    elif kind == "tool":
        _read_tool(span, given, returned, facts)
    elif kind == "retrieval":
        _read_retrieval(given, returned, facts)
    elif kind == "agent" or (kind == "workflow" and context.outermost):
        facts["agent_name"] = _agent_name(span) if kind == "agent" else None
        read_function(recorded(given).value, recorded(returned), facts)
        facts["damaged"] = damaged(input=given, output=returned)
    _complete(span, facts, given, returned)
    return facts


def _read_tool(span: Span, given: Value, returned: Value, facts: Facts) -> None:
    attributes = span.attributes
    facts["tool_name"] = text(_value(attributes, "mlflow.spanFunctionName")) or text(span.name)
    facts["call_id"] = call_id(_value(attributes, "tool_call_id"))  # of LangChain's
    facts["error"] = status_error(span)
    facts["damaged"] = damaged(arguments=given, result=returned)
    if given is not None and not is_redacted(given):
        facts["arguments"] = opened(given)
    read_result(returned, facts)


def _read_retrieval(given: Value, returned: Value, facts: Facts) -> None:
    query, found = opened(given), structure(returned).value
    values = list(query.values()) if isinstance(query, dict) else [query]
    facts["query"] = next((x for x in values if isinstance(x, str)), None)
    facts["documents"] = tuple(found) if isinstance(found, list) else ()


def _complete(span: Span, facts: Facts, given: Value, returned: Value) -> None:
    """Open what is a framework's own in what was taken and returned, which MLflow records as it is."""
    if _pydantic_ai_parts.logged_by_mlflow(span):
        _pydantic_ai_parts.complete(facts, opened(given), opened(returned))
    elif _dspy.logged_by_mlflow(span):
        _dspy.complete(span, facts, opened(given), opened(returned))
    elif _value(span.attributes, "mlflow.message.format") == "gemini":
        _gemini.complete(span, facts)


def _read_conventions(span: Span, context: Context) -> Facts:
    """The facts of a span in the conventions, in which a type that has no operation is the operation's name."""
    facts, attributes = semconv.read(span, context), span.attributes
    facts["kind"] = _KINDS.get(str(attributes.get("gen_ai.operation.name")), facts["kind"])
    placed = _metadata(attributes)
    session, facts["user_id"] = _session_and_user(attributes, placed)
    facts["session_id"] = facts.get("session_id") or session
    facts["agent_name"] = facts.get("agent_name") or _langgraph.agent_name(placed)
    if facts["kind"] == "tool":
        facts["call_id"] = facts.get("call_id") or call_id(_value(attributes, "tool_call_id"))
        read_result(attributes.get("gen_ai.tool.call.result"), facts)
    if facts["kind"] == "model":
        facts["input"] = _with_blocks_opened(facts.get("input"))
        if attributes.get("gen_ai.provider.name") == "gemini":
            _gemini.complete(span, facts)
    return facts


def _with_blocks_opened(given: tuple[Message, ...] | None) -> tuple[Message, ...] | None:
    """The messages, in which MLflow prints a block of OpenAI's Responses as the text of the assistant."""
    return given and tuple(
        replace(x, text=_block_text(x.text)) if x.role == "assistant" and _BLOCK in (x.text or "") else x for x in given
    )


def _block_text(said: str | None) -> str | None:
    block = opened(said)
    if not isinstance(block, dict) or block.get("type") != "output_text":
        return said
    inside = block.get("text")
    return inside if isinstance(inside, str) else said


def _metadata(attributes: Attributes) -> dict[str, Any]:
    """What LangChain hands to every tracer."""
    value = _value(attributes, "metadata") if "metadata" in attributes else None
    return value if isinstance(value, dict) else {}


def _session_and_user(attributes: Attributes, metadata: dict[str, Any]) -> tuple[str | None, str | None]:
    """As MLflow's own attributes have them, LangChain's metadata, or the configuration of a run of OpenAI's agents."""
    session = text(_value(attributes, "mlflow.trace.session")) or first_text(metadata, _SESSIONS)
    user = text(_value(attributes, "mlflow.trace.user")) or first_text(metadata, _USERS)
    called = attributes.get("kwargs")
    if isinstance(called, str) and _RUN in called:
        given: Any = opened(called)
        run = given.get(_RUN) if isinstance(given, dict) else None
        if isinstance(run, dict):
            session = session or text(run.get("group_id"))
            told = run.get("trace_metadata")
            user = user or (first_text(told, _USERS) if isinstance(told, dict) else None)
    return session, user


def _agent_name(span: Span) -> str | None:
    """The name an agent was given; the function that runs agents has none, and is no agent's name itself."""
    if _OPENAI_AGENTS in span.attributes:
        return None
    if _pydantic_ai_parts.logged_by_mlflow(span):
        return text(_value(span.attributes, "name"))
    return text(span.name)


def _value(attributes: Attributes, key: str) -> Any:
    return opened(attributes.get(key))


def _read_model(attributes: Attributes, given: Value, returned: Value, facts: Facts) -> None:
    request, response = structure(given), structure(returned)
    facts["input"] = conversation(request.value, "user")
    facts["output"] = conversation(response.value, "assistant")
    parts = (("input", request.damaged), ("output", response.damaged))
    facts["damaged"] = frozenset(fact for fact, cut in parts if cut)
    body = request.value if isinstance(request.value, dict) else {}
    offered = attributes.get("mlflow.chat.tools", body.get("tools"))
    facts["tools"] = configured_tools(body) if offered is None else tools(offered)
    facts["system"] = system_of(body)
    facts["model"] = text(_value(attributes, "mlflow.llm.model")) or text(body.get("model"))
    usage = _value(attributes, "mlflow.chat.tokenUsage")
    if isinstance(usage, dict):
        facts["input_tokens"] = count(usage.get("input_tokens"))
        facts["output_tokens"] = count(usage.get("output_tokens"))


DIALECT = Dialect("mlflow", read, scopes=(_SCOPE,), keys=(_TYPE,), marks=(b"mlflow.spanType", _SCOPE.encode()))
