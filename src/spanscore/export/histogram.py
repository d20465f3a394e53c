"""Evaluations as the histogram `gen_ai.evaluation.score`."""

from bisect import bisect_left
from collections import OrderedDict, defaultdict
from collections.abc import Iterable, Sequence
from typing import TypeAlias

from opentelemetry.proto.metrics.v1.metrics_pb2 import (
    AGGREGATION_TEMPORALITY_DELTA,
    HistogramDataPoint,
    Metric,
)

from spanscore.export.wire import ByResource
from spanscore.model.score import Evaluation
from spanscore.otlp import codec

NAME = "gen_ai.evaluation.score"

BOUNDS = (0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9)
"""Upper bounds, inclusive, of all buckets but the last; the first contains the scores that are
exactly the lowest.
"""

_Series: TypeAlias = tuple[str | None, str, str | None, str | None]
"""Service, metric, label and agent."""


_MAX_SERIES = 10_000


class CumulativeCounts:
    """What one backend has received, and up to when (Unix ns): each series goes on where its last
    point ended.

    The collector's Prometheus exporter adds a change to what it has only if the one begins where
    the other ended; else it begins anew.
    """

    def __init__(self, start_ns: int) -> None:
        self._start_ns = start_ns
        self._ends: OrderedDict[_Series, int] = OrderedDict()

    def until_ns(self, series: _Series) -> int:
        """Where the next point of this series begins."""
        return self._ends.get(series, self._start_ns)

    def add(self, evaluations: Iterable[Evaluation], end_ns: int) -> None:
        """These were delivered, with points that end at `end_ns`."""
        for series in {_series(x) for x in evaluations if _counts(x)}:
            self._ends[series] = max(end_ns, self.until_ns(series) + 1)
            self._ends.move_to_end(series)
        while len(self._ends) > _MAX_SERIES:
            self._start_ns = max(self._start_ns, self._ends.popitem(last=False)[1])


def request(evaluations: Iterable[Evaluation], since: CumulativeCounts | int, end_ns: int) -> bytes:
    """The scores among `evaluations`, counted, as a serialised request; empty where none has a
    value.

    They are the change `since` what was sent before, or since a Unix time in ns (delta
    temporality). What an evaluation run scored is left out. Each point has exemplars: of every
    bucket the last score in it, with the evaluated trace and span. The resource is the service
    alone: with all attributes of a target's resource, each process would be a series.
    """
    counts = CumulativeCounts(since) if isinstance(since, int) else since
    values: dict[_Series, list[Evaluation]] = defaultdict(list)
    for evaluation in evaluations:
        if _counts(evaluation) and evaluation.scale is not None:
            values[_series(evaluation)].append(evaluation)
    histograms: dict[str | None, Metric] = {}
    for series, measured in sorted(
        values.items(), key=lambda x: tuple(part or "" for part in x[0])
    ):
        points = histograms.setdefault(series[0], _empty()).histogram.data_points
        start_ns = counts.until_ns(series)
        _fill(
            points.add(start_time_unix_nano=start_ns, time_unix_nano=max(end_ns, start_ns + 1)),
            series,
            measured,
        )
    groups = ByResource()
    for service, metric in histograms.items():
        groups.of({"service.name": service} if service else {}).append(metric.SerializeToString())
    return groups.request()


def normalised(evaluation: Evaluation) -> float:
    """The score's value as a share of its scale, 0 to 1."""
    low, high = evaluation.scale or (0.0, 1.0)
    share = ((evaluation.value or 0.0) - low) / (high - low) if high > low else 0.0
    return min(1.0, max(0.0, share))


def _counts(evaluation: Evaluation) -> bool:
    return evaluation.value is not None and evaluation.run is None


def _series(evaluation: Evaluation) -> _Series:
    return evaluation.service_name, evaluation.metric, evaluation.label, evaluation.agent_name


def _empty() -> Metric:
    metric = Metric(
        name=NAME, unit="1", description="Scores of evaluations, as a share of their scale."
    )
    metric.histogram.aggregation_temporality = AGGREGATION_TEMPORALITY_DELTA
    return metric


def _fill(point: HistogramDataPoint, series: _Series, measured: Sequence[Evaluation]) -> None:
    counts = [0] * (len(BOUNDS) + 1)
    values = [normalised(x) for x in measured]
    last: dict[int, tuple[float, Evaluation]] = {}
    for value, evaluation in zip(values, measured, strict=True):
        bucket = bisect_left(BOUNDS, value)
        counts[bucket] += 1
        last[bucket] = value, evaluation
    point.count, point.sum = len(values), sum(values)
    point.min, point.max = min(values), max(values)
    for _, (value, evaluation) in sorted(last.items()):
        target = evaluation.target
        point.exemplars.add(
            as_double=value,
            time_unix_nano=evaluation.evaluated_at_ns,
            trace_id=bytes.fromhex(target.trace_id),
            span_id=bytes.fromhex(target.span_id),
        )
    point.explicit_bounds.extend(BOUNDS)
    point.bucket_counts.extend(counts)
    codec.fill(point.attributes, _named(series))


def attributes(evaluation: Evaluation) -> dict[str, str | bool]:
    """The attributes by which a point of the evaluation's series differs from others."""
    return _named(_series(evaluation))


def _named(series: _Series) -> dict[str, str | bool]:
    _, metric, label, agent = series
    named: dict[str, str | bool | None] = {
        "gen_ai.evaluation.name": metric,
        "gen_ai.evaluation.score.label": label,
        "gen_ai.agent.name": agent,
        "spanscore.emitted": True,
    }
    return {key: value for key, value in named.items() if value is not None}
