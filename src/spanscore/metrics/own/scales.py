"""The scale of a metric of one's own, and the threshold on it."""

import math
from collections.abc import Sequence
from numbers import Real
from typing import Any

from spanscore.errors import InputError

MIDDLE: Any = object()
"""Stands for the threshold in the middle of a scale."""


def checked_scale(scale: Sequence[float]) -> tuple[float, float]:
    """A scale as (low, high). Raises InputError where it is none.

    >>> checked_scale([0, 5])
    (0.0, 5.0)
    """
    ends = list(scale) if isinstance(scale, Sequence) and not isinstance(scale, str) else []
    if len(ends) != 2 or not all(map(is_finite, ends)) or ends[0] >= ends[1]:
        raise InputError(
            f"scale {scale!r}: give its two ends, the lower one first, such as (0, 1) or (0, 5)"
        )
    return float(ends[0]), float(ends[1])


def checked_threshold(name: str, threshold: Any, scale: tuple[float, float]) -> float | None:
    """The threshold on `scale`. Raises InputError where it lies outside of it."""
    low, high = scale
    if threshold is MIDDLE:
        return (low + high) / 2
    if threshold is None:
        return None
    if not is_finite(threshold) or not low <= threshold <= high:
        raise InputError(
            f"{name}: the threshold {threshold!r} is not on the scale, which is {low:g} to {high:g}"
        )
    return float(threshold)


def is_finite(value: object) -> bool:
    """Whether `value` is a number that can be an end of a scale, or lie on it."""
    return isinstance(value, Real) and not isinstance(value, bool) and math.isfinite(value)
