"""Alerts of monitors as OpenTelemetry events, for backends that take logs."""

import hashlib
from collections.abc import Mapping
from datetime import datetime
from typing import Any, Final

from opentelemetry.proto.logs.v1.logs_pb2 import SEVERITY_NUMBER_INFO, SEVERITY_NUMBER_WARN

from spanscore.export import wire
from spanscore.export.resources import ByResource
from spanscore.model.span import Attributes, Value
from spanscore.otlp import encode
from spanscore.otlp.logs import LogRecord

EVENT_NAME: Final = "spanscore.monitor.alert"

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


def request(alert: Mapping[str, Any], resource: Attributes) -> bytes:
    """An alert's record as a serialised export request of one log record, of spanscore's own
    `resource`.

    Sent again it is the same record, with the same `log.record.uid`.
    """
    time_ns = round(datetime.fromisoformat(alert["changed_at"]).timestamp() * 1000) * 10**6
    fires = alert["status"] == "firing"
    record = LogRecord(
        event_name=EVENT_NAME,
        time_unix_nano=time_ns,
        observed_time_unix_nano=time_ns,
        severity_number=SEVERITY_NUMBER_WARN if fires else SEVERITY_NUMBER_INFO,
        severity_text="WARN" if fires else "INFO",
    )
    encode.put(record.body, alert["summary"])
    groups = ByResource()
    groups.of(resource).append(
        record.SerializeToString() + wire.attributes(LogRecord, _attributes(alert))
    )
    return groups.request()


def _attributes(alert: Mapping[str, Any]) -> dict[str, Value]:
    identity = "\n".join(str(alert[name]) for name in ("tenant", "id", "status", "changed_at"))
    found: dict[str, Value] = {
        "event.name": EVENT_NAME,
        "spanscore.emitted": True,
        "log.record.uid": hashlib.sha256(identity.encode()).hexdigest()[:32],
    }
    found |= {name: alert[field] for field, name in _ATTRIBUTES.items() if alert[field] is not None}
    return found | {
        f"spanscore.monitor.label.{name}": value for name, value in alert["labels"].items()
    }
