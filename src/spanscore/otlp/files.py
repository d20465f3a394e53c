"""Recorded telemetry in files: OTLP and Jaeger's JSON."""

import base64
import binascii
import codecs
import gzip
import os
import zlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, TypeAlias

from google.protobuf.message import DecodeError, Message
from google.protobuf.unknown_fields import UnknownFieldSet
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import InstrumentationScope

from spanscore.errors import InputError
from spanscore.model.span import STATUS_ERROR, STATUS_OK, LogRecord, Span, Value
from spanscore.otlp import check, codec
from spanscore.otlp.check import Refusal, mend
from spanscore.otlp.codec import well_formed
from spanscore.otlp.signal import SIGNALS, WIRE, Signal

GZIP: Final = b"\x1f\x8b"
ZSTD: Final = b"\x28\xb5\x2f\xfd"
"""How compressed files begin."""

_ZSTD_HEADER_BYTES: Final = 18
_GZIP_SIZE_BYTES: Final = 4
_COMPRESSED: Final = 8
"""How many times its size a compressed file contains, where it does not say: a cautious guess, a
recording of 45 MB takes 2.5 MB by zstd.
"""

_ITEMS: Final[dict[Signal, tuple[str, ...]]] = {
    "traces": ("resource_spans", "scope_spans", "spans"),
    "logs": ("resource_logs", "scope_logs", "log_records"),
    "metrics": ("resource_metrics", "scope_metrics", "metrics"),
}
"""The fields that lead from a request to its spans, log records or metrics."""

_SUFFIXES: Final = (".pb", ".json", ".jsonl", ".ndjson")
_KNOWN: Final = "OTLP (*.pb, JSON or JSON Lines), Jaeger JSON or a Tempo export"


class ForeignFileError(InputError):
    """A file is empty, or holds JSON that is no telemetry."""


@dataclass(slots=True)
class Telemetry:
    """What files contain, in their order.

    `refused` names what was left out, a span or a file, with the reason.

    `truncated` has the ids of the traces that are known not to be all there, each with the reason.
    """

    spans: list[Span] = field(default_factory=list)
    logs: list[LogRecord] = field(default_factory=list)
    refused: list[str] = field(default_factory=list)
    truncated: dict[str, str] = field(default_factory=dict)


class _NoTelemetryError(ValueError):
    """JSON of another kind."""


PathLike: TypeAlias = str | os.PathLike[str]


def load(paths: PathLike | Iterable[PathLike]) -> Telemetry:
    """Everything that a file or folder, or several of them, contain; of a folder all below it.

    Metrics are passed over.

    A file is an export request in protobuf (`*.pb`, of spans or logs as its content shows),
    OTLP/JSON (one request, an array of them, or JSON Lines as the collector's file exporter writes
    them), Jaeger's JSON or a Tempo export; each may be compressed by gzip or zstd. Raises
    InputError where something is not; an empty file and JSON of another kind are passed over in a
    folder that holds telemetry too.
    """
    found = Telemetry()
    for path in map(Path, [paths] if isinstance(paths, str | os.PathLike) else paths):
        if path.is_dir():
            _load_folder(path, found)
        else:
            _load_file(path, found)
    return found


def listed(paths: Iterable[Path]) -> list[tuple[Path, int]]:
    """Every file that `load` would read, in its order, with its size in bytes.

    Raises InputError where one is not.
    """
    found = [x for path in paths for x in (_inside(path) if path.is_dir() else [path])]
    try:
        return [(path, path.stat().st_size) for path in found]
    except OSError as error:
        raise InputError(
            f"{error.filename}: cannot be read ({error.strerror}): give {_KNOWN}"
        ) from None


def content_bytes(paths: Iterable[Path]) -> int:
    """About how many bytes all files contain once they are decompressed, by the first and last few
    of each.

    Raises InputError where one cannot be read.
    """
    return sum(_content_bytes(path, size) for path, size in listed(paths))


def is_telemetry(name: str) -> bool:
    """Whether a file is taken for telemetry, by its name, when its folder is read."""
    return without_compression(name).endswith(_SUFFIXES)


def without_compression(name: str) -> str:
    """The name of a file without the suffix of its compression."""
    return name.removesuffix(".gz").removesuffix(".zst")


def _inside(folder: Path) -> list[Path]:
    return sorted(x for x in folder.rglob("*") if is_telemetry(x.name) and x.is_file())


def _content_bytes(path: Path, size: int) -> int:
    if not path.is_file():  # what is read from a pipe is gone
        return size
    try:
        with path.open("rb") as file:
            start = file.read(_ZSTD_HEADER_BYTES)
            if start.startswith(GZIP):
                file.seek(max(0, size - _GZIP_SIZE_BYTES))
                noted = int.from_bytes(file.read(), "little")
            elif start.startswith(ZSTD):
                noted = _noted_by_zstd(start)
            else:
                return size
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror}): give {_KNOWN}") from None
    # of a gzip file of several members or 4 GiB, and a zstd file of several frames, too little
    return noted if noted >= size else size * _COMPRESSED


def _noted_by_zstd(start: bytes) -> int:
    """The size of the content by the header of a zstd frame (RFC 8878, 3.1.1.1); 0 where it has
    none.
    """
    descriptor = int.from_bytes(start[4:5])
    is_single_segment = bool(descriptor & 0x20)
    offset = 5 + (not is_single_segment) + (0, 1, 2, 4)[descriptor & 3]
    width = (int(is_single_segment), 2, 4, 8)[descriptor >> 6]
    size = int.from_bytes(start[offset : offset + width], "little")
    return size + 256 if width == 2 else size


def _load_folder(folder: Path, found: Telemetry) -> None:
    inside = _inside(folder)
    foreign: list[str] = []
    for path in inside:
        try:
            _load_file(path, found)
        except ForeignFileError as error:
            foreign.append(str(error))
    if len(foreign) == len(inside):
        alone = foreign[0] if len(foreign) == 1 else ""
        raise InputError(alone or f"{folder}: nothing in this folder is {_KNOWN}")
    found.refused += foreign


def _load_file(path: Path, found: Telemetry) -> None:
    _add(found, path, requests(path))


def decode_into(
    found: Telemetry, path: Path, content: bytes, place: str, *, is_later: bool = False
) -> None:
    """Add what a document of a file contains; `is_later`: it is a line after the first.

    Raises InputError where it is damaged, naming `place`.
    """
    if not content.strip():
        return
    if is_binary(path, content):
        _add(found, path, [_binary_request(path, content)])
    else:
        _add(found, path, _of_document(place, content, is_later=is_later))


def _add(
    found: Telemetry, path: Path, requests: Iterable[tuple[Signal, Message, list[str]]]
) -> None:
    for signal, request, undecodable in requests:
        if signal == "traces":
            found.refused += undecodable + _named(path, signal, check.remove_damaged(request))
            found.spans += codec.spans(request)
        elif signal == "logs":
            found.refused += undecodable
            found.logs += codec.log_records(request)


def requests(path: Path) -> Iterator[tuple[Signal, Message, list[str]]]:
    """The export requests of one file, in its order, each with what could not be decoded of it, by
    its place.
    """
    content = _content(path)
    if not content.strip():
        raise ForeignFileError(f"{path}: the file is empty: give {_KNOWN}")
    if is_binary(path, content):
        yield _binary_request(path, content)
    else:
        for number, (place, text) in enumerate(_documents(path, content)):
            yield from _of_document(place, text, is_later=number > 0)


def is_binary(path: Path, content: bytes) -> bool:
    """Whether a file is in protobuf, by its name and by how it begins."""
    return content[:64].lstrip()[:1] not in (b"{", b"[") or without_compression(path.name).endswith(
        ".pb"
    )


def is_json(text: bytes) -> bool:
    """Whether a text is JSON by itself."""
    try:
        codec.loads(text)
    except ValueError:
        return False
    return True


def _named(path: Path, signal: Signal, refused: list[Refusal]) -> list[str]:
    return [
        f"{path}: {repr(x.name) if signal == 'traces' else 'a log record'}: {x.reason}"
        for x in refused
    ]


def _replaced(place: str, count: int) -> list[str]:
    places = "1 place" if count == 1 else f"{count:,} places"
    return (
        [f"{place}: bytes that are not UTF-8, in {places}; U+FFFD stands for them"] if count else []
    )


def _binary_request(path: Path, content: bytes) -> tuple[Signal, Message, list[str]]:
    named: Signal = next((x for x in SIGNALS if path.name.startswith(x)), "traces")
    for signal in (named, *(x for x in SIGNALS if x != named)):
        request = _fitting(signal, content)
        if request is not None:
            return signal, request, []
    return _mended_request(path, named, content)


def _fitting(signal: Signal, content: bytes) -> Message | None:
    """The request, where its first item has no field that is unknown to the signal: the three
    signals' items number theirs differently. None where it has, or cannot be decoded.
    """
    try:
        request = WIRE[signal].request.FromString(content)
    except DecodeError:
        return None
    first = _first_item(request, _ITEMS[signal])
    return request if first is None or not len(UnknownFieldSet(first)) else None


def _first_item(message: Any, names: tuple[str, ...]) -> Any:
    """The first of what `names` lead to from field to field; None where there is none."""
    if not names:
        return message
    below = (_first_item(x, names[1:]) for x in getattr(message, names[0]))
    return next((x for x in below if x is not None), None)


def _mended_request(
    path: Path, signal: Signal, content: bytes
) -> tuple[Signal, Message, list[str]]:
    request = WIRE[signal].request
    try:
        return signal, request.FromString(content), []
    except DecodeError:
        try:
            mended = mend(signal, content)
        except ValueError as error:
            raise InputError(f"{path}: {error}: give {_KNOWN}") from None
        problems = _named(path, signal, mended.refused) + _replaced(str(path), mended.replaced)
        return signal, request.FromString(mended.body), problems


def _content(path: Path) -> bytes:
    try:
        content = path.read_bytes()
        if content.startswith(ZSTD):
            content = _of_zstd(path, content)
        elif content.startswith(GZIP):
            content = gzip.decompress(content)
        return _in_utf_8(path, content)
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise InputError(f"{path}: damaged gzip ({error}): fetch the file again") from None
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror}): give {_KNOWN}") from None


def _in_utf_8(path: Path, content: bytes) -> bytes:
    """The content without a byte order mark, in UTF-8."""
    if content.startswith(codecs.BOM_UTF8):
        return content.removeprefix(codecs.BOM_UTF8)
    if not content.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        return content
    try:
        return content.decode("utf-16").encode()
    except UnicodeDecodeError as error:
        raise InputError(f"{path}: damaged UTF-16 ({error}): write it in UTF-8") from None


def _of_zstd(path: Path, content: bytes) -> bytes:
    import cramjam  # noqa: PLC0415 - 2 MB, which other files do not need

    try:
        return bytes(cramjam.zstd.decompress(content))
    except cramjam.DecompressionError as error:
        raise InputError(f"{path}: damaged zstd ({error}): fetch the file again") from None


def _of_document(
    place: str, text: bytes, *, is_later: bool
) -> Iterator[tuple[Signal, Message, list[str]]]:
    """The requests of a document in JSON; a later line that is cut off is left out, and said."""
    try:
        parsed, replaced = codec.loads(text)
        problems = _replaced(place, replaced)
        for signal, request in _from_json(parsed):
            yield signal, request, problems
            problems = []
    except _NoTelemetryError as error:
        raise ForeignFileError(f"{place}: {error}: give {_KNOWN}") from None
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        fault = f"{error} is missing" if isinstance(error, KeyError) else str(error)
        if is_later and not text.rstrip().endswith((b"}", b"]")):
            complaints = [f"{place}: the line is cut off ({fault}): what it held is missing"]
            yield "traces", WIRE["traces"].request(), complaints
            return
        raise InputError(f"{place}: {fault}: give {_KNOWN}, whole and unchanged") from None


def _documents(path: Path, content: bytes) -> Iterator[tuple[str, bytes]]:
    """(place, JSON text) of each document: each line, where the first one is a document by itself;
    else the whole.
    """
    if not is_json(content.lstrip().split(b"\n", 1)[0]):
        yield str(path), content
        return
    for number, line in enumerate(content.split(b"\n"), start=1):
        if line.strip():
            yield f"{path}:{number}", line


def _from_json(parsed: Any) -> Iterator[tuple[Signal, Message]]:
    for one in parsed if isinstance(parsed, list) else [parsed]:
        if not isinstance(one, dict):
            raise _NoTelemetryError(f"expected a JSON object, found {type(one).__name__}")
        inner = one.get("trace")  # what Tempo's second API wraps its answer in
        yield from _from_object(inner if isinstance(inner, dict) else one)


def _from_object(parsed: dict[str, Any]) -> Iterator[tuple[Signal, Message]]:
    signals = [x for x in SIGNALS if WIRE[x].json_key in parsed or _ITEMS[x][0] in parsed]
    if signals:
        yield from ((x, codec.from_object(x, parsed)) for x in signals)
    elif is_jaeger_trace(parsed):
        yield "traces", jaeger_request(parsed)
    elif isinstance(parsed.get("data"), list):  # what Jaeger's API answers
        yield from (("traces", jaeger_request(x)) for x in parsed["data"])
    elif "batches" in parsed:
        yield (
            "traces",
            codec.from_object(
                "traces", {"resourceSpans": [_renamed(x) for x in parsed["batches"]]}
            ),
        )
    else:
        raise _NoTelemetryError(
            "neither OTLP, Jaeger nor Tempo: the object has"
            f" {', '.join(map(repr, list(parsed)[:5]))}"
        )


def _renamed(batch: dict[str, Any]) -> dict[str, Any]:
    """A Tempo batch with the names that OTLP has had since scopes stopped being called
    instrumentation libraries.
    """
    scopes = batch.get("instrumentationLibrarySpans") or batch.get("scopeSpans") or []
    return {
        **batch,
        "scopeSpans": [{"scope": x.get("instrumentationLibrary"), **x} for x in scopes],
    }


_KINDS: Final = {"internal": 1, "server": 2, "client": 3, "producer": 4, "consumer": 5}
_STATUS: Final = {"OK": STATUS_OK, "ERROR": STATUS_ERROR}
_NS_PER_US: Final = 1000


def is_jaeger_trace(parsed: Any) -> bool:
    """Whether a parsed JSON value is one trace of Jaeger's."""
    return (
        isinstance(parsed, dict) and isinstance(parsed.get("spans"), list) and "processes" in parsed
    )


def jaeger_request(trace: Mapping[str, Any]) -> ExportTraceServiceRequest:
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
        codec.fill(message.attributes, {"service.name": process.get("serviceName"), **tags})


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
    codec.fill(message.attributes, tags)
    for log in span.get("logs") or ():
        fields = dict(_tags(log["fields"]))
        name = str(fields.pop("event", ""))
        event = message.events.add(name=name, time_unix_nano=log["timestamp"] * _NS_PER_US)
        codec.fill(event.attributes, fields)
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
