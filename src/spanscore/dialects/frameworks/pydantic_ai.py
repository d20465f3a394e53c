"""Pydantic AI: the semantic conventions, with the agent's whole conversation and some older names
of its own.
"""

import re
from collections.abc import Iterator
from typing import Any

from spanscore.dialects.conventions import semconv
from spanscore.dialects.dialect import ContentSwitch, Context, Dialect, IgnoredSpans, Quirk
from spanscore.dialects.forms.arguments import arguments, call_id, tools
from spanscore.dialects.forms.messages import event_messages, message, messages, system_text
from spanscore.dialects.forms.status import status_error
from spanscore.dialects.forms.structure import (
    Facts,
    add_damaged,
    as_object,
    change_messages,
    first_text,
    identity,
    objects,
    opened,
    structure,
    text,
)
from spanscore.model.json import printed
from spanscore.model.span import Attributes, Span, Value, changed
from spanscore.model.step import Message, StepKind
from spanscore.model.trace import RequestedCall, Tool

_SCOPE = "pydantic-ai"
# the attribute of the answer, and the tool that stands for it where it has structure
_FINAL_RESULT = "final_result"
_CONVERSATIONS = ("pydantic_ai.all_messages", "all_messages_events")
_HIDDEN = re.compile(r'"(?:type|kind)": ?"text"}')
# how each of its own messages to the model ends, in the user's role
_RETRY = "Fix the errors and try again."

_TEXTS = {"user-prompt": "user", "system-prompt": "system", "text": "assistant"}
_CALL, _THINKING, _RETRY_PROMPT = "tool-call", "thinking", "retry-prompt"
_RESULTS = ("tool-return", _RETRY_PROMPT)
_FORMAT, _OWN = "mlflow.message.format", '"pydantic_ai"'
_UNTYPED: dict[str, StepKind] = {
    "Agent.run": "agent",
    "Agent.run_sync": "agent",
    "Agent.run_stream": "agent",
    "Agent.run_stream_sync": "agent",
    "InstrumentedModel.request": "model",
    "InstrumentedModel.request_stream": "model",
    "ToolManager.handle_call": "tool",
}


def logged_by_mlflow(span: Span) -> bool:
    """Whether a span that MLflow wrote is of Pydantic AI's."""
    if "mlflow.spanType" not in span.attributes:  # it is written in the semantic conventions
        return False
    # its first versions record no format
    return span.attributes.get(_FORMAT) == _OWN or span.name in _UNTYPED


def place(span: Span, facts: Facts, _outermost: bool) -> None:
    """Find what a span is to which MLflow gave no type, as it does where the agent is instrumented
    already.
    """
    if facts["kind"] == "workflow":
        facts["kind"] = _UNTYPED.get(span.name, "workflow")


def agent_name(span: Span) -> str | None:
    """The name of an agent stands in an attribute: its span is called after a method."""
    return text(opened(span.attributes.get("name")))


def complete(span: Span, facts: Facts) -> None:
    """Add to the facts of a model call, an agent's run or a tool's, in place."""
    given: Any = opened(span.attributes.get("mlflow.spanInputs"))
    returned = opened(span.attributes.get("mlflow.spanOutputs"))
    called = as_object(given)
    if facts["kind"] == "model":
        request = called.get("messages")
        facts["input"], facts["output"] = _messages(request), _messages([returned])
        facts["system"] = _instructions(request) or facts.get("system")
        parameters = called.get("model_request_parameters")
        if facts.get("tools") is None and isinstance(parameters, dict):
            facts["tools"] = tools(parameters.get("function_tools"))
    elif facts["kind"] == "agent":
        question = text(called.get("user_prompt"))
        history = _messages(called.get("message_history")) or ()
        facts["input"] = (*history, Message("user", question)) if question else None
        facts["input_text"] = question
        if isinstance(returned, dict) and "output" in returned:
            facts["output"], facts["output_text"] = None, printed(returned["output"])
            _complete_from_state(facts, returned)
    elif facts["kind"] == "tool" and isinstance(called.get("call"), dict):
        call = called["call"]
        facts["tool_name"] = text(call.get("tool_name"))
        facts["call_id"] = call_id(call.get("tool_call_id"))
        facts["arguments"] = arguments(call.get("args"))


def _complete_from_state(facts: Facts, returned: dict[str, Any]) -> None:
    """Add what a run keeps of its messages: those of earlier runs, then its own, from a stated
    place on.
    """
    state, start = returned.get("_state"), returned.get("_new_message_index")
    recorded = as_object(state).get("message_history")
    if not isinstance(recorded, list):
        return
    facts["system"] = facts.get("system") or _instructions(recorded)
    own = None
    if isinstance(start, int) and 0 <= start < len(recorded):
        own = _messages(recorded[start:])
    answered = [x for x in own or () if x.role in ("assistant", "tool")]
    if answered:
        facts["output"] = tuple(answered)


def _messages(listed: Any) -> tuple[Message, ...] | None:
    if not isinstance(listed, list):
        return None
    return tuple(x for item in listed if isinstance(item, dict) for x in _of_message(item))


def _of_message(item: dict[str, Any]) -> Iterator[Message]:
    """The messages in one of its own: what a model answered is one; of what it was given, each part
    is one.
    """
    parts = objects(item.get("parts"))
    if item.get("kind") == "request":
        found = [_given(x) for x in parts]
    else:
        found = [
            message({"role": "assistant", "content": [_produced(x) for x in parts]}, "assistant")
        ]
    yield from (x for x in found if x is not None)


def _given(part: dict[str, Any]) -> Message | None:
    kind = part.get("part_kind")
    if kind in _RESULTS and text(part.get("tool_name")):
        fields = {
            "role": "tool",
            "tool_call_id": part.get("tool_call_id"),
            "content": part.get("content"),
        }
        failed = kind == _RETRY_PROMPT or part.get("outcome") in ("failed", "error")
        return message({**fields, "status": "error" if failed else None}, "tool")
    role = _TEXTS.get(kind, "user") if isinstance(kind, str) else "user"
    return message({"role": role, "content": part.get("content")}, role)


def _produced(part: dict[str, Any]) -> dict[str, Any]:
    """A part as it is spelled elsewhere."""
    kind = part.get("part_kind")
    if kind == _CALL:
        call = {
            "id": part.get("tool_call_id"),
            "name": part.get("tool_name"),
            "arguments": part.get("args"),
        }
        return {"type": "tool_call", **call}
    return {"type": "reasoning" if kind == _THINKING else "text", "content": part.get("content")}


def _instructions(listed: Any) -> str | None:
    """Those of the request, which each message to the model repeats."""
    requests = objects(listed)
    return next(
        (found for x in reversed(requests) if (found := first_text(x, ("instructions",)))), None
    )


QUIRKS = (
    Quirk(
        "pydantic_ai",
        "mlflow",
        matches=logged_by_mlflow,
        place=place,
        agent_name=agent_name,
        complete=complete,
    ),
)


def read(span: Span, context: Context) -> Facts:
    """The facts of one of its spans: agent run, model request or tool call."""
    facts = semconv.read(span, context)
    attributes = span.attributes
    if "gen_ai.operation.name" not in attributes:
        facts["kind"] = _kind_by_name(span)
    if facts["kind"] == "agent":
        _read_agent(attributes, facts)
    elif facts["kind"] == "model":
        _read_model(attributes, facts)
    elif facts["kind"] == "tool":
        _read_tool(span, facts)
    question = next((x for x in facts.get("input") or () if x.role == "user"), None)
    if question is not None and question.text is None and _hides(attributes):
        _leave_out_hidden(facts)
    return facts


def _hides(attributes: Attributes) -> bool:
    """Whether content was left out on demand: a part of a message is then text without a text."""
    recorded = (attributes.get(x) for x in ("gen_ai.input.messages", *_CONVERSATIONS, "events"))
    return any(isinstance(x, str) and _HIDDEN.search(x) for x in recorded)


def _leave_out_hidden(facts: Facts) -> None:
    """Forget results that only seem to be null, since what a tool returned was left out too."""
    add_damaged(facts, "input", "output")
    change_messages(facts, lambda x: changed(x, results=()) if x.results else x)


def _kind_by_name(span: Span) -> StepKind:
    """Where the span does not state it: in all of Pydantic AI 1, whose format 3 has the names of
    the conventions.
    """
    if (
        "tool_arguments" in span.attributes
        or span.name == "running tool"
        or span.name.startswith("execute_tool ")
    ):
        return "tool"
    if (
        any(x in span.attributes for x in _CONVERSATIONS)
        or span.name == "agent run"
        or span.name.startswith("invoke_agent ")
    ):
        return "agent"
    return "other"  # "running 2 tools" wraps parallel calls


def _read_agent(attributes: Attributes, facts: Facts) -> None:
    facts["agent_name"] = facts.get("agent_name") or text(attributes.get("agent_name"))
    if facts.get("system") is None and "gen_ai.system_instructions" in attributes:
        facts["system"], is_cut = system_text(attributes["gen_ai.system_instructions"])
        if is_cut:
            add_damaged(facts, "system")
    messages = _conversation(attributes)
    if messages is not None:
        end = _question_end(messages, attributes.get("pydantic_ai.new_message_index"))
        facts["input"], facts["output"] = messages[:end], messages[end:]
    final = attributes.get(_FINAL_RESULT)
    if isinstance(final, str) and not _is_deferral(final):
        facts["output_text"] = final
    metadata = structure(attributes.get("metadata")).value
    if isinstance(metadata, dict):
        facts["user_id"] = identity(metadata.get("user_id"))
        facts["session_id"] = facts.get("session_id") or identity(metadata.get("session_id"))


def _is_deferral(final: str) -> bool:
    """Whether a run ended without an answer, with calls that wait to be approved or to be run
    elsewhere.
    """
    if not (final.startswith('{"calls":') and '"approvals":' in final and '"tool_name":' in final):
        return False
    deferred, is_cut = structure(final)
    if is_cut:
        return True
    lists = [deferred.get(x) for x in ("calls", "approvals")] if isinstance(deferred, dict) else []
    waiting = [x for listed in lists if isinstance(listed, list) for x in listed]
    return bool(waiting) and all(
        isinstance(x, dict) and x.get("part_kind") == "tool-call" for x in waiting
    )


def _question_end(messages: tuple[Message, ...], start: Value) -> int:
    """The index after the run's own question in its conversation: by the run's start, or by the
    user's last message.

    Runs without history, and all of version 1, do not record where they start. The others may
    record too early a start: they count a system prompt and the question after it as one.
    """
    if isinstance(start, int) and 0 <= start <= len(messages):
        begun = next(
            (i for i, x in enumerate(messages[start:], start) if x.role == "user" and x.text), start
        )
        return next(
            (i for i, x in enumerate(messages[begun:], begun) if x.role == "assistant"),
            len(messages),
        )
    questions = [
        i
        for i, x in enumerate(messages)
        if x.role == "user" and x.text and not x.text.endswith(_RETRY)
    ]
    if questions:
        return questions[-1] + 1
    return next((i for i, x in enumerate(messages) if x.role == "assistant"), len(messages))


def _conversation(attributes: Attributes) -> tuple[Message, ...] | None:
    for key in _CONVERSATIONS:
        if key in attributes:
            found = (
                event_messages(attributes[key])
                if key == "all_messages_events"
                else messages(attributes[key])
            )
            if found.messages is not None:
                return tuple(map(_with_role, found.messages))
    return None


def _with_role(message: Message) -> Message:
    """A message with the usual role: the first versions have the kind of the message there."""
    return changed(message, role="assistant") if message.role.startswith("model-") else message


def _read_model(attributes: Attributes, facts: Facts) -> None:
    parameters = structure(attributes.get("model_request_parameters")).value
    if isinstance(parameters, dict):
        if facts.get("tools") is None:
            facts["tools"] = tools(parameters.get("function_tools"))
        _open_output_tools(tools(parameters.get("output_tools")) or (), facts)
    if facts.get("output") is None and "events" in attributes:
        messages = event_messages(attributes["events"]).messages or ()
        facts["input"], facts["output"] = messages[:-1], messages[-1:]


def _open_output_tools(output_tools: tuple[Tool, ...], facts: Facts) -> None:
    """Make structured output text: the model gives it as a call of a tool that only stands for the
    answer.
    """
    names = {x.name for x in output_tools}
    if names and (offered := facts.get("tools")):
        facts["tools"] = tuple(x for x in offered if x.name not in names)
    if names and (produced := facts.get("output")):
        facts["output"] = tuple(_as_text(x, names) for x in produced)


def _as_text(message: Message, names: set[str]) -> Message:
    answers = [x for x in message.calls if x.name in names]
    if not answers:
        return message
    rest: tuple[RequestedCall, ...] = tuple(x for x in message.calls if x.name not in names)
    return Message(
        message.role, printed(answers[-1].arguments), message.reasoning, rest, message.results
    )


def _read_tool(span: Span, facts: Facts) -> None:
    attributes = span.attributes
    facts["tool_name"] = facts.get("tool_name") or text(attributes.get("gen_ai.tool.name"))
    if facts["tool_name"] == _FINAL_RESULT:
        facts["kind"] = "other"
    facts["call_id"] = facts.get("call_id") or call_id(attributes.get("gen_ai.tool.call.id"))
    facts["error"] = status_error(span)
    if "arguments" not in facts and "tool_arguments" in attributes:
        facts["arguments"] = arguments(attributes["tool_arguments"])
    if not facts.get("has_result") and "tool_response" in attributes:
        facts["result"], facts["has_result"] = opened(attributes["tool_response"]), True


DIALECT = Dialect(
    "pydantic_ai",
    read,
    scopes=(_SCOPE,),
    keys=(_CONVERSATIONS[0],),
    prefilters=(b"pydantic-ai", b"pydantic_ai"),
    ignored=IgnoredSpans(names=("evaluator: {evaluator_name}",)),
    content=(ContentSwitch("use InstrumentationSettings(include_content=True)"),),
)
