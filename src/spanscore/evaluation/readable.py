"""Scores as people read them: without the word by which a judge knows genuine marks of a transcript
from others.
"""

from dataclasses import replace
from typing import Any

from spanscore.judge.marks import without_word
from spanscore.model.score import Outcome, Score


def readable(outcome: Outcome) -> Outcome:
    """`outcome` with the marks in its reason and metadata as `[REDACTED:email]`.

    >>> score = Score(
    ...     1.0, "To [REDACTED:email:2 #bcdfghjklmnp].", {"to": ["[REDACTED:card #bcdfghjklmnp]"]}
    ... )
    >>> readable(score).reason, readable(score).metadata
    ('To [REDACTED:email:2].', {'to': ['[REDACTED:card]']})
    """
    if not isinstance(outcome, Score):
        return outcome
    return replace(outcome, reason=without_word(outcome.reason), metadata=_plain(outcome.metadata))


def _plain(value: Any) -> Any:
    if isinstance(value, str):
        return without_word(value)
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    return value
