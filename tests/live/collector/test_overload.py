"""What spanscore cannot take now, the collector keeps and sends again: nothing that may pass makes
it drop.
"""

import contextlib
import resource
import sqlite3
from collections import Counter
from pathlib import Path

import grpc
import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2_grpc import TraceServiceStub

pytestmark = pytest.mark.collector

TURNS = 6
DROP_IN = "collector-config.yaml"
BY = {"grpc": [DROP_IN], "http": [DROP_IN, "tests/live/collector/over_http.yaml"]}
FAULTY = str(Path(__file__).with_name("faulty.py"))


@pytest.fixture(params=sorted(BY))
def line(pipeline, request):
    """Call it to get the drop-in's pipeline, its branch by gRPC or HTTP; spanscore is not started
    yet.
    """
    return lambda **settings: pipeline(*BY[request.param], **settings)


def assert_nothing_was_dropped(line, turns=TURNS):
    """Every trace was scored once, and the collector gave nothing up."""
    line.wait_for_scores(turns)
    line.wait_for_spans()
    assert "Dropping data" not in line.collectors_log()
    _, scores = line.backend_spans()
    assert Counter(x.span_id.hex() for x in scores) == dict.fromkeys(line.committed(), 1)
    assert len(line.scored_traces()) == turns


def wait_until_it_retries(line, until):
    until(lambda: "Will retry the request" in line.collectors_log(), line.collectors_log)


@contextlib.contextmanager
def full_disk(server):
    """No file of the server's may grow, as on a disk that is full."""
    before = resource.prlimit(
        server.process.pid, resource.RLIMIT_FSIZE, (1024, resource.RLIM_INFINITY)
    )
    yield
    resource.prlimit(server.process.pid, resource.RLIMIT_FSIZE, before)


@contextlib.contextmanager
def locked_journal(server):
    """Another process has a lock on the journal's database, as a backup tool may."""
    with contextlib.closing(
        sqlite3.connect(server.folder / "journal.db", isolation_level=None)
    ) as db:
        db.execute("BEGIN IMMEDIATE")
        yield


@pytest.mark.parametrize(
    "trouble",
    [
        pytest.param(
            full_disk,
            marks=pytest.mark.skipif(
                not hasattr(resource, "prlimit"), reason="needs prlimit, which only Linux has"
            ),
        ),
        locked_journal,
    ],
)
def test_trouble_with_the_disk(line, until, trouble):
    running = line().start()
    running.spanscore.start()
    with trouble(running.spanscore):
        running.run_agent(TURNS)
        wait_until_it_retries(running, until)
    assert_nothing_was_dropped(running)


def test_a_fault_that_nobody_foresaw(line, until):
    running = line().start()
    running.spanscore.program = FAULTY
    fault = running.spanscore.folder / "fault"
    fault.write_text("intake")
    running.spanscore.start()
    running.run_agent(TURNS)
    wait_until_it_retries(running, until)
    fault.write_text("")
    assert_nothing_was_dropped(running)


@pytest.mark.parametrize("word", ["check", "tokens"])
def test_an_authenticator_that_cannot_be_reached(pipeline, until, word, tmp_path):
    tokens = tmp_path / "tokens"
    tokens.write_text("right\n")
    overlay = tmp_path / "token.yaml"
    overlay.write_text("exporters: {otlp_grpc/spanscore: {headers: {authorization: Bearer right}}}")
    running = pipeline(
        DROP_IN,
        overlay,
        extensions={"bearertokenauth": {"filename": str(tokens)}},
        receive={"grpc": {"auth": {"authenticator": "bearertokenauth"}}},
    ).start()
    running.spanscore.program = FAULTY
    fault = running.spanscore.folder / "fault"
    running.spanscore.start()
    fault.write_text(word)
    tokens.write_text("right\nnewer\n")
    running.run_agent(TURNS)
    if word == "check":
        wait_until_it_retries(running, until)
        fault.write_text("")
    assert_nothing_was_dropped(running)


def test_a_journal_that_is_full(line, until):
    # It takes one request, of whatever size; the next finds no room before the first is finished.
    running = line(journal={"max_bytes": 100}).start()
    running.spanscore.stop_clock().start()
    running.run_agent(TURNS)
    wait_until_it_retries(running, until)
    running.spanscore.run_clock()
    assert_nothing_was_dropped(running)


def test_spanscore_stops_while_agents_send(line):
    running = line().start()
    running.spanscore.start()
    agent = running.agent(TURNS)
    assert running.spanscore.stop() == 0
    assert agent.wait() == 0
    running.spanscore.start()
    assert_nothing_was_dropped(running)


def test_a_span_of_many_megabytes(pipeline, until):
    running = pipeline(DROP_IN).start()
    running.spanscore.start()
    request = ExportTraceServiceRequest()
    span = (
        request.resource_spans.add()
        .scope_spans.add()
        .spans.add(name="large", trace_id=b"t" * 16, span_id=b"s" * 8)
    )
    span.attributes.add(key="gen_ai.tool.call.result").value.string_value = "x" * 12 * 2**20
    with grpc.insecure_channel(
        f"127.0.0.1:{running.otlp}", options=[("grpc.max_send_message_length", -1)]
    ) as channel:
        TraceServiceStub(channel).Export(request)
    until(lambda: running.spanscore.state()["counters"].get("receiver_accepted_spans"))
    until(lambda: running.at_backend("traces"))
    assert "Dropping data" not in running.collectors_log()
