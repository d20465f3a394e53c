"""The order of sources of each fact, written down once: it builds the fact, explains it and documents it."""

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
    """The outermost agent, unless its model was told as one text what reads as messages here: a question in JSON."""
    for agent in turn.first_agent:
        given = turn.main[0].input if turn.main else None
        at = conversation.last_said(given or ())
        if given and at >= 0 and conversation.is_json_of(given[at].text, agent.input or ()):
            return ()
    return turn.first_agent


_GIVEN: tuple[tuple[str, _Steps], ...] = (
    ("the outermost agent's input messages", _first_agent),
    ("the input messages of its first model call", lambda turn: turn.main[:1]),
    ("another agent's input messages", lambda turn: turn.other_agents),
    ("a workflow's input messages", lambda turn: turn.workflows),
)
"""Where the conversation is looked for that the turn's question opens."""


def _asked(steps: _Steps, turn: TurnSteps) -> Sourced | None:
    lost: Sourced | None = None
    for step in steps(turn):
        given = step.input or ()
        at = conversation.last_said(given)
        said = given[at] if at >= 0 else None
        damaged = "input" in step.damaged or (said is not None and "text" in said.damaged)
        if said is not None and said.text is not None:
            return Sourced(step, "input", said.text, damaged)
        if damaged and lost is None:
            lost = Sourced(step, "input", None, damaged=True)
    return lost


def _first_asked(turn: TurnSteps) -> Sourced | None:
    """The question as messages tell it."""
    for _, steps in _GIVEN:
        found = _asked(steps, turn)
        if found is not None and found.value is not None:
            return found
    return None


def _called_with(turn: TurnSteps) -> Sourced | None:
    step = next((x for x in (*turn.first_agent, *turn.other_agents, *turn.workflows) if x.input_text), None)
    return None if step is None else Sourced(step, "input_text", step.input_text, is_damaged(step, "input"))


def _called_with_part(turn: TurnSteps) -> Sourced | None:
    """The plain argument of a function, where the prompt holds it among other words; a single word as a line."""
    found = _called_with(turn)
    said = None if found is None else _first_asked(turn)
    if found is None or said is None:
        return None
    return found if found.value in (said.value if " " in found.value else said.value.splitlines()) else None


def _answer(step: Step) -> Sourced | None:
    """What a step answers: its last message, else the text that it returned."""
    told = conversation.final_message(step.output or ())
    if told is not None and told.text is not None:
        return Sourced(step, "output", told.text, is_damaged(step, "output", (told,)))
    if step.output_text is not None:
        return Sourced(step, "output_text", step.output_text, is_damaged(step, "output"))
    if is_damaged(step, "output", (step.output or ())[-1:]):
        return Sourced(step, "output", None, damaged=True)
    return None


def _agents_answer(turn: TurnSteps) -> Sourced | None:
    """The last outermost agent's, unless its model said that beside tool calls, and a model was asked again after."""
    found = _answer(turn.outermost[-1]) if turn.outermost else None
    if found is None or found.field != "output_text":
        return found
    own = (x.output or () for x in turn.facing[:-1] if turn.tree.place(x).agent is found.step)
    is_beside = any(any(x.calls for x in said) and any(x.text == found.value for x in said) for said in own)
    return None if is_beside else found


def _models_answer(turn: TurnSteps) -> Sourced | None:
    """The last main model call's; None where that asks for a tool, before its text or after, for that is no answer."""
    step = next((x for x in reversed(turn.main) if x.output is not None or "output" in x.damaged), None)
    if step is None or conversation.waits_for_tools(step.output or ()):
        return None
    asked = step.output and len(step.finish_reasons) == 1 and stopped_for_tools(step)  # for what is not told
    return None if asked else _answer(step)


def _handed_over(turn: TurnSteps) -> Sourced | None:
    """The last model call's of an agent to which the main one handed over, by a tool call as its last word."""
    last = next((x for x in reversed(turn.main) if x.output), None)
    step = next((x for x in reversed(turn.facing) if x.output is not None or "output" in x.damaged), None)
    if last is None or step is None or step is last or not any(x.calls for x in last.output or ()):
        return None
    return _answer(step) if step.span.start_ns >= last.span.start_ns else None


def _models_answer_part(turn: TurnSteps) -> Sourced | None:
    """The last main model call's text, where the agent's answer is all that its model calls said, put together.

    Some emitters leave out the text beside tool calls: then the answer need only end with what the last call said.
    """
    last = _models_answer(turn)
    answer = _agents_answer(turn) if last is not None and last.value else None
    if last is None or answer is None or answer.value is None or answer.value == last.value:
        return None
    said = [x.text for model in turn.main for x in model.output or () if x.text]
    if "".join("".join(said).split()) == "".join(answer.value.split()):
        return last
    only_last = len(said) == 1 and len(turn.main) > 1 and answer.field == "output"
    return last if only_last and answer.value.endswith(last.value) else None


def _others_answer(turn: TurnSteps) -> Sourced | None:
    """The last answer of an agent, except of one inside another that answers; else the outermost workflow's."""
    answering = _topmost(turn, _answer)[-1:]
    return next((x for x in map(_answer, (*answering, *turn.workflows)) if x is not None), None)


def _returned_json(steps: _Steps, turn: TurnSteps) -> Sourced | None:
    """What a function returned that is no text."""
    step = next((x for x in steps(turn) if x.output_json is not None), None)
    return None if step is None else Sourced(step, "output_json", step.output_json, is_damaged(step, "output"))


def _topmost(turn: TurnSteps, tell: Callable[[Step], object]) -> list[Step]:
    """The agents that tell something, without those inside one that does, by time.

    What only started when the outer one had ended, as by a message that it sent, is not inside.
    """
    found, inside = list[Step](), dict[str, Step]()
    for step in (*turn.first_agent, *turn.other_agents):  # the outer ones first
        above = turn.tree.place(step).agent
        outer = None if above is None else inside.get(above.span.span_id)
        if outer is None or step.span.start_ns > outer.span.end_ns:
            outer = step if tell(step) else None
            found += [step] if outer is not None else []
        if outer is not None:
            inside[step.span.span_id] = outer
    return sorted(found, key=lambda x: (x.span.start_ns, x.span.span_id))


def _lost_messages(step: Step) -> bool:
    """Whether messages that a step was given were cut off or dropped, and not only a function's argument."""
    return "input" in step.damaged and step.input_text is None


def _instructions(steps: _Steps, turn: TurnSteps) -> Sourced | None:
    """The first that are told; what another step may have told before them, had it not been lost, may be others."""
    lost: Sourced | None = None
    for step in steps(turn):
        if step.system:
            return Sourced(step, "system", step.system, lost is not None or is_damaged(step, "system"))
        told = conversation.system_text(step.input or ())
        if told is not None:
            said = [x for x in step.input or () if x.role == "system"]
            damaged = lost is not None or "system" in step.damaged or any("text" in x.damaged for x in said)
            return Sourced(step, "input", told, damaged)
        if lost is None and ("system" in step.damaged or _lost_messages(step)):
            lost = Sourced(step, "system", None, damaged=True)
    return lost


def _past(step: Step, start: conversation.Opening, *, is_whole: bool) -> Sourced:
    """What came before the question of a step; `is_whole`: that is all there was, so that nothing is an empty one."""
    before = start.messages[: max(start.question, 0)]
    past = conversation.history(start)
    is_known = bool(past) or (is_whole and start.question >= 0)
    return Sourced(step, "input", past if is_known else None, is_damaged(step, "input", before))


def _first_request(turn: TurnSteps) -> Step | None:
    """The first main model call of which it was recorded what it was given."""
    return next((x for x in turn.main if x.input), None)


def _models_history(turn: TurnSteps) -> Sourced | None:
    asked, model = _first_asked(turn), _first_request(turn)
    if model is None or model.input is None:
        return None
    if asked is not None and len(model.input) <= len(asked.step.input or ()):
        return None
    start = conversation.opening(model.input)
    is_same = (
        start.text is None if asked is None else asked.value in (start.text or "")
    )  # perhaps in a prompt around it
    return _past(model, start, is_whole=_starts_conversation(turn)) if is_same else None


def _askers_history(turn: TurnSteps) -> Sourced | None:
    model = next(iter(turn.main), None)
    if model is not None and is_damaged(model, "input", model.input or ()):
        longer = _models_history(turn)
        if longer is not None:  # what an agent was given holds less, if whole
            return longer
    asked = _first_asked(turn)
    lost = next((x for x in (*turn.first_agent, *turn.main[:1]) if _lost_messages(x)), None)
    found = None if asked is None else _asked_after(asked.step, turn)
    if lost is None or (found is not None and found.step is lost):
        return found
    return Sourced(lost, "input", None if found is None else found.value, damaged=True)  # it may have held more


def _asked_after(step: Step, turn: TurnSteps) -> Sourced:
    """What a step was given before the question; what an agent alone was given may be only what is new."""
    return _past(step, conversation.opening(step.input or ()), is_whole=_starts_conversation(turn))


def _starts_conversation(turn: TurnSteps) -> bool:
    """Whether the first request shows that nothing came before the question, which all later ones have.

    Some emitters record only what is new since the last request, or the latest message of each role.
    """
    request = _first_request(turn)
    if request is None or any(x.input and conversation.last_said(x.input) < 0 for x in turn.main):
        return False
    shown = conversation.opening(request.input or ())
    is_own = _is_of_turn(shown.messages[shown.question + 1 :])
    return is_own and shown.question >= 0 and not request.input_is_part and not conversation.history(shown)


def _is_of_turn(messages: Sequence[Message]) -> bool:
    """Whether what stands behind the question is calls and their results, and so of the same turn."""
    asked = {call.call_id for x in messages for call in x.calls}
    return all(x.calls or (x.results and asked.issuperset(y.call_id for y in x.results)) for x in messages)


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
    """The agents that may tell the name of the first: those inside of it, unless it asks a model itself.

    Else those inside or beside are others, that it called or handed over to. But one whose model was told the same
    instructions is the first agent again.
    """
    if not turn.first_agent:
        return turn.other_agents
    first = turn.first_agent[0]
    told = {id(turn.tree.place(x).agent): conversation.system_text(x.input or ()) for x in reversed(turn.models)}
    own, may_wrap = told.get(id(first)), id(first) not in told
    return [
        x for x in turn.other_agents if (may_wrap and turn.tree.place(x).agents) or (own and told.get(id(x)) == own)
    ]


SOURCES: dict[str, FirstOf[TurnSteps]] = {
    "user_input": (
        Source(
            "what a decorated agent or workflow was called with, where a prompt is built around it", _called_with_part
        ),
        *(Source(f"what the user said last in {words}", partial(_asked, steps)) for words, steps in _GIVEN),
        Source("what a decorated agent or workflow was called with", _called_with),
    ),
    "final_output": (
        Source(
            "the text of the last main model call, where the agent's answer is what all of them said, put together",
            _models_answer_part,
        ),
        Source(
            "the outermost agent's answer (of several in a row the last one's): its last message, else the text it "
            "returned",
            _agents_answer,
        ),
        Source("the text of the last main model call, if it asked for no tool", _models_answer),
        Source("that of the last model call of an agent to which the main one handed over", _handed_over),
        Source(
            "what the outermost agent (of several in a row the last one) returned where that is no text, as JSON",
            partial(_returned_json, lambda turn: turn.outermost[-1:]),
        ),
        Source("what another agent (of several the last one) or a workflow answered or returned", _others_answer),
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
        Source("those of the first main model call that has any", partial(_instructions, lambda turn: turn.main)),
        Source("those of another agent", partial(_instructions, lambda turn: turn.other_agents)),
    ),
    "plan": (
        Source("the plan that the agent's span, or the span nearest the root, states (`spanscore.plan`)", stated.plan),
        Source(
            "the text beside the first tool calls of the main agent, else the last text before them, that announces "
            "two steps or more",
            plans.said,
        ),
        Source(
            "the same of the messages that an agent or workflow returned, if no model call shows them", plans.retold
        ),
        Source("the list that the main agent's first call of a tool for plans or to-do lists holds", plans.set_down),
    ),
    "history": (
        Source(
            "what came before the question in the input of the first main model call, where that holds more",
            _models_history,
        ),
        Source(
            "what came before it where the question was found; nothing, where the request of a main model call shows "
            "that nothing did",
            _askers_history,
        ),
    ),
    "session_id": (
        Source("the span nearest the root that names a session", partial(_nearest, "session_id")),
        Source("the resource's `session.id`", partial(_of_resource, "session.id")),
    ),
    "user_id": (
        Source(
            "the span nearest the root that names a user, by an attribute or a log record", partial(_nearest, "user_id")
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
            "what the span nearest the root states that the turn should come to (`spanscore.expected.*`)",
            stated.expected,
        ),
    ),
}
"""The facts that one source tells whole: the first that speaks wins."""


OFFERED: AllOf = (
    Source("the definitions of the outermost agent", lambda turn: turn.first_agent),
    Source("those of the main model calls", lambda turn: turn.main),
    Source("those of other agents", lambda turn: turn.agents),
    Source("those of other model calls", lambda turn: turn.models),
)
"""Where tools on offer are listed: all of them count, each tool as it is listed first."""

DESCRIBED: AllOf = (Source("the tool's own span, where no list holds more than its name", lambda turn: turn.tools),)


def _counting(turn: TurnSteps) -> Sequence[Step]:
    return _topmost(turn, lambda step: step.input_tokens is not None or step.output_tokens is not None)


TOKENS: AllOf = (
    Source(
        "the model calls, each once; of those that tell none, the span that sums them up",
        lambda turn: nested.counted(turn.models, turn.tree),
    ),
    Source("the outermost agents' own count", lambda turn: turn.outermost),
    Source("that of the agents inside them, without those inside one that counts", _counting),
)
"""Where tokens are counted: the first source that has any count is added up, for what went in and what came out."""


def listed(steps: Sequence[Step]) -> Iterator[Sourced]:
    """The lists of tools that `steps` hold, or held before they were cut."""
    for step in steps:
        damaged = is_damaged(step, "tools")
        if step.tools is not None or damaged:
            yield Sourced(step, "tools", step.tools, damaged)


def tokens(steps: Sequence[Step]) -> list[Sourced]:
    """The counts that `steps` hold."""
    fields = ("input_tokens", "output_tokens")
    return [Sourced(x, field, getattr(x, field)) for x in steps for field in fields if getattr(x, field) is not None]
