"""The instructions of a turn's agent: its own, else those that its model was given."""

from functools import partial

from spanscore.model.step import Step
from spanscore.turns.basis import conversation
from spanscore.turns.facts.source import (
    FirstOf,
    Source,
    Sourced,
    StepsOf,
    is_damaged,
    lost_messages,
)
from spanscore.turns.facts.turn_steps import TurnSteps


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


SOURCES: FirstOf[TurnSteps] = (
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
