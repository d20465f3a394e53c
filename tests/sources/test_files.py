import errno
import gzip
import io
import logging
import os
import resource

import cramjam
import pytest
from aiohttp import web

import spanscore
from spanscore.cli.main import main
from spanscore.errors import InputError, OutputError, RetryableError
from spanscore.offline.recordings import Recordings
from spanscore.otlp import codec as otlp_json, documents, files
from spanscore.sources import place

fsspec = pytest.importorskip("fsspec")


@pytest.fixture
def memory():
    """An object store in memory, empty before and after."""
    store = fsspec.filesystem("memory")
    store.store.clear()
    yield store
    store.store.clear()


@pytest.fixture
def lines(make_span, request_of):
    """Four traces as JSON Lines, one a line."""
    spans = [
        make_span(
            x,
            x,
            started_s=60 * x,
            status=2 * (x == 3),
            service=f"service-{x % 2}",
            **{"session.id": str(x)},
        )
        for x in range(1, 5)
    ]
    return [otlp_json.encode(request_of([x])).encode() + b"\n" for x in spans]


def trace_ids(*places):
    batches = Recordings([place(x) for x in places]).batches()
    return [int(trace.trace_ids[0], 16) for batch in batches for trace in batch]


@pytest.mark.parametrize(
    ("name", "packed"),
    [("a.jsonl", bytes), ("a.jsonl.gz", gzip.compress), ("a.jsonl.zst", cramjam.zstd.compress)],
)
def test_the_files_of_an_object_store_are_read_as_local_ones(memory, lines, name, packed):
    memory.pipe("/bucket/traces/" + name, bytes(packed(b"".join(lines))))
    assert trace_ids("memory://bucket/traces") == [4, 3, 2, 1]
    assert trace_ids("memory://bucket/traces/" + name) == [4, 3, 2, 1]


def test_a_trace_that_is_spread_over_files_is_read_as_one(memory, make_span, request_of):
    for number in (1, 2):
        line = otlp_json.encode(request_of([make_span(1, number)])).encode()
        memory.pipe(f"/bucket/{number}/traces.json", line)
    [batch] = [x for x in Recordings([place("memory://bucket")]).batches() if x]
    assert [len(x.model_calls) for x in batch] == [2]


@pytest.mark.parametrize(
    ("query", "wanted"),
    [
        ("service=service-1", [3, 1]),
        ("errors=true", [3]),
        ("limit=2", [2, 1]),
        ("service=service-0&limit=1", [2]),
    ],
)
def test_conditions_hold_for_files_too(memory, lines, query, wanted):
    memory.pipe("/bucket/a.jsonl", b"".join(lines))
    assert trace_ids(f"memory://bucket?{query}") == wanted


def test_local_files_are_read_where_they_are(tmp_path, lines):
    (tmp_path / "a.jsonl").write_bytes(b"".join(lines))
    assert trace_ids(f"file://{tmp_path}?errors=true") == [3]


def test_several_places_are_read_one_after_the_other(memory, tmp_path, lines):
    (tmp_path / "a.jsonl").write_bytes(lines[0])
    memory.pipe("/bucket/b.jsonl", lines[1])
    assert trace_ids(str(tmp_path), "memory://bucket") == [1, 2]


def test_an_error_names_the_object_and_not_its_copy(memory):
    memory.pipe("/bucket/a.jsonl", b'{"resourceSpans": 3}\n')
    with pytest.raises(InputError, match=r"^memory://bucket/.*a\.jsonl"):
        trace_ids("memory://bucket")


@pytest.fixture
def no_room():
    """No file takes more than 64 bytes."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (64, before[1]))
    yield
    resource.setrlimit(resource.RLIMIT_FSIZE, before)


def test_an_object_that_finds_no_room_is_told_by_the_folder_and_not_as_unreadable(
    memory, lines, no_room
):
    memory.pipe("/bucket/a.jsonl", b"".join(lines))
    with pytest.raises(OutputError, match=rf"TMPDIR.*{os.strerror(errno.EFBIG)}"):
        trace_ids("memory://bucket")


def test_an_object_store_that_fails_is_told_by_its_place(memory, lines, monkeypatch):
    class Failing(io.BytesIO):
        def read(self, size=-1):
            raise OSError(errno.EIO, "the store's own disk")

    memory.pipe("/bucket/a.jsonl", b"".join(lines))
    monkeypatch.setattr(type(memory), "open", lambda *_: Failing())
    with pytest.raises(RetryableError, match=r"memory://bucket: cannot be read .*own disk"):
        trace_ids("memory://bucket")


def test_a_place_without_telemetry_is_an_error(memory):
    with pytest.raises(InputError, match="no file of telemetry"):
        trace_ids("memory://bucket")


def test_an_object_that_is_not_there_is_an_error(memory):
    with pytest.raises(InputError, match=r"memory://bucket/a\.jsonl"):
        trace_ids("memory://bucket/a.jsonl")


def test_an_unknown_protocol_is_an_error_that_says_what_there_is():
    with pytest.raises(InputError, match="jaeger://"):
        trace_ids("nowhere://bucket")


def test_no_trace_of_those_that_are_wanted_is_an_error_that_says_which(memory, lines):
    memory.pipe("/bucket/a.jsonl", b"".join(lines))
    with pytest.raises(InputError, match="no trace there for service"):
        trace_ids("memory://bucket?service=other")


def test_compressed_files_are_read_whole_and_in_parts_alike(tmp_path, lines):
    path = tmp_path / "a.jsonl.zst"
    path.write_bytes(bytes(cramjam.zstd.compress(b"".join(lines))))
    assert len(files.load(path).spans) == 4
    assert [content for _, content in documents.contents(path)] == lines


@pytest.mark.parametrize("read", [files.load, lambda path: list(documents.contents(path))])
def test_a_file_that_zstd_did_not_finish_is_named(tmp_path, lines, read):
    path = tmp_path / "a.jsonl.zst"
    path.write_bytes(bytes(cramjam.zstd.compress(b"".join(lines)))[:-20])
    with pytest.raises(InputError, match=r"a\.jsonl\.zst: damaged zstd"):
        read(path)


def test_commands_take_urls(memory, lines, capsys, tmp_path):
    memory.pipe("/bucket/a.jsonl", b"".join(lines))
    assert main(["inspect", "memory://bucket?errors=true", "--jsonl"]) == 0
    assert capsys.readouterr().out.count("\n") == 1
    assert main(["eval", "memory://bucket?limit=2", "--metric", "loop_detection", "--jsonl"]) == 0
    assert capsys.readouterr().out.count("\n") == 2
    page = tmp_path / "page.html"
    assert main(["report", "memory://bucket", "--metric", "loop_detection", "-o", str(page)]) == 0
    assert "4 turns" in capsys.readouterr().out


def test_evaluate_takes_urls(memory, lines):
    memory.pipe("/bucket/a.jsonl", b"".join(lines))
    assert len(spanscore.evaluate("memory://bucket", metrics=["loop_detection"]).traces) == 4


@pytest.mark.slow
def test_a_truncated_trace_is_rebuilt_as_such_and_said(
    backend, make_span, request_of, capsys, read
):
    async def answer(request, _body):
        if request.path.startswith("/api/v3/"):
            spans = [make_span(1, x) for x in range(1, 10_001)]
            return web.json_response({"result": otlp_json.to_object(request_of(spans))})
        return web.json_response({"data": []})

    backend.answer = answer
    logging.getLogger("spanscore").setLevel(logging.WARNING)
    assert main(["inspect", f"jaeger://127.0.0.1:{backend.port}?trace_id=1", "--jsonl"]) == 0
    printed = capsys.readouterr()
    assert '"completeness":"truncated"' in printed.out.replace(" ", "")
    assert "is truncated" in printed.err


@pytest.mark.parametrize("name", ["a.jsonl", "./a.jsonl", "server/a.jsonl"])
def test_a_url_of_a_local_file_with_a_host_is_refused_rather_than_the_current_folder_read(
    tmp_path, lines, monkeypatch, name
):
    (tmp_path / "a.jsonl").write_bytes(b"".join(lines))
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InputError, match="write file:///PATH"):
        trace_ids(f"file://{name}")


def test_a_url_of_a_local_file_without_a_path_is_refused():
    with pytest.raises(InputError, match="write file:///PATH"):
        trace_ids("file://localhost")


def test_a_url_of_a_local_file_may_name_this_host(tmp_path, lines):
    (tmp_path / "a.jsonl").write_bytes(lines[0])
    assert trace_ids(f"file://localhost{tmp_path}") == [1]


def test_a_store_that_refuses_the_connection_is_an_error_that_may_pass_and_has_no_password():
    with pytest.raises(RetryableError, match=r"^ftp://127\.0\.0\.1:1/x\.json: .*refused"):
        trace_ids("ftp://bob:secret@127.0.0.1:1/x.json")


def test_an_error_of_a_stores_own_package_has_the_reason_and_no_password(memory, monkeypatch):
    class PackageError(Exception):
        pass

    def fail(_path):
        raise PackageError("no login at memory://bob:secret@bucket")

    monkeypatch.setattr(memory, "isfile", fail)
    with pytest.raises(RetryableError, match=r"no login at memory://bucket\)"):
        trace_ids("memory://bob:secret@bucket")


def test_a_file_is_read_from_a_web_server(backend, lines):
    async def answer(_request, _body):
        return web.Response(body=b"".join(lines))

    backend.answer = answer
    assert trace_ids(f"http://127.0.0.1:{backend.port}/a.jsonl") == [4, 3, 2, 1]


@pytest.mark.parametrize(
    ("status", "error"),
    [(404, InputError), (403, InputError), (429, RetryableError), (503, RetryableError)],
)
def test_a_web_server_that_has_no_such_file_is_an_error_with_its_status(backend, status, error):
    async def answer(_request, _body):
        return web.Response(status=status)

    backend.answer = answer
    with pytest.raises(error, match=rf"answered HTTP {status}") as caught:
        trace_ids(f"http://bob:secret@127.0.0.1:{backend.port}/a.jsonl")
    assert "secret" not in str(caught.value)


def test_a_web_server_that_does_not_listen_is_an_error_with_the_reason_and_how_backends_are_named():
    with pytest.raises(RetryableError, match=r"Connection refused.*jaeger://"):
        trace_ids("http://127.0.0.1:1/a.jsonl")
