"""The tokens of a turn: the counts of the first source that has any, added up."""

from collections.abc import Sequence

from spanscore.model.step import Step
from spanscore.model.trace import Usage
from spanscore.turns.dedup import nested
from spanscore.turns.facts.source import AllOf, Source, Sourced
from spanscore.turns.facts.turn_steps import TurnSteps, topmost


def _counting(turn: TurnSteps) -> Sequence[Step]:
    return topmost(
        turn, lambda step: step.input_tokens is not None or step.output_tokens is not None
    )


SOURCES: AllOf = (
    Source(
        "the model calls, each once; of those without a count, the span that sums them up",
        lambda turn: nested.counted(turn.models, turn.tree),
    ),
    Source("the outermost agents' own count", lambda turn: turn.outermost),
    Source("that of the agents inside them, without those inside one that counts", _counting),
)
"""The steps that count tokens: the counts of the first source that has any are added up, those of
the input and those of the output.
"""


def usage(turn: TurnSteps) -> Usage:
    """The sums over the steps of the first source that counts anything."""
    for source in SOURCES:
        steps = source.find(turn)
        given = [x.input_tokens for x in steps if x.input_tokens is not None]
        produced = [x.output_tokens for x in steps if x.output_tokens is not None]
        if given or produced:
            return Usage(sum(given) if given else None, sum(produced) if produced else None)
    return Usage()


def counts(steps: Sequence[Step]) -> list[Sourced]:
    """The counts that `steps` record."""
    fields = ("input_tokens", "output_tokens")
    return [
        Sourced(step, field, getattr(step, field))
        for step in steps
        for field in fields
        if getattr(step, field) is not None
    ]
