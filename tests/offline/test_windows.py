"""Large recordings, read a window at a time, give what they give when they are read whole."""

import base64
import gzip
import json
import random
from pathlib import Path

import pytest
from google.protobuf.json_format import MessageToDict
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from spanscore.errors import InputError
from spanscore.offline import recordings, windows
from spanscore.offline.recordings import Recordings

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "examples" / "recordings" / "pydantic-ai"
GOLDEN = ROOT / "tests" / "golden"
SPREAD = sorted(
    x.parent for x in GOLDEN.rglob("traces.pb.gz") if (x.parent / "logs.pb.gz").exists()
)[:6]


def in_hex(item):
    """A request as OTLP has it in JSON, where protobuf's own JSON has ids in Base64."""
    if isinstance(item, list):
        return [in_hex(x) for x in item]
    if not isinstance(item, dict):
        return item
    ids = {"traceId", "spanId", "parentSpanId"}
    return {key: base64.b64decode(x).hex() if key in ids else in_hex(x) for key, x in item.items()}


def request(resource, scope, span):
    scoped = {**{key: x for key, x in scope.items() if key != "spans"}, "spans": [span]}
    return {
        "resourceSpans": [
            {
                **{key: x for key, x in resource.items() if key != "scopeSpans"},
                "scopeSpans": [scoped],
            }
        ]
    }


@pytest.fixture(scope="module")
def lines():
    """The recording with a line for each span."""
    found = []
    for path in sorted(FOLDER.rglob("*.pb*")):
        content = path.read_bytes()
        body = gzip.decompress(content) if path.suffix == ".gz" else content
        whole = in_hex(MessageToDict(ExportTraceServiceRequest.FromString(body)))
        for resource in whole["resourceSpans"]:
            found += [
                json.dumps(request(resource, x, span))
                for x in resource["scopeSpans"]
                for span in x["spans"]
            ]
    return found


@pytest.fixture
def small(monkeypatch):
    """Windows of one document, for files of any size."""
    monkeypatch.setattr(recordings, "_WHOLE_BYTES", 0)
    monkeypatch.setattr(windows, "_FIRST_BYTES", 1)
    monkeypatch.setattr(windows, "_MAX_BYTES", 1)


def traces(*paths):
    return sorted(
        (x for batch in Recordings(paths).batches() for x in batch),
        key=lambda x: (x.started_ns, x.id),
    )


@pytest.fixture
def whole(monkeypatch):
    """What the files give when they are read whole."""

    def read(*paths):
        with monkeypatch.context() as patched:
            patched.setattr(recordings, "_WHOLE_BYTES", 2**40)
            return traces(*paths)

    return read


@pytest.mark.parametrize("seed", range(4))
def test_the_order_of_the_lines_changes_nothing(small, whole, lines, tmp_path, seed):
    file = tmp_path / "traces.jsonl"
    file.write_text("\n".join(random.Random(seed).sample(lines, len(lines))))
    assert traces(file) == whole(file)


def test_several_files_are_read_by_the_time_of_their_lines(small, whole, lines, tmp_path):
    files = [tmp_path / f"{number}.jsonl" for number in range(3)]
    for number, file in enumerate(files):
        file.write_text("\n".join(lines[number::3]))
    assert traces(*files) == whole(*files)


@pytest.mark.parametrize("folder", SPREAD, ids=lambda x: f"{x.parent.name}/{x.name}")
def test_log_records_in_a_file_of_their_own_meet_their_spans(small, whole, folder):
    assert traces(folder / "traces.pb.gz", folder / "logs.pb.gz") == whole(
        folder / "traces.pb.gz", folder / "logs.pb.gz"
    )


def test_lines_that_are_zipped_are_read_as_they_are_unzipped(small, whole, lines, tmp_path):
    file = tmp_path / "traces.jsonl.gz"
    file.write_bytes(gzip.compress("\n".join(lines).encode()))
    assert traces(file) == whole(file)


def test_the_first_traces_are_given_before_the_last_are_read(small, lines, tmp_path):
    def later(line, seconds):
        found = json.loads(line)
        for resource in found["resourceSpans"]:
            for scope in resource["scopeSpans"]:
                for span in scope["spans"]:
                    span["traceId"] = span["traceId"][:-2] + f"{seconds % 256:02x}"
                    for name in ("startTimeUnixNano", "endTimeUnixNano"):
                        span[name] = str(int(span[name]) + seconds * 10**9)
        return json.dumps(found)

    file = tmp_path / "traces.jsonl"
    file.write_text("\n".join(later(line, seconds) for seconds in (0, 60, 120) for line in lines))
    read = []
    found = Recordings([file], progress=lambda done, total: read.append(done / total))
    first = next(batch for batch in found.batches() if batch)
    assert first
    assert read[-1] < 0.7


def test_a_file_without_agent_traces_is_refused(small, tmp_path):
    file = tmp_path / "traces.jsonl"
    file.write_text('{"resourceSpans": []}\n{"resourceSpans": []}')
    with pytest.raises(InputError, match="no span and no log record"):
        traces(file)


def test_a_damaged_line_is_refused_by_its_place(small, lines, tmp_path):
    file = tmp_path / "traces.jsonl"
    file.write_text(f'{lines[0]}\n{{"resourceSpans": 5}}')
    with pytest.raises(InputError, match=r"traces\.jsonl:2"):
        traces(file)


def test_reading_stops_where_that_is_asked_for(small, lines, tmp_path):
    file = tmp_path / "traces.jsonl"
    file.write_text("\n".join(lines))
    found = Recordings([file])
    found.stop()
    assert list(found.batches()) == []
