"""The question of a turn, its history, plan and answer."""

from collections.abc import Iterator, Sequence
from functools import partial

from spanscore.model.plan import announced_steps, set_down_steps
from spanscore.model.step import Message, Step
from spanscore.turns.basis import conversation
from spanscore.turns.basis.tool_boundary import requests_tools, stopped_for_tools
from spanscore.turns.facts import source
from spanscore.turns.facts.source import (
    FirstOf,
    Source,
    Sourced,
    StepsOf,
    TurnSteps,
    is_damaged,
    lost_messages,
    topmost,
)


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
        text = conversation.question_text(question[0]) if question else None
        if text is not None:
            return Sourced(step, "input", text, damaged)
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


QUESTION_SOURCES: FirstOf[TurnSteps] = (
    Source(
        "what a decorated agent or workflow was called with, where a prompt is built around it",
        _called_with_part,
    ),
    *(Source(words, partial(_last_user_text, steps)) for words, steps in _CONVERSATIONS),
    Source("what a decorated agent or workflow was called with", _called_with),
)
"""The sources of `user_input`, in their order: the first that has a value counts."""


def _past(step: Step, start: conversation.Opening, *, is_whole: bool) -> Sourced:
    """What came before the question of a step; `is_whole`: that is all there was, so that nothing
    is an empty one.
    """
    before = start.messages[: max(start.question, 0)]
    past = conversation.history(start)
    is_known = bool(past) or (is_whole and start.question >= 0)
    is_short = _lacks_history(step, before) or is_damaged(step, "input", before, "parts")
    return Sourced(step, "input", past if is_known else None, is_short)


def _lacks_history(step: Step, messages: Sequence[Message]) -> bool:
    """Whether `messages` of a step's input were cut, or older ones were left out."""
    return "history" in step.damaged or is_damaged(step, "input", messages)


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
    if first_model is not None and _lacks_history(first_model, first_model.input or ()):
        longer = _models_history(turn)
        if longer is not None:  # the agent's input contains less, if whole
            return longer
    question = first_question(turn)
    found = None if question is None else _before_question(question.step, turn)
    given = (*turn.first_agent, *turn.main[:1])
    lost = next((x for x in given if lost_messages(x) or "history" in x.damaged), None)
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
        is_whole = bool(model.input) and not model.input_is_part
        if is_whole and conversation.last_user_message(model.input or ()) < 0:
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


HISTORY_SOURCES: FirstOf[TurnSteps] = (
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


def _before_tool_calls(turn: TurnSteps) -> Sourced | None:
    """The last text of the main agent's models before the first tool calls, or beside them, that
    lists steps.

    Some emitters leave the calls out beside a text: then the finish reason shows them. The last
    model call answers.
    """
    planned: Sourced | None = None
    for model in turn.main:
        output = _until_calls(model.output or ())
        texts = [x for x in output if x.text and x.text.strip()]
        announced = _announced(model, texts)
        if announced is None and is_damaged(model, "output", texts or output):
            announced = Sourced(model, "output", None, damaged=True)  # it may have listed some
        planned = announced or planned
        if any(x.calls for x in model.output or ()):
            return planned
        if model is not turn.main[-1] and requests_tools(model):
            return planned
    return None


def _until_calls(output: Sequence[Message]) -> Sequence[Message]:
    """The messages up to the first that requests tools: an SDK may run them before the model
    answers.
    """
    calling = next((at for at, x in enumerate(output) if x.calls), len(output))
    return output[: calling + 1]


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


PLAN_SOURCES: FirstOf[TurnSteps] = (
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
    Source("the list in the main agent's first call of a tool for plans or to-do lists", _set_down),
)
"""The sources of `plan`, in their order: the first that has a value counts."""
