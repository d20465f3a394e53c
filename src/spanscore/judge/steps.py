"""What a judge reads of an agent trace, in reading order: each fact once, each step numbered, no JSON dump."""

from collections import defaultdict
from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace
from itertools import accumulate

from spanscore.judge.fitting import Passage
from spanscore.model.json import Json, dumps
from spanscore.model.requests import requested_in
from spanscore.model.trace import AgentTrace, ModelCall, PastMessage, RequestedCall, Retrieval, Session, Tool, ToolCall

_UNTOLD = "(not recorded)"
_MAX_SCHEMA_CHARACTERS = 300
MAX_TURNS = 200
"""No more turns of a session are shown: the first and the last ones."""


class Numbers:
    """The one numbering of a transcript: steps from 1, over all its turns; and the place of each tool call.

    A call that is not shown has the number 0.
    """

    def __init__(self) -> None:
        self.of_calls: list[int] = []
        self._last = 0

    def step(self) -> int:
        """The number of the next step."""
        self._last += 1
        return self._last

    def call(self) -> tuple[int, int]:
        """The number and the place of the next step, a tool call."""
        self.of_calls.append(self.step())
        return self.of_calls[-1], len(self.of_calls) - 1

    def skip(self, trace: AgentTrace) -> None:
        """Leave out a turn: its calls have places all the same."""
        self.of_calls += [0] * len(trace.tool_calls or ())


def turns_passages(session: Session, numbers: Numbers) -> Iterator[Passage]:
    """The passages of all turns of `session`, each turn under its index from 0.

    What a turn has in common with the turn before is not said again, nor is the history that the turns before are.
    """
    count = len(session.traces)
    yield Passage(
        f"A session of {count} turn(s), numbered from 0. What a turn does not repeat is as in the turn before."
    )
    before: AgentTrace | None = None
    for index, trace in enumerate(session.traces):
        if MAX_TURNS // 2 <= index < count - MAX_TURNS // 2:
            if index == MAX_TURNS // 2:
                yield Passage(f"[... turns {index} to {count - MAX_TURNS // 2 - 1} left out ...]")
            numbers.skip(trace)
            continue
        yield Passage(f"Turn {index}:", turn=index)
        yield from (replace(passage, turn=index) for passage in passages(trace, before, numbers=numbers))
        before = trace


def passages(
    trace: AgentTrace, before: AgentTrace | None = None, *, numbers: Numbers, earlier: Sequence[AgentTrace] = ()
) -> Iterator[Passage]:
    """The passages of `trace`: its frame, the history, the input, what was retrieved, the steps, the final output.

    `before` is the turn before in the same transcript: what was said of it is not said again. `earlier` are the
    session's turns before this one, which are shown in short, marked as such.
    """
    yield from _frame(trace, before)
    yield from _earlier(earlier)
    if trace.history and before is None:
        yield Passage("Conversation before this turn:")
        for number, message in enumerate(trace.history):
            yield Passage(_past(message), "history", number)
    yield Passage(_section("User input", trace.user_input))
    if trace.plan is not None:
        yield Passage(_section("Plan that the agent stated", trace.plan))
    if trace.retrieved:
        yield Passage("Documents that were retrieved:")
        yield from (passage for retrieval in trace.retrieved for passage in _retrieval(retrieval))
    yield Passage("Steps:")
    if trace.tool_calls is None:
        yield Passage("(tool calls were not recorded)")
    yield from _steps(trace, numbers)
    yield Passage(_section("Final output", trace.final_output))


def text_of(value: Json) -> str:
    """A JSON value for reading: a string as it is, anything else as compact JSON."""
    return value if isinstance(value, str) else dumps(value)


def _frame(trace: AgentTrace, before: AgentTrace | None) -> Iterator[Passage]:
    if trace.agent_name and (before is None or before.agent_name != trace.agent_name):
        yield Passage(f"Agent: {_indented(trace.agent_name)}")
    if trace.completeness != "complete":
        yield Passage("The record may lack its end.")
    if trace.damaged:
        yield Passage(f"Arrived cut or masked: {', '.join(trace.damaged)}")
    if before is None or before.available_tools != trace.available_tools:
        yield from _offer(trace.available_tools)
    instructions = trace.system_instructions
    if instructions is not None and (before is None or before.system_instructions != instructions):
        yield Passage(_section("System instructions of the agent", instructions))


def _offer(tools: Sequence[Tool] | None) -> Iterator[Passage]:
    if not tools:
        yield Passage(f"Tools on offer: {_UNTOLD if tools is None else '(none)'}")
        return
    yield Passage("Tools on offer:")
    for tool in tools:
        yield Passage(_tool(tool), long=True)


def _section(title: str, text: str | None) -> str:
    if text is None:
        return f"{title}: {_UNTOLD}"
    return f"{title}:\n  {_indented(text)}" if text else f"{title}: (empty)"


def _indented(text: str, depth: int = 2) -> str:
    """No line of a trace's text begins where the transcript's own lines begin, so none can pass for one."""
    return ("\n" + " " * depth).join(text.splitlines())


def _tool(tool: Tool) -> str:
    lines = [f"- {_indented(tool.name)}" + (f": {_indented(tool.description, 4)}" if tool.description else "")]
    schema = tool.parameters if isinstance(tool.parameters, dict) else {}
    properties, required = schema.get("properties"), schema.get("required")
    needed = required if isinstance(required, list) else []
    if isinstance(properties, dict):
        lines += [_parameter(name, about, name in needed) for name, about in properties.items()]
    elif tool.parameters:
        lines.append(f"    parameters: {_indented(text_of(tool.parameters), 6)}")
    return "\n".join(lines)


def _parameter(name: str, about: Json, needed: bool) -> str:
    """One parameter of a tool, e.g. `cabin (string, one of ["economy","business"], required): the class to book`."""
    schema = about if isinstance(about, dict) else {}
    rest = {k: v for k, v in schema.items() if k not in ("type", "description", "title", "enum")}
    facts = [text_of(schema["type"])] if "type" in schema else []
    if "enum" in schema:
        facts.append(f"one of {dumps(schema['enum'])}")
    if rest:
        facts.append(dumps(rest)[:_MAX_SCHEMA_CHARACTERS])
    if needed:
        facts.append("required")
    described = f": {text_of(schema['description'])}" if schema.get("description") else ""
    return "    " + _indented(name + (f" ({', '.join(facts)})" if facts else "") + described, 6)


def _past(message: PastMessage) -> str:
    calls = " ".join(f"[called {_requested(call)}]" for call in message.tool_calls)
    return f"- {_indented(message.role)}: {_indented(' '.join(x for x in (message.text, calls) if x))}"


def _requested(call: RequestedCall) -> str:
    return f"{call.name} with {_UNTOLD if call.arguments is None else dumps(call.arguments)}"


def _retrieval(retrieval: Retrieval) -> Iterator[Passage]:
    yield Passage(f"- for the query: {_UNTOLD if retrieval.query is None else _indented(retrieval.query)}")
    for document in retrieval.documents:
        yield Passage(f"    document: {_indented(text_of(document), 6)}", long=True)


def _earlier(turns: Sequence[AgentTrace]) -> Iterator[Passage]:
    """The session's turns before this one: what the user said, which tools were called, what the agent answered."""
    number = -sum(len(turn.tool_calls or ()) + 3 for turn in turns)
    for index, turn in enumerate(turns, 1):
        lines = [f"Earlier turn {index} of {len(turns)} of this session, not to be judged, only for reference:"]
        lines.append(f"- user: {_UNTOLD if turn.user_input is None else _indented(turn.user_input)}")
        for call in turn.tool_calls or ():
            given = _UNTOLD if call.arguments is None else _indented(text_of(call.arguments))
            result = _indented(call.error or text_of(call.result)) if call.returned or call.error else _UNTOLD
            lines.append(f"- the tool {_indented(call.name)} was called with {given}; it returned {result}")
        lines.append(f"- agent: {_UNTOLD if turn.final_output is None else _indented(turn.final_output)}")
        for line in lines:
            yield Passage(line, "history", number)
            number += 1


def _steps(trace: AgentTrace, numbers: Numbers) -> Iterator[Passage]:
    """Each model call that said something, followed by the tool calls that it asked for."""
    calls = trace.tool_calls or ()
    following: defaultdict[int, list[ToolCall]] = defaultdict(list)
    for call, place in zip(calls, _asked_by(trace.model_calls, calls), strict=True):
        following[place].append(call)
    made = {name for call in calls for name in (call.call_id, call.name) if name}
    any_step = False
    for place in range(-1, len(trace.model_calls)):
        if place >= 0:
            lines = _said(trace, trace.model_calls[place], made)
            if lines:
                any_step = True
                yield from _answered(trace.model_calls[place], lines, numbers.step())
        for call in following[place]:
            any_step = True
            yield from _called(call, *numbers.call())
    if not any_step:
        yield Passage("(none)")


def _asked_by(models: Sequence[ModelCall], calls: Sequence[ToolCall]) -> list[int]:
    """For each tool call, the place of the model call that it follows; -1: it comes before all of them.

    A call belongs to the model call that requested it, by id, else by name and arguments; one that nobody requested
    follows the tool call before it. Places never go down, since the tool calls are in order.
    """
    asked = (-1 if place is None else place for place in requested_in(models, calls))
    return list(accumulate(asked, max))


def _said(trace: AgentTrace, model: ModelCall, made: Collection[str]) -> list[str]:
    """What a model call adds to the record: its text, unless it stands elsewhere, unmet requests, and reasoning.

    `made` are the ids and names of the tool calls that were made. Empty where it adds nothing.
    """
    lines: list[str] = []
    if model.text and model.text != trace.final_output:
        lines.append("   the plan above" if model.text == trace.plan else f"   text: {_indented(model.text, 6)}")
    lines += [
        f"   asked for {_indented(_requested(x), 6)}; no such call is recorded"
        for x in model.tool_calls
        if x.call_id not in made and x.name not in made
    ]
    if model.reasoning:
        lines.append(f"   reasoning: {_indented(model.reasoning, 6)}")
    return lines


def _answered(model: ModelCall, lines: list[str], number: int) -> Iterator[Passage]:
    yield Passage(
        f"{number}. the model answered" + (f" ({_indented(model.model)})" if model.model else ""), "step", number
    )
    for line in lines:
        yield Passage(line, "step", number, long=line.startswith("   reasoning"))


def _called(call: ToolCall, number: int, place: int) -> Iterator[Passage]:
    by = f" (by agent {_indented(call.agent)})" if call.agent else ""
    yield Passage(f"{number}. the tool {_indented(call.name)} was called{by}", "step", number)
    given = _UNTOLD if call.arguments is None else _indented(text_of(call.arguments), 6)
    yield Passage(f"   arguments: {given}", "step", number, long=True, call=place)
    if call.error is not None:
        how = " (recognised in the result)" if call.error_inferred else ""
        yield Passage(f"   error{how}: {_indented(call.error, 6)}", "step", number, long=True)
    if call.result is not None or call.error is None:
        result = _indented(text_of(call.result), 6) if call.returned else _UNTOLD
        yield Passage(f"   result: {result}", "step", number, long=True)
