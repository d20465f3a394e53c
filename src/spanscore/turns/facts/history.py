"""The messages before the question of a turn, as its first model call received them."""

from collections.abc import Sequence

from spanscore.model.step import Message, Step
from spanscore.turns.basis import conversation
from spanscore.turns.facts.source import FirstOf, Source, Sourced, is_damaged, lost_messages
from spanscore.turns.facts.turn_steps import TurnSteps
from spanscore.turns.facts.user_input import first_question


def _past(step: Step, start: conversation.Opening, *, is_whole: bool) -> Sourced:
    """What came before the question of a step; `is_whole`: that is all there was, so that nothing
    is an empty one.
    """
    before = start.messages[: max(start.question, 0)]
    past = conversation.history(start)
    is_known = bool(past) or (is_whole and start.question >= 0)
    return Sourced(step, "input", past if is_known else None, is_damaged(step, "input", before))


def _first_request(turn: TurnSteps) -> Step | None:
    """The first main model call that records its input."""
    return next((x for x in turn.main if x.input), None)


def _models_history(turn: TurnSteps) -> Sourced | None:
    """What came before the question in the first main model call's input, if that contains more
    messages than the input in which the question was found.
    """
    question, model = first_question(turn), _first_request(turn)
    if model is None or model.input is None:
        return None
    if question is not None and len(model.input) <= len(question.step.input or ()):
        return None
    start = conversation.opening(model.input)
    if not _asks(start, question):
        return None
    return _past(model, start, is_whole=_starts_conversation(turn))


def _asks(start: conversation.Opening, question: Sourced | None) -> bool:
    """Whether messages end with the turn's question, which may have a prompt around it; without a
    question, whether they have none either.
    """
    if question is None:
        return start.text is None
    return question.value in (start.text or "")


def _history_before_question(turn: TurnSteps) -> Sourced | None:
    """What came before the question where that was found, damaged where a step lost messages that
    may have come before it.
    """
    first_model = turn.main[0] if turn.main else None
    if first_model is not None and is_damaged(first_model, "input", first_model.input or ()):
        longer = _models_history(turn)
        if longer is not None:  # the agent's input contains less, if whole
            return longer
    question = first_question(turn)
    found = None if question is None else _before_question(question.step, turn)
    lost = next((x for x in (*turn.first_agent, *turn.main[:1]) if lost_messages(x)), None)
    if lost is None or (found is not None and found.step is lost):
        return found
    # it may have contained more
    return Sourced(lost, "input", None if found is None else found.value, damaged=True)


def _before_question(step: Step, turn: TurnSteps) -> Sourced:
    """What a step was given before the question; the input of an agent alone may be only what is
    new.
    """
    return _past(step, conversation.opening(step.input or ()), is_whole=_starts_conversation(turn))


def _starts_conversation(turn: TurnSteps) -> bool:
    """Whether the first request shows that nothing came before the question, which all later ones
    have.

    Some emitters record only what is new since the last request, or the latest message of each
    role.
    """
    request = _first_request(turn)
    if request is None or request.input_is_part:
        return False
    for model in turn.main:
        if model.input and conversation.last_user_message(model.input) < 0:
            return False
    shown = conversation.opening(request.input or ())
    if shown.question < 0 or conversation.history(shown):
        return False
    return _is_of_turn(shown.messages[shown.question + 1 :])


def _is_of_turn(messages: Sequence[Message]) -> bool:
    """Whether only calls and their results follow the question, so that they are of the same
    turn.
    """
    requested = {call.call_id for message in messages for call in message.calls}
    return all(
        message.calls
        or (message.results and requested.issuperset(result.call_id for result in message.results))
        for message in messages
    )


SOURCES: FirstOf[TurnSteps] = (
    Source(
        "what came before the question in the input of the first main model call, where that"
        " contains more",
        _models_history,
    ),
    Source(
        "what came before the question in the messages where that was found; an empty list, where"
        " the request of a main model call shows that nothing came before it",
        _history_before_question,
    ),
)
"""The sources of `history`, in their order: the first that has a value counts."""
