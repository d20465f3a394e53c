"""With worker processes the server does what it does without them, whatever becomes of them."""

import os
import select
import signal
from contextlib import suppress

import grpc
import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2_grpc import TraceServiceStub

pytestmark = pytest.mark.slow

CASES = [
    "semconv/message-attributes",
    "openinference/langgraph",
    "openllmetry/indexed-messages",
    "pydantic_ai/openai",
]
COPIES = 12
DEADLINE_S = 300

POISON = """
import ctypes
import os
import sys
import time
from pathlib import Path
from spanscore.dialects.reading import Dialect

here = Path(__file__).parent
libc, lock = ctypes.PyDLL(None), ctypes.create_string_buffer(64)
if "spanscore.worker_processes" in " ".join(sys.orig_argv):
    if (here / "broken").exists():
        sys.exit("this worker process is broken")
    while (here / "slow").exists():
        time.sleep(0.01)

def read(span, context):
    if span.attributes["poison"] == "deadly":
        os._exit(9)
    if span.attributes["poison"] == "endless":
        (here / "reading").touch()
        for _ in range(2):  # waits for itself, and keeps Python's lock
            libc.pthread_mutex_lock(lock)
    return {}

dialect = Dialect("poison", read, (b"poison",), keys=("poison",))
"""


def facts(trace):
    """All of an AgentTrace but how it was known to be complete, which only a server says."""
    return {key: value for key, value in trace.items() if key != "completeness"}


def export(running, requests):
    with grpc.insecure_channel(f"127.0.0.1:{running.grpc}") as channel:
        for request in requests:
            TraceServiceStub(channel).Export(request)


def traces_of(requests):
    return {request.resource_spans[0].scope_spans[0].spans[0].trace_id for request in requests}


def pids(running):
    """The process ids of the workers, once all run."""
    running.wait_until(lambda state: all(x["pid"] for x in state["workers"]))
    return [x["pid"] for x in running.state()["workers"] if x["pid"]]


def have_ended(opened):
    """Whether the processes with these file descriptors have ended."""
    return all(select.select([x], [], [], DEADLINE_S)[0] for x in opened)


def scores(running):
    """What is scored, and how it came out, without when."""
    found = running.committed().values()
    return sorted(
        (x.uid, x.metric, x.scope, repr(x.outcome), x.rank, repr(x.tally), x.supersedes)
        for x in found
    )


def test_two_workers_give_the_traces_of_the_files_and_the_scores_of_none(
    server, recording, unjudged
):
    recordings, found = [recording(case) for case in CASES], []
    expected = [x for one in recordings for x in one.expected]
    for workers in (1, 2):
        running = server(workers=workers, evaluation=unjudged).stop_clock().start()
        export(running, [x.traces for x in recordings])
        running.run_clock()
        running.wait_until_finished(len(expected))
        assert running.stop() == 0
        found.append(scores(running))
        rebuilt = running.agent_traces([x["id"] for x in expected])
        assert [facts(x) for x in rebuilt] == [facts(x) for x in expected]
    assert found[0] == found[1]
    assert {scope for _, _, scope, *_ in found[0]} == {"trace", "session"}


def test_a_worker_that_is_killed_under_load_loses_and_doubles_nothing(server, recording):
    running = server(workers=2).stop_clock().start()
    requests = recording("semconv/message-attributes").copies(COPIES)
    expected = len(traces_of(requests))
    export(running, requests)
    running.run_clock()
    killed = set()
    for finished in (1, expected // 2):
        running.wait_until(
            lambda state, n=finished: state["counters"].get("traces_finished", 0) >= n
        )
        for pid in pids(running)[:1]:
            with suppress(ProcessLookupError):  # of the one before, whose death was not noticed yet
                os.kill(pid, signal.SIGKILL)
                killed.add(pid)
    running.wait_until_finished(expected)
    # the last one may have died when nothing was left to do: that it did is noticed a little later
    running.wait_until(lambda state: state["counters"].get("workers_ended", 0) >= len(killed))
    pids(running)
    assert running.state()["counters"]["workers_ended"] == len(killed)
    running.stop()
    spans = running.exported("spans")
    assert len({span["spanId"] for span in spans}) == len(spans)
    assert {span["traceId"] for span in spans} == {
        trace_id.hex() for trace_id in traces_of(requests)
    }


@pytest.fixture
def poison(tmp_path, monkeypatch):
    """Puts the poison's attribute on a request's first span, and returns the span."""
    (tmp_path / "poison.py").write_text(POISON)
    (tmp_path / "poison-1.dist-info").mkdir()
    (tmp_path / "poison-1.dist-info/METADATA").write_text(
        "Metadata-Version: 2.1\nName: poison\nVersion: 1\n"
    )
    points = "[spanscore.dialects]\npoison = poison:dialect\n"
    (tmp_path / "poison-1.dist-info/entry_points.txt").write_text(points)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))

    def put(request, value):
        span = request.resource_spans[0].scope_spans[0].spans[0]
        span.attributes.add(key="poison").value.string_value = value
        return span

    return put


def test_traces_that_kill_workers_are_put_aside_and_others_are_scored(server, recording, poison):
    running = server(workers=2).stop_clock().start()
    requests = recording("semconv/message-attributes").copies(4)
    deadly = {poison(x, "deadly").trace_id for x in requests[:6]}
    innocent = traces_of(requests) - deadly
    assert len(deadly) > 1
    assert innocent
    export(running, requests)
    running.run_clock()
    running.wait_until_finished(len(innocent) + len(deadly))
    assert running.state()["counters"]["traces_quarantined"] == len(deadly)
    running.stop()
    listed = " ".join(running.run("quarantine").stdout.split())
    assert "3 worker processes died while they worked on it" in listed
    assert {x["traceId"] for x in running.exported("spans")} == {x.hex() for x in innocent}


@pytest.mark.usefixtures("poison")
def test_requests_are_taken_while_the_workers_are_being_started(server, recording, tmp_path):
    (tmp_path / "slow").touch()
    running = server(workers=2).start()
    requests = recording("semconv/message-attributes").copies(1)
    export(running, requests)
    assert [x["state"] for x in running.state()["workers"]] == ["starting"] * 2
    (tmp_path / "slow").unlink()
    running.wait_until_finished(len(traces_of(requests)))


@pytest.mark.usefixtures("poison")
def test_workers_that_do_not_start_are_said_and_traces_wait_for_them(server, recording, tmp_path):
    (tmp_path / "broken").touch()
    running = server(workers=2).start()
    running.wait_until(lambda state: all("fault" in x for x in state["workers"]))
    requests = recording("semconv/message-attributes").copies(1)
    export(running, requests)
    assert "no worker process runs" in running.state()["notice"]
    (tmp_path / "broken").unlink()
    running.wait_until_finished(len(traces_of(requests)))


def test_the_health_page_has_the_workers_and_they_end_with_the_server(server):
    running = server(workers=2)
    for end in (running.kill, running.stop):
        running.start()
        opened = [os.pidfd_open(pid) for pid in pids(running)]
        assert len(opened) == 2
        running.wait_until(lambda state: {x["state"] for x in state["workers"]} == {"idle"})
        end()
        assert have_ended(opened)


def test_a_worker_that_c_code_holds_ends_with_the_server(server, recording, poison, tmp_path):
    running = server(workers=2, shutdown_timeout="2s").start()
    requests = recording("semconv/message-attributes").copies(1)
    poison(requests[0], "endless")
    export(running, requests)
    reading = tmp_path / "reading"
    for end in (running.kill, running.stop):
        running.wait_until(lambda _: reading.exists())
        opened = [os.pidfd_open(pid) for pid in pids(running)]
        end()
        assert have_ended(opened)
        reading.unlink()
        if end == running.kill:
            running.start()


def test_a_signal_to_all_processes_at_once_lets_the_server_finish(server, recording):
    running = server(workers=2).stop_clock().start()
    requests = recording("semconv/message-attributes").copies(3)
    export(running, requests)
    for pid in pids(running):
        os.kill(pid, signal.SIGTERM)
        os.kill(pid, signal.SIGINT)
    running.run_clock()
    running.wait_until_finished(len(traces_of(requests)))
    assert running.state()["counters"].get("workers_ended", 0) == 0
