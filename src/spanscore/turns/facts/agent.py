"""The agent's name, instructions and tools."""

from collections.abc import Iterable, Iterator, Sequence
from functools import partial

from spanscore.model.step import Step
from spanscore.model.trace import Tool
from spanscore.turns.basis import conversation
from spanscore.turns.facts.source import (
    AllOf,
    FirstOf,
    Source,
    Sourced,
    StepsOf,
    is_damaged,
    lost_messages,
)
from spanscore.turns.facts.turn_steps import TurnSteps


def _named(steps: StepsOf, turn: TurnSteps) -> Sourced | None:
    """The name of the agent in the first step that records one."""
    for step in steps(turn):
        if step.agent_name:
            return Sourced(step, "agent_name", step.agent_name)
    return None


def _first_named(turn: TurnSteps) -> Sequence[Step]:
    """The agents that may record the name of the first: those inside of it, unless it calls a model
    itself.

    Else those inside or beside are others, that it called or handed over to. But one whose model
    received the same instructions is the first agent once more.
    """
    if not turn.first_agent:
        return turn.other_agents
    first = turn.first_agent[0]
    instructions = _instructions_by_agent(turn)
    own = instructions.get(id(first))
    calls_no_model = id(first) not in instructions
    naming: list[Step] = []
    for agent in turn.other_agents:
        is_inside = turn.tree.place(agent).agents > 0
        is_first_again = bool(own) and instructions.get(id(agent)) == own
        if (calls_no_model and is_inside) or is_first_again:
            naming.append(agent)
    return naming


def _instructions_by_agent(turn: TurnSteps) -> dict[int, str | None]:
    """The system messages that the first model call of each agent was given, by the `id()` of the
    agent's step.
    """
    found: dict[int, str | None] = {}
    for model in turn.models:
        found.setdefault(
            id(turn.tree.place(model).agent), conversation.system_text(model.input or ())
        )
    return found


NAME_SOURCES: FirstOf[TurnSteps] = (
    Source("the outermost agent", partial(_named, lambda turn: turn.first_agent)),
    Source("another agent that has a name", partial(_named, _first_named)),
    Source("a workflow that names its agent", partial(_named, lambda turn: turn.workflows)),
    Source("a main model call that names its agent", partial(_named, lambda turn: turn.main)),
)
"""The sources of `agent_name`, in their order: the first that has a value counts."""


OFFERED: AllOf = (
    Source("the definitions of the outermost agent", lambda turn: turn.first_agent),
    Source("those of the main model calls", lambda turn: turn.main),
    Source("those of other agents", lambda turn: turn.agents),
    Source("those of other model calls", lambda turn: turn.models),
)
"""Where tools on offer are listed: all of them count, each tool as it is listed first."""

DESCRIBED: AllOf = (
    Source(
        "the tool's own span, where no list contains more than its name", lambda turn: turn.tools
    ),
)


def available_tools(turn: TurnSteps) -> tuple[tuple[Tool, ...] | None, bool]:
    """All tools that were offered in the turn, by name, each with its first description; None where
    no list of tools is recorded.

    A tool without a description in any list has that of its own spans. The second value is whether
    all lists of one of the agents were cut.
    """
    steps = [step for source in OFFERED for step in source.find(turn)]
    lists = [step for step in steps if step.tools is not None or "tools" in step.damaged]
    is_any_cut = any("tools" in step.damaged for step in lists)
    is_damaged = is_any_cut and _lacks_whole_list(lists, turn)
    distinct = {id(step.tools): step.tools for step in lists if step.tools is not None}
    if not distinct:
        return None, is_damaged
    found = _most_described(distinct.values())
    if any(map(_is_bare, found.values())):
        is_described_by_cut = _describe(found, turn)
        is_still_bare = any(map(_is_bare, found.values()))
        is_damaged = is_damaged or is_described_by_cut or (is_any_cut and is_still_bare)
    return tuple(found.values()), is_damaged


def _lacks_whole_list(lists: Sequence[Step], turn: TurnSteps) -> bool:
    """Whether all lists of the tools of one of the agents were cut."""
    cut = {_owner(step, turn) for step in lists if "tools" in step.damaged}
    whole = {_owner(step, turn) for step in lists if step.tools and "tools" not in step.damaged}
    return not cut <= whole


def _most_described(lists: Iterable[Sequence[Tool]]) -> dict[str, Tool]:
    """The tools of several lists by name, each with its first description."""
    found: dict[str, Tool] = {}
    for tools in lists:
        for tool in tools:
            if tool.name not in found or _describes_more(tool, found[tool.name]):
                found[tool.name] = tool
    return found


def _describe(found: dict[str, Tool], turn: TurnSteps) -> bool:
    """Add descriptions from the tools' own spans where a list contains only the name; returns
    whether any of these descriptions was cut.
    """
    damaged = False
    steps = [step for source in DESCRIBED for step in source.find(turn) if step.tools]
    for step in sorted(steps, key=lambda x: "tools" in x.damaged):
        for tool in step.tools or ():
            if tool.name in found and _is_bare(found[tool.name]):
                found[tool.name] = tool
                damaged = damaged or "tools" in step.damaged
    return damaged


def _owner(step: Step, turn: TurnSteps) -> str:
    """The agent whose tools a step lists, by the id of its span; "" for none."""
    agent = step if step.kind == "agent" else turn.tree.place(step).agent
    return "" if agent is None else agent.span.span_id


def _describes_more(tool: Tool, known: Tool) -> bool:
    return _is_bare(known) or (known.parameters is None and tool.parameters is not None)


def _is_bare(tool: Tool) -> bool:
    return tool.description is None and tool.parameters is None


def listed(steps: Sequence[Step]) -> Iterator[Sourced]:
    """The lists of tools that `steps` record, or recorded before they were cut."""
    for step in steps:
        damaged = is_damaged(step, "tools")
        if step.tools is not None or damaged:
            yield Sourced(step, "tools", step.tools, damaged)


def _instructions(steps: StepsOf, turn: TurnSteps) -> Sourced | None:
    """The first that are recorded; damaged where an earlier step lost some, which may have been
    others.
    """
    lost: Sourced | None = None
    for step in steps(turn):
        found = _own_instructions(step)
        if found is not None:
            is_cut = found.damaged or lost is not None
            return Sourced(step, found.field, found.value, is_cut)
        if lost is None and ("system" in step.damaged or lost_messages(step)):
            lost = Sourced(step, "system", None, damaged=True)
    return lost


def _own_instructions(step: Step) -> Sourced | None:
    """The instructions that one step records by themselves, else the system messages of its
    input.
    """
    if step.system:
        return Sourced(step, "system", step.system, is_damaged(step, "system"))
    text = conversation.system_text(step.input or ())
    if text is None:
        return None
    messages = [message for message in step.input or () if message.role == "system"]
    return Sourced(step, "input", text, is_damaged(step, "system", messages))


INSTRUCTION_SOURCES: FirstOf[TurnSteps] = (
    Source(
        "the outermost agent's instructions, else the system messages in its input",
        partial(_instructions, lambda turn: turn.first_agent),
    ),
    Source(
        "those of the first main model call that has any",
        partial(_instructions, lambda turn: turn.main),
    ),
    Source("those of another agent", partial(_instructions, lambda turn: turn.other_agents)),
)
"""The sources of `system_instructions`, in their order: the first that has a value counts."""
