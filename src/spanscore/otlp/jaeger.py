"""Jaeger's JSON, as its UI and API download traces, to OTLP: the reverse of what Jaeger does to
OTLP.
"""

import base64
import binascii
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import InstrumentationScope

from spanscore.model.span import STATUS_ERROR, STATUS_OK, Value
from spanscore.otlp import encode
from spanscore.otlp.text import well_formed

_KINDS: Final = {"internal": 1, "server": 2, "client": 3, "producer": 4, "consumer": 5}
_STATUS: Final = {"OK": STATUS_OK, "ERROR": STATUS_ERROR}
_NS_PER_US: Final = 1000


def is_trace(parsed: Any) -> bool:
    """Whether a parsed JSON value is one trace of Jaeger's."""
    return (
        isinstance(parsed, dict) and isinstance(parsed.get("spans"), list) and "processes" in parsed
    )


def request(trace: Mapping[str, Any]) -> ExportTraceServiceRequest:
    """One Jaeger trace as an export request.

    What OpenTelemetry keeps in fields of their own, and Jaeger in tags (kind, status, scope), goes
    back to the fields. Raises ValueError, TypeError, KeyError or AttributeError on an object of
    another shape.
    """
    made = ExportTraceServiceRequest()
    scopes: dict[tuple[str, str, str], Any] = {}
    resources: dict[str, Any] = {}
    for span in trace["spans"]:
        tags = dict(_tags(span.get("tags")))
        process_id = str(span.get("processID", ""))
        if process_id not in resources:
            resources[process_id] = made.resource_spans.add()
            _fill_resource(resources[process_id].resource, trace["processes"].get(process_id))
        name, version = (
            str(tags.pop("otel.scope.name", "")),
            str(tags.pop("otel.scope.version", "")),
        )
        if (process_id, name, version) not in scopes:
            scopes[process_id, name, version] = resources[process_id].scope_spans.add(
                scope=InstrumentationScope(name=name, version=version)
            )
        _fill_span(scopes[process_id, name, version].spans.add(), span, tags)
    return made


def _fill_resource(message: Any, process: Mapping[str, Any] | None) -> None:
    if process:
        tags = dict(_tags(process.get("tags")))
        encode.fill(message.attributes, {"service.name": process.get("serviceName"), **tags})


def _fill_span(message: Any, span: Mapping[str, Any], tags: dict[str, Value]) -> None:
    message.trace_id, message.span_id = _id(span["traceID"], 16), _id(span["spanID"], 8)
    message.name = well_formed(span["operationName"])
    message.start_time_unix_nano = span["startTime"] * _NS_PER_US
    message.end_time_unix_nano = (span["startTime"] + span["duration"]) * _NS_PER_US
    message.kind = _KINDS.get(str(tags.pop("span.kind", "")), 0)
    failed = tags.pop("error", None) in (True, "true")
    message.status.code = _STATUS.get(
        str(tags.pop("otel.status_code", "")), STATUS_ERROR if failed else 0
    )
    message.status.message = str(tags.pop("otel.status_description", ""))
    encode.fill(message.attributes, tags)
    for log in span.get("logs") or ():
        fields = dict(_tags(log["fields"]))
        name = str(fields.pop("event", ""))
        event = message.events.add(name=name, time_unix_nano=log["timestamp"] * _NS_PER_US)
        encode.fill(event.attributes, fields)
    _fill_references(message, span)


def _fill_references(message: Any, span: Mapping[str, Any]) -> None:
    """The parent is the first CHILD_OF, else the first FOLLOWS_FROM, within the trace; every other
    one is a link.
    """
    references = list(span.get("references") or ())
    near = [x for x in references if x["traceID"] == span["traceID"]]
    parent = next((x for x in near if x["refType"] == "CHILD_OF"), near[0] if near else None)
    if parent:
        references.remove(parent)
        message.parent_span_id = _id(parent["spanID"], 8)
    elif span.get("parentSpanID"):  # how Jaeger wrote it before there were references
        message.parent_span_id = _id(span["parentSpanID"], 8)
    for reference in references:
        message.links.add(
            trace_id=_id(reference["traceID"], 16), span_id=_id(reference["spanID"], 8)
        )


def _tags(pairs: Iterable[Mapping[str, Any]] | None) -> Iterator[tuple[str, Value]]:
    for pair in pairs or ():
        tag_value = pair["value"]
        if pair.get("type") == "binary":
            try:
                tag_value = base64.b64decode(tag_value, validate=True)
            except (binascii.Error, TypeError):
                raise ValueError(
                    f"tag {pair['key']!r} is marked as binary but is no base64"
                ) from None
        elif pair.get("type") == "float64":
            tag_value = float(tag_value)
        yield pair["key"], tag_value


def _id(text: str, length: int) -> bytes:
    """An id in hex; Jaeger drops leading zeros."""
    return bytes.fromhex(text.zfill(2 * length))
