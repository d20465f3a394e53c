"""The metrics: one file each, found by scanning, so that no list of them is kept."""

import functools
from collections.abc import Iterator

from spanscore import discovery
from spanscore.errors import ConfigError
from spanscore.metrics._base import (
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
from spanscore.metrics._evidence import Evidence
from spanscore.metrics._questions import INSTRUCTIONS
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
    "criteria",
]

_PACKAGES = tuple(f"spanscore.metrics.{x}" for x in ("trace", "check", "session", "rubric"))
_TIERS = "execution knowledge process delivery"


@functools.cache
def available() -> dict[str, type[Metric]]:
    """Every metric by its registered name: the project's own, then those of entry point group `spanscore.metrics`.

    Raises ConfigError where an entry point gives no metric, or one whose name is taken.

    >>> available()["coherence"].scope
    'trace'
    """
    found: dict[str, type[Metric]] = {}
    for name, metric in (*_built_in(), *_installed()):
        if name in found:
            raise ConfigError(f"two metrics are named {name!r}: {_origin(found[name])} and {_origin(metric)}")
        found[name] = metric
    return found


@functools.cache
def criteria() -> dict[str, type[Criterial]]:
    """The project's own criteria of the rubric judge by id, in the order in which they are told.

    >>> list(criteria())[:2]
    ['parameter_extraction', 'result_interpretation']
    """
    found = [x for x in available().values() if issubclass(x, Criterial)]
    found.sort(key=lambda x: (not x.criterion.in_defaults, _TIERS.find(x.criterion.tier), x.name))
    return {x.criterion.id: x for x in found}


def _built_in() -> Iterator[tuple[str, type[Metric]]]:
    for package in _PACKAGES:
        for module in discovery.modules(package):
            for item in vars(module).values():
                if isinstance(item, type) and issubclass(item, Metric) and item.__module__ == module.__name__:
                    yield item.name, item


def _installed() -> Iterator[tuple[str, type[Metric]]]:
    for name, item in discovery.registered("spanscore.metrics"):
        if not (isinstance(item, type) and issubclass(item, Metric)):
            raise ConfigError(f"entry point {name!r} of group 'spanscore.metrics' is no metric: {item!r}")
        yield name, item


def _origin(metric: type[Metric]) -> str:
    return f"{metric.__module__}.{metric.__qualname__}"
