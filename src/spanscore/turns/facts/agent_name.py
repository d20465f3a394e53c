"""The name of the agent whose turn it is."""

from collections.abc import Sequence
from functools import partial

from spanscore.model.step import Step
from spanscore.turns.basis import conversation
from spanscore.turns.facts.source import FirstOf, Source, Sourced, StepsOf
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


SOURCES: FirstOf[TurnSteps] = (
    Source("the outermost agent", partial(_named, lambda turn: turn.first_agent)),
    Source("another agent that has a name", partial(_named, _first_named)),
    Source("a workflow that names its agent", partial(_named, lambda turn: turn.workflows)),
    Source("a main model call that names its agent", partial(_named, lambda turn: turn.main)),
)
"""The sources of `agent_name`, in their order: the first that has a value counts."""
