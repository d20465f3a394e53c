"""The file exporter: one request a line, and no line twice over a crash."""

import json
import shutil

import pytest

from spanscore.errors import ConfigError
from spanscore.export import events, otlp_json_file, spans
from spanscore.export.config import JsonFileConfig
from spanscore.export.otlp_json_file import JsonFileExporter
from spanscore.export.port import UndeliveredError


def traces(*scores):
    return spans.request(scores, "child", 8192)


def span_names(path):
    requests = [json.loads(line) for line in path.read_text().splitlines()]
    scopes = [ss for r in requests for rs in r.get("resourceSpans", []) for ss in rs["scopeSpans"]]
    return [span["name"].split()[1].strip(":") for ss in scopes for span in ss.get("spans", [])]


@pytest.fixture
def path(tmp_path):
    return tmp_path / "out" / "scores.jsonl"


async def write(path, *requests):
    """Open the file, send (signal, body) requests, close it; as one life of the server."""
    exporter = JsonFileExporter(JsonFileConfig(path=path))
    for signal, body in requests:
        await exporter.send(signal, body)
    await exporter.close()
    await exporter.close()


async def test_a_request_is_a_line_of_otlp_json(make, path):
    await write(path, ("traces", traces(make.score())))
    (line,) = path.read_text().splitlines()
    span = json.loads(line)["resourceSpans"][0]["scopeSpans"][0]["spans"][0]
    assert (span["traceId"], span["parentSpanId"]) == ("0a" * 16, "0b" * 8)


async def test_all_signals_go_to_the_same_file(make, path):
    logs = events.request([make.score()], 8192)
    await write(path, ("traces", traces(make.score())), ("logs", logs))
    assert [next(iter(json.loads(line))) for line in path.read_text().splitlines()] == [
        "resourceSpans",
        "resourceLogs",
    ]


async def test_what_is_there_stays(make, path):
    await write(path, ("traces", traces(make.score("a"))))
    await write(path, ("traces", traces(make.score("b"))))
    assert span_names(path) == ["a", "b"]


async def test_what_was_written_before_a_crash_is_not_written_again(make, path):
    await write(path, ("traces", traces(make.score("a"), make.score("b"))))
    await write(path, ("traces", traces(make.score("b"), make.score("c"))))
    assert span_names(path) == ["a", "b", "c"]


async def test_a_request_that_is_there_as_a_whole_makes_no_line(make, path):
    for _ in range(2):
        await write(path, ("traces", traces(make.score("a"))))
    assert len(path.read_text().splitlines()) == 1


async def test_events_are_told_apart_by_their_uid(make, path):
    for scores in ([make.score("a")], [make.score("a"), make.score("b")]):
        await write(path, ("logs", events.request(scores, 8192)))
    records = [
        record
        for line in path.read_text().splitlines()
        for record in json.loads(line)["resourceLogs"][0]["scopeLogs"][0]["logRecords"]
    ]
    assert len(records) == 2


async def test_a_span_that_is_sent_twice_on_purpose_is_written_twice(make, path):
    await write(path, *[("traces", traces(make.score("a")))] * 2)
    assert span_names(path) == ["a", "a"]


async def test_a_torn_last_line_is_removed_and_written_anew(make, path):
    await write(path, ("traces", traces(make.score("a"))), ("traces", traces(make.score("b"))))
    path.write_bytes(path.read_bytes()[:-40])
    await write(path, ("traces", traces(make.score("b"))))
    assert span_names(path) == ["a", "b"]


async def test_only_the_tail_of_a_large_file_is_read(make, path, monkeypatch):
    await write(path, ("traces", traces(make.score("a"))), ("traces", traces(make.score("b"))))
    monkeypatch.setattr(otlp_json_file, "_TAIL_BYTES", path.stat().st_size * 2 // 3)
    await write(path, ("traces", traces(make.score("a"), make.score("b"))))
    assert span_names(path) == ["a", "b", "a"]


async def test_lines_of_others_are_no_hindrance(make, path):
    path.parent.mkdir()
    path.write_text('not json\n{"resourceSpans": 3}\n[]\n')
    await write(path, ("traces", traces(make.score("a"))))
    assert path.read_text().splitlines()[3].startswith('{"resourceSpans"')


async def test_half_a_line_is_taken_back_when_the_disk_is_full(make, path, monkeypatch):
    exporter = JsonFileExporter(JsonFileConfig(path=path))
    await exporter.send("traces", traces(make.score("a")))
    whole = path.read_bytes()

    def fill_up(file, data):
        otlp_json_file.os.write(file, data[:10])
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(otlp_json_file, "_write_all", fill_up)
    with pytest.raises(UndeliveredError, match="No space left"):
        await exporter.send("traces", traces(make.score("b")))
    await exporter.close()
    assert path.read_bytes() == whole


async def test_a_folder_that_is_deleted_meanwhile_is_made_anew(make, path):
    exporter = JsonFileExporter(JsonFileConfig(path=path))
    await exporter.send("traces", traces(make.score("a")))
    shutil.rmtree(path.parent)
    await exporter.send("traces", traces(make.score("b")))
    await exporter.close()
    assert span_names(path) == ["b"]


async def test_a_file_that_is_moved_away_meanwhile_is_made_anew(make, path):
    exporter = JsonFileExporter(JsonFileConfig(path=path))
    await exporter.send("traces", traces(make.score("a")))
    path.rename(path.with_suffix(".1"))
    await exporter.send("traces", traces(make.score("b")))
    await exporter.close()
    assert (span_names(path.with_suffix(".1")), span_names(path)) == (["a"], ["b"])


async def test_a_folder_that_cannot_be_made_is_a_fault_that_may_pass(make, path):
    exporter = JsonFileExporter(JsonFileConfig(path=path))
    shutil.rmtree(path.parent)
    path.parent.write_text("in the way")
    with pytest.raises(UndeliveredError, match=r"scores.jsonl: cannot be written \("):
        await exporter.send("traces", traces(make.score("a")))
    path.parent.unlink()
    await exporter.send("traces", traces(make.score("a")))
    await exporter.close()
    assert span_names(path) == ["a"]


def test_a_path_that_cannot_be_written_is_said(tmp_path):
    with pytest.raises(ConfigError, match="cannot be written"):
        JsonFileExporter(JsonFileConfig(path=tmp_path))
