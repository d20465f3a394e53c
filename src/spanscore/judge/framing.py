"""What stands around a turn's steps in a transcript: who, when, with which tools and instructions,
and how it ended.
"""

from collections.abc import Collection, Iterator, Sequence

from spanscore.judge.clock import lasted, moment
from spanscore.judge.lines import UNRECORDED, indented, section, text_of
from spanscore.judge.passage import Passage
from spanscore.judge.scripts import scripts
from spanscore.model.json import Json, dumps
from spanscore.model.trace import AgentTrace, Tool, ToolCall

_MAX_SCHEMA_CHARACTERS = 300
_QUESTION_MARKS = (
    "?",
    "？",  # noqa: RUF001 - full width, Arabic, Armenian, Greek
    "؟",
    "՞",
    "\u037e",
)
_COMPLETENESS = {
    "idle": "no span closed this turn; its end may be missing",
    "truncated": "this turn was cut at a limit of size or age; its end may be missing",
}


def frame(trace: AgentTrace, before: AgentTrace | None) -> Iterator[Passage]:
    """What holds for the whole turn.

    `before` is the turn before: what is the same is not repeated.
    """
    if trace.agent_name and (before is None or before.agent_name != trace.agent_name):
        yield Passage(f"Agent: {indented(trace.agent_name)}")
    started = moment(trace.started_ns)
    if started is not None:
        took = lasted(max(trace.ended_ns - trace.started_ns, 0))
        yield Passage(f"Turn started: {started}; it took {took}")
    elif before is None:
        yield Passage(f"Turn started: {UNRECORDED}")
    if trace.completeness != "complete":
        yield Passage(f"Record: {_COMPLETENESS[trace.completeness]}.")
    if trace.damaged:
        yield Passage(f"Arrived cut or masked: {', '.join(trace.damaged)}")
    if before is None or before.available_tools != trace.available_tools:
        called = {call.name for call in trace.tool_calls or ()}
        yield from _offer(trace.available_tools, called)
    instructions = trace.system_instructions
    if before is None or before.system_instructions != instructions:
        yield Passage(
            section("System instructions of the agent", instructions), kind="instructions"
        )


def ending(trace: AgentTrace) -> str:
    """How the turn ended, as far as its record shows."""
    output = trace.final_output
    if output:
        question = (
            ", which ends with a question" if output.rstrip().endswith(_QUESTION_MARKS) else ""
        )
        return f"How the turn ended: with the agent's final output{question}."
    if output is not None:
        return "How the turn ended: the agent's final output is empty; the user got no answer."
    if "final_output" in trace.damaged:
        return "How the turn ended: unknown; the final output arrived cut or masked."
    return f"How the turn ended: {_last_step(trace)}; no final output of the agent is recorded."


def written_in(trace: AgentTrace, before: AgentTrace | None) -> str | None:
    """In which scripts the user and the agent wrote; None where nothing is to be said that was not
    said of `before`.
    """
    now = _written(trace)
    return now if now and (before is None or _written(before) != now) else None


def conversation_ending(last: AgentTrace) -> str:
    """Who had the last word in a session, as far as its record shows."""
    if last.final_output:
        return (
            "How the conversation ended: the agent had the last word; no later message of the user"
            " is recorded."
        )
    return "How the conversation ended: no answer to the user's last message is recorded."


def _written(trace: AgentTrace) -> str | None:
    parts = (("the user's input", trace.user_input), ("the final output", trace.final_output))
    found = [
        f"{what} in {' and '.join(names)}"
        for what, text in parts
        if text and (names := scripts(text))
    ]
    return f"Scripts: {', '.join(found)}" if found else None


def _last_step(trace: AgentTrace) -> str:
    """What the record shows last, where there is no final output."""
    requested = trace.model_calls[-1].tool_calls if trace.model_calls else ()
    calls = trace.tool_calls or ()
    made = {name for call in calls for name in (call.call_id, call.name) if name}
    unmet = [x.name for x in requested if x.call_id not in made and x.name not in made]
    if unmet:
        return f"the model asked for the tool {indented(unmet[-1])}, and no such call is recorded"
    return _last_call(calls[-1]) if calls else "it is not recorded"


def _last_call(call: ToolCall) -> str:
    name = indented(call.name)
    if call.error is not None:
        return f"the last recorded step is the call of {name}, which failed"
    if call.returned:
        return f"the last recorded step is the call of {name}, which returned"
    return f"the last recorded step is the call of {name}, whose result is not recorded"


def _offer(tools: Sequence[Tool] | None, called: Collection[str]) -> Iterator[Passage]:
    if not tools:
        yield Passage(f"Tools on offer: {UNRECORDED if tools is None else '(none)'}")
        return
    yield Passage("Tools on offer:")
    for number, tool in enumerate(tools):
        yield Passage(_tool(tool), "tool", number, decisive=tool.name in called)


def _tool(tool: Tool) -> str:
    lines = [
        f"- {indented(tool.name)}"
        + (f": {indented(tool.description, 4)}" if tool.description else "")
    ]
    schema = tool.parameters if isinstance(tool.parameters, dict) else {}
    properties, required = schema.get("properties"), schema.get("required")
    needed = required if isinstance(required, list) else []
    if isinstance(properties, dict):
        lines += [_parameter(name, about, name in needed) for name, about in properties.items()]
    elif tool.parameters:
        lines.append(f"    parameters: {indented(text_of(tool.parameters), 6)}")
    return "\n".join(lines)


def _parameter(name: str, about: Json, needed: bool) -> str:
    """One parameter of a tool, e.g. `cabin (string, one of ["economy","business"], required): the
    class to book`.
    """
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
    return "    " + indented(name + (f" ({', '.join(facts)})" if facts else "") + described, 6)
