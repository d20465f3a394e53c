"""Evaluations and alerts as OpenTelemetry log events."""

import hashlib
from collections.abc import Iterable, Mapping
from datetime import datetime
from functools import lru_cache
from typing import Any, Final

from opentelemetry.proto.logs.v1.logs_pb2 import SEVERITY_NUMBER_INFO, SEVERITY_NUMBER_WARN

from spanscore.export import wire, wording
from spanscore.export.wire import ByResource, Provenance
from spanscore.model.score import Evaluation, Evaluator, Failure, Score, Skip
from spanscore.model.span import Attributes, Value
from spanscore.otlp import codec
from spanscore.otlp.signal import LogRecord

EVENT_NAME = "gen_ai.evaluation.result"

_TIME = wire.head(LogRecord(time_unix_nano=1), 8)
_OBSERVED_TIME = wire.head(LogRecord(observed_time_unix_nano=1), 8)
_BODY = wire.Text(LogRecord, lambda record, text: codec.put(record.body, text))
_UID = wire.text_attribute(LogRecord, "log.record.uid")
_VALUE = wire.Double(LogRecord, "gen_ai.evaluation.score.value")
_EXPLANATION = wire.text_attribute(LogRecord, "gen_ai.evaluation.explanation")
_SKIP_CAUSE = wire.text_attribute(LogRecord, "spanscore.skip_cause")
_ERROR_TYPE = wire.text_attribute(LogRecord, "error.type")
_RESPONSE_ID = wire.text_attribute(LogRecord, "gen_ai.response.id")
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
        parts.append(wire.attributes(LogRecord, wording.trial(evaluation)))
    parts += _provenance(evaluation)
    return b"".join(parts)


@lru_cache(maxsize=1024)
def _measured_by(
    evaluator: Evaluator, scale: tuple[float, float] | None, threshold: float | None
) -> bytes:
    """Who measured on which scale: without that, a value by itself means little."""
    return wire.attributes(
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
    return record.SerializeToString() + wire.attributes(LogRecord, shared)


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
        record.SerializeToString() + wire.attributes(LogRecord, _attributes(alert))
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
