"""A source of a fact, and the rule by which the fact is taken from one or several sources."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeAlias, TypeVar

from spanscore.model.record import record
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
