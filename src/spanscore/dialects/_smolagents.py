"""Open what is smolagents' own in OpenInference's spans: the task it is given, and the tool that gives its answer."""

from dataclasses import replace
from typing import Any

from spanscore.dialects._base import Facts
from spanscore.dialects._json import printed, structure
from spanscore.model.span import Span
from spanscore.model.step import Message

SCOPE = "openinference.instrumentation.smolagents"
_FINAL_ANSWER = "final_answer"  # a tool that every agent has, whose argument is the answer


def complete(span: Span, facts: Facts) -> None:
    """Add to the facts of a span, in place."""
    if facts["kind"] == "agent":
        called = structure(span.attributes.get("input.value")).value
        if isinstance(called, dict) and "task" in called:
            facts["input_text"] = called["task"] if isinstance(called["task"], str) else None
        if facts["agent_name"] == span.name:
            facts["agent_name"] = span.name.removesuffix(".run")
    elif facts["kind"] == "model":
        facts["output"] = tuple(map(_answered, facts["output"])) if facts.get("output") else facts.get("output")
        if facts.get("tools"):
            facts["tools"] = tuple(x for x in facts["tools"] if x.name != _FINAL_ANSWER)
    elif facts["kind"] == "tool" and facts["tool_name"] == _FINAL_ANSWER:
        facts["kind"] = "other"


def _answered(message: Message) -> Message:
    """The message with its answer as text instead of a call."""
    answers = [x.arguments for x in message.calls if x.name == _FINAL_ANSWER]
    if not answers:
        return message
    answer: Any = answers[-1]
    if isinstance(answer, dict) and answer.keys() == {"answer"}:
        answer = answer["answer"]
    return replace(message, text=printed(answer), calls=tuple(x for x in message.calls if x.name != _FINAL_ANSWER))
