"""Every kind of file that recorded telemetry comes in, and what is said of a file that is not
one.
"""

import gzip
import json as stdlib_json
from pathlib import Path

import cramjam
import pytest
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from spanscore.errors import InputError
from spanscore.otlp import codec, files
from spanscore.otlp.signal import ExportLogsServiceRequest

SAMPLES = Path(__file__).parent / "samples"


def traces(*names):
    request = ExportTraceServiceRequest()
    by_scope = request.resource_spans.add().scope_spans.add()
    for name in names:
        by_scope.spans.add(name=name, trace_id=b"t" * 16, span_id=b"s" * 8)
    return request


def logs(name):
    request = ExportLogsServiceRequest()
    request.resource_logs.add().scope_logs.add().log_records.add(event_name=name)
    return request


def names(path):
    return [x.name for x in files.load([path]).spans]


def write(folder, name, content):
    path = folder / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


def refusal(path):
    with pytest.raises(InputError) as caught:
        files.load([path])
    return str(caught.value)


def test_a_binary_request_is_read(tmp_path):
    assert names(write(tmp_path, "traces-1.pb", traces("a").SerializeToString())) == ["a"]


def test_a_binary_request_of_any_name_is_taken_for_traces(tmp_path):
    assert names(write(tmp_path, "capture.pb", traces("a").SerializeToString())) == ["a"]


def test_a_binary_request_whose_name_starts_with_logs_is_read_as_logs(tmp_path):
    found = files.load([write(tmp_path, "logs-1.pb", logs("choice").SerializeToString())])
    assert [x.event_name for x in found.logs] == ["choice"]


@pytest.mark.parametrize("name", ["capture.pb", "traces-1.pb", "metrics-1.pb", "capture.pb.gz"])
def test_a_binary_request_of_logs_is_read_as_logs_whatever_its_name(tmp_path, name):
    request = logs("choice")
    record = request.resource_logs[0].scope_logs[0].log_records[0]
    record.time_unix_nano, record.trace_id, record.span_id = 1, b"t" * 16, b"s" * 8
    record.body.string_value = "x" * 300
    content = request.SerializeToString()
    found = files.load([write(tmp_path, name, gzip.compress(content) if "gz" in name else content)])
    assert ([x.event_name for x in found.logs], found.spans, found.refused) == (["choice"], [], [])


def test_a_binary_request_of_traces_is_read_as_traces_whatever_its_name(tmp_path):
    request = traces("a")
    span = request.resource_spans[0].scope_spans[0].spans[0]
    span.start_time_unix_nano, span.end_time_unix_nano = 1, 2
    assert names(write(tmp_path, "logs-1.pb", request.SerializeToString())) == ["a"]


def test_metrics_of_any_name_are_passed_over(tmp_path):
    request = ExportMetricsServiceRequest()
    metric = request.resource_metrics.add().scope_metrics.add().metrics.add(name="calls", unit="1")
    metric.sum.data_points.add(as_int=1, time_unix_nano=1)
    found = files.load([write(tmp_path, "capture.pb", request.SerializeToString())])
    assert (found.spans, found.logs, found.refused) == ([], [], [])


def test_metrics_are_passed_over(tmp_path):
    write(tmp_path, "metrics-1.pb", ExportMetricsServiceRequest().SerializeToString())
    write(tmp_path, "traces-1.pb", traces("a").SerializeToString())
    assert names(tmp_path) == ["a"]


def test_one_json_request_is_read_whether_pretty_or_on_one_line(tmp_path):
    shown = codec.to_object(traces("a"))
    pretty = write(tmp_path, "pretty.json", stdlib_json.dumps(shown, indent=2))
    flat = write(tmp_path, "flat.json", stdlib_json.dumps(shown))
    assert names(pretty) == names(flat) == ["a"]


def test_an_array_of_json_requests_is_read(tmp_path):
    shown = [codec.to_object(traces(x)) for x in "ab"]
    assert names(write(tmp_path, "many.json", stdlib_json.dumps(shown, indent=1))) == ["a", "b"]


def test_json_lines_may_mix_traces_and_logs(tmp_path):
    lines = [codec.encode(traces("a")), codec.encode(logs("choice")), "", codec.encode(traces("b"))]
    found = files.load([write(tmp_path, "out.jsonl", "\n".join(lines))])
    assert ([x.name for x in found.spans], len(found.logs)) == (["a", "b"], 1)


def test_json_lines_may_have_the_ending_json(tmp_path):
    assert names(
        write(tmp_path, "out.json", f"{codec.encode(traces('a'))}\n{codec.encode(traces('b'))}\n")
    ) == ["a", "b"]


@pytest.mark.parametrize("name", ["out.jsonl.gz", "out.jsonl"])
def test_gzip_is_recognised_by_its_content(tmp_path, name):
    assert names(write(tmp_path, name, gzip.compress(codec.encode(traces("a")).encode()))) == ["a"]


def test_a_folder_is_read_with_all_below_it_in_order_of_name(tmp_path):
    (tmp_path / "sub").mkdir()
    write(tmp_path / "sub", "2.pb", traces("b").SerializeToString())
    write(tmp_path, "1.json", codec.encode(traces("a")))
    write(tmp_path, "README.md", "not telemetry")
    assert names(tmp_path) == ["a", "b"]


def test_a_span_that_no_trace_can_hold_is_left_out_and_named(tmp_path):
    request = traces("bad", "good")
    request.resource_spans[0].scope_spans[0].spans[0].trace_id = b""
    path = write(tmp_path, "1.pb", request.SerializeToString())
    found = files.load([path])
    assert ([x.name for x in found.spans], found.refused) == (
        ["good"],
        [f"{path}: 'bad': it has no trace id"],
    )


def test_a_binary_request_with_text_cut_within_a_character_is_read(tmp_path):
    body = traces("cut here").SerializeToString().replace(b"cut here", b"cut her\xc3")
    assert names(write(tmp_path, "1.pb", body)) == ["cut her\ufffd"]


def test_a_binary_request_with_text_that_is_not_utf_8_is_named(tmp_path):
    path = write(
        tmp_path,
        "1.pb",
        traces("cut here").SerializeToString().replace(b"cut here", b"cut her\xc3"),
    )
    told = f"{path}: bytes that are not UTF-8, in 1 place; U+FFFD stands for them"
    assert files.load([path]).refused == [told]


@pytest.fixture
def with_a_line_that_is_not_utf_8(tmp_path):
    lines = [codec.encode(traces(x)).encode() for x in ("first", "cut here", "last")]
    return write(
        tmp_path, "1.jsonl", b"\n".join(lines).replace(b"cut here", b"cut \xc3 her\xff\xfe")
    )


def test_a_json_line_that_is_not_utf_8_costs_only_these_characters(with_a_line_that_is_not_utf_8):
    assert names(with_a_line_that_is_not_utf_8) == ["first", "cut \ufffd her\ufffd", "last"]


def test_a_json_line_that_is_not_utf_8_is_named(with_a_line_that_is_not_utf_8):
    told = (
        f"{with_a_line_that_is_not_utf_8}:2: bytes that are not UTF-8, in 2 places; U+FFFD stands"
        " for them"
    )
    assert files.load([with_a_line_that_is_not_utf_8]).refused == [told]


def test_the_first_json_line_may_be_the_one_that_is_not_utf_8(tmp_path):
    lines = [codec.encode(traces(x)).encode() for x in ("cut here", "last")]
    content = b"\n".join(lines).replace(b"cut here", b"cut her\xff")
    assert names(write(tmp_path, "1.jsonl", content)) == ["cut her\ufffd", "last"]


def test_a_tempo_export_is_read():
    spans = files.load([SAMPLES / "tempo.json"]).spans
    assert {x.scope.name for x in spans} == {
        "go.opentelemetry.io/contrib/instrumentation/net/http/otelhttp",
        "opentelemetry.instrumentation.httpx",
    }


def test_the_answer_of_tempos_second_api_is_read(tmp_path):
    assert names(
        write(tmp_path, "tempo2.json", stdlib_json.dumps({"trace": codec.to_object(traces("a"))}))
    ) == ["a"]


@pytest.fixture(scope="module")
def jaeger():
    return files.load([SAMPLES / "jaeger.json"]).spans


def test_a_jaeger_span_keeps_its_times_in_nanoseconds(jaeger):
    shown = stdlib_json.loads((SAMPLES / "jaeger.json").read_text())["data"][0]["spans"][0]
    start_ns = shown["startTime"] * 1000
    assert (jaeger[0].start_ns, jaeger[0].end_ns) == (start_ns, start_ns + shown["duration"] * 1000)


def test_a_jaeger_reference_becomes_the_parent(jaeger):
    by_id = {x.span_id: x for x in jaeger}
    assert sum(x.parent_span_id in by_id for x in jaeger) >= 1


def test_a_jaeger_process_becomes_the_resource(jaeger):
    assert jaeger[0].resource.attributes == {
        "service.name": "helm_agent",
        "service.namespace": "kagent",
    }


def test_what_opentelemetry_keeps_in_fields_is_taken_out_of_jaegers_tags(jaeger):
    moved = {"span.kind", "otel.scope.name", "otel.scope.version", "otel.status_code", "error"}
    assert not any(moved & x.attributes.keys() for x in jaeger)


def test_a_failed_jaeger_span_has_status_error(jaeger):
    assert [x.status_code for x in jaeger].count(2) == 1


def test_a_jaeger_log_becomes_an_event(jaeger):
    events = [event for x in jaeger for event in x.events]
    assert {x.name for x in events} == {"exception"}


def jaeger_span(tmp_path, **fields):
    span = {
        "traceID": "1f",
        "spanID": "2f",
        "operationName": "op",
        "startTime": 1,
        "duration": 1,
        "processID": "p1",
        "references": [],
        "tags": [],
        "logs": [],
        **fields,
    }
    trace = {"traceID": "1f", "spans": [span], "processes": {"p1": {"serviceName": "svc"}}}
    return files.load([write(tmp_path, "jaeger.json", stdlib_json.dumps(trace))]).spans[0]


def test_jaeger_ids_get_their_leading_zeros_back(tmp_path):
    span = jaeger_span(tmp_path)
    assert (span.trace_id, span.span_id) == ("1f".zfill(32), "2f".zfill(16))


def test_a_jaeger_reference_to_another_trace_becomes_a_link(tmp_path):
    span = jaeger_span(
        tmp_path, references=[{"refType": "CHILD_OF", "traceID": "99", "spanID": "98"}]
    )
    assert (span.parent_span_id, [x.trace_id for x in span.links]) == ("", ["99".zfill(32)])


def test_a_jaeger_reference_that_follows_is_the_parent_where_there_is_no_other(tmp_path):
    span = jaeger_span(
        tmp_path, references=[{"refType": "FOLLOWS_FROM", "traceID": "1f", "spanID": "98"}]
    )
    assert span.parent_span_id == "98".zfill(16)


def test_jaeger_tags_keep_their_types(tmp_path):
    tags = [
        {"key": "f", "type": "float64", "value": 1},
        {"key": "b", "type": "binary", "value": "AAE="},
        {"key": "i", "type": "int64", "value": 7},
        {"key": "t", "type": "bool", "value": True},
    ]
    attributes = jaeger_span(tmp_path, tags=tags).attributes
    assert {k: (v, type(v)) for k, v in attributes.items()} == {
        "f": (1.0, float),
        "b": (b"\x00\x01", bytes),
        "i": (7, int),
        "t": (True, bool),
    }


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("a.pb", b"\xff\xff\xff", "a.pb: not an OTLP export request of traces ("),
        ("a.json", '{"resourceSpans": [', "a.json: "),
        ("a.jsonl", f"{codec.encode(traces('a'))}\n{{broken}}\n", "a.jsonl:2: "),
        ("a.jsonl", '{"resourceSpans": 5}', "a.jsonl:1: resourceSpans: expected a list, found 5"),
        (
            "a.json",
            '{"hello": 1}',
            "a.json:1: neither OTLP, Jaeger nor Tempo: the object has 'hello'",
        ),
        ("a.json", "[[[1]]]", "a.json:1: expected a JSON object, found list"),
        ("a.json", '{"spans": [{}], "processes": {}}', "a.json:1: 'traceID' is missing"),
        ("a.json", '{"data": [5]}', "a.json:1: "),
        ("a.json.gz", b"\x1f\x8bnot gzip", "a.json.gz: damaged gzip"),
    ],
)
def test_a_file_that_is_something_else_is_refused_with_its_place(tmp_path, name, content, said):
    assert said in refusal(write(tmp_path, name, content))


def test_a_refusal_is_one_line(tmp_path):
    assert "\n" not in refusal(write(tmp_path, "a.json", '{\n"resourceSpans": [\n'))


def test_a_path_that_does_not_exist_is_refused(tmp_path):
    assert "nowhere.json: cannot be read (No such file or directory)" in refusal(
        tmp_path / "nowhere.json"
    )


def test_a_folder_without_telemetry_is_refused(tmp_path):
    assert "nothing in this folder is" in refusal(tmp_path)


def test_json_of_another_kind_in_a_folder_of_telemetry_is_passed_over_and_named(tmp_path):
    span = {"traceId": "1" * 32, "spanId": "2" * 16}
    request = {"resourceSpans": [{"scopeSpans": [{"spans": [span]}]}]}
    (tmp_path / "traces.json").write_text(stdlib_json.dumps(request))
    (tmp_path / "package.json").write_text('{"name": "x"}')
    found = files.load([tmp_path])
    assert len(found.spans) == 1
    assert "package.json" in found.refused[0]


def test_an_empty_file_in_a_folder_of_telemetry_is_passed_over_and_named(tmp_path):
    write(tmp_path, "1.json", codec.encode(traces("a")))
    write(tmp_path, "2.json", b"\n")
    found = files.load([tmp_path])
    assert ([x.name for x in found.spans], "2.json: the file is empty" in found.refused[0]) == (
        ["a"],
        True,
    )


@pytest.mark.parametrize("name", ["1.pb", "1.json", "logs.pb", "1.jsonl.gz"])
def test_an_empty_file_that_was_asked_for_is_refused(tmp_path, name):
    assert "the file is empty" in refusal(write(tmp_path, name, b""))


def test_a_folder_of_one_empty_file_is_refused_with_its_name(tmp_path):
    write(tmp_path, "1.json", b"")
    assert "1.json: the file is empty" in refusal(tmp_path)


def test_json_of_another_kind_that_was_asked_for_is_refused(tmp_path):
    path = tmp_path / "package.json"
    path.write_text('{"name": "x"}')
    with pytest.raises(InputError, match="neither OTLP"):
        files.load([path])


@pytest.mark.parametrize(
    "given", [str, Path, lambda x: [str(x)], lambda x: (x,), lambda x: iter([x])]
)
def test_a_path_may_be_a_text_a_path_or_one_of_several(given, tmp_path):
    path = tmp_path / "traces.json"
    path.write_text('{"resourceSpans": []}')
    assert files.load(given(path)) == files.load([path])


_PLAIN = b'{"resourceSpans": []}\n' * 10_000


@pytest.mark.parametrize("count", [10, 40, 10_000])
@pytest.mark.parametrize("compress", [bytes, gzip.compress, cramjam.zstd.compress])
def test_a_compressed_file_counts_by_what_it_contains(tmp_path, compress, count):
    path = tmp_path / "traces.jsonl"
    plain = _PLAIN[: 22 * count]
    path.write_bytes(bytes(compress(plain)))
    counted, size = files.content_bytes([path]), path.stat().st_size
    assert counted in {len(plain), size * 8}


def test_a_zstd_file_counts_by_the_size_in_its_header(tmp_path):
    path = tmp_path / "traces.jsonl.zst"
    for header, size in [
        (b"\x20\xc8", 200),  # one byte in a single segment
        (b"\x60\x00\x01", 512),  # two bytes, from 256 on
        (b"\xa0\x00\x00\x01\x00", 65_536),
        (b"\xc0\x58\x00\x00\x00\x00\x01\x00\x00\x00", 2**32),
        (b"\x81\x58\x07\x00\x00\x01\x00", 65_536),  # with the id of a dictionary
    ]:
        path.write_bytes(files.ZSTD + header)
        assert files.content_bytes([path]) == size


def test_a_compressed_file_that_notes_too_little_counts_as_several_times_its_size(tmp_path):
    of_two = tmp_path / "traces.jsonl.gz"
    of_two.write_bytes(gzip.compress(_PLAIN) + gzip.compress(b"\n"))
    streamed = tmp_path / "traces.jsonl.zst"
    streamed.write_bytes(files.ZSTD + b"\x00\x58" + b"\x00" * 100)
    sizes = of_two.stat().st_size, streamed.stat().st_size
    assert [files.content_bytes([x]) for x in (of_two, streamed)] == [8 * x for x in sizes]


def test_a_line_that_is_cut_off_costs_that_line_and_is_said(tmp_path):
    cut = codec.encode(traces("b"))[:40]
    path = write(tmp_path, "a.jsonl", f"{codec.encode(traces('a'))}\n{cut}")
    found = files.load([path])
    assert [x.name for x in found.spans] == ["a"]
    assert "a.jsonl:2: the line is cut off" in found.refused[0]


def test_a_file_of_one_line_that_is_cut_off_is_refused(tmp_path):
    assert "a.json" in refusal(write(tmp_path, "a.json", codec.encode(traces("a"))[:40]))


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16", "utf-16-le"])
def test_a_byte_order_mark_is_no_content(tmp_path, encoding):
    text = ("\ufeff" if encoding == "utf-16-le" else "") + codec.encode(traces("a"))
    assert names(write(tmp_path, "a.json", text.encode(encoding))) == ["a"]


def test_the_names_of_the_proto_files_and_ids_behind_0x_are_read(tmp_path):
    span = {"name": "a", "trace_id": "0x" + "a" * 32, "span_id": "0x" + "b" * 16}
    request = {"resource_spans": [{"scope_spans": [{"spans": [span]}]}]}
    (found,) = files.load([write(tmp_path, "a.json", stdlib_json.dumps(request))]).spans
    assert (found.trace_id, found.span_id) == ("a" * 32, "b" * 16)
