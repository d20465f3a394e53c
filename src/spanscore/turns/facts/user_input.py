"""The question of a turn: what the user said last, or what the function of an agent was called
with.
"""

from collections.abc import Sequence
from functools import partial

from spanscore.model.step import Step
from spanscore.turns.basis import conversation
from spanscore.turns.facts.source import FirstOf, Source, Sourced, StepsOf, is_damaged
from spanscore.turns.facts.turn_steps import TurnSteps


def _first_agent(turn: TurnSteps) -> Sequence[Step]:
    """The outermost agent as a list of one, or none.

    None also where all its messages are one text in its model's input: then that text, which is
    JSON, is the question.
    """
    for agent in turn.first_agent:
        given = turn.main[0].input if turn.main else None
        question = conversation.last_user_message(given or ())
        if (
            given
            and question >= 0
            and conversation.is_json_of(given[question].text, agent.input or ())
        ):
            return ()
    return turn.first_agent


_CONVERSATIONS: tuple[tuple[str, StepsOf], ...] = (
    ("what the user said last in the outermost agent's input messages", _first_agent),
    (
        "what the user said last in the input messages of its first model call",
        lambda turn: turn.main[:1],
    ),
    ("what the user said last in another agent's input messages", lambda turn: turn.other_agents),
    ("what the user said last in a workflow's input messages", lambda turn: turn.workflows),
)
"""Which steps may contain the conversation that ends with the turn's question, in words and as
code.
"""


def _last_user_text(steps: StepsOf, turn: TurnSteps) -> Sourced | None:
    """The user's last message in the input of the first step that has one with a text.

    Where no step has one, but an input was cut that may have contained one, it is a damaged
    `Sourced` without a value.
    """
    lost: Sourced | None = None
    for step in steps(turn):
        given = step.input or ()
        at = conversation.last_user_message(given)
        question = given[at : at + 1] if at >= 0 else ()
        damaged = is_damaged(step, "input", question)
        if question and question[0].text is not None:
            return Sourced(step, "input", question[0].text, damaged)
        if damaged and lost is None:
            lost = Sourced(step, "input", None, damaged=True)
    return lost


def first_question(turn: TurnSteps) -> Sourced | None:
    """The question as the messages record it."""
    for _, steps in _CONVERSATIONS:
        found = _last_user_text(steps, turn)
        if found is not None and found.value is not None:
            return found
    return None


def _called_with(turn: TurnSteps) -> Sourced | None:
    """The plain argument with which the function of a decorated agent or workflow was called: the
    outermost one that records it.
    """
    for step in (*turn.first_agent, *turn.other_agents, *turn.workflows):
        if step.input_text:
            return Sourced(step, "input_text", step.input_text, is_damaged(step, "input"))
    return None


def _called_with_part(turn: TurnSteps) -> Sourced | None:
    """That argument, where it is only a part of the prompt that the model was given.

    A single word counts only where it is a whole line of the prompt.
    """
    argument = _called_with(turn)
    if argument is None:
        return None
    prompt = first_question(turn)
    if prompt is None:
        return None
    is_single_word = " " not in argument.value
    searched = prompt.value.splitlines() if is_single_word else prompt.value
    return argument if argument.value in searched else None


SOURCES: FirstOf[TurnSteps] = (
    Source(
        "what a decorated agent or workflow was called with, where a prompt is built around it",
        _called_with_part,
    ),
    *(Source(words, partial(_last_user_text, steps)) for words, steps in _CONVERSATIONS),
    Source("what a decorated agent or workflow was called with", _called_with),
)
"""The sources of `user_input`, in their order: the first that has a value counts."""
