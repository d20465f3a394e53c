"""What passes for a score's value: a finite number on the metric's scale, whoever gave it."""

import math
from dataclasses import replace
from numbers import Real

from spanscore.model.score import Failure, Outcome, Score

_ROUNDING = 1e-9


def valued(outcome: Outcome, metric: str, scale: tuple[float, float]) -> Outcome:
    """`outcome`, with its value as a float; a Failure where the value is no number on `scale`.

    What binary floats add up to beyond an end of the scale is that end.

    >>> valued(Score(True, "fine"), "mine", (0.0, 1.0)).message
    'mine gave the value True, which is no score: a score is a finite number from 0 to 1'
    >>> valued(Score(1, "fine"), "mine", (0.0, 1.0)).value
    1.0
    """
    if not isinstance(outcome, Score):
        return outcome
    low, high = scale
    given: object = outcome.value
    number = float(given) if isinstance(given, Real) and not isinstance(given, bool) else math.nan
    if not low - _ROUNDING <= number <= high + _ROUNDING:
        shown = repr(given)[:80]
        message = (
            f"{metric} gave the value {shown}, which is no score: a score is a finite number from"
            f" {low:g} to {high:g}"
        )
        return Failure("InvalidScoreError", message)
    value = min(max(number, low), high)
    return outcome if type(given) is float and given == value else replace(outcome, value=value)
