"""Metrics as an OTLP request: cumulative since the start, under their own names."""

from collections.abc import Iterable, Mapping
from typing import Any

from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.metrics.v1.metrics_pb2 import AGGREGATION_TEMPORALITY_CUMULATIVE

from spanscore.telemetry.meter import Distribution, Labels, Series


def request(
    series: Iterable[Series], resource: Mapping[str, str], started_ns: int, now_ns: int
) -> bytes:
    """The serialised request; metrics without any value are left out.

    Times are Unix nanoseconds.
    """
    made = ExportMetricsServiceRequest()
    group = made.resource_metrics.add()
    _fill(group.resource.attributes, resource)
    scoped = group.scope_metrics.add()
    scoped.scope.name = "spanscore"
    scoped.scope.version = resource.get("service.version", "")
    for one in series:
        if one.values:
            _put(scoped.metrics.add(), one, started_ns, max(now_ns, started_ns + 1))
    return made.SerializeToString()


def _put(metric: Any, series: Series, started_ns: int, now_ns: int) -> None:
    declared = series.metric
    metric.name, metric.unit, metric.description = declared.name, declared.unit, declared.about
    match declared.kind:
        case "counter":
            data = metric.sum
            data.is_monotonic = True
            data.aggregation_temporality = AGGREGATION_TEMPORALITY_CUMULATIVE
        case "gauge":
            data = metric.gauge
        case "histogram":
            data = metric.histogram
            data.aggregation_temporality = AGGREGATION_TEMPORALITY_CUMULATIVE
    for labels, value in sorted(series.values.items(), key=lambda x: x[0]):
        point = data.data_points.add(time_unix_nano=now_ns)
        if declared.kind != "gauge":
            point.start_time_unix_nano = started_ns
        _measure(point, value)
        _fill(point.attributes, _named(declared.labels, labels))


def _measure(point: Any, value: float | Distribution) -> None:
    if isinstance(value, Distribution):
        point.count, point.sum = sum(value.counts), value.total
        point.explicit_bounds.extend(value.bounds)
        point.bucket_counts.extend(value.counts)
    elif isinstance(value, int):
        point.as_int = value
    else:
        point.as_double = value


def _named(names: Labels, values: Labels) -> dict[str, str]:
    return dict(zip(names, values, strict=True))


def _fill(attributes: Any, named: Mapping[str, str]) -> None:
    for key, text in named.items():
        attributes.add(key=key).value.string_value = text.encode("utf-8", "replace").decode()
