"""The plan of a turn."""

from collections.abc import Iterator, Sequence

from spanscore.model.plan import announced_steps, set_down_steps
from spanscore.model.step import Message, Step
from spanscore.turns.basis import conversation
from spanscore.turns.basis.tool_boundary import requests_tools
from spanscore.turns.facts import source
from spanscore.turns.facts.source import FirstOf, Source, Sourced, TurnSteps, is_damaged


def _before_tool_calls(turn: TurnSteps) -> Sourced | None:
    """The last text of the main agent's models before the first tool calls, or beside them, that
    lists steps.

    Some emitters leave the calls out beside a text: then the finish reason shows them. The last
    model call answers.
    """
    planned: Sourced | None = None
    for model in turn.main:
        texts = [x for x in model.output or () if x.text and x.text.strip()]
        announced = _announced(model, texts)
        if announced is None and is_damaged(model, "output", texts or model.output or ()):
            announced = Sourced(model, "output", None, damaged=True)  # it may have listed some
        planned = announced or planned
        if any(x.calls for x in model.output or ()):
            return planned
        if model is not turn.main[-1] and requests_tools(model):
            return planned
    return None


def _announced(step: Step, messages: Sequence[Message]) -> Sourced | None:
    """The text of messages where it lists steps."""
    text = "\n".join(message.text or "" for message in messages)
    return (
        Sourced(step, "output", text, is_damaged(step, "output", messages))
        if announced_steps(text)
        else None
    )


def _in_returned_messages(turn: TurnSteps) -> Sourced | None:
    """The last text before the first tool calls, or beside them, among the messages that an agent
    or workflow returned, if it lists steps.

    It is looked for only where no model call shows a tool call.
    """
    if any(message.calls for model in turn.main for message in model.output or ()):
        return None
    for step in _returning(turn):
        planned = _announced_before_calls(step)
        if planned is not None:
            return planned
    return None


def _returning(turn: TurnSteps) -> Iterator[Step]:
    """The main agent's span, others of the same agent, and the workflows."""
    yield from turn.first_agent
    name = turn.first_agent[0].agent_name if turn.first_agent else None
    if name is not None:
        yield from (agent for agent in turn.other_agents if agent.agent_name == name)
    yield from turn.workflows


def _announced_before_calls(step: Step) -> Sourced | None:
    """The last text before the first tool calls, or beside them, that lists steps."""
    output = step.output or ()
    of_turn = output[conversation.last_user_message(output) + 1 :]
    calling = next((at for at, message in enumerate(of_turn) if message.calls), None)
    if calling is None:
        return None
    for message in reversed(of_turn[: calling + 1]):
        if message.role == "assistant" and message.text and message.text.strip():
            announced = _announced(step, [message])
            if announced is not None:
                return announced
    return None


def _set_down(turn: TurnSteps) -> Sourced | None:
    """The steps that the main agent's first call of a tool for plans or to-do lists sets down, one
    on a line.
    """
    for model in turn.main:
        for message in model.output or ():
            steps = set_down_in(message)
            if steps:
                text = "\n".join(f"{number}. {x}" for number, x in enumerate(steps, 1))
                return Sourced(
                    model, "output", text, is_damaged(model, "output", (message,), "calls")
                )
    return None


def set_down_in(message: Message) -> tuple[str, ...]:
    """The steps in the first call of a tool for plans in a message."""
    found = (set_down_steps(x.name, x.arguments) for x in message.calls)
    return next((x for x in found if x), ())


SOURCES: FirstOf[TurnSteps] = (
    Source(
        "the plan that the agent's span, or the span nearest the root, states (`spanscore.plan`)",
        source.stated_plan,
    ),
    Source(
        "the text beside the first tool calls of the main agent, else the last text before"
        " them, that lists two steps or more",
        _before_tool_calls,
    ),
    Source(
        "such a text among the messages that an agent or workflow returned, if no model call shows"
        " it",
        _in_returned_messages,
    ),
    Source(
        "the list in the main agent's first call of a tool for plans or to-do lists",
        _set_down,
    ),
)
"""The sources of `plan`, in their order: the first that has a value counts."""
