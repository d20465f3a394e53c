"""smolagents' task, answering tool, and the texts that it makes of calls and results."""

import re
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Any

from spanscore.dialects import keys
from spanscore.dialects.dialect import Quirk
from spanscore.dialects.forms import messages
from spanscore.dialects.forms.decorated_calls import read_arguments
from spanscore.dialects.forms.structure import (
    Facts,
    add_damaged,
    as_list,
    change_messages,
    evaluated,
    indexed,
    literal,
    object_at,
    opened,
    structure,
    text,
)
from spanscore.model.json import Json, printed
from spanscore.model.span import Attributes, Span, changed
from spanscore.model.step import Message, ToolResult
from spanscore.model.trace import RequestedCall, Tool

_SCOPE = "openinference.instrumentation.smolagents"
_CONVENTIONS = "opentelemetry.instrumentation.genai.smolagents"
_FINAL_ANSWER = "final_answer"  # a tool that every agent has, whose argument is the answer
_INTERPRETER = "python_interpreter"  # of one that writes code
_NO_TOOLS = frozenset({_FINAL_ANSWER, _INTERPRETER})
# its own roles, and those of APIs; some SDKs are given the enum itself, and print it
_REQUESTING, _ANSWERING = ("tool-call", "assistant"), ("tool-response", "user")
_PRINTED_ROLE = "MessageRole."
_CALLED, _OBSERVED, _ASKED = "Calling tools:\n", "Observation:", "New task:\n"
_FAILED, _RETRY = "\nError:\n", "\nNow let's retry: "
_FAILED_CALL = re.compile(r"\AError executing tool '([^'\n]{1,200})' with arguments (?=\{)")
_ADVICE = "\nPlease try again or use another tool"
_ENDS, _MAX_ENDS = re.compile(r"\}: "), 20  # where the arguments of a failed call may end
_STEP = '{"memory_step": '
_CALL, _PLAIN = frozenset({"args", "kwargs"}), "sanitize_inputs_outputs"
"""What is recorded of a tool's call, and whether plain values were made of its arguments beside."""

_MANAGED_ANSWER = re.compile(
    r"\AHere is the final answer from your managed agent '[^'\n]{1,200}':\n"
)


def place(span: Span, facts: Facts, _outermost: bool) -> None:
    """Take a step of a run for bookkeeping: it was given the memory, and returned any result."""
    given = span.attributes.get(keys.INPUT_VALUE)
    if facts["kind"] == "workflow" and isinstance(given, str) and given.startswith(_STEP):
        facts["kind"] = "other"


def complete(span: Span, facts: Facts) -> None:
    """Add to the facts of a span, in place."""
    if facts["kind"] == "agent":
        _complete_agent(span, facts)
    elif facts["kind"] == "model":
        _complete_model(facts)
    elif facts["kind"] == "tool":
        _complete_tool(span.attributes, facts)


def complete_conventions(_span: Span, facts: Facts) -> None:
    """Add to the facts of a span in the semantic conventions, in place."""
    if facts["kind"] == "model":
        change_messages(facts, _with_plain_role)
        _complete_model(facts)
    elif facts["kind"] == "agent":
        _leave_answering_tool(facts)
    elif facts.get("tool_name") == _FINAL_ANSWER:
        facts["kind"] = "other"


def prints_roles(span: Span) -> bool:
    """Whether the messages of a span have smolagents' roles, whichever SDK was given them."""
    given = span.attributes.get(keys.GEN_AI_INPUT_MESSAGES)
    return isinstance(given, str) and f'"{_PRINTED_ROLE}' in given


def _with_plain_role(message: Message) -> Message:
    if not message.role.startswith(_PRINTED_ROLE):
        return message
    role = message.role.removeprefix(_PRINTED_ROLE)
    return changed(message, role=role.lower().replace("_", "-"))


def _complete_agent(span: Span, facts: Facts) -> None:
    facts["tools"] = _offered(span.attributes)
    called = object_at(span.attributes, keys.INPUT_VALUE)
    if "task" in called:
        facts["input_text"] = called["task"] if isinstance(called["task"], str) else None
    if called.get("reset") is False:  # then it counts the tokens of all runs so far
        facts["input_tokens"] = facts["output_tokens"] = None
        add_damaged(facts, "tokens")
    if facts["agent_name"] == span.name:
        facts["agent_name"] = span.name.removesuffix(".run")


def _complete_model(facts: Facts) -> None:
    if given := facts.get("input"):
        facts["input"] = tuple(_remembered(given))
    if produced := facts.get("output"):
        facts["output"] = tuple(map(_answered, produced))
        if facts["output"] != produced:  # its answer is no call, for which a model stops
            facts["finish_reasons"] = ("stop",)
    _leave_answering_tool(facts)


def _leave_answering_tool(facts: Facts) -> None:
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


def _remembered(given: Sequence[Message]) -> Iterator[Message]:
    """Messages with the calls and results that smolagents gives the model as text.

    Some APIs are given one message where it has several of a role in a row.
    """
    calls: tuple[RequestedCall, ...] = ()
    for message in given:
        if message.role in _ANSWERING:
            yield from _parts(message, calls)
        elif message.role in _REQUESTING:
            text, called, listed = f"\n{message.text or ''}".rpartition(f"\n{_CALLED}")
            calls = _calls(literal(listed)) if called else ()
            yield _requesting(message, text.removeprefix("\n"), calls) if calls else message
        else:
            yield message


def _requesting(message: Message, text: str, calls: tuple[RequestedCall, ...]) -> Message:
    return _answered(changed(message, role="assistant", text=text or None, calls=calls))


def _calls(listed: Any) -> tuple[RequestedCall, ...]:
    """The calls in what smolagents prints; code that an agent writes is none."""
    fields = {"role": "assistant", "tool_calls": listed if isinstance(listed, list) else None}
    message = messages.message(fields, "assistant")
    return () if message is None else tuple(x for x in message.calls if x.name != _INTERPRETER)


def _parts(message: Message, calls: Sequence[RequestedCall]) -> Iterator[Message]:
    """The results of calls, the error and the tasks in a message."""
    if message.role != "user":
        yield from _results(message, calls)
        return
    before, *tasks = f"\n{message.text or ''}".split(f"\n{_ASKED}")
    if before:
        yield from _results(changed(message, text=before.removeprefix("\n")), calls)
    for task in tasks:
        yield from _results(changed(message, text=task), calls)


def _results(message: Message, calls: Sequence[RequestedCall]) -> Iterator[Message]:
    """What a step observed, without that of the answer, or other text; then the error in which it
    ended.
    """
    text, error = _without_error(message.text or "")
    if not text.startswith(_OBSERVED):
        if text or error is None:
            yield changed(message, text=text)
    elif any(x.name != _FINAL_ANSWER for x in calls) or not calls:
        results = _observed(text.removeprefix(_OBSERVED).removeprefix("\n"), calls)
        yield changed(message, role="tool", text=None if results else text, results=results)
    if error is not None:
        yield from _failing(changed(message, role="tool", text=error))


def _without_error(text: str) -> tuple[str, str | None]:
    stated, retried, _ = f"\n{text}".rpartition(_RETRY)
    before, failed, error = stated.rpartition(_FAILED)
    return (before.removeprefix("\n"), error) if retried and failed else (text, None)


def _observed(text: str, calls: Sequence[RequestedCall]) -> tuple[ToolResult, ...]:
    """The results of calls in a text.

    Those of several are one a line, which is certain only where each is a value that was printed.
    """
    if len(calls) == 1:
        return (ToolResult(calls[0].call_id, evaluated(opened(_MANAGED_ANSWER.sub("", text)))),)
    values = [evaluated(opened(x)) for x in text.split("\n")]
    if len(values) != len(calls) or any(isinstance(x, str) for x in values):
        return ()
    return tuple(ToolResult(x.call_id, value) for x, value in zip(calls, values, strict=True))


def _failing(message: Message) -> Iterator[Message]:
    """The call that failed, which smolagents does not list, and its error; any other error as it
    is.
    """
    call, error = _failed_call((message.text or "").removesuffix(_ADVICE))
    if call is None:
        yield message
    else:
        yield Message("assistant", calls=(call,))
        failed = ToolResult(None, error, error, name=call.name)
        yield changed(message, text=None, results=(failed,))


def _failed_call(error: str) -> tuple[RequestedCall | None, str]:
    found = _FAILED_CALL.match(error)
    if found is not None:
        for end in islice(_ENDS.finditer(error, found.end()), _MAX_ENDS):
            arguments = literal(error[found.end() : end.start() + 1])
            if isinstance(arguments, dict):
                return RequestedCall(None, found[1], arguments), error[end.end() :]
    return None, error


def _answered(message: Message) -> Message:
    """The message with its answer as text instead of a call."""
    answers = [x.arguments for x in message.calls if x.name == _FINAL_ANSWER]
    if not answers:
        return message
    answer: Any = answers[-1]
    if isinstance(answer, dict) and answer.keys() == {"answer"}:
        answer = answer["answer"]
    return changed(
        message,
        text=printed(answer),
        calls=tuple(x for x in message.calls if x.name != _FINAL_ANSWER),
    )


QUIRKS = (
    Quirk(
        name="smolagents",
        under="openinference",
        scopes=(_SCOPE,),
        place=place,
        complete=complete,
        returns_state=True,
    ),
    Quirk(
        name="smolagents",
        under="semconv",
        scopes=(_CONVENTIONS,),
        matches=prints_roles,
        complete=complete_conventions,
    ),
)
