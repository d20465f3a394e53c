"""The registry of custom metrics."""

import math
import pkgutil
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from numbers import Real
from pathlib import Path
from typing import Any

from spanscore.errors import InputError, nearest
from spanscore.metrics._base import Metric
from spanscore.model.score import Skip
from spanscore.model.trace import AgentTrace, Session

PREFIX_OF_RUBRIC = "rubric"
_PATTERN = re.compile(r"[a-z][a-z0-9_]{0,63}(\.[a-z][a-z0-9_]{0,63})?")
_FOLDER = Path(__file__).parents[1]
_PREFIXES = {"trace": "", "session": "", "check": "check.", "rubric": "rubric."}
_ATTRIBUTE = "__spanscore_metric__"

_registered: dict[str, tuple["Origin", type[Metric]]] = {}


@dataclass(frozen=True, slots=True)
class Origin:
    """Where a metric was made: module, file and, of a function, its qualified name; else that of
    the metric.
    """

    module: str
    file: str
    place: str

    def __str__(self) -> str:
        return f"{self.place} in {self.file}" if self.file else f"{self.module}.{self.place}"

    def gives_way_to(self, other: "Origin") -> bool:
        """Whether `other` may take the name over: it is the same place run again, or this was made
        inside a function.

        A notebook's cell, a module that is reloaded and a file that is imported under another name
        run again.
        """
        is_same_file = self.module == other.module or (bool(self.file) and self.file == other.file)
        return (is_same_file and self.place == other.place) or "<locals>" in self.place


def register(metric: type[Metric], origin: Origin) -> None:
    """Make `metric` known under its name, in place of one that gives way.

    Raises InputError where the name is no name for a metric, or is taken.
    """
    name = metric.name
    check_name(name)
    if name in _registered and not _registered[name][0].gives_way_to(origin):
        raise InputError(
            f"two metrics are named {name!r}: {_registered[name][0]}, and {origin}; rename one of"
            " them"
        )
    _registered[name] = (origin, metric)


def registered() -> dict[str, type[Metric]]:
    """The metrics made so far, by name."""
    return {name: metric for name, (_, metric) in _registered.items()}


def origins() -> dict[str, Origin]:
    """Where each of the metrics made so far was made, by name."""
    return {name: origin for name, (origin, _) in _registered.items()}


def attach(function: Any, metric: type[Metric]) -> None:
    """Note on a decorated function which metric was made of it.

    Raises InputError where nothing can be noted on it.
    """
    try:
        setattr(function, _ATTRIBUTE, metric)
    except (AttributeError, TypeError):
        raise InputError(f"{function!r} cannot be a metric: decorate a function") from None


def metric_of(item: object) -> type[Metric] | None:
    """The metric that `item` stands for: a metric's class, or a decorated function; None for
    anything else.
    """
    found = item if isinstance(item, type) else getattr(item, _ATTRIBUTE, None)
    return found if isinstance(found, type) and issubclass(found, Metric) else None


def name_of(item: object) -> str:
    """The name of a metric that a program names: by its name, its class or its function.

    Raises InputError.

    >>> name_of("coherence")
    'coherence'
    """
    if isinstance(item, str):
        return item
    found = type(item) if isinstance(item, Metric) else metric_of(item)
    if found is None:
        raise InputError(
            f"{item!r} is no metric: give its name, or a function that @spanscore.metric decorates"
        )
    return found.name


def check_name(name: str) -> None:
    """Raise InputError where a metric of one's own cannot have this name."""
    if not isinstance(name, str) or not _PATTERN.fullmatch(name):
        raise InputError(
            f"{name!r} cannot be a metric's name: write it in snake_case, such as answers_politely,"
            " or with one dot, such as shop.answers_politely"
        )
    if name in _built_in() or name.partition(".")[0] == PREFIX_OF_RUBRIC:
        raise InputError(f"spanscore has a metric {name!r} of its own; give yours another name")


def _built_in() -> set[str]:
    """The names of the project's own metrics, which are those of their files."""
    return {
        f"{prefix}{module.name}"
        for folder, prefix in _PREFIXES.items()
        for module in pkgutil.iter_modules([str(_FOLDER / folder)])
        if not module.name.startswith("_")
    }


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


FACTS = (
    "user_input",
    "final_output",
    "tool_calls",
    "available_tools",
    "system_instructions",
    "model_calls",
    "history",
    "retrieved",
    "plan",
    "session_id",
    "user_id",
    "agent_name",
)
"""The fields of `AgentTrace` that a metric may need."""

_NEVER_NONE = ("model_calls", "retrieved")
"""An empty one of these says that the trace recorded none."""


def checked_facts(needs: Iterable[str] | str) -> tuple[str, ...]:
    """The names of facts, each once; a text is one name.

    Raises InputError on a fact that there is not.
    """
    names = [needs] if isinstance(needs, str) else list(needs)
    for name in names:
        if name not in FACTS:
            raise InputError(f"needs: a trace has no fact {name!r}; {nearest(str(name), FACTS)}")
    return tuple(dict.fromkeys(names))


def lacking(trace: AgentTrace, needs: Iterable[str]) -> Skip | None:
    """Why `trace` cannot be measured by what `needs` these facts; None where it can."""
    for fact in needs:
        if fact in trace.damaged:
            return Skip(f"The trace's {fact} arrived cut or redacted.", "damaged")
        if _is_missing(trace, fact):
            return Skip(f"The trace did not record {fact}.", "not_recorded")
    return None


def lacking_in_session(session: Session, needs: Iterable[str]) -> Skip | None:
    """Why `session` cannot be measured: no turn recorded one of the facts whole; None where it
    can.
    """
    for fact in needs:
        found = [lacking(trace, (fact,)) for trace in session.traces]
        if all(found):
            is_damaged = any(x is not None and x.cause == "damaged" for x in found)
            whole = " whole" if is_damaged else ""
            return Skip(
                f"No turn of the session recorded {fact}{whole}.",
                "damaged" if is_damaged else "not_recorded",
            )
    return None


def _is_missing(trace: AgentTrace, fact: str) -> bool:
    value = getattr(trace, fact)
    return value is None or (fact in _NEVER_NONE and not value)
