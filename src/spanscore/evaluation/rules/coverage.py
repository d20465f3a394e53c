"""Whether one selector takes all that another takes: a later rule could then never match."""

from collections.abc import Iterator
from typing import Any

from spanscore.evaluation.rules.selector import Selector


def covers(wide: Selector, narrow: Selector) -> bool:
    """Whether `wide` takes all traces that `narrow` takes, as far as that shows from one condition
    at a time.
    """
    has = dict(_conditions(narrow))
    if not all(_is_met(condition, has.get(key)) for key, condition in _conditions(wide)):
        return False
    return _has_alternative(wide, narrow) and _has_exclusion(wide, narrow)


def _has_alternative(wide: Selector, narrow: Selector) -> bool:
    """Whether one of the alternatives of `wide` holds wherever `narrow` does."""
    if wide.any_of is None or wide.any_of == narrow.any_of:
        return True
    return any(covers(x, narrow) for x in wide.any_of)


def _has_exclusion(wide: Selector, narrow: Selector) -> bool:
    """Whether what `wide` excludes is excluded by `narrow` too."""
    if wide.none_of is None:
        return True
    return narrow.none_of is not None and covers(narrow.none_of, wide.none_of)


def _is_met(condition: Any, narrower: Any) -> bool:
    """Whether a condition holds wherever `narrower`, on the same key, does; None: there is no
    such.
    """
    if narrower is None:
        return False
    return bool(
        condition == narrower if isinstance(condition, bool) else condition.covers(narrower)
    )


def _conditions(selector: Selector) -> Iterator[tuple[tuple[str, str], Any]]:
    """Each condition by its key."""
    for name in (
        "service",
        "agent",
        "environment",
        "session",
        "user",
        "tags",
        "tool",
        "error",
        "duration",
    ):
        condition = getattr(selector, name)
        if condition is not None:
            yield (name, ""), condition
    for name in ("input", "output", "total"):
        condition = getattr(selector.tokens, name, None)
        if condition is not None:
            yield ("tokens", name), condition
    for group in ("resource", "attributes"):
        for name, condition in getattr(selector, group).items():
            yield (group, name), condition
