"""LiveKit Agents: a voice session in one trace, each of the agent's answers a span, content in
attributes of its own.

Since August 2026 the attributes that contain people's words have `pii` in their name.
"""

from typing import Final

from spanscore.dialects import keys
from spanscore.dialects.conventions import semconv
from spanscore.dialects.dialect import Context, Dialect, IgnoredSpans
from spanscore.dialects.forms.arguments import arguments, call_id, tools
from spanscore.dialects.forms.messages import messages
from spanscore.dialects.forms.structure import (
    Facts,
    as_object,
    evaluated,
    first_identity,
    first_text,
    objects,
    opened,
    structure,
)
from spanscore.model.span import Attributes, Span, Value
from spanscore.model.step import StepKind

_SCOPE = "livekit-agents"
_KINDS: Final[dict[str, StepKind]] = {
    "agent_turn": "agent",
    "llm_node": "model",
    "llm_request": "model",
    "realtime_inference": "model",
    "realtime_metrics": "model",
    "function_tool": "tool",
}
_CALLED = ("chat", "execute_tool")
"""Operations of spans that are calls under any name."""

_SESSIONS = ("lk.pii.room_name", "lk.room_name", "lk.room_sid", "lk.job_id")
_USERS = ("lk.pii.participant_identity", "lk.participant_identity", "lk.participant_id")
_AGENTS = (keys.GEN_AI_AGENT_NAME, "lk.agent_name", "lk.agent_label")
_QUESTIONS = (
    "lk.pii.user_input",
    "lk.user_input",
    "lk.pii.user_transcript",
    "lk.user_transcript",
)
_ANSWERS = ("lk.pii.response.text", "lk.response.text")
_CALLS = ("lk.pii.response.function_calls", "lk.response.function_calls")
_GIVEN = ("lk.pii.chat_ctx", "lk.chat_ctx")
_TOOL_NAME = "lk.function_tool.name"
_TOOL_ID = "lk.function_tool.id"
_FAILED = "lk.function_tool.is_error"
_TOOL_GIVEN = ("lk.pii.function_tool.arguments", "lk.function_tool.arguments")
_TOOL_RETURNED = ("lk.pii.function_tool.output", "lk.function_tool.output")


def read(span: Span, context: Context) -> Facts:
    """The facts of one of its spans; what else goes on in a session (speech, state, closing) is
    bookkeeping.
    """
    attributes = span.attributes
    is_read = span.name in _KINDS or attributes.get(keys.GEN_AI_OPERATION_NAME) in _CALLED
    facts: Facts = semconv.read(span, context) if is_read else {"kind": "other"}
    kind = facts["kind"] = _KINDS.get(span.name, facts["kind"])
    facts["session_id"] = facts.get("session_id") or first_identity(attributes, _SESSIONS)
    facts["user_id"] = facts.get("user_id") or first_identity(attributes, _USERS)
    if span.name == "agent_turn":
        facts["agent_name"] = first_text(attributes, _AGENTS)
        facts["input_text"] = first_text(attributes, _QUESTIONS)
        facts["output_text"] = first_text(attributes, _ANSWERS)
    elif span.name == "llm_node":
        _read_node(attributes, facts)
    elif kind == "tool":
        _read_tool(span, facts)
    return facts


def _read_node(attributes: Attributes, facts: Facts) -> None:
    """A model call as the session sees it, around the request to the model's API, which records
    more.
    """
    items = as_object(structure(first_text(attributes, _GIVEN)).value).get("items")
    if facts.get("input") is None and isinstance(items, list):
        listed: list[Value] = [x for x in objects(items) if "role" in x or "call_id" in x]
        facts["input"] = messages(listed).messages
    answered = _answered(attributes)
    if facts.get("output") is None and answered:
        facts["output"] = messages(answered, "assistant").messages
    if facts.get("model") is None:
        facts["tools"] = tools(attributes.get("lk.function_tools"))


def _answered(attributes: Attributes) -> list[Value]:
    """The text and the calls of an answer."""
    answer = first_text(attributes, _ANSWERS)
    calls = structure(first_text(attributes, _CALLS)).value
    found: list[Value] = [] if answer is None else [{"role": "assistant", "content": answer}]
    return [*found, *({**x, "type": "function_call"} for x in objects(calls))]


def _read_tool(span: Span, facts: Facts) -> None:
    attributes = span.attributes
    facts["tool_name"] = facts.get("tool_name") or first_text(attributes, (_TOOL_NAME,))
    facts["call_id"] = facts.get("call_id") or call_id(attributes.get(_TOOL_ID))
    given, returned = first_text(attributes, _TOOL_GIVEN), first_text(attributes, _TOOL_RETURNED)
    if facts.get("arguments") is None and given is not None:
        facts["arguments"] = arguments(given)
    # the model's input; `gen_ai.tool.call.result` makes 0.1 of the text 0.10
    if returned is not None:
        facts["result"], facts["has_result"] = opened(returned), True
    facts["result"] = evaluated(facts.get("result"))
    if attributes.get(_FAILED) is True:  # whose `error.type` records no more than that
        facts["error"] = returned or facts.get("error") or "error"


DIALECT = Dialect(
    "livekit",
    read,
    scopes=(_SCOPE,),
    prefilters=(_SCOPE.encode(),),
    ignored=IgnoredSpans(names=("judge_evaluation",)),
)
