"""Which turn of another run is the same task: by its id, else by what the user said."""

from collections import Counter
from collections.abc import Sequence

from spanscore.report.rows import Turn


def paired(own: Sequence[Turn], baseline: Sequence[Turn]) -> dict[str, str]:
    """By the id of an own turn, that of the baseline's turn. Inputs that occur twice in a run pair nothing."""
    there = {x.id for x in baseline}
    found = {x.id: x.id for x in own if x.id in there}
    left, right = ([x for x in turns if x.id not in found] for turns in (own, baseline))
    others = _by_input(right)
    return found | {turn.id: others[text] for text, turn in _unique(left).items() if text in others}


def _by_input(turns: Sequence[Turn]) -> dict[str, str]:
    return {text: turn.id for text, turn in _unique(turns).items()}


def _unique(turns: Sequence[Turn]) -> dict[str, Turn]:
    """The turns by their inputs, white space collapsed, where no other turn of the run has the same."""
    named = [(" ".join(x.user_input.split()), x) for x in turns if x.user_input]
    counts = Counter(text for text, _ in named)
    return {text: turn for text, turn in named if counts[text] == 1}
