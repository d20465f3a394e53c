"""Recorded spans sent again as if they had just ended, with the real OTLP exporter where that is
installed.
"""

import secrets
from collections import defaultdict
from collections.abc import Iterable, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any
from urllib.request import Request, urlopen

from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.logs.v1 import logs_pb2
from opentelemetry.proto.trace.v1 import trace_pb2

from spanscore.cli.backend import Backend
from spanscore.errors import InputError
from spanscore.model.span import STATUS_ERROR, STATUS_OK, Span
from spanscore.otlp import decode

_GRPC_METHOD = "/opentelemetry.proto.collector.trace.v1.TraceService/Export"
_HTTP_PATH = "/v1/traces"
_TIMEOUT_S = 10


def recordings() -> Path:
    """The folder of the recordings: in the installed package, or in the repository."""
    installed = Path(__file__).parent / "recordings"
    return (
        installed if installed.is_dir() else Path(__file__).parents[3] / "examples" / "recordings"
    )


def requests(folder: Path, now_ns: int) -> list[ExportTraceServiceRequest]:
    """The requests recorded in `folder`, with new ids and all times moved so that the last span
    ends at `now_ns`.

    Some backends know a span by its id alone, so those are new as well. Raises InputError when
    there are none.
    """
    found = [
        ExportTraceServiceRequest.FromString(path.read_bytes())
        for path in sorted(folder.glob("traces-*.pb"))
    ]
    if not any(_spans(request) for request in found):
        raise InputError(
            f"{folder}: no recording there; give the folder with the traces-*.pb files"
        )
    renew(found, [], now_ns)
    return found


def renew(
    traces: Sequence[ExportTraceServiceRequest],
    logs: Sequence[ExportLogsServiceRequest],
    now_ns: int,
) -> None:
    """Change what was recorded in one go as `requests` says; of log records alone the last one is
    from `now_ns`.
    """
    spans = [span for request in traces for span in _spans(request)]
    records = [record for request in logs for record in _records(request)]
    ends_ns = [x.end_time_unix_nano for x in spans] or [
        x.time_unix_nano or x.observed_time_unix_nano for x in records
    ]
    later_ns = now_ns - max(ends_ns, default=now_ns)
    trace_mask, span_mask = secrets.token_bytes(16), secrets.token_bytes(8)
    for record in records:
        record.trace_id, record.span_id = (
            _masked(record.trace_id, trace_mask),
            _masked(record.span_id, span_mask),
        )
        record.time_unix_nano += later_ns if record.time_unix_nano else 0
        record.observed_time_unix_nano += later_ns if record.observed_time_unix_nano else 0
    for span in spans:
        span.parent_span_id = _masked(span.parent_span_id, span_mask)
        span.trace_id, span.span_id = (
            _masked(span.trace_id, trace_mask),
            _masked(span.span_id, span_mask),
        )
        for link in span.links:
            link.trace_id, link.span_id = (
                _masked(link.trace_id, trace_mask),
                _masked(link.span_id, span_mask),
            )
        span.start_time_unix_nano += later_ns
        span.end_time_unix_nano += later_ns
        for event in span.events:
            event.time_unix_nano += later_ns


def exporter_name() -> str:
    """What `send` sends with."""
    return "OpenTelemetry's OTLP exporter" if _has_exporter() else "a plain gRPC client"


def send(found: Iterable[ExportTraceServiceRequest], backend: Backend) -> bool:
    """Send the requests by OTLP; whether all were taken."""
    return _export(found, backend) if _has_exporter() else _post(found, backend)


def _has_exporter() -> bool:
    try:
        return find_spec("opentelemetry.exporter.otlp") is not None
    except ModuleNotFoundError:  # not even the packages above it
        return False


def _export(found: Iterable[ExportTraceServiceRequest], backend: Backend) -> bool:
    """Send each trace as a batch of its own, as an SDK that exports often does."""
    from opentelemetry.sdk.trace.export import SpanExportResult  # noqa: PLC0415 - optional, with the exporter

    exporter = _exporter(backend)
    try:
        batches = _by_trace(span for request in found for span in decode.spans(request))
        return all(
            exporter.export([_readable(x) for x in batch]) is SpanExportResult.SUCCESS
            for batch in batches
        )
    finally:
        exporter.shutdown()


def _exporter(backend: Backend) -> Any:
    if backend.protocol == "http":
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import (  # noqa: PLC0415 - optional
            OTLPSpanExporter as HttpExporter,
        )

        url = f"{backend.url}{_HTTP_PATH}"
        return HttpExporter(url, headers=backend.headers, timeout=_TIMEOUT_S)
    from opentelemetry.exporter.otlp.proto.grpc.trace_exporter import (  # noqa: PLC0415 - optional
        OTLPSpanExporter as GrpcExporter,
    )

    headers = tuple(backend.headers.items())
    return GrpcExporter(
        backend.target, insecure=not backend.secure, headers=headers, timeout=_TIMEOUT_S
    )


def _post(found: Iterable[ExportTraceServiceRequest], backend: Backend) -> bool:
    """Send the requests as they are, without the exporter."""
    if backend.protocol == "http":
        return all(_post_http(request.SerializeToString(), backend) for request in found)
    import grpc  # noqa: PLC0415 - only where the exporter is not installed

    secure = grpc.ssl_channel_credentials()
    channel = (
        grpc.secure_channel(backend.target, secure)
        if backend.secure
        else grpc.insecure_channel(backend.target)
    )
    with channel:
        export = channel.unary_unary(_GRPC_METHOD)
        try:
            for request in found:
                export(
                    request.SerializeToString(),
                    timeout=_TIMEOUT_S,
                    metadata=tuple(backend.headers.items()),
                )
        except grpc.RpcError:
            return False
    return True


def _post_http(body: bytes, backend: Backend) -> bool:
    headers = {**backend.headers, "content-type": "application/x-protobuf"}
    request = Request(f"{backend.url}{_HTTP_PATH}", body, headers)  # noqa: S310 - the user's own endpoint, http or https
    try:
        urlopen(request, timeout=_TIMEOUT_S).close()  # noqa: S310 - likewise
    except OSError:
        return False
    return True


def _by_trace(spans: Iterable[Span]) -> Sequence[list[Span]]:
    batches: defaultdict[str, list[Span]] = defaultdict(list)
    for span in spans:
        batches[span.trace_id].append(span)
    return list(batches.values())


def _readable(span: Span) -> Any:
    """`span` as the SDK hands a span to its exporters."""
    from opentelemetry import trace  # noqa: PLC0415 - optional, with the exporter
    from opentelemetry.sdk.resources import Resource  # noqa: PLC0415 - likewise
    from opentelemetry.sdk.trace import Event, ReadableSpan  # noqa: PLC0415 - likewise
    from opentelemetry.sdk.util.instrumentation import InstrumentationScope  # noqa: PLC0415 - likewise

    def context(trace_id: str, span_id: str) -> trace.SpanContext:
        flags = trace.TraceFlags(trace.TraceFlags.SAMPLED)
        return trace.SpanContext(
            int(trace_id, 16), int(span_id, 16), is_remote=False, trace_flags=flags
        )

    statuses = {STATUS_OK: trace.StatusCode.OK, STATUS_ERROR: trace.StatusCode.ERROR}
    status = trace.Status(
        statuses.get(span.status_code, trace.StatusCode.UNSET), span.status_message or None
    )
    return ReadableSpan(
        name=span.name,
        context=context(span.trace_id, span.span_id),
        parent=context(span.trace_id, span.parent_span_id) if span.parent_span_id else None,
        resource=Resource(span.resource.attributes),
        attributes=span.attributes,
        events=[Event(x.name, x.attributes, x.time_ns) for x in span.events],
        links=[trace.Link(context(x.trace_id, x.span_id), x.attributes) for x in span.links],
        # OTLP counts from UNSPECIFIED, the API from INTERNAL
        kind=trace.SpanKind(max(0, span.kind - 1)),
        status=status,
        start_time=span.start_ns,
        end_time=span.end_ns,
        instrumentation_scope=InstrumentationScope(span.scope.name, span.scope.version),
    )


def _masked(given: bytes, mask: bytes) -> bytes:
    """Another id in the place of `given`, the same for the same; what is no id, such as no parent,
    stays.
    """
    return (
        bytes(a ^ b for a, b in zip(given, mask, strict=True)) if len(given) == len(mask) else given
    )


def _spans(request: ExportTraceServiceRequest) -> list[trace_pb2.Span]:
    return [
        span
        for of_one in request.resource_spans
        for scoped in of_one.scope_spans
        for span in scoped.spans
    ]


def _records(request: ExportLogsServiceRequest) -> list[logs_pb2.LogRecord]:
    return [
        record
        for of_one in request.resource_logs
        for scoped in of_one.scope_logs
        for record in scoped.log_records
    ]
