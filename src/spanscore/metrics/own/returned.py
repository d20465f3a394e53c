"""What a function gives for a trace, as an outcome: a number, a truth, one of the two with a
reason, or an outcome.
"""

from numbers import Real
from typing import Any

from spanscore.model.json import dumps, loads
from spanscore.model.score import Failure, Outcome, Score, Skip

_MAX_REASON_CHARACTERS = 10_000
_MAX_SHOWN = 80
_NO_SCORE = "InvalidScoreError"


def outcome_of(returned: object, name: str, scale: tuple[float, float]) -> Outcome:
    """The outcome that `returned` stands for; a Failure that says what to return where it stands
    for none.

    True is the upper end of `scale` and False the lower one. None, alone or with a reason, is a
    Skip: the metric does not apply. Whether a number lies on the scale is not looked at here.

    >>> outcome_of(True, "polite", (0, 5)).value
    5
    >>> outcome_of((0.5, "half of it is polite"), "polite", (0, 1)).reason
    'half of it is polite'
    >>> outcome_of("yes", "polite", (0, 1)).message[:64]
    "polite returned 'yes' (str); return a number from 0 to 1, True, "
    """
    if isinstance(returned, Score):
        return _checked(returned, name)
    if isinstance(returned, Skip | Failure):
        return returned
    value, reason = returned, None
    if isinstance(returned, tuple) and len(returned) == 2 and isinstance(returned[1], str):
        value, reason = returned
    if value is None:
        return Skip(reason or f"{name} returned None: it does not apply.", "not_applicable")
    number = _number(value, scale)
    if number is None:
        return _refused(returned, name, scale)
    return Score(number, _cut(reason or f"{name} returned {value!r}."))


def _number(value: object, scale: tuple[float, float]) -> float | None:
    """A number or truth, also one of numpy's or of a tensor with one element; None for anything
    else.
    """
    if not isinstance(value, Real) and hasattr(value, "item"):
        try:
            value = value.item()
        except Exception:  # noqa: BLE001 - an array of several, or another class's item() altogether
            return None
    if isinstance(value, bool):
        return scale[1] if value else scale[0]
    return float(value) if isinstance(value, Real) else None


def _checked(score: Score, name: str) -> Outcome:
    """A Score of a function's own making, with metadata that can be stored and sent."""
    if not isinstance(score.reason, str):
        return Failure(
            _NO_SCORE, f"{name} returned a Score whose reason is no text: {_shown(score.reason)}"
        )
    if score.label is not None and not isinstance(score.label, str):
        return Failure(
            _NO_SCORE, f"{name} returned a Score whose label is no text: {_shown(score.label)}"
        )
    try:
        metadata: Any = loads(dumps(dict(score.metadata)))
    except (ValueError, TypeError, RecursionError) as error:
        return Failure(
            _NO_SCORE, f"{name} returned a Score whose metadata cannot be written as JSON: {error}"
        )
    return Score(score.value, _cut(score.reason), metadata, score.label)


def _refused(returned: object, name: str, scale: tuple[float, float]) -> Failure:
    low, high = scale
    return Failure(
        _NO_SCORE,
        f"{name} returned {_shown(returned)}; return a number from {low:g} to {high:g}, True,"
        " False, None, one of these with a reason as (value, reason), or a spanscore.Score or"
        " Skip",
    )


def _shown(value: object) -> str:
    try:
        text = repr(value)
    except Exception:  # noqa: BLE001 - another's __repr__
        text = "something"
    return f"{text[:_MAX_SHOWN]} ({type(value).__name__})"


def _cut(reason: str) -> str:
    return (
        reason if len(reason) <= _MAX_REASON_CHARACTERS else f"{reason[:_MAX_REASON_CHARACTERS]}…"
    )
