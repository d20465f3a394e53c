"""Metrics in Prometheus' text format and as OTLP."""

import math
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.metrics.v1.metrics_pb2 import AGGREGATION_TEMPORALITY_CUMULATIVE

from spanscore.telemetry.declared import Declared
from spanscore.telemetry.meter import Distribution, Labels, Series

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"

_UNITS = {"s": "seconds", "By": "bytes"}
"""Units by their UCUM symbols; those in braces only annotate a number, and are left out of
names.
"""


def name(metric: Declared) -> str:
    """The metric's name there, as the collector's exporter would make it: with its unit, and
    `_total` on a counter.

    >>> from spanscore.telemetry import declared
    >>> name(declared.PROCESS_UPTIME)
    'spanscore_process_uptime_seconds_total'
    """
    unit = _UNITS.get(metric.unit)
    suffixes = [f"_{unit}"] if unit else []
    suffixes += ["_total"] if metric.kind == "counter" else []
    return metric.name + "".join(suffixes)


def page(series: Iterable[Series], resource: Mapping[str, str]) -> str:
    """The whole page; `resource` is shown as `target_info`, as OpenTelemetry has it."""
    lines = ["# HELP target_info Who this is.", "# TYPE target_info gauge"]
    lines.append(
        _line("target_info", {_label(key): value for key, value in sorted(resource.items())}, 1)
    )
    for one in series:
        lines += _lines(one)
    return "\n".join(lines) + "\n"


def _lines(series: Series) -> Iterator[str]:
    metric, called = series.metric, name(series.metric)
    yield f"# HELP {called} {_escaped(metric.about)}"
    yield f"# TYPE {called} {metric.kind}"
    for labels, value in sorted(series.values.items(), key=lambda x: x[0]):
        named = dict(zip(metric.labels, labels, strict=True))
        if isinstance(value, Distribution):
            yield from _buckets(called, named, value)
        else:
            yield _line(called, named, value)


def _buckets(called: str, named: Mapping[str, str], found: Distribution) -> Iterator[str]:
    up_to = 0
    for bound, count in zip((*found.bounds, math.inf), found.counts, strict=True):
        up_to += count
        yield _line(f"{called}_bucket", {**named, "le": _number(bound)}, up_to)
    yield _line(f"{called}_sum", named, found.total)
    yield _line(f"{called}_count", named, up_to)


def _line(called: str, labels: Mapping[str, str], value: float) -> str:
    pairs = ",".join(f'{key}="{_quoted(text)}"' for key, text in labels.items())
    return f"{called}{{{pairs}}} {_number(value)}" if pairs else f"{called} {_number(value)}"


def _number(value: float) -> str:
    if math.isinf(value):
        return "+Inf" if value > 0 else "-Inf"
    return repr(value)


def _label(key: str) -> str:
    """An attribute's key as a label's name: other characters than letters, digits and `_` become
    `_`.
    """
    plain = "".join(x if x.isascii() and (x.isalnum() or x == "_") else "_" for x in key)
    return f"_{plain}" if plain[:1].isdigit() else plain


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace("\n", "\\n")


def _quoted(text: str) -> str:
    well_formed = text.encode("utf-8", "replace").decode()
    return _escaped(well_formed).replace('"', '\\"')


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
