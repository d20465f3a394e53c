"""Where a turn's plan is found: in what its main agent said before it acted, or set down by a tool for plans."""

from collections.abc import Sequence

from spanscore.model.plan import announced_steps, set_down_steps
from spanscore.model.step import Message, Step
from spanscore.turns.basis import conversation
from spanscore.turns.basis.tool_boundary import asks_for_tools
from spanscore.turns.facts.source import Sourced, is_damaged
from spanscore.turns.facts.turn_steps import TurnSteps


def said(turn: TurnSteps) -> Sourced | None:
    """What the main agent's models said last before the first tool calls, or beside them, that announces steps.

    Some leave the calls out beside a text, and only say that they were the reason to stop; last of all, they answered.
    """
    planned: Sourced | None = None
    for model in turn.main:
        texts = [x for x in model.output or () if x.text and x.text.strip()]
        announced = _announced(model, texts)
        if announced is None and is_damaged(model, "output", texts or model.output or ()):
            announced = Sourced(model, "output", None, damaged=True)  # it may have announced some
        planned = announced or planned
        if any(x.calls for x in model.output or ()):
            return planned
        if model is not turn.main[-1] and asks_for_tools(model):
            return planned
    return None


def _announced(step: Step, said: Sequence[Message]) -> Sourced | None:
    """The text of messages where it announces steps."""
    text = "\n".join(x.text or "" for x in said)
    return Sourced(step, "output", text, is_damaged(step, "output", said)) if announced_steps(text) else None


def retold(turn: TurnSteps) -> Sourced | None:
    """The same of the messages that an agent or workflow returned, where its model calls show no tool calls."""
    if any(x.calls for model in turn.main for x in model.output or ()):
        return None
    first = next((x.agent_name for x in turn.first_agent), None)
    again = (x for x in turn.other_agents if first is not None and x.agent_name == first)  # told in another span
    for step in (*turn.first_agent, *again, *turn.workflows):
        spoken = (step.output or ())[conversation.last_said(step.output or ()) + 1 :]
        asking = next((at for at, x in enumerate(spoken) if x.calls), None)
        texts = [x for x in spoken[: (asking or 0) + 1] if x.role == "assistant" and x.text and x.text.strip()]
        found = (_announced(step, [x]) for x in reversed(texts))
        planned = next((x for x in found if x is not None), None) if asking is not None else None
        if planned is not None:
            return planned
    return None


def set_down(turn: TurnSteps) -> Sourced | None:
    """The steps that the main agent's first call of a tool for plans or to-do lists sets down, one on a line."""
    for model in turn.main:
        for message in model.output or ():
            steps = set_down_in(message)
            if steps:
                text = "\n".join(f"{number}. {x}" for number, x in enumerate(steps, 1))
                return Sourced(model, "output", text, is_damaged(model, "output", (message,), "calls"))
    return None


def set_down_in(message: Message) -> tuple[str, ...]:
    """The steps that the first call of a tool for plans in a message holds."""
    found = (set_down_steps(x.name, x.arguments) for x in message.calls)
    return next((x for x in found if x), ())
