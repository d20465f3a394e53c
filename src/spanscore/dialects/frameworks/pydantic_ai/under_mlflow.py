"""Open Pydantic AI's own objects, which MLflow records of its models and agents: messages of parts,
agents' results.
"""

from collections.abc import Iterator
from typing import Any

from spanscore.dialects.forms.arguments import arguments, call_id, tools
from spanscore.dialects.forms.messages import message
from spanscore.dialects.forms.structure import opened
from spanscore.dialects.forms.values import Facts, first_text, text
from spanscore.dialects.quirk import Quirk
from spanscore.model.json import printed
from spanscore.model.span import Span
from spanscore.model.step import Message, StepKind

_TEXTS = {"user-prompt": "user", "system-prompt": "system", "text": "assistant"}
_CALL, _THINKING, _RETRY = "tool-call", "thinking", "retry-prompt"
_RESULTS = ("tool-return", _RETRY)
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
    called = given if isinstance(given, dict) else {}
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
        facts["tool_name"], facts["call_id"] = (
            text(call.get("tool_name")),
            call_id(call.get("tool_call_id")),
        )
        facts["arguments"] = arguments(call.get("args"))


def _complete_from_state(facts: Facts, returned: dict[str, Any]) -> None:
    """Add what a run keeps of its messages: those of earlier runs, then its own, from a stated
    place on.
    """
    state, start = returned.get("_state"), returned.get("_new_message_index")
    recorded = state.get("message_history") if isinstance(state, dict) else None
    if not isinstance(recorded, list):
        return
    facts["system"] = facts.get("system") or _instructions(recorded)
    own = (
        _messages(recorded[start:])
        if isinstance(start, int) and 0 <= start < len(recorded)
        else None
    )
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
    listed = item.get("parts")
    parts = [x for x in listed if isinstance(x, dict)] if isinstance(listed, list) else []
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
        failed = kind == _RETRY or part.get("outcome") in ("failed", "error")
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
    requests = [x for x in listed if isinstance(x, dict)] if isinstance(listed, list) else []
    return next(
        (found for x in reversed(requests) if (found := first_text(x, ("instructions",)))), None
    )


QUIRKS = (
    Quirk(
        name="pydantic_ai",
        under="mlflow",
        matches=logged_by_mlflow,
        place=place,
        agent_name=agent_name,
        complete=complete,
    ),
)
