"""The answer of a turn."""

from collections.abc import Sequence
from functools import partial

from spanscore.model.step import Message, Step
from spanscore.turns.basis import conversation
from spanscore.turns.basis.tool_boundary import stopped_for_tools
from spanscore.turns.facts.source import FirstOf, Source, Sourced, StepsOf, is_damaged
from spanscore.turns.facts.turn_steps import TurnSteps, topmost


def _answer(step: Step) -> Sourced | None:
    """What a step answers: its last message, else the text that it returned."""
    message = conversation.final_message(step.output or ())
    if message is not None and message.text is not None:
        return Sourced(step, "output", message.text, is_damaged(step, "output", (message,)))
    if step.output_text is not None:
        return Sourced(step, "output_text", step.output_text, is_damaged(step, "output"))
    if is_damaged(step, "output", (step.output or ())[-1:]):
        return Sourced(step, "output", None, damaged=True)
    return None


def _agents_answer(turn: TurnSteps) -> Sourced | None:
    """The last outermost agent's, unless that stands beside a model's tool calls, and another model
    call followed.
    """
    if not turn.outermost:
        return None
    answer = _answer(turn.outermost[-1])
    if answer is None or answer.field != "output_text":
        return answer
    for model in turn.facing[:-1]:
        is_of_agent = turn.tree.place(model).agent is answer.step
        if is_of_agent and _is_beside_calls(answer.value, model.output or ()):
            return None
    return answer


def _is_beside_calls(text: str, output: Sequence[Message]) -> bool:
    """Whether a model call produced this text and tool calls together."""
    has_calls = any(message.calls for message in output)
    return has_calls and any(message.text == text for message in output)


def _last_with_output(models: Sequence[Step]) -> Step | None:
    """The last model call whose output is recorded, or was before it was cut."""
    for model in reversed(models):
        if model.output is not None or "output" in model.damaged:
            return model
    return None


def _models_answer(turn: TurnSteps) -> Sourced | None:
    """The last main model call's; None where that requests a tool, before its text or after, for
    that is no answer.
    """
    model = _last_with_output(turn.main)
    if model is None or conversation.waits_for_tools(model.output or ()):
        return None
    # its output may lack the call that it requested
    if model.output and len(model.finish_reasons) == 1 and stopped_for_tools(model):
        return None
    return _answer(model)


def _handed_over(turn: TurnSteps) -> Sourced | None:
    """The last model call's of an agent to which the main one handed over, by a tool call as its
    last word.
    """
    last_main = next((model for model in reversed(turn.main) if model.output), None)
    if last_main is None or not any(message.calls for message in last_main.output or ()):
        return None
    last = _last_with_output(turn.facing)
    if last is None or last is last_main or last.span.start_ns < last_main.span.start_ns:
        return None
    return _answer(last)


def _models_answer_part(turn: TurnSteps) -> Sourced | None:
    """The last main model call's text, where the agent's answer is the texts of its model calls,
    joined.

    Some emitters leave out the text beside tool calls: then the answer need only end with the last
    call's text.
    """
    last = _models_answer(turn)
    if last is None or not last.value:
        return None
    answer = _agents_answer(turn)
    if answer is None or answer.value is None or answer.value == last.value:
        return None
    texts = [message.text for model in turn.main for message in model.output or () if message.text]
    if _without_spaces("".join(texts)) == _without_spaces(answer.value):
        return last
    lacks_earlier_texts = len(texts) == 1 and len(turn.main) > 1 and answer.field == "output"
    return last if lacks_earlier_texts and answer.value.endswith(last.value) else None


def _without_spaces(text: str) -> str:
    return "".join(text.split())


def _others_answer(turn: TurnSteps) -> Sourced | None:
    """The last answer of an agent, except of one inside another that answers; else the outermost
    workflow's.
    """
    answering = topmost(turn, _answer)[-1:]
    for step in (*answering, *turn.workflows):
        answer = _answer(step)
        if answer is not None:
            return answer
    return None


def _returned_json(steps: StepsOf, turn: TurnSteps) -> Sourced | None:
    """What a function returned that is no text."""
    for step in steps(turn):
        if step.output_json is not None:
            return Sourced(step, "output_json", step.output_json, is_damaged(step, "output"))
    return None


SOURCES: FirstOf[TurnSteps] = (
    Source(
        "the text of the last main model call, where the agent's answer is the texts of"
        " all of them, joined",
        _models_answer_part,
    ),
    Source(
        "the outermost agent's answer (of several in a row the last one's): its last message,"
        " else the text it returned",
        _agents_answer,
    ),
    Source("the text of the last main model call, if it requested no tool", _models_answer),
    Source(
        "the text of the last model call of an agent to which the main one handed over",
        _handed_over,
    ),
    Source(
        "what the outermost agent (of several in a row the last one) returned where that is no"
        " text, as JSON",
        partial(_returned_json, lambda turn: turn.outermost[-1:]),
    ),
    Source(
        "what another agent (of several the last one) or a workflow answered or returned",
        _others_answer,
    ),
    Source(
        "what a workflow returned where that is no text, as JSON",
        partial(_returned_json, lambda turn: turn.workflows),
    ),
)
"""The sources of `final_output`, in their order: the first that has a value counts."""
