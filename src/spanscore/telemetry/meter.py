"""Counts and measurements, kept until read."""

import os
import threading
import time
from bisect import bisect_left
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeAlias

from spanscore.telemetry import declared
from spanscore.telemetry.declared import METRICS, Declared

MAX_SERIES = 500
"""Label values that a metric keeps apart; what comes after is counted together, each of its labels
`other`.
"""

_OTHER = "other"
_MAX_LABEL_CHARS = 128

Labels: TypeAlias = tuple[str, ...]
"""Values, in the order in which the metric declares its labels."""

Reading: TypeAlias = "float | Mapping[Labels, float] | None"
"""What is read of something that is watched: a value, one for each set of labels, or nothing at
this moment.
"""


@dataclass(slots=True)
class Distribution:
    """What was measured, counted by upper bounds; the last count is of what lies above them all."""

    bounds: tuple[float, ...]
    counts: list[int] = field(default_factory=list)
    total: float = 0.0

    def __post_init__(self) -> None:
        self.counts = self.counts or [0] * (len(self.bounds) + 1)

    def add(self, value: float) -> None:
        """Count one measurement."""
        self.counts[bisect_left(self.bounds, value)] += 1
        self.total += value

    def copy(self) -> "Distribution":
        """As it is now."""
        return Distribution(self.bounds, list(self.counts), self.total)


@dataclass(frozen=True, slots=True)
class Series:
    """All values of one metric at one moment, by their labels."""

    metric: Declared
    values: Mapping[Labels, float | Distribution]


class Meter:
    """The metrics of one process. What is not declared cannot be counted: that is a KeyError.

    Thread-safe.
    """

    def __init__(self, clock_ns: Callable[[], int] = time.time_ns) -> None:
        self.started_ns = clock_ns()
        self._lock = threading.Lock()
        self._values: dict[Declared, dict[Labels, float | Distribution]] = {x: {} for x in METRICS}
        self._watched: dict[Declared, list[Callable[[], Reading]]] = {x: [] for x in METRICS}
        for metric in METRICS:
            if metric.kind == "counter" and not metric.labels:
                # a counter that is there from the start shows its first step
                self._values[metric][()] = 0

    def add(self, metric: Declared, count: float = 1, /, **labels: str) -> None:
        """Count. `labels` are exactly those that the metric declares."""
        values, key = self._values[metric], _key(metric, labels)
        with self._lock:
            key = _bounded(values, key)
            values[key] = values.get(key, 0) + count  # type: ignore[operator]  # a counter holds no distribution

    def observe(self, metric: Declared, value: float, /, **labels: str) -> None:
        """Measure something that has a distribution."""
        values, key = self._values[metric], _key(metric, labels)
        with self._lock:
            key = _bounded(values, key)
            found = values.get(key)
            if not isinstance(found, Distribution):
                found = values[key] = Distribution(metric.bounds)
            found.add(value)

    def watch(self, metric: Declared, read: Callable[[], Reading], /) -> None:
        """Ask `read` for what the metric is, whenever somebody wants to know.

        It must be quick, and not raise.
        """
        self._watched[metric].append(read)

    def collect(self) -> list[Series]:
        """All that is declared, in its order, as it is now."""
        with self._lock:
            current = {
                metric: {
                    k: x.copy() if isinstance(x, Distribution) else x for k, x in values.items()
                }
                for metric, values in self._values.items()
            }
        for metric, reads in self._watched.items():
            for read in reads:
                found = read()
                if found is not None:
                    current[metric].update(found if isinstance(found, Mapping) else {(): found})
        return [Series(metric, values) for metric, values in current.items()]

    def totals(self) -> dict[str, float]:
        """Every counter that has counted, added up over its labels, by its name without
        `spanscore_`.
        """
        with self._lock:
            found = {
                metric.name.removeprefix("spanscore_"): sum(
                    x for x in values.values() if not isinstance(x, Distribution)
                )
                for metric, values in self._values.items()
                if metric.kind == "counter"
            }
        return {name: round(total, 6) for name, total in sorted(found.items()) if total}


def _key(metric: Declared, labels: Mapping[str, str]) -> Labels:
    if len(labels) != len(metric.labels):
        raise KeyError(f"{metric.name} has the labels {metric.labels}, not {tuple(labels)}")
    return tuple([labels[name] for name in metric.labels])


def _bounded(values: Mapping[Labels, object], key: Labels) -> Labels:
    if key in values:
        return key
    if len(values) >= MAX_SERIES:
        return (_OTHER,) * len(key)
    return tuple([x if len(x) <= _MAX_LABEL_CHARS else _OTHER for x in key])


_STATM = Path("/proc/self/statm")


def watch(meter: Meter, clock_ns: Callable[[], int] = time.time_ns) -> None:
    """Have `meter` ask for uptime, CPU time and memory."""
    meter.watch(declared.PROCESS_UPTIME, lambda: max(0.0, (clock_ns() - meter.started_ns) / 1e9))
    meter.watch(declared.PROCESS_CPU, time.process_time)
    meter.watch(declared.PROCESS_MEMORY_RSS, _resident_bytes)


def _resident_bytes() -> float | None:
    try:
        return int(_STATM.read_text().split()[1]) * os.sysconf("SC_PAGESIZE")
    except (OSError, ValueError, IndexError):
        return None
