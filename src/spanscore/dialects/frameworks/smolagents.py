"""smolagents' task and answering tool in OpenInference's spans."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

from spanscore.dialects import keys
from spanscore.dialects.dialect import Quirk
from spanscore.dialects.forms import messages
from spanscore.dialects.forms.decorated_calls import read_arguments
from spanscore.dialects.forms.structure import (
    Facts,
    as_list,
    indexed,
    literal,
    opened,
    structure,
    text,
)
from spanscore.model.json import Json, printed
from spanscore.model.span import Attributes, Span
from spanscore.model.step import Message, ToolResult
from spanscore.model.trace import RequestedCall, Tool

_SCOPE = "openinference.instrumentation.smolagents"
_FINAL_ANSWER = "final_answer"  # a tool that every agent has, whose argument is the answer
_NO_TOOLS = frozenset({_FINAL_ANSWER, "python_interpreter"})
# its own roles, and those of APIs
_REQUESTING, _ANSWERING = ("tool-call", "assistant"), ("tool-response", "user")
_CALLED, _OBSERVED = "Calling tools:\n", "Observation:"
_CALL, _PLAIN = frozenset({"args", "kwargs"}), "sanitize_inputs_outputs"
"""What is recorded of a tool's call, and whether plain values were made of its arguments beside."""

_MANAGED_ANSWER = re.compile(
    r"\AHere is the final answer from your managed agent '[^'\n]{1,200}':\n"
)


def complete(span: Span, facts: Facts) -> None:
    """Add to the facts of a span, in place."""
    if facts["kind"] == "agent":
        _complete_agent(span, facts)
    elif facts["kind"] == "model":
        _complete_model(facts)
    elif facts["kind"] == "tool":
        _complete_tool(span.attributes, facts)


def _complete_agent(span: Span, facts: Facts) -> None:
    facts["tools"] = _offered(span.attributes)
    called = structure(span.attributes.get(keys.INPUT_VALUE)).value
    if isinstance(called, dict) and "task" in called:
        facts["input_text"] = called["task"] if isinstance(called["task"], str) else None
    if facts["agent_name"] == span.name:
        facts["agent_name"] = span.name.removesuffix(".run")


def _complete_model(facts: Facts) -> None:
    if given := facts.get("input"):
        facts["input"] = tuple(_remembered(given))
    if produced := facts.get("output"):
        facts["output"] = tuple(map(_answered, produced))
    if offered := facts.get("tools"):
        facts["tools"] = tuple(x for x in offered if x.name != _FINAL_ANSWER)


def _complete_tool(attributes: Attributes, facts: Facts) -> None:
    given, name = facts.get("arguments"), facts["tool_name"]
    if isinstance(given, dict) and _CALL <= given.keys() <= _CALL | {_PLAIN}:
        read_arguments(given, facts)
        _name_positional(attributes, facts)
    if name == _FINAL_ANSWER:
        facts["kind"] = "other"
    elif name is not None:
        facts["tools"] = (_described(name, attributes),)


def _name_positional(attributes: Attributes, facts: Facts) -> None:
    """Name the arguments that were given by place, beside others by name: the tool's inputs are in
    their order.
    """
    inputs, named = structure(attributes.get(keys.TOOL_PARAMETERS)).value, facts.get("arguments")
    given = facts.get("positional") or ()
    if isinstance(inputs, dict) and isinstance(named, dict) and 0 < len(given) <= len(inputs):
        placed = dict(zip(inputs, given, strict=False))
        if placed.keys().isdisjoint(named):
            facts["arguments"], facts["positional"] = {**placed, **named}, ()


def _offered(attributes: Attributes) -> tuple[Tool, ...] | None:
    """The tools of an agent, of which only the names are listed, and the agents that it can call;
    None for none.
    """
    listed = attributes.get("smolagents.tools_names")
    managed = indexed(attributes, "smolagents.managed_agents.")
    names = [x for x in as_list(listed) if isinstance(x, str) and x not in _NO_TOOLS]
    agents = [x for x in managed if isinstance(x, dict) and isinstance(x.get("name"), str)]
    return (
        *map(Tool, names),
        *(Tool(x["name"], text(x.get("description"))) for x in agents),
    ) or None


def _described(name: str, attributes: Attributes) -> Tool:
    """A tool by its own span: an agent that writes code has the definitions of its tools in the
    prompt alone.
    """
    inputs = structure(attributes.get(keys.TOOL_PARAMETERS)).value
    schema: Json = {"type": "object", "properties": inputs} if isinstance(inputs, dict) else None
    return Tool(name, text(attributes.get(keys.TOOL_DESCRIPTION)), schema)


def _remembered(messages: Sequence[Message]) -> Iterator[Message]:
    """Messages with the calls and results that smolagents gives the model as text.

    Several results stand in one text, which cannot be split: it stays a tool's message.
    """
    calls: tuple[RequestedCall, ...] = ()
    for message in messages:
        text = message.text or ""
        if message.role in _REQUESTING and text.startswith(_CALLED):
            calls = _calls(literal(text.removeprefix(_CALLED)))
            yield replace(message, role="assistant", text=None if calls else text, calls=calls)
        elif message.role in _ANSWERING and text.startswith(_OBSERVED) and calls:
            result = _MANAGED_ANSWER.sub("", text.removeprefix(_OBSERVED).removeprefix("\n"))
            results = (ToolResult(calls[0].call_id, opened(result)),) if len(calls) == 1 else ()
            yield replace(message, role="tool", text=None if results else text, results=results)
        else:
            yield message


def _calls(listed: Any) -> tuple[RequestedCall, ...]:
    """The calls in what smolagents prints; code that an agent writes is none."""
    fields = {"role": "assistant", "tool_calls": listed if isinstance(listed, list) else None}
    message = messages.message(fields, "assistant")
    return () if message is None else tuple(x for x in message.calls if x.name not in _NO_TOOLS)


def _answered(message: Message) -> Message:
    """The message with its answer as text instead of a call."""
    answers = [x.arguments for x in message.calls if x.name == _FINAL_ANSWER]
    if not answers:
        return message
    answer: Any = answers[-1]
    if isinstance(answer, dict) and answer.keys() == {"answer"}:
        answer = answer["answer"]
    return replace(
        message,
        text=printed(answer),
        calls=tuple(x for x in message.calls if x.name != _FINAL_ANSWER),
    )


QUIRKS = (
    Quirk(
        name="smolagents",
        under="openinference",
        scopes=(_SCOPE,),
        complete=complete,
        returns_state=True,
    ),
)
