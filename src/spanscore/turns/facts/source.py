"""A source of a fact."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Generic, Literal, TypeAlias, TypeVar

from spanscore.model.span import record
from spanscore.model.step import Message, MessageFact, Step, StepFact
from spanscore.turns.facts.turn_steps import TurnSteps


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
