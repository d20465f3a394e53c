"""The agent's name, instructions and tools."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, Literal, TypeAlias

from spanscore.model.span import Attributes, Span
from spanscore.model.step import Step
from spanscore.model.trace import TOKEN_DETAILS, Tool, Trial, Usage
from spanscore.turns.basis import conversation
from spanscore.turns.dedup import reports
from spanscore.turns.facts.source import (
    AllOf,
    FirstOf,
    Source,
    Sourced,
    StepsOf,
    TurnSteps,
    is_damaged,
    lost_messages,
    topmost,
)


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


_Id: TypeAlias = Literal["session_id", "user_id", "other_session_id", "other_user_id"]


def _nearest(field: _Id, turn: TurnSteps) -> Sourced | None:
    """The id in the step nearest the root that records one."""
    recording = [step for step in turn.steps if getattr(step, field)]
    if not recording:
        return None
    step = min(recording, key=turn.depth)
    return Sourced(step, field, getattr(step, field))


def _of_resource(key: str, turn: TurnSteps) -> Sourced | None:
    """An id among the attributes of the resource; a number is one, and becomes text."""
    step = turn.steps[0]
    value = step.span.resource.attributes.get(key)
    if type(value) is int:
        value = str(value)
    return Sourced(step, "resource", value) if isinstance(value, str) else None


SESSION_SOURCES: FirstOf[TurnSteps] = (
    Source("the span nearest the root that names a session", partial(_nearest, "session_id")),
    Source("the resource's `session.id`", partial(_of_resource, "session.id")),
    Source(
        "`thread_id`, `session_id` or `conversation_id`, which a hand-written span nearest the root"
        " has",
        partial(_nearest, "other_session_id"),
    ),
)
"""The sources of `session_id`, in their order: the first that has a value counts."""

USER_SOURCES: FirstOf[TurnSteps] = (
    Source(
        "the span nearest the root that names a user, by an attribute or a log record",
        partial(_nearest, "user_id"),
    ),
    Source("the resource's `user.id`", partial(_of_resource, "user.id")),
    Source(
        "`user_id`, which a hand-written span nearest the root has",
        partial(_nearest, "other_user_id"),
    ),
)
"""The sources of `user_id`, in their order: the first that has a value counts."""


_SUITE, _RUN, _CASE, _STATUS = (
    "test.suite.name",
    "test.suite.run.id",
    "test.case.id",
    "test.case.result.status",
)
_KEYS = {"suite": _SUITE, "run": _RUN, "case": _CASE, "status": _STATUS}
_NAMED = frozenset(_KEYS.values())
_MAX_CHARS = 256
_MAX_ABOVE = 64


def trial(turn: TurnSteps, target: Span) -> Trial | None:
    """The test; None for a turn that was recorded for none.

    `target` is the span that the turn's scores are put on.

    Each of its facts comes from the span nearest the root that records it, else from the resource:
    a test that wraps the agent's call in a span of its own comes before what the agent passes on.
    """
    found: dict[str, Any] = {}
    for attributes in _attributes(turn, target):
        if not attributes.keys().isdisjoint(_NAMED):
            found |= _recorded(attributes)
    if not found:
        return None
    status = found.get("status")
    return Trial(
        **{
            **found,
            "status": status.lower() if status and status.lower() in {"pass", "fail"} else None,
        }
    )


def _attributes(turn: TurnSteps, target: Span) -> Iterator[Attributes]:
    """The attributes that may name the test, those of the span nearest the root last."""
    yield target.resource.attributes
    for step in reversed(turn.steps):
        if _CASE in step.span.attributes:
            yield step.span.attributes
    span: Span | None = target
    for _ in range(_MAX_ABOVE):
        if span is None:
            return
        yield span.attributes
        span = turn.tree.parent(span)


def _recorded(attributes: Attributes) -> Mapping[str, str]:
    given = {name: attributes[key] for name, key in _KEYS.items() if key in attributes}
    return {
        name: str(value)[:_MAX_CHARS]
        for name, value in given.items()
        if isinstance(value, str | int) and value
    }


def _counting(turn: TurnSteps) -> Sequence[Step]:
    return topmost(
        turn, lambda step: step.input_tokens is not None or step.output_tokens is not None
    )


USAGE_SOURCES: AllOf = (
    Source(
        "the model calls, each once; of those without a count, the span that sums them up",
        lambda turn: reports.counted(turn.models, turn.tree),
    ),
    Source("the outermost agents' own count", lambda turn: turn.outermost),
    Source("that of the agents inside them, without those inside one that counts", _counting),
)
"""The steps that count tokens: the counts of the first source that has any are added up, those of
the input and those of the output.
"""


def usage(turn: TurnSteps) -> Usage:
    """The sums over the steps of the first source that counts anything."""
    for source in USAGE_SOURCES:
        steps = source.find(turn)
        given, produced = _total(steps, "input_tokens"), _total(steps, "output_tokens")
        if given is not None or produced is not None:
            return Usage(given, produced, *(_total(steps, name) for name in TOKEN_DETAILS))
    return Usage()


def _total(steps: Sequence[Step], name: str) -> int | None:
    counts = [count for x in steps if (count := getattr(x, name)) is not None]
    return sum(counts) if counts else None


def token_counts(steps: Sequence[Step]) -> list[Sourced]:
    """The counts that `steps` record."""
    fields = ("input_tokens", "output_tokens")
    return [
        Sourced(step, field, getattr(step, field))
        for step in steps
        for field in fields
        if getattr(step, field) is not None
    ]
