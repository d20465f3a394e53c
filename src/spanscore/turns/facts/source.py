"""A source of a fact."""

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Any, Generic, Literal, TypeAlias, TypeVar

from spanscore.model.span import Span, record
from spanscore.model.step import Message, MessageFact, Step, StepFact
from spanscore.turns.basis import conversation
from spanscore.turns.basis.conversation import Tree, final_text
from spanscore.turns.dedup import reports


class TurnSteps:
    """The steps of one turn, sorted by what they are.

    - `models`, `tools`, `agents` and `workflows` are all steps of a kind, each call once.
    - An agent or model call in a tool does not face the user, since what a tool does is its own;
      where all lie in tools, all face the user. Of the agents that do, `first_agent` is the
      outermost as a list of one or none, `other_agents` are the rest, and `outermost` are those
      with no agent above them.
    - `main` are the model calls of the agent that answers the user: the outermost one that calls a
      model itself, since agents around it may only pass on. A model call beside all agents, as one
      that finds a title, is main only where there are no others.
    - `facing` are the model calls of the main agent and of the agents to which it can hand over.
    - `utilities` are the ids of model calls beside the agent's loop, of which `main` and `facing`
      have none: a guard, a title, suggestions, a judge. What the configuration says of a span
      counts before what it looks like, and an agent of which it says so is none of those above.
    """

    def __init__(self, steps: Sequence[Step], tree: Tree) -> None:
        self.tree = tree
        self.steps = steps
        self.models = reports.model_calls(steps, tree)
        self.tools = reports.tool_calls(steps, tree)
        self.agents = sorted([step for step in steps if step.kind == "agent"], key=self.depth)
        self.workflows = sorted([step for step in steps if step.kind == "workflow"], key=self.depth)
        agents, models = _facing_user(self.agents, self.models, tree)
        self.first_agent, self.other_agents = agents[:1], agents[1:]
        self.outermost = [agent for agent in agents if tree.place(agent).agents == 0]
        depths = [tree.place(model).agents for model in models]
        shallowest = min(filter(None, depths), default=0)
        main = [model for model, depth in zip(models, depths, strict=True) if depth == shallowest]
        around = [*self.agents, *self.workflows]
        self.utilities = _named(self.models, _utilities(main, around))
        self.main = [model for model in main if model.span.span_id not in self.utilities]
        self.facing = [
            model
            for model, depth in zip(models, depths, strict=True)
            if depth >= shallowest and model.span.span_id not in self.utilities
        ]

    def depth(self, step: Step) -> tuple[int, int, str]:
        """Sorts steps from the root down, those of one depth by time."""
        return self.tree.place(step).depth, step.span.start_ns, step.span.span_id

    def agent_of(self, step: Step) -> str | None:
        """The name of the agent that a model call or tool call belongs to.

        What lies in a tool, with no agent between, is not of the agent that called the tool, but of
        one that the tool records that it runs.
        """
        place = self.tree.place(step)
        if place.tool is not None:
            return step.agent_name or place.tool.runs_agent
        return step.agent_name or (None if place.agent is None else place.agent.agent_name)

    def shows_calls(self) -> bool:
        """Whether a tool call, had there been one, would show."""
        return (
            bool(self.tools)
            or any(x.output is not None for x in self.models)
            or any(x.output is not None and len(x.output) > 1 for x in self.agents)
        )

    def target(self, opening: Step | None) -> Span:
        """The span that gets the scores: the outermost agent's if there is one, else the top of the
        turn.
        """
        if opening is not None:
            return opening.span
        top = self.tree.top
        return self.outermost[0].span if len(self.outermost) == 1 or top is None else top


def _utilities(main: Sequence[Step], around: Sequence[Step]) -> frozenset[str]:
    """The ids of the model calls that follow the answer of the loop that calls tools, and are no
    part of it.

    Such a call offers no tools, requests none, has other instructions, and quotes the answer or the
    question in its input; what an agent or workflow `around` answers itself is no such call. A call
    before the loop with the instructions of one after it is one too, as of a guard.
    """
    loop = [x for x in main if _is_of_loop(x)]
    quoted = _answer(loop[-1]) if loop else ""
    if len(loop) == len(main) or not quoted:
        return frozenset()
    in_loop = {x.span.span_id for x in loop}
    beside = [x for x in main if x.span.span_id not in in_loop]
    answered = {_answer(x) or _plain(x.output_text) for x in around}
    after = [x for x in _after(loop, beside, quoted) if _answer(x) not in answered]
    return frozenset(x.span.span_id for x in (*after, *_alike_before(loop, beside, after)))


def _is_of_loop(model: Step) -> bool:
    return bool(model.tools) or _calls(model.output) or _calls(model.input)


def _answer(step: Step) -> str:
    return _plain(final_text(step.output or ()))


def _after(loop: Sequence[Step], beside: Sequence[Step], quoted: str) -> list[Step]:
    """The calls since the answer of the loop that are beside it."""
    own, answered_ns = _instructions(loop[-1]), loop[-1].span.start_ns
    asked = _plain(conversation.opening(loop[0].input or ()).text)
    later = (x for x in beside if x.span.start_ns > answered_ns)
    return [x for x in later if _is_beside(x, own, (quoted, asked))]


def _alike_before(
    loop: Sequence[Step], beside: Sequence[Step], after: Sequence[Step]
) -> list[Step]:
    """The calls before the loop with the instructions of one after it."""
    known = {_instructions(x) for x in after} - {None}
    earlier = (x for x in beside if x.span.start_ns < loop[0].span.start_ns)
    return [x for x in earlier if _instructions(x) in known]


def _named(models: Sequence[Step], alike: Collection[str]) -> frozenset[str]:
    """The ids of the model calls that the configuration names as utilities, and of those `alike`
    that it does not name as the agent's.
    """
    unnamed = [x.span.span_id for x in models if x.part is None]
    named = [x.span.span_id for x in models if x.part == "utility"]
    return frozenset(unnamed).intersection(alike).union(named)


def _calls(messages: Sequence[Message] | None) -> bool:
    return any(x.calls or x.results for x in messages or ())


def _instructions(model: Step) -> str | None:
    return model.system or conversation.system_text(model.input or ())


def _is_beside(model: Step, own: str | None, quoted: Sequence[str]) -> bool:
    """Whether a model call has other instructions than the loop's, and one of the texts in its
    input.
    """
    given = model.input or ()
    stated = _instructions(model)
    if stated == own and (stated is not None or any(x.role == "assistant" for x in given)):
        return False
    texts = [_plain(x.text) for x in given if x.text]
    return any(x and x in text for x in quoted for text in texts)


def _plain(text: str | None) -> str:
    return " ".join((text or "").split())


def _facing_user(
    agents: list[Step], models: list[Step], tree: Tree
) -> tuple[list[Step], list[Step]]:
    """The agents and model calls that lie in no tool, nor in a model call that ran tools; all,
    where all do. None of them is named as a utility.
    """
    agents, models = (
        [step for step in steps if step.part != "utility"] for steps in (agents, models)
    )
    calls = {x.span.span_id for x in models}

    def is_outside(step: Step) -> bool:
        place = tree.place(step)
        return not place.in_tool and (place.model is None or place.model.span.span_id not in calls)

    of_agents, of_models = (list(filter(is_outside, steps)) for steps in (agents, models))
    return (of_agents, of_models) if of_agents or of_models else (agents, models)


def topmost(turn: TurnSteps, records: Callable[[Step], object]) -> list[Step]:
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


@record()
class Sourced:
    """What one source contains: a value, the step that records it, and in which of its fields.

    `field` is "resource" for an attribute of the span's resource, "calls" and "results" for those
    in messages. `damaged`: it was cut or redacted on the way; the value is then what is left of it,
    or None.
    """

    step: Step
    field: str
    value: Any
    damaged: bool = False


SubjectT = TypeVar("SubjectT")
FoundT = TypeVar("FoundT")


@dataclass(frozen=True, slots=True)
class Source(Generic[SubjectT, FoundT]):
    """One place where a fact may be, in words for people, and what finds it there for a turn (or a
    tool call).
    """

    words: str
    find: Callable[[SubjectT], FoundT]


FirstOf: TypeAlias = tuple[Source[SubjectT, Sourced | None], ...]
"""The sources of a fact, of which the first that contains it wins; a whole one wins over damaged
ones.
"""

StepsOf: TypeAlias = Callable[[TurnSteps], Sequence[Step]]
"""Which steps of a turn a source looks at, the first one first."""

AllOf: TypeAlias = tuple[Source[TurnSteps, Sequence[Step]], ...]
"""The sources of a fact to which many steps contribute: those that may."""


def first(sources: FirstOf[SubjectT], subject: SubjectT) -> Sourced | None:
    """The first whole value that a source contains, else the first damaged one, else None."""
    damaged: Sourced | None = None
    for source in sources:
        found = source.find(subject)
        if found is not None:
            if not found.damaged:
                return found
            damaged = damaged or found
    return damaged


def is_damaged(
    step: Step, fact: StepFact, messages: Sequence[Message] = (), part: MessageFact = "text"
) -> bool:
    """Whether a fact of a step, or this part of one of its messages, was cut or redacted."""
    if fact in step.damaged:
        return True
    for message in messages:  # noqa: SIM110 # called for every fact: a generator would take twice as long
        if part in message.damaged:
            return True
    return False


def lost_messages(step: Step) -> bool:
    """Whether messages that a step was given were cut off or dropped, and not only a function's
    argument.
    """
    return "input" in step.damaged and step.input_text is None


def stated_plan(turn: TurnSteps) -> Sourced | None:
    """The plan that the span nearest the root states."""
    return _nearest("plan", turn)


def _expected(turn: TurnSteps) -> Sourced | None:
    """What the span nearest the root expects of the turn."""
    return _nearest("expected", turn)


def _nearest(fact: Literal["plan", "expected"], turn: TurnSteps) -> Sourced | None:
    stating = [x for x in turn.steps if getattr(x, fact) is not None or fact in x.damaged]
    own = [x for x in stating if _is_of_main_agent(x, turn)]
    step = min(own, key=turn.depth, default=None)
    return (
        None if step is None else Sourced(step, fact, getattr(step, fact), is_damaged(step, fact))
    )


def _is_of_main_agent(step: Step, turn: TurnSteps) -> bool:
    """Whether a step is of the agent that faces the user, or around it: what another one plans is
    its own.
    """
    place = turn.tree.place(step)
    deepest = max(1, turn.tree.place(turn.main[0]).agents) if turn.main else 1
    return not place.in_tool and place.agents + (step.kind == "agent") <= deepest


EXPECTED_SOURCES: FirstOf[TurnSteps] = (
    Source(
        "what the span nearest the root states that the turn should come to"
        " (`spanscore.expected.*`)",
        _expected,
    ),
)
"""The sources of `expected`, in their order: the first that has a value counts."""
