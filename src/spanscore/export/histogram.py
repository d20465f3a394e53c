"""Evaluations as the histogram `gen_ai.evaluation.score`: how the scores of an agent are distributed."""

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterable
from typing import TypeAlias

from opentelemetry.proto.metrics.v1.metrics_pb2 import AGGREGATION_TEMPORALITY_DELTA, HistogramDataPoint, Metric

from spanscore.export.resources import ByResource
from spanscore.model.score import Evaluation
from spanscore.model.span import Value
from spanscore.otlp import encode

NAME = "gen_ai.evaluation.score"

BOUNDS = (0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9)
"""Upper bounds, inclusive, of all buckets but the last; the first holds the scores that are exactly the lowest."""

_Series: TypeAlias = tuple[str | None, str, str | None, str | None]
"""Service, metric, label and agent."""


def request(evaluations: Iterable[Evaluation], start_ns: int, end_ns: int) -> bytes:
    """The scores among `evaluations`, counted, as a serialised request; empty where none has a value.

    They are the change between two times in Unix ns (delta temporality). The resource is the service alone: with all
    that a target's resource says, each process would be a series.
    """
    values: dict[_Series, list[float]] = defaultdict(list)
    for evaluation in evaluations:
        if evaluation.value is not None:
            service = evaluation.service_name
            values[service, evaluation.metric, evaluation.label, evaluation.agent_name].append(normalised(evaluation))
    histograms: dict[str | None, Metric] = {}
    for series, measured in sorted(values.items(), key=lambda x: tuple(part or "" for part in x[0])):
        points = histograms.setdefault(series[0], _empty()).histogram.data_points
        _fill(points.add(start_time_unix_nano=start_ns, time_unix_nano=max(end_ns, start_ns + 1)), series, measured)
    groups = ByResource()
    for service, metric in histograms.items():
        groups.of({"service.name": service} if service else {}).append(metric.SerializeToString())
    return groups.request()


def normalised(evaluation: Evaluation) -> float:
    """The score's value as a share of its scale, 0 to 1."""
    low, high = evaluation.scale
    share = ((evaluation.value or 0.0) - low) / (high - low) if high > low else 0.0
    return min(1.0, max(0.0, share))


def _empty() -> Metric:
    metric = Metric(name=NAME, unit="1", description="Scores of evaluations, as a share of their scale.")
    metric.histogram.aggregation_temporality = AGGREGATION_TEMPORALITY_DELTA
    return metric


def _fill(point: HistogramDataPoint, series: _Series, measured: list[float]) -> None:
    counts = [0] * (len(BOUNDS) + 1)
    for value in measured:
        counts[bisect_left(BOUNDS, value)] += 1
    point.count, point.sum = len(measured), sum(measured)
    point.min, point.max = min(measured), max(measured)
    point.explicit_bounds.extend(BOUNDS)
    point.bucket_counts.extend(counts)
    _, metric, label, agent = series
    named: dict[str, Value] = {
        "gen_ai.evaluation.name": metric,
        "gen_ai.evaluation.score.label": label,
        "gen_ai.agent.name": agent,
        "spanscore.emitted": True,
    }
    encode.fill(point.attributes, {key: value for key, value in named.items() if value is not None})
