"""OTLP spans for a Zipkin server, as JSON of its API: `python converter.py PORT URL`.

It stands for the collector's zipkin exporter, which the collector of the tests is built without.
What it does is what OpenTelemetry says of an exporter to Zipkin: attributes as tags, events as
annotations, an error as the tag `error`.
"""

import gzip
import json
import sys
import urllib.error
import urllib.request
from collections.abc import Iterable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, InstrumentationScope, KeyValue
from opentelemetry.proto.trace.v1.trace_pb2 import Span, Status

KINDS = {
    Span.SPAN_KIND_SERVER: "SERVER",
    Span.SPAN_KIND_CLIENT: "CLIENT",
    Span.SPAN_KIND_PRODUCER: "PRODUCER",
    Span.SPAN_KIND_CONSUMER: "CONSUMER",
}


def converted(request: ExportTraceServiceRequest) -> Iterator[dict[str, Any]]:
    """The spans of `request`, each as Zipkin has it."""
    for group in request.resource_spans:
        resource = tags(group.resource.attributes)
        service = resource.pop("service.name", "unknown_service")
        for scoped in group.scope_spans:
            for span in scoped.spans:
                yield _span(span, service, {**resource, **_scope(scoped.scope)})


def tags(attributes: Iterable[KeyValue]) -> dict[str, str]:
    """Attributes as texts."""
    return {x.key: text(x.value) for x in attributes}


def text(value: AnyValue) -> str:
    """A value as text; what is not a single value as JSON."""
    found = plain(value)
    return found if isinstance(found, str) else json.dumps(found)


def plain(value: AnyValue) -> Any:
    """A value as JSON has it."""
    kind = value.WhichOneof("value")
    if kind == "array_value":
        return [plain(x) for x in value.array_value.values]
    if kind == "kvlist_value":
        return {x.key: plain(x.value) for x in value.kvlist_value.values}
    if kind == "bytes_value":
        return value.bytes_value.hex()
    return getattr(value, kind) if kind else ""


def _span(span: Span, service: str, around: dict[str, str]) -> dict[str, Any]:
    start_us = span.start_time_unix_nano // 1000
    found: dict[str, Any] = {
        "traceId": span.trace_id.hex(),
        "id": span.span_id.hex(),
        "name": span.name,
        "timestamp": start_us,
        "duration": max(1, span.end_time_unix_nano // 1000 - start_us),
        "localEndpoint": {"serviceName": service},
        "tags": {**around, **tags(span.attributes), **_status(span.status)},
        "annotations": [
            {"timestamp": x.time_unix_nano // 1000, "value": _event(x)} for x in span.events
        ],
    }
    if span.parent_span_id:
        found["parentId"] = span.parent_span_id.hex()
    if span.kind in KINDS:
        found["kind"] = KINDS[span.kind]
    return found


def _scope(scope: InstrumentationScope) -> dict[str, str]:
    named = {"otel.scope.name": scope.name, "otel.scope.version": scope.version}
    return {key: value for key, value in named.items() if value}


def _status(status: Status) -> dict[str, str]:
    if status.code == Status.STATUS_CODE_ERROR:
        return {"otel.status_code": "ERROR", "error": status.message}
    return {"otel.status_code": "OK"} if status.code == Status.STATUS_CODE_OK else {}


def _event(event: Span.Event) -> str:
    found = {x.key: plain(x.value) for x in event.attributes}
    return json.dumps({event.name: found}) if found else event.name


class _Handler(BaseHTTPRequestHandler):
    url = ""

    def do_POST(self) -> None:
        """Pass an export on; while Zipkin does not take it the sender is told to come again."""
        body = self.rfile.read(int(self.headers["Content-Length"]))
        if self.headers.get("Content-Encoding") == "gzip":
            body = gzip.decompress(body)
        spans = list(converted(ExportTraceServiceRequest.FromString(body)))
        request = urllib.request.Request(
            self.url, json.dumps(spans).encode(), {"Content-Type": "application/json"}
        )
        try:
            with urllib.request.urlopen(request, timeout=30):
                self._answer(200)
        except OSError:
            self._answer(503)

    def _answer(self, status: int) -> None:
        body = ExportTraceServiceResponse().SerializeToString()
        self.send_response(status)
        self.send_header("Content-Type", "application/x-protobuf")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


def main() -> None:
    _Handler.url = sys.argv[2]
    ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1])), _Handler).serve_forever()


if __name__ == "__main__":
    main()
