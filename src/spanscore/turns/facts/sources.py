"""The order of sources of each fact, written down once: it builds the fact, explains it and
documents it.
"""

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Literal, TypeAlias

from spanscore.model.step import Message, Step
from spanscore.turns.basis import conversation
from spanscore.turns.basis.tool_boundary import stopped_for_tools
from spanscore.turns.dedup import nested
from spanscore.turns.facts import plans, stated
from spanscore.turns.facts.source import AllOf, FirstOf, Source, Sourced, is_damaged
from spanscore.turns.facts.turn_steps import TurnSteps

_Steps: TypeAlias = Callable[[TurnSteps], Sequence[Step]]


def _first_agent(turn: TurnSteps) -> Sequence[Step]:
    """The outermost agent, unless its messages are one text in its model's input: a question in
    JSON.
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


_GIVEN: tuple[tuple[str, _Steps], ...] = (
    ("the outermost agent's input messages", _first_agent),
    ("the input messages of its first model call", lambda turn: turn.main[:1]),
    ("another agent's input messages", lambda turn: turn.other_agents),
    ("a workflow's input messages", lambda turn: turn.workflows),
)
"""Where the conversation is looked for that ends with the turn's question."""


def _question(steps: _Steps, turn: TurnSteps) -> Sourced | None:
    lost: Sourced | None = None
    for step in steps(turn):
        given = step.input or ()
        question = conversation.last_user_message(given)
        message = given[question] if question >= 0 else None
        damaged = "input" in step.damaged or (message is not None and "text" in message.damaged)
        if message is not None and message.text is not None:
            return Sourced(step, "input", message.text, damaged)
        if damaged and lost is None:
            lost = Sourced(step, "input", None, damaged=True)
    return lost


def _first_question(turn: TurnSteps) -> Sourced | None:
    """The question as the messages record it."""
    for _, steps in _GIVEN:
        found = _question(steps, turn)
        if found is not None and found.value is not None:
            return found
    return None


def _called_with(turn: TurnSteps) -> Sourced | None:
    step = next(
        (x for x in (*turn.first_agent, *turn.other_agents, *turn.workflows) if x.input_text), None
    )
    return (
        None
        if step is None
        else Sourced(step, "input_text", step.input_text, is_damaged(step, "input"))
    )


def _called_with_part(turn: TurnSteps) -> Sourced | None:
    """The plain argument of a function, where the prompt contains it among other words; a single
    word as a line.
    """
    found = _called_with(turn)
    question = None if found is None else _first_question(turn)
    if found is None or question is None:
        return None
    return (
        found
        if found.value in (question.value if " " in found.value else question.value.splitlines())
        else None
    )


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
    found = _answer(turn.outermost[-1]) if turn.outermost else None
    if found is None or found.field != "output_text":
        return found
    outputs = (
        model.output or ()
        for model in turn.facing[:-1]
        if turn.tree.place(model).agent is found.step
    )
    is_beside = any(
        any(message.calls for message in output)
        and any(message.text == found.value for message in output)
        for output in outputs
    )
    return None if is_beside else found


def _models_answer(turn: TurnSteps) -> Sourced | None:
    """The last main model call's; None where that requests a tool, before its text or after, for
    that is no answer.
    """
    step = next(
        (x for x in reversed(turn.main) if x.output is not None or "output" in x.damaged), None
    )
    if step is None or conversation.waits_for_tools(step.output or ()):
        return None
    # its output may lack the call that it requested
    stopped = step.output and len(step.finish_reasons) == 1 and stopped_for_tools(step)
    return None if stopped else _answer(step)


def _handed_over(turn: TurnSteps) -> Sourced | None:
    """The last model call's of an agent to which the main one handed over, by a tool call as its
    last word.
    """
    last = next((x for x in reversed(turn.main) if x.output), None)
    step = next(
        (x for x in reversed(turn.facing) if x.output is not None or "output" in x.damaged), None
    )
    if last is None or step is None or step is last or not any(x.calls for x in last.output or ()):
        return None
    return _answer(step) if step.span.start_ns >= last.span.start_ns else None


def _models_answer_part(turn: TurnSteps) -> Sourced | None:
    """The last main model call's text, where the agent's answer is the texts of its model calls,
    joined.

    Some emitters leave out the text beside tool calls: then the answer need only end with the last
    call's text.
    """
    last = _models_answer(turn)
    answer = _agents_answer(turn) if last is not None and last.value else None
    if last is None or answer is None or answer.value is None or answer.value == last.value:
        return None
    texts = [x.text for model in turn.main for x in model.output or () if x.text]
    if "".join("".join(texts).split()) == "".join(answer.value.split()):
        return last
    only_last = len(texts) == 1 and len(turn.main) > 1 and answer.field == "output"
    return last if only_last and answer.value.endswith(last.value) else None


def _others_answer(turn: TurnSteps) -> Sourced | None:
    """The last answer of an agent, except of one inside another that answers; else the outermost
    workflow's.
    """
    answering = _topmost(turn, _answer)[-1:]
    return next((x for x in map(_answer, (*answering, *turn.workflows)) if x is not None), None)


def _returned_json(steps: _Steps, turn: TurnSteps) -> Sourced | None:
    """What a function returned that is no text."""
    step = next((x for x in steps(turn) if x.output_json is not None), None)
    return (
        None
        if step is None
        else Sourced(step, "output_json", step.output_json, is_damaged(step, "output"))
    )


def _topmost(turn: TurnSteps, records: Callable[[Step], object]) -> list[Step]:
    """The agents that record something, without those inside one that does, by time.

    What only started when the outer one had ended, as by a message that it sent, is not inside.
    """
    found, inside = list[Step](), dict[str, Step]()
    for step in (*turn.first_agent, *turn.other_agents):  # the outer ones first
        above = turn.tree.place(step).agent
        outer = None if above is None else inside.get(above.span.span_id)
        if outer is None or step.span.start_ns > outer.span.end_ns:
            outer = step if records(step) else None
            found += [step] if outer is not None else []
        if outer is not None:
            inside[step.span.span_id] = outer
    return sorted(found, key=lambda x: (x.span.start_ns, x.span.span_id))


def _lost_messages(step: Step) -> bool:
    """Whether messages that a step was given were cut off or dropped, and not only a function's
    argument.
    """
    return "input" in step.damaged and step.input_text is None


def _instructions(steps: _Steps, turn: TurnSteps) -> Sourced | None:
    """The first that are recorded; damaged where an earlier step lost some, which may have been
    others.
    """
    lost: Sourced | None = None
    for step in steps(turn):
        if step.system:
            return Sourced(
                step, "system", step.system, lost is not None or is_damaged(step, "system")
            )
        text = conversation.system_text(step.input or ())
        if text is not None:
            messages = [x for x in step.input or () if x.role == "system"]
            damaged = (
                lost is not None
                or "system" in step.damaged
                or any("text" in x.damaged for x in messages)
            )
            return Sourced(step, "input", text, damaged)
        if lost is None and ("system" in step.damaged or _lost_messages(step)):
            lost = Sourced(step, "system", None, damaged=True)
    return lost


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
    question, model = _first_question(turn), _first_request(turn)
    if model is None or model.input is None:
        return None
    if question is not None and len(model.input) <= len(question.step.input or ()):
        return None
    start = conversation.opening(model.input)
    # the question may be in a prompt around it
    is_same = start.text is None if question is None else question.value in (start.text or "")
    return _past(model, start, is_whole=_starts_conversation(turn)) if is_same else None


def _history_before_question(turn: TurnSteps) -> Sourced | None:
    model = next(iter(turn.main), None)
    if model is not None and is_damaged(model, "input", model.input or ()):
        longer = _models_history(turn)
        if longer is not None:  # the agent's input contains less, if whole
            return longer
    question = _first_question(turn)
    lost = next((x for x in (*turn.first_agent, *turn.main[:1]) if _lost_messages(x)), None)
    found = None if question is None else _before_question(question.step, turn)
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
    if request is None or any(
        x.input and conversation.last_user_message(x.input) < 0 for x in turn.main
    ):
        return False
    shown = conversation.opening(request.input or ())
    is_own = _is_of_turn(shown.messages[shown.question + 1 :])
    return (
        is_own
        and shown.question >= 0
        and not request.input_is_part
        and not conversation.history(shown)
    )


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


def _nearest(field: Literal["session_id", "user_id"], turn: TurnSteps) -> Sourced | None:
    naming = [x for x in turn.steps if getattr(x, field)]
    step = min(naming, key=turn.depth) if naming else None
    return None if step is None else Sourced(step, field, getattr(step, field))


def _of_resource(key: str, turn: TurnSteps) -> Sourced | None:
    named = turn.steps[0].span.resource.attributes.get(key)
    named = str(named) if type(named) is int else named
    return Sourced(turn.steps[0], "resource", named) if isinstance(named, str) else None


def _named(steps: _Steps, turn: TurnSteps) -> Sourced | None:
    step = next((x for x in steps(turn) if x.agent_name), None)
    return None if step is None else Sourced(step, "agent_name", step.agent_name)


def _first_named(turn: TurnSteps) -> Sequence[Step]:
    """The agents that may record the name of the first: those inside of it, unless it calls a model
    itself.

    Else those inside or beside are others, that it called or handed over to. But one whose model
    received the same instructions is the first agent once more.
    """
    if not turn.first_agent:
        return turn.other_agents
    first = turn.first_agent[0]
    instructions = {
        id(turn.tree.place(model).agent): conversation.system_text(model.input or ())
        for model in reversed(turn.models)
    }
    own, may_wrap = instructions.get(id(first)), id(first) not in instructions
    return [
        agent
        for agent in turn.other_agents
        if (may_wrap and turn.tree.place(agent).agents)
        or (own and instructions.get(id(agent)) == own)
    ]


SOURCES: dict[str, FirstOf[TurnSteps]] = {
    "user_input": (
        Source(
            "what a decorated agent or workflow was called with, where a prompt is built around it",
            _called_with_part,
        ),
        *(
            Source(f"what the user said last in {words}", partial(_question, steps))
            for words, steps in _GIVEN
        ),
        Source("what a decorated agent or workflow was called with", _called_with),
    ),
    "final_output": (
        Source(
            "the text of the last main model call, where the agent's answer is what all of them"
            " said, put together",
            _models_answer_part,
        ),
        Source(
            "the outermost agent's answer (of several in a row the last one's): its last message,"
            " else the text it returned",
            _agents_answer,
        ),
        Source("the text of the last main model call, if it asked for no tool", _models_answer),
        Source(
            "that of the last model call of an agent to which the main one handed over",
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
    ),
    "system_instructions": (
        Source(
            "the outermost agent's instructions, else the system messages in its input",
            partial(_instructions, lambda turn: turn.first_agent),
        ),
        Source(
            "those of the first main model call that has any",
            partial(_instructions, lambda turn: turn.main),
        ),
        Source("those of another agent", partial(_instructions, lambda turn: turn.other_agents)),
    ),
    "plan": (
        Source(
            "the plan that the agent's span, or the span nearest the root, states"
            " (`spanscore.plan`)",
            stated.plan,
        ),
        Source(
            "the text beside the first tool calls of the main agent, else the last text before"
            " them, that announces two steps or more",
            plans.before_tool_calls,
        ),
        Source(
            "the same of the messages that an agent or workflow returned, if no model call shows"
            " them",
            plans.in_returned_messages,
        ),
        Source(
            "the list that the main agent's first call of a tool for plans or to-do lists holds",
            plans.set_down,
        ),
    ),
    "history": (
        Source(
            "what came before the question in the input of the first main model call, where that"
            " holds more",
            _models_history,
        ),
        Source(
            "what came before it where the question was found; nothing, where the request of a main"
            " model call shows that nothing did",
            _history_before_question,
        ),
    ),
    "session_id": (
        Source("the span nearest the root that names a session", partial(_nearest, "session_id")),
        Source("the resource's `session.id`", partial(_of_resource, "session.id")),
    ),
    "user_id": (
        Source(
            "the span nearest the root that names a user, by an attribute or a log record",
            partial(_nearest, "user_id"),
        ),
        Source("the resource's `user.id`", partial(_of_resource, "user.id")),
    ),
    "agent_name": (
        Source("the outermost agent", partial(_named, lambda turn: turn.first_agent)),
        Source("another agent that has a name", partial(_named, _first_named)),
        Source("a workflow that names its agent", partial(_named, lambda turn: turn.workflows)),
        Source("a main model call that names its agent", partial(_named, lambda turn: turn.main)),
    ),
    "expected": (
        Source(
            "what the span nearest the root states that the turn should come to"
            " (`spanscore.expected.*`)",
            stated.expected,
        ),
    ),
}
"""The facts that one source contains whole: the first that has a value wins."""


OFFERED: AllOf = (
    Source("the definitions of the outermost agent", lambda turn: turn.first_agent),
    Source("those of the main model calls", lambda turn: turn.main),
    Source("those of other agents", lambda turn: turn.agents),
    Source("those of other model calls", lambda turn: turn.models),
)
"""Where tools on offer are listed: all of them count, each tool as it is listed first."""

DESCRIBED: AllOf = (
    Source("the tool's own span, where no list holds more than its name", lambda turn: turn.tools),
)


def _counting(turn: TurnSteps) -> Sequence[Step]:
    return _topmost(
        turn, lambda step: step.input_tokens is not None or step.output_tokens is not None
    )


TOKENS: AllOf = (
    Source(
        "the model calls, each once; of those that tell none, the span that sums them up",
        lambda turn: nested.counted(turn.models, turn.tree),
    ),
    Source("the outermost agents' own count", lambda turn: turn.outermost),
    Source("that of the agents inside them, without those inside one that counts", _counting),
)
"""Where tokens are counted: the first source that has any count is added up, for what went in and
what came out.
"""


def listed(steps: Sequence[Step]) -> Iterator[Sourced]:
    """The lists of tools that `steps` record, or recorded before they were cut."""
    for step in steps:
        damaged = is_damaged(step, "tools")
        if step.tools is not None or damaged:
            yield Sourced(step, "tools", step.tools, damaged)


def tokens(steps: Sequence[Step]) -> list[Sourced]:
    """The counts that `steps` record."""
    fields = ("input_tokens", "output_tokens")
    return [
        Sourced(step, field, getattr(step, field))
        for step in steps
        for field in fields
        if getattr(step, field) is not None
    ]
