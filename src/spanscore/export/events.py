"""Evaluations and alerts as OpenTelemetry log events."""

import hashlib
from bisect import bisect_left
from collections import OrderedDict, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from functools import lru_cache
from typing import Any, Final, TypeAlias

from opentelemetry.proto.logs.v1.logs_pb2 import SEVERITY_NUMBER_INFO, SEVERITY_NUMBER_WARN
from opentelemetry.proto.metrics.v1.metrics_pb2 import (
    AGGREGATION_TEMPORALITY_DELTA,
    HistogramDataPoint,
    Metric,
)

from spanscore.export import wording
from spanscore.export.wording import ByResource, Provenance
from spanscore.model.score import Evaluation, Evaluator, Failure, Score, Skip
from spanscore.model.span import Attributes, Value
from spanscore.otlp import codec
from spanscore.otlp.signal import LogRecord

EVENT_NAME = "gen_ai.evaluation.result"

_TIME = wording.head(LogRecord(time_unix_nano=1), 8)
_OBSERVED_TIME = wording.head(LogRecord(observed_time_unix_nano=1), 8)
_BODY = wording.Text(LogRecord, lambda record, text: codec.put(record.body, text))
_UID = wording.text_attribute(LogRecord, "log.record.uid")
_VALUE = wording.Double(LogRecord, "gen_ai.evaluation.score.value")
_EXPLANATION = wording.text_attribute(LogRecord, "gen_ai.evaluation.explanation")
_SKIP_CAUSE = wording.text_attribute(LogRecord, "spanscore.skip_cause")
_ERROR_TYPE = wording.text_attribute(LogRecord, "error.type")
_RESPONSE_ID = wording.text_attribute(LogRecord, "gen_ai.response.id")
_provenance = Provenance(LogRecord)


def request(evaluations: Iterable[Evaluation], max_text_length: int) -> bytes:
    """The events of `evaluations` as a serialised request; none for one that is not shown."""
    groups = ByResource()
    for evaluation in evaluations:
        if evaluation.is_shown:
            record = _placed(evaluation) + _content(evaluation, max_text_length)
            groups.of(evaluation.target.resource).append(record)
    return groups.request()


def _placed(evaluation: Evaluation) -> bytes:
    """Ids and times."""
    time = evaluation.evaluated_at_ns.to_bytes(8, "little")  # as protobuf writes a fixed64
    return (
        _joined_to(evaluation.target.trace_id, evaluation.target.span_id)
        + _TIME
        + time
        + _OBSERVED_TIME
        + time
    )


@lru_cache(maxsize=64)  # the scores of a trace follow one another
def _joined_to(trace_id: str, span_id: str) -> bytes:
    return LogRecord(
        trace_id=bytes.fromhex(trace_id), span_id=bytes.fromhex(span_id)
    ).SerializeToString()


def _content(evaluation: Evaluation, max_text_length: int) -> bytes:
    """Name, severity, body and attributes."""
    outcome = evaluation.outcome
    failed = isinstance(outcome, Failure)
    parts = [
        _same_for_many(
            evaluation.metric, evaluation.label, evaluation.scope, evaluation.revision, failed
        ),
        _measured_by(evaluation.evaluator, evaluation.scale, evaluation.threshold),
        _BODY(wording.summary(evaluation)),
        _UID(evaluation.uid),
    ]
    if reason := wording.cut(evaluation.reason, max_text_length):
        parts.append(_EXPLANATION(reason))
    if isinstance(outcome, Failure):
        parts.append(_ERROR_TYPE(outcome.type))
    elif isinstance(outcome, Skip):
        parts.append(_SKIP_CAUSE(outcome.cause))
    elif isinstance(outcome, Score):
        parts.append(_VALUE(wording.rounded(outcome.value, evaluation.threshold)))
    if evaluation.target.response_id is not None:
        parts.append(_RESPONSE_ID(evaluation.target.response_id))
    if evaluation.trial is not None:
        parts.append(wording.attributes(LogRecord, wording.trial(evaluation)))
    parts += _provenance(evaluation)
    return b"".join(parts)


@lru_cache(maxsize=1024)
def _measured_by(
    evaluator: Evaluator, scale: tuple[float, float] | None, threshold: float | None
) -> bytes:
    """Who measured on which scale: without that, a value by itself means little."""
    return wording.attributes(
        LogRecord, wording.evaluator(evaluator) | wording.bounds(scale, threshold)
    )


@lru_cache(maxsize=1024)
def _same_for_many(
    metric: str, label: str | None, scope: str, revision: int, failed: bool
) -> bytes:
    """What the events of one metric, label and revision share."""
    severity = SEVERITY_NUMBER_WARN if failed else SEVERITY_NUMBER_INFO
    record = LogRecord(
        event_name=EVENT_NAME, severity_number=severity, severity_text="WARN" if failed else "INFO"
    )
    shared: dict[str, Value] = {
        "event.name": EVENT_NAME,
        "gen_ai.evaluation.name": metric,
        "spanscore.emitted": True,
        "spanscore.scope": scope,
        "spanscore.revision": revision,
    }
    if label:
        shared["gen_ai.evaluation.score.label"] = label
    return record.SerializeToString() + wording.attributes(LogRecord, shared)


ALERT_EVENT_NAME: Final = "spanscore.monitor.alert"

_ATTRIBUTES: Final = {
    "monitor": "spanscore.monitor.name",
    "id": "spanscore.monitor.alert.id",
    "status": "spanscore.monitor.alert.status",
    "tenant": "spanscore.tenant",
    "metric": "gen_ai.evaluation.name",
    "scope": "spanscore.scope",
    "of": "spanscore.monitor.of",
    "service": "spanscore.monitor.service",
    "agent": "gen_ai.agent.name",
    "run": "spanscore.run.id",
    "began_at": "spanscore.monitor.alert.began_at",
    "floor": "spanscore.monitor.floor",
    "mean": "spanscore.monitor.mean",
    "sessions": "spanscore.monitor.sessions",
    "alpha": "spanscore.monitor.alpha",
    "certified": "spanscore.evaluator.certified",
}
"""The attribute of each field of an alert's record; what is None has none."""


def alert_request(alert: Mapping[str, Any], resource: Attributes) -> bytes:
    """An alert's record as a serialised export request of one log record, of spanscore's own
    `resource`.

    Sent again it is the same record, with the same `log.record.uid`.
    """
    time_ns = round(datetime.fromisoformat(alert["changed_at"]).timestamp() * 1000) * 10**6
    fires = alert["status"] == "firing"
    record = LogRecord(
        event_name=ALERT_EVENT_NAME,
        time_unix_nano=time_ns,
        observed_time_unix_nano=time_ns,
        severity_number=SEVERITY_NUMBER_WARN if fires else SEVERITY_NUMBER_INFO,
        severity_text="WARN" if fires else "INFO",
    )
    codec.put(record.body, alert["summary"])
    groups = ByResource()
    groups.of(resource).append(
        record.SerializeToString() + wording.attributes(LogRecord, _attributes(alert))
    )
    return groups.request()


def _attributes(alert: Mapping[str, Any]) -> dict[str, Value]:
    identity = "\n".join(str(alert[name]) for name in ("tenant", "id", "status", "changed_at"))
    found: dict[str, Value] = {
        "event.name": ALERT_EVENT_NAME,
        "spanscore.emitted": True,
        "log.record.uid": hashlib.sha256(identity.encode()).hexdigest()[:32],
    }
    found |= {name: alert[field] for field, name in _ATTRIBUTES.items() if alert[field] is not None}
    return found | {
        f"spanscore.monitor.label.{name}": value for name, value in alert["labels"].items()
    }


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


def histogram_request(
    evaluations: Iterable[Evaluation], since: CumulativeCounts | int, end_ns: int
) -> bytes:
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
