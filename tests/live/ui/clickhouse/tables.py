"""The tables of the Collector's ClickHouse exporter, and spans and log records as the rows that it
writes there.

After exporter/clickhouseexporter of opentelemetry-collector-contrib v0.130 (Apache-2.0): its layout
of columns, and `AsString` of the Collector's pdata for what an attribute's value becomes in a map
of texts.
"""

import base64
import json
from collections.abc import Callable, Iterator

from spanscore.model.span import Attributes, LogRecord, Span, Value

_MAP = "Map(LowCardinality(String), String)"


def tables(attributes: str = _MAP) -> tuple[str, ...]:
    """The statements that create them; with columns of the type `JSON` as the exporter does with
    `json: true`.
    """
    return tuple(x.replace(_MAP, attributes) for x in _TABLES)


_TABLES = (
    f"""CREATE TABLE otel_traces (
    Timestamp DateTime64(9), TraceId String, SpanId String, ParentSpanId String, TraceState String,
    SpanName LowCardinality(String), SpanKind LowCardinality(String), ServiceName \
LowCardinality(String),
    ResourceAttributes {_MAP}, ScopeName String, ScopeVersion String, SpanAttributes {_MAP}, \
Duration UInt64,
    StatusCode LowCardinality(String), StatusMessage String,
    Events Nested (Timestamp DateTime64(9), Name LowCardinality(String), Attributes {_MAP}),
    Links Nested (TraceId String, SpanId String, TraceState String, Attributes {_MAP}))
    ENGINE = MergeTree PARTITION BY toDate(Timestamp) ORDER BY (ServiceName, SpanName, \
toDateTime(Timestamp))""",
    f"""CREATE TABLE otel_logs (
    Timestamp DateTime64(9), TraceId String, SpanId String, TraceFlags UInt8, SeverityText \
LowCardinality(String),
    SeverityNumber UInt8, ServiceName LowCardinality(String), Body String, ResourceSchemaUrl \
LowCardinality(String),
    ResourceAttributes {_MAP}, ScopeSchemaUrl LowCardinality(String), ScopeName String,
    ScopeVersion LowCardinality(String), ScopeAttributes {_MAP}, LogAttributes {_MAP}, EventName \
String)
    ENGINE = MergeTree PARTITION BY toDate(Timestamp) ORDER BY (ServiceName, Timestamp)""",
)

_KINDS = ("Unspecified", "Internal", "Server", "Client", "Producer", "Consumer")
_STATUSES = ("Unset", "Ok", "Error")


def insert(spans: list[Span], logs: list[LogRecord], *, as_json: bool = False) -> Iterator[str]:
    """The statements that insert these; `as_json` into columns of JSON."""
    attributes = dict if as_json else _map
    for table, rows in (
        ("otel_traces", [_span(x, attributes) for x in spans]),
        ("otel_logs", [_log(x, attributes) for x in logs]),
    ):
        if rows:
            yield f"INSERT INTO {table} FORMAT JSONEachRow\n" + "\n".join(map(json.dumps, rows))


def _span(span: Span, attributes: Callable[[Attributes], object]) -> dict[str, object]:
    return {
        "Timestamp": _time(span.start_ns),
        "TraceId": span.trace_id,
        "SpanId": span.span_id,
        "ParentSpanId": span.parent_span_id,
        "SpanName": span.name,
        "SpanKind": _KINDS[span.kind],
        "ServiceName": str(span.resource.attributes.get("service.name", "")),
        "ResourceAttributes": attributes(span.resource.attributes),
        "ScopeName": span.scope.name,
        "ScopeVersion": span.scope.version,
        "SpanAttributes": attributes(span.attributes),
        "Duration": max(span.end_ns - span.start_ns, 0),
        "StatusCode": _STATUSES[span.status_code],
        "StatusMessage": span.status_message,
        "Events.Timestamp": [_time(x.time_ns) for x in span.events],
        "Events.Name": [x.name for x in span.events],
        "Events.Attributes": [attributes(x.attributes) for x in span.events],
        "Links.TraceId": [x.trace_id for x in span.links],
        "Links.SpanId": [x.span_id for x in span.links],
        "Links.TraceState": ["" for _ in span.links],
        "Links.Attributes": [attributes(x.attributes) for x in span.links],
    }


def _log(log: LogRecord, attributes: Callable[[Attributes], object]) -> dict[str, object]:
    return {
        "Timestamp": _time(log.time_ns),
        "TraceId": log.trace_id,
        "SpanId": log.span_id,
        "SeverityNumber": log.severity_number,
        "ServiceName": str(log.resource.attributes.get("service.name", "")),
        "Body": _text(log.body),
        "ResourceAttributes": attributes(log.resource.attributes),
        "ScopeName": log.scope.name,
        "ScopeVersion": log.scope.version,
        "LogAttributes": attributes(log.attributes),
        "EventName": log.event_name,
    }


def _time(ns: int) -> str:
    return f"{ns // 10**9}.{ns % 10**9:09}"


def _map(attributes: Attributes) -> dict[str, str]:
    return {name: _text(value) for name, value in attributes.items()}


def _text(value: Value) -> str:
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    if value is None:
        return ""
    return (
        value
        if isinstance(value, str)
        else json.dumps(value, separators=(",", ":"), ensure_ascii=False)
    )
