"""Which turn of another run is the same task: by its id, the test that it is of, or what the user
said.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TypeAlias

from spanscore.report.rows import Turn

InTest: TypeAlias = tuple[str, int, int]
"""A test, the number of a trial, and a place in it, from 0."""


def paired(
    own: Sequence[Turn],
    baseline: Sequence[Turn],
    tests: tuple[Mapping[InTest, str], Mapping[InTest, str]] = ({}, {}),
) -> dict[str, str]:
    """By the id of an own turn, that of the baseline's turn.

    Inputs that occur twice in a run pair nothing.

    `tests` are the ids of turns by where they are in the tests of both runs.
    """
    there = {x.id for x in baseline}
    found = {x.id: x.id for x in own if x.id in there}
    for place, turn_id in tests[0].items():
        if turn_id not in found and place in tests[1]:
            found[turn_id] = tests[1][place]
    taken = set(found.values())
    others = {text: x.id for text, x in _unique([x for x in baseline if x.id not in taken]).items()}
    left = _unique([x for x in own if x.id not in found])
    return found | {turn.id: others[text] for text, turn in left.items() if text in others}


def _unique(turns: Sequence[Turn]) -> dict[str, Turn]:
    """The turns by their inputs, white space collapsed, where no other turn of the run has the
    same.
    """
    named = [(" ".join(x.user_input.split()), x) for x in turns if x.user_input]
    counts = Counter(text for text, _ in named)
    return {text: turn for text, turn in named if counts[text] == 1}
