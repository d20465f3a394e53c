"""Frameworks of voice agents.

`livekit`: LiveKit Agents: a voice session in one trace, each of the agent's answers a span, content
in attributes of its own. Since August 2026 the attributes that contain people's words have `pii` in
their name.

`pipecat`: Pipecat: a conversation in one trace, a span for each turn of it, and the model's context
under names of its own.
"""

from collections.abc import Sequence
from itertools import pairwise
from typing import Final

from spanscore.dialects.conventions import semconv
from spanscore.dialects.dialect import Context, Dialect, IgnoredSpans
from spanscore.dialects.forms.arguments import arguments, call_id, tools
from spanscore.dialects.forms.messages import messages
from spanscore.dialects.forms.structure import (
    Facts,
    add_damaged,
    as_object,
    evaluated,
    first_identity,
    first_text,
    identity,
    objects,
    opened,
    structure,
)
from spanscore.model.json import Json
from spanscore.model.span import Attributes, Span, Value, changed
from spanscore.model.step import Message, MessageFact, Step, StepKind, ToolResult

_SCOPE = "livekit-agents"
_LIVEKIT_KINDS: Final[dict[str, StepKind]] = {
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
_AGENTS = ("gen_ai.agent.name", "lk.agent_name", "lk.agent_label")
_QUESTIONS = ("lk.pii.user_input", "lk.user_input", "lk.pii.user_transcript", "lk.user_transcript")
_ANSWERS = ("lk.pii.response.text", "lk.response.text")
_LIVEKIT_CALLS = ("lk.pii.response.function_calls", "lk.response.function_calls")
_GIVEN = ("lk.pii.chat_ctx", "lk.chat_ctx")
_TOOL_NAME = "lk.function_tool.name"
_TOOL_ID = "lk.function_tool.id"
_FAILED = "lk.function_tool.is_error"
_TOOL_GIVEN = ("lk.pii.function_tool.arguments", "lk.function_tool.arguments")
_TOOL_RETURNED = ("lk.pii.function_tool.output", "lk.function_tool.output")


def read_livekit(span: Span, context: Context) -> Facts:
    """The facts of one of its spans; what else goes on in a session (speech, state, closing) is
    bookkeeping.
    """
    attributes = span.attributes
    is_read = span.name in _LIVEKIT_KINDS or attributes.get("gen_ai.operation.name") in _CALLED
    facts: Facts = semconv.read(span, context) if is_read else {"kind": "other"}
    kind = facts["kind"] = _LIVEKIT_KINDS.get(span.name, facts["kind"])
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
    calls = structure(first_text(attributes, _LIVEKIT_CALLS)).value
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


_LIVEKIT = Dialect(
    "livekit",
    read_livekit,
    scopes=(_SCOPE,),
    prefilters=(_SCOPE.encode(),),
    ignored=IgnoredSpans(names=("judge_evaluation",)),
)


_SCOPES = ("pipecat", "pipecat.turn")
_PIPECAT_KINDS: Final[dict[str, StepKind]] = {"turn": "agent", "llm": "model"}


def read_pipecat(span: Span, context: Context) -> Facts:
    """The facts of one of its spans; speech and the conversation around its turns are
    bookkeeping.
    """
    attributes = span.attributes
    kind = _PIPECAT_KINDS.get(span.name, "other")
    facts: Facts = semconv.read(span, context) if kind == "model" else {}
    facts["kind"] = kind
    facts["session_id"] = facts.get("session_id") or identity(attributes.get("conversation.id"))
    facts["user_id"] = facts.get("user_id") or identity(attributes.get("user_id"))
    if kind == "model":
        if facts.get("input") is None and "input" in attributes:
            given = context.histories.messages(attributes["input"])
            facts["input"] = with_results(given.messages, attributes["input"])
            if given.damaged:
                add_damaged(facts, "input")
        answer = attributes.get("output")
        if facts.get("output") is None:  # only what was spoken: calls are in the next request alone
            facts["output"] = (
                (Message("assistant", answer),) if isinstance(answer, str) and answer else ()
            )
        if facts.get("tools") is None and "tools" in attributes:
            facts["tools"] = tools(attributes["tools"])
    return facts


def refine_trace(steps: Sequence[Step]) -> list[Step]:
    """The steps of a conversation, each of them the user's, and a model's calls in the step that
    requested them.

    A turn ends when the bot has spoken. Where it never does, as in a pipeline of text, one in which
    the user goes on after an answer is none.
    """
    steps = _with_names(steps)
    models = sorted(
        (x for x in steps if x.kind == "model"), key=lambda x: (x.span.start_ns, x.span.span_id)
    )
    going_on = _turns_that_go_on(models)
    completed = {x.span.span_id: x for x in with_calls(models)}
    found = [completed.get(x.span.span_id, x) for x in steps]
    return [
        changed(x, kind="other") if x.kind == "agent" and x.span.span_id in going_on else x
        for x in found
    ]


def _with_names(steps: Sequence[Step]) -> Sequence[Step]:
    """The steps, with the session and user that the only conversation names."""
    conversations = [x for x in steps if x.span.name == "conversation"]
    if len(conversations) != 1:
        return steps
    session_id, user_id = conversations[0].session_id, conversations[0].user_id
    return [
        changed(x, session_id=x.session_id or session_id, user_id=x.user_id or user_id)
        for x in steps
    ]


def _turns_that_go_on(models: Sequence[Step]) -> set[str]:
    """The turns' spans in which a model was given answers of different numbers: the user went on
    after one.
    """
    answers: dict[str, set[int]] = {}
    for step in models:
        answers.setdefault(step.span.parent_span_id, set()).add(_answers(step))
    return {span_id for span_id, counts in answers.items() if len(counts) > 1}


def _answers(step: Step) -> int:
    """How often the user went on after an answer; what was cut off may have contained one."""
    given = step.input or ()
    return sum(
        y.role == "user" and (x.role == "assistant" or bool(y.damaged)) for x, y in pairwise(given)
    )


_PIPECAT = Dialect(
    "pipecat", read_pipecat, scopes=_SCOPES, prefilters=(b"pipecat",), refine_trace=refine_trace
)


_PIPECAT_CALLS: frozenset[MessageFact] = frozenset({"calls"})
_CANCELLED = "CANCELLED"
# after a function's name
_FAILS, _MISSES = "` failed and returned no result.", "` is not currently available."
# of a result that is empty or 0, or that has not come
_PLACEHOLDERS = ("COMPLETED", "IN_PROGRESS", _CANCELLED)


def with_results(
    messages: tuple[Message, ...] | None, context: Value
) -> tuple[Message, ...] | None:
    """The messages without the words that stand for a tool's result; a tool's own text is JSON in
    `context`.
    """
    if messages is None or not any(x.results for x in messages):
        return messages
    raw = context if isinstance(context, str) else ""
    words = [x for x in _PLACEHOLDERS if x in raw and f'\\"{x}\\"' not in raw]
    if not words and _FAILS not in raw and _MISSES not in raw:
        return messages
    return tuple(
        changed(x, results=_results(x.results, words)) if x.results else x for x in messages
    )


def with_calls(models: Sequence[Step]) -> list[Step]:
    """The model calls of a conversation in order, each with the tools that it requested.

    Pipecat puts each call of one answer into a message of its own.
    """
    found = list(models)
    for at, (step, after) in enumerate(pairwise(models)):
        if any(x.calls for x in step.output or ()):
            continue
        text = next((x.text for x in step.output or () if x.text), None)
        calls = tuple(call for message in _added(step, after) for call in message.calls)
        if calls:
            found[at] = changed(step, output=(Message("assistant", text, calls=calls),))
        elif "input" in after.damaged:  # it may have contained some
            found[at] = changed(step, output=(Message("assistant", text, damaged=_PIPECAT_CALLS),))
    return found


def _added(step: Step, after: Step) -> Sequence[Message]:
    """The messages of a request that the one before it lacks, up to the user's next one."""
    before, now = step.input or (), after.input or ()
    if len(now) <= len(before) or not all(map(_alike, before, now)):
        return ()
    added = now[len(before) :]
    ends = next((at for at, x in enumerate(added) if x.role == "user"), len(added))
    return added[:ends]


def _alike(one: Message, other: Message) -> bool:
    """Whether a message is the same as before; the result of a call may have come in between."""
    return one is other or (
        one.role == other.role
        and one.calls == other.calls
        and (one.role == "tool" or one.text == other.text)
    )


def _results(results: tuple[ToolResult, ...], words: Sequence[str]) -> tuple[ToolResult, ...]:
    known = [changed(x, error=str(x.value)) if _is_failure(x.value, words) else x for x in results]
    return tuple(x for x in known if x.error or x.value not in words)


def _is_failure(value: Json, words: Sequence[str]) -> bool:
    if not isinstance(value, str) or value == _CANCELLED:
        return value == _CANCELLED in words
    return value.startswith("The function `") and value.endswith((_FAILS, _MISSES))


DIALECTS = (_LIVEKIT, _PIPECAT)
