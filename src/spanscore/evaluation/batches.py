"""How what is to be answered is dealt into calls, so that each answer fits the length that a judge
may write.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from spanscore.evaluation.asking import Item

_ANSWER_TOKENS = 300
"""About how long the answer to a question is: a few sentences and a number."""

_CALL_TOKENS = 60
"""About how long the answer about one tool call is: its number, a sentence and a word."""

_MOST_CALLS = 60
"""Tool calls in one call of the judge, however long an answer may be: a reader of a longer list
loses its place.
"""


@dataclass(frozen=True, slots=True)
class Batch:
    """The items of one call.

    `is_repeat`: it is the second try; `objection` is what was wrong with the first answer.
    """

    items: tuple[Item, ...]
    is_repeat: bool = False
    objection: str = ""

    @property
    def places(self) -> tuple[int, ...]:
        """The places of the tool calls that it is about."""
        return tuple(item.place for item in self.items if item.place is not None)

    def halves(self) -> tuple["Batch", "Batch"]:
        """The same in two calls; of at least two items."""
        middle = len(self.items) // 2
        return (
            Batch(self.items[:middle], self.is_repeat, self.objection),
            Batch(self.items[middle:], self.is_repeat, self.objection),
        )


def dealt(items: Sequence[Item], max_output_tokens: int) -> list[Batch]:
    """`items` in as few calls as answers of `max_output_tokens` allow.

    Questions about tool calls share a call with the others if all of them fit, else they have calls
    of their own.

    >>> from spanscore.metrics import Question
    >>> whole, each = Question("task", "", str), Question("verdicts", "", int, of_calls=True)
    >>> items = [Item(whole), *(Item(each, place) for place in range(100))]
    >>> [len(batch.items) for batch in dealt(items, 4096)]
    [1, 60, 40]
    """
    of_calls = [item for item in items if item.place is not None]
    whole = [item for item in items if item.place is None]
    room = max_output_tokens - _ANSWER_TOKENS * len(whole)
    if of_calls and _CALL_TOKENS * len(of_calls) <= room and len(of_calls) <= _MOST_CALLS:
        return [Batch(tuple(items))]
    at_once = max(max_output_tokens // _ANSWER_TOKENS, 1)
    calls_at_once = min(max(max_output_tokens // _CALL_TOKENS, 1), _MOST_CALLS)
    return [*_cut(whole, at_once), *_cut(of_calls, calls_at_once)]


def _cut(items: Sequence[Item], most: int) -> list[Batch]:
    return [Batch(tuple(items[start : start + most])) for start in range(0, len(items), most)]
