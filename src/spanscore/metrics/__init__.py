"""The metrics, found by scanning their modules."""

import functools
from collections.abc import Iterator
from types import ModuleType

from spanscore import discovery
from spanscore.errors import ConfigError
from spanscore.metrics import own
from spanscore.metrics._base import (
    INSTRUCTIONS,
    SIGNAL_WEIGHTS,
    Answers,
    Computed,
    Embedded,
    Judged,
    JudgedSession,
    Judgement,
    Metric,
    OfCalls,
    Question,
    SessionMetric,
    Signals,
)
from spanscore.metrics.check._check import Evidence
from spanscore.metrics.rubric import Criterial, Criterion, RubricMetric

__all__ = [
    "INSTRUCTIONS",
    "SIGNAL_WEIGHTS",
    "Answers",
    "Computed",
    "Criterial",
    "Criterion",
    "Embedded",
    "Evidence",
    "Judged",
    "JudgedSession",
    "Judgement",
    "Metric",
    "OfCalls",
    "Question",
    "RubricMetric",
    "SessionMetric",
    "Signals",
    "available",
    "built_in",
    "criteria",
    "family",
    "named",
]

_PACKAGES = tuple(f"spanscore.metrics.{x}" for x in ("trace", "check", "session", "rubric"))
_TIERS = "execution knowledge process delivery"


def available() -> dict[str, type[Metric]]:
    """Every metric by its name: the project's own, those that distributions install, those made
    while this runs.

    Distributions install metrics by the entry point group `spanscore.metrics`: each names a
    metric's class, a function that `@spanscore.metric` decorates, what `spanscore.criterion`
    returns, or a module that makes some. Raises ConfigError where one cannot be loaded or is no
    metric, or where two have one name.

    >>> available()["coherence"].scope
    'trace'
    """
    found = dict(_standing())
    for name, made in own.registered().items():
        if found.setdefault(name, made) is not made:
            raise ConfigError(
                f"two metrics are named {name!r}: {_origin(found[name])} and {_origin(made)}"
            )
    return found


def family(name: str) -> list[str]:
    """The metrics whose names begin with a family's, such as `check`; [] where there are none.

    The rubric is no family: its scores are of one call.

    >>> "check.answer_present" in family("check"), family("rubric")
    (True, [])
    """
    return [
        full
        for full, metric in available().items()
        if full.startswith(f"{name}.") and not issubclass(metric, RubricMetric)
    ]


def named(name: str) -> type[Metric] | None:
    """The metric of that name among `available`; None where there is none."""
    return _standing().get(name) or own.registered().get(name)


@functools.cache
def built_in() -> dict[str, type[Metric]]:
    """The project's own metrics by name."""
    return dict(_built_in())


@functools.cache
def criteria() -> dict[str, type[Criterial]]:
    """The project's own criteria of the rubric judge by id, in the order in which they are told.

    >>> list(criteria())[:2]
    ['parameter_extraction', 'result_interpretation']
    """
    found = [x for x in built_in().values() if issubclass(x, Criterial)]
    found.sort(key=lambda x: (not x.criterion.in_defaults, _TIERS.find(x.criterion.tier), x.name))
    return {x.criterion.id: x for x in found}


def _built_in() -> Iterator[tuple[str, type[Metric]]]:
    for package in _PACKAGES:
        for module in discovery.modules(package):
            for item in vars(module).values():
                if (
                    isinstance(item, type)
                    and issubclass(item, Metric)
                    and item.__module__ == module.__name__
                ):
                    yield item.name, item


@functools.cache
def _standing() -> dict[str, type[Metric]]:
    """The metrics that are the same as long as the process runs: the project's own and those of
    entry points.
    """
    found = dict(built_in())
    for name, metric in _installed():
        if found.setdefault(name, metric) is not metric:
            raise ConfigError(
                f"two metrics are named {name!r}: {_origin(found[name])} and {_origin(metric)}"
            )
    return found


def _installed() -> Iterator[tuple[str, type[Metric]]]:
    for name, item in discovery.registered("spanscore.metrics"):
        found = _of_module(item) if isinstance(item, ModuleType) else [own.metric_of(item)]
        for metric in found:
            if metric is None:
                raise ConfigError(
                    f"entry point {name!r} of group 'spanscore.metrics' is no metric: {item!r}"
                )
            yield metric.name, metric


def _of_module(module: ModuleType) -> list[type[Metric]]:
    """The metrics that stand in a module under public names."""
    found = [own.metric_of(item) for name, item in vars(module).items() if not name.startswith("_")]
    return [x for x in dict.fromkeys(found) if x is not None and hasattr(x, "name")]


def _origin(metric: type[Metric]) -> str:
    return f"{metric.__module__}.{metric.__qualname__}"
