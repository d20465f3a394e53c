"""How long answers turned out to be, so that a call is not refused for the room that its kind never
needs.
"""

import math
from collections import OrderedDict
from collections.abc import Hashable
from dataclasses import dataclass

from pydantic import BaseModel

from spanscore.judge.provider import Completion

_MOST_KINDS = 512
_UNKNOWN_OUTPUT = 1024
"""Tokens that an answer of a kind which was never seen is given at least."""
_SPARE_FACTOR, _SPARE_TOKENS = 2, 64
_SMOOTHING = 0.1


@dataclass(slots=True)
class _Seen:
    largest_output: int = 0
    largest_input_share: float = 1.0
    share_of_estimate: float = 1.0


class Sizes:
    """What was seen of the calls of each kind: one model, and one form of answer."""

    def __init__(self) -> None:
        self._seen: OrderedDict[Hashable, _Seen] = OrderedDict()

    def note(
        self, model: str, schema: type[BaseModel], estimated_input: int, completion: Completion
    ) -> None:
        """Take down what one call took; `estimated_input` is what its input was thought to be, in
        tokens.
        """
        key = _kind(model, schema)
        seen = self._seen.setdefault(key, _Seen())
        self._seen.move_to_end(key)
        if len(self._seen) > _MOST_KINDS:
            self._seen.popitem(last=False)
        input_share = completion.input_tokens / max(estimated_input, 1)
        seen.largest_input_share = max(seen.largest_input_share, input_share)
        seen.largest_output = max(seen.largest_output, completion.output_tokens)
        taken = (completion.input_tokens + completion.output_tokens) / max(estimated_input, 1)
        seen.share_of_estimate += _SMOOTHING * (taken - seen.share_of_estimate)

    def least_output(self, model: str, schema: type[BaseModel], most: int) -> int:
        """The output, in tokens, that an answer of this kind is sure to fit: twice the longest one
        that was seen.
        """
        seen = self._seen.get(_kind(model, schema))
        wanted = (
            _UNKNOWN_OUTPUT if seen is None else _SPARE_FACTOR * seen.largest_output + _SPARE_TOKENS
        )
        return min(wanted, most)

    def most_input(self, model: str, schema: type[BaseModel], estimated_input: int) -> int:
        """The input, in tokens, that a call may turn out to have: the estimate, or more where it
        was too low before.
        """
        seen = self._seen.get(_kind(model, schema))
        return (
            estimated_input
            if seen is None
            else math.ceil(seen.largest_input_share * estimated_input)
        )

    def total(self, model: str, schema: type[BaseModel], estimated_input: int) -> float:
        """About how many tokens a call takes, input and output together."""
        seen = self._seen.get(_kind(model, schema))
        return estimated_input * (1.0 if seen is None else seen.share_of_estimate)


def _kind(model: str, schema: type[BaseModel]) -> Hashable:
    return model, schema.__qualname__, tuple(schema.model_fields)
