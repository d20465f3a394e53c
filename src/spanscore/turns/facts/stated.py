"""Where a turn's plan and expectation are stated: on a span of its main agent, or on one around
that.
"""

from typing import Literal

from spanscore.model.step import Step
from spanscore.turns.facts.source import FirstOf, Source, Sourced, is_damaged
from spanscore.turns.facts.turn_steps import TurnSteps


def plan(turn: TurnSteps) -> Sourced | None:
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
